"""What became of each call: the wire's ledger beside the tools' log."""

from __future__ import annotations

from typing import Any

from clawgauge.providers.agents.joining import join_calls
from clawgauge.providers.agents.ledger import WireTurn, covered_ns
from clawgauge.world.mcp import LoggedCall

NAMES = {"cg__exec": "exec", "cg__read": "read"}


def turn(at: int, *calls: tuple[str, str], text: str = "") -> WireTurn:
    """A turn whose request arrived at `at`, with native calls by their names on the wire."""
    made = WireTurn(arrived_ns=at)
    for number, (name, arguments) in enumerate(calls):
        made.tool_delta(at + 10 + number, number, name, arguments)
    if text:
        made.text(at + 5, text)
    made.end(at + 50)
    return made


def ran(at: int, name: str, arguments: Any) -> LoggedCall:
    return LoggedCall(
        id=None, name=name, arguments=arguments, answer="ok", is_error=False, arrived_ns=at
    )


def fates(turns: list[WireTurn], logged: list[LoggedCall], **more: Any) -> list[tuple[str, ...]]:
    joined = join_calls(turns, logged, NAMES, was_withheld=more.get("was_withheld", False))
    return [
        (call.fate, call.made_name or "", call.run_name or "", call.made_channel or "")
        for call in joined.calls
    ]


def test_a_call_that_runs_as_it_was_made() -> None:
    assert fates([turn(0, ("cg__exec", '{"a": 1}'))], [ran(60, "exec", {"a": 1})]) == [
        ("run", "exec", "exec", "native")
    ]


def test_the_order_of_keys_and_absent_arguments_are_no_difference() -> None:
    made = turn(0, ("cg__exec", '{"b": 2, "a": 1}'), ("cg__read", ""))
    logged = [ran(60, "exec", {"a": 1, "b": 2}), ran(61, "read", None)]
    assert [fate for fate, *_ in fates([made], logged)] == ["run", "run"]


def test_equal_arguments_are_joined_before_others() -> None:
    """Two calls of one tool, run in the other order: neither was altered."""
    made = turn(0, ("cg__exec", '{"n": 1}'), ("cg__exec", '{"n": 2}'))
    logged = [ran(60, "exec", {"n": 2}), ran(61, "exec", {"n": 1})]
    assert [fate for fate, *_ in fates([made], logged)] == ["run", "run"]


def test_other_arguments_are_altered_and_a_missing_call_is_lost() -> None:
    made = turn(0, ("cg__exec", '{"n": 7}'), ("cg__read", "{}"))
    assert fates([made], [ran(60, "exec", {"n": "7"})]) == [
        ("altered", "exec", "exec", "native"),
        ("lost", "read", "", "native"),
    ]


def test_a_call_of_another_turn_is_not_joined() -> None:
    """The model called once; the program ran it in the next turn, where nothing was called."""
    turns = [turn(0, ("cg__exec", '{"n": 1}')), turn(100, text="done")]
    assert fates(turns, [ran(160, "exec", {"n": 1})]) == [
        ("lost", "exec", "", "native"),
        ("gained", "", "exec", ""),
    ]


def test_a_written_call_that_runs_is_gained_and_one_that_does_not_is_lost() -> None:
    written = '<tool_call>{"name": "cg__exec", "arguments": {"n": 1}}</tool_call>'
    assert fates([turn(0, text=written)], [ran(60, "exec", {"n": 1})]) == [
        ("gained", "exec", "exec", "text:hermes")
    ]
    assert fates([turn(0, text=written)], []) == [("lost", "exec", "", "text:hermes")]


def test_text_about_a_tool_that_was_not_offered_is_no_call() -> None:
    written = '<tool_call>{"name": "other", "arguments": {}}</tool_call>'
    assert fates([turn(0, text=written)], []) == []


def test_a_withheld_call_is_told_from_a_lost_one() -> None:
    made = turn(0, ("cg__read", "{}"), ("bash", "{}"))
    assert [fate for fate, *_ in fates([made], [], was_withheld=True)] == ["lost", "withheld"]


def test_cut_arguments_are_kept_as_text() -> None:
    joined = join_calls([turn(0, ("cg__exec", '{"a'))], [], NAMES, was_withheld=False)
    (call,) = joined.calls
    assert call.made_arguments == '{"a' and call.made_valid is False


def test_time_that_overlaps_counts_once() -> None:
    assert covered_ns([(0, 10), (5, 15), (20, 30), (21, 22)]) == 25
    assert covered_ns([]) == 0
