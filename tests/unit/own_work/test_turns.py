"""A request is rebuilt as it was sent, and only turns in which the reference model was right are asked again."""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from clawgauge.checks import Answer, check_spec, judge
from clawgauge.checks.agreement import Call
from clawgauge.own_work.left_out import LeftOut
from clawgauge.own_work.masking import Mask
from clawgauge.own_work.messages import calls_of, message_of
from clawgauge.own_work.request import RebuiltRequest
from clawgauge.own_work.rules import MASKED_SECRET
from clawgauge.own_work.simulation import find_effect
from clawgauge.own_work.stores import Session
from clawgauge.own_work.suite import make_suite
from clawgauge.own_work.turns import HistoryTurn, choose_turns, find_turns
from clawgauge.records import ToolInvocation
from clawgauge.world import can_run
from support.openclaw_store import DATA, Record, answer, as_records, read_turns, result, user
from support.rows import every_row

LS = ("exec", {"command": "ls notes"})


def look(*messages: Record, since: str = "") -> tuple[list[HistoryTurn], Counter[str]]:
    left_out: Counter[str] = Counter()
    session = Session("s1", as_records(messages), [])
    return list(find_turns([session], since, left_out)), +left_out


def test_the_turns_of_two_real_histories_and_what_is_left_out_by_reason() -> None:
    old, left_out_of_old = read_turns(DATA / "2026.7.1")
    new, left_out_of_new = read_turns(DATA / "2026.9.6")
    assert (len(old), left_out_of_old) == (
        17,
        {LeftOut.CORRECTED: 7, LeftOut.FAILED_CALLS: 5},
    )
    assert len(new) == 36
    assert left_out_of_new == {
        LeftOut.CORRECTED: 8,
        LeftOut.REWOUND: 5,
        LeftOut.FAILED_ANSWERS: 5,
        LeftOut.GATEWAY: 4,
        LeftOut.FAILED_CALLS: 3,
        LeftOut.STOPPED_CALLS: 2,
        LeftOut.ANNOUNCEMENTS: 1,
        LeftOut.CUT_ANSWERS: 1,
        LeftOut.TOOL_SEARCHES: 1,
    }
    tools = Counter(turn.tools or "no call" for turn in new)
    called = {
        "ls": 7,
        "read": 3,
        "edit": 1,
        "sessions_spawn": 1,
        "memory_search": 1,
        "memory_get": 1,
    }
    assert tools == called | {"no call": 22}


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_utc")
def test_a_request_is_rebuilt_as_it_was_sent() -> None:
    """But for what OpenClaw adds to it without storing it: the frame around the first and behind the last message."""
    sent = json.loads((DATA / "request.json").read_text())["messages"][1:-1]
    wanted = [_plain(message) for message in sent]
    records = [json.loads(line) for line in (DATA / "main_decoded.jsonl").read_text().splitlines()]
    request = RebuiltRequest()
    for record in records[: _place_of_last_call(records)]:
        request.add(message_of(record))
    rebuilt = [
        (one["role"], one["content"] or None, [call["arguments"] for call in one.get("calls", [])])
        for one in request.messages
    ]
    assert rebuilt == wanted


def _plain(message: Record) -> tuple[str, str | None, list[Any]]:
    text = re.sub(r"\n\nRuntime: .*\Z", "", message["content"]) if message["content"] else None
    calls = [json.loads(call["function"]["arguments"]) for call in message.get("tool_calls", [])]
    return message["role"], text, calls


def _place_of_last_call(records: list[Record]) -> int:
    places = [n for n, one in enumerate(records) if calls_of(message_of(one))]
    return next(
        n
        for n in range(places[-1] + 1, len(records))
        if message_of(records[n]).get("role") == "assistant"
    )


def nested(depth: int) -> Any:
    return {"a": nested(depth - 1)} if depth else 1


# Neither a turn with such a call can be asked again, nor one that comes after it.
UNHELD: dict[str, list[tuple[str, Any]]] = {
    "a null in a list": [("x", {"n": [1, None]})],
    "a huge number alone": [("x", {"n": [10**30]})],
    "no name": [("", {"n": 1})],
    "deep": [("x", nested(150))],
    "deeper": [("x", nested(450))],
    "deep in tool search": [("tool_call", {"id": "x", "args": nested(450)})],
}
PATCH = "*** Begin Patch\n*** Update File: a.md\n@@\n-tea\n+coffee\n*** End Patch"
PICTURE = result("Read image file") | {
    "content": [{"type": "text", "text": "Read"}, {"type": "image", "data": ""}]
}
FINE: list[Record] = [user("What is in notes?"), answer("", LS), result("a.md")]


@every_row(
    "messages, n_turns, reason",
    [
        pytest.param([*FINE, answer("One file.")], 2, None, id="a call and an answer"),
        pytest.param(
            [*FINE, answer("One file."), user("Thanks! No problem.")], 2, None, id="thanks"
        ),
        pytest.param(
            [*FINE, answer("One file."), user("No, that is not what I asked.")],
            0,
            LeftOut.CORRECTED,
            id="no",
        ),
        pytest.param(
            [*FINE, answer("One file."), user("Das ist falsch.")],
            0,
            LeftOut.CORRECTED,
            id="falsch",
        ),
        pytest.param(
            [user("Hi"), answer("Ho"), user("/compact"), user("No, I said tea.")],
            0,
            LeftOut.CORRECTED,
            id="no, after a slash command",
        ),
        pytest.param(
            [user("Hi"), answer("Ho"), user("Wait a bit, then go on.")], 1, None, id="wait a bit"
        ),
        pytest.param(
            [user("Hi"), answer("", LS), user("Still there?")],
            0,
            LeftOut.STOPPED_CALLS,
            id="no result",
        ),
        pytest.param(
            [user("Hi"), answer("", LS), result("x", isError=True)],
            0,
            LeftOut.FAILED_CALLS,
            id="an error",
        ),
        pytest.param(
            [user("Hi"), answer("", LS), result("x", details={"exitCode": 2})],
            0,
            LeftOut.FAILED_CALLS,
            id="exit code 2",
        ),
        pytest.param(
            [user("Hi"), answer("", LS), result('{"status": "error"}')],
            0,
            LeftOut.FAILED_CALLS,
            id="an error in words",
        ),
        pytest.param(
            [*FINE, answer("", LS), result("a.md")],
            1,
            LeftOut.REPEATED_CALLS,
            id="the same call again",
        ),
        pytest.param(
            [
                user("Hi"),
                answer("", ("write", {"path": "a", "content": "x"})),
                result("ok"),
                answer("", ("edit", {"path": "a"})),
                result("ok"),
            ],
            1,
            LeftOut.REPEATED_CALLS,
            id="the same file again",
        ),
        pytest.param(
            [
                user("Hi"),
                answer("", ("read", {"path": "a", "limit": 9})),
                result("x"),
                answer("", ("read", {"path": "a", "offset": 9})),
                result("y"),
            ],
            2,
            None,
            id="another page",
        ),
        pytest.param(
            [
                user("Hi"),
                answer("", ("apply_patch", {"input": PATCH})),
                result("ok"),
                answer("***Done*** now."),
            ],
            2,
            None,
            id="a patch",
        ),
        pytest.param(
            [user("Hi"), answer("", ("apply_patch", {"input": f"{PATCH}\n***\n"})), result("ok")],
            0,
            LeftOut.MASKED_SECRETS,
            id="a masked line of a patch",
        ),
        pytest.param(
            [user("/status"), answer("All is well.")],
            0,
            LeftOut.SLASH_COMMANDS,
            id="a slash command",
        ),
        pytest.param(
            [user("The key is sk-ant…DEFG, use it"), answer("Done?")],
            0,
            LeftOut.MASKED_SECRETS,
            id="a masked key",
        ),
        pytest.param(
            [user("Hi"), answer("", ("exec", {"command": "login ***"})), result("ok")],
            0,
            LeftOut.MASKED_SECRETS,
            id="a masked argument",
        ),
        pytest.param(
            [user("Hi"), answer("Ho", model="gateway-injected", provider="openclaw")],
            0,
            LeftOut.GATEWAY,
            id="gateway",
        ),
        pytest.param(
            [user("Hi"), answer("Ho", stopReason="length")],
            0,
            LeftOut.CUT_ANSWERS,
            id="length",
        ),
        pytest.param(
            [user("Hi"), answer("", stopReason="error")],
            0,
            LeftOut.FAILED_ANSWERS,
            id="an error of the model",
        ),
        pytest.param(
            [user("Hi"), answer("Ho", __openclaw={"runId": "announce:v1:x"})],
            0,
            LeftOut.ANNOUNCEMENTS,
            id="announced",
        ),
        pytest.param(
            [user("Hi"), answer("Ho"), answer("Also.")],
            1,
            LeftOut.ANNOUNCEMENTS,
            id="nobody asked",
        ),
        pytest.param(
            [*FINE[:2], result("x" * 32_000), answer("Long.")],
            1,
            LeftOut.CUT_RESULTS,
            id="a cut result",
        ),
        pytest.param(
            [user("Hi"), answer("", ("tool_search", {"query": "x"})), result("[]")],
            0,
            LeftOut.TOOL_SEARCHES,
            id="tool search",
        ),
        pytest.param(
            [user("Hi"), answer("", ("x", {"n": 10**19})), result("ok")],
            0,
            LeftOut.UNHELD_CALLS,
            id="a huge number",
        ),
        *(
            pytest.param(
                [
                    user("Hi"),
                    answer("", *calls),
                    *[result("ok")] * len(calls),
                    user("And?"),
                    answer("Done."),
                ],
                0,
                LeftOut.UNHELD_CALLS,
                id=name,
            )
            for name, calls in UNHELD.items()
        ),
        pytest.param(
            [
                user("Hi", content=[{"type": "image", "data": ""}, {"type": "text", "text": "?"}]),
                answer("A cat."),
            ],
            0,
            LeftOut.IMAGES,
            id="image",
        ),
        pytest.param(
            [*FINE[:2], PICTURE, answer("A cat."), *[user("And?"), answer("Or a dog.")] * 4],
            2,
            LeftOut.IMAGES,
            id="an image that is no longer sent",
        ),
    ],
)
def test_a_turn_counts_where_the_answer_stood(
    messages: list[Record], n_turns: int, reason: str | None
) -> None:
    turns, left_out = look(*messages)
    assert len(turns) == n_turns, left_out
    assert reason is None or reason in left_out
    assert reason is not None or not left_out


@every_row(
    "text, is_taken_back",
    [
        *(
            (text, True)
            for text in [
                "Hmm, that's wrong",
                "Sorry, I meant tea",
                "Actually make it tea",
                "Oh no!",
                "You edited the wrong file.",
                "The total is wrong, look again",
                "Das stimmt nicht",
                "Ce n'est pas ça",
                "No era eso",
                "Ho detto tè",
                "Nej, te",
                "Hayır",
                "Нет, чай",
                "不对，我要茶",
                "違います",
                "아니요, 차",
                "لا، شاي",
            ]
        ),
        *(
            (text, False)
            for text in [
                "What is wrong with the server?",
                "Can you fix the wrong entry in a.csv?",
                "Is the price right?",
                "Notes, please",
                "Eine Liste, bitte",
                "Einen Kaffee",
                "Stop the container",
                "好的，谢谢",
                "Actuaries, list them",
                "Malta, what is the weather there?",
            ]
        ),
    ],
)
def test_people_take_back_in_many_words(text: str, is_taken_back: bool) -> None:
    turns, left_out = look(user("Hi"), answer("Ho"), user(text))
    assert (len(turns), left_out[LeftOut.CORRECTED]) == ((0, 1) if is_taken_back else (1, 0))


def test_an_image_is_sent_for_three_more_turns_and_then_words_in_its_place() -> None:
    turns, _ = look(*FINE[:2], PICTURE, answer("A cat."), *[user("And?"), answer("Or a dog.")] * 4)
    seen = [message["content"] for message in turns[-1].messages if message["role"] == "tool"]
    assert seen == ["Read\n[image data removed - already processed by model]"]


def test_what_was_said_before_a_yes_must_be_in_the_call_too() -> None:
    tell = ("message", {"message": "tell alice the printer works"})
    talk = (
        user("Could you tell alice about it?"),
        answer("Shall I?"),
        user("Yes, do it."),
        answer("", tell),
        result(""),
    )
    turns, _ = look(*talk)
    validator = tomllib.loads(make_suite(turns, "mine", Mask([], None, []), None).decode())[
        "prompts"
    ][-1]["validator"]
    assert "alice" in validator["telling"]


def test_a_call_through_tool_search_is_the_call_it_makes() -> None:
    given = {"id": "openclaw:memory-core:memory_get", "args": {"path": "MEMORY.md", "from": None}}
    (turn,), _ = look(user("Hi"), answer("", ("tool_call", given)), result("x"))
    assert turn.calls == [("memory_get", {"path": "MEMORY.md"})]


def test_a_run_that_had_to_ask_again_is_left_out_by_its_time() -> None:
    records = as_records([user("Hi"), answer("Ho"), user("Then?"), answer("Then.")])
    left_out: Counter[str] = Counter()
    session = Session("s1", records, [("2026-11-15T10:00:00Z", "2026-11-15T10:00:01Z")])
    assert [one.question for one in find_turns([session], "", left_out)] == ["Then?"]
    assert left_out[LeftOut.RETRIED_RUNS] == 1


def test_a_reset_and_a_compaction_cut_off_what_was_before() -> None:
    cut = {"type": "compaction", "summary": "They said hello.", "firstKeptEntryId": "r2"}
    turns, _ = look(
        user("Hi"), answer("Ho"), user("Kept"), answer("Yes."), cut, user("Then?"), answer("Then.")
    )
    first, *others = [one["content"] for one in turns[-1].messages]
    assert first.startswith("They said hello.\n\n[")
    assert first.endswith("] Kept")
    assert [one.rpartition("] ")[2] for one in others] == ["Yes.", "Then?"]
    turns, _ = look(
        user("Hi"),
        answer("Ho"),
        {"type": "reset", "reason": "reset"},
        user("Then?"),
        answer("Then."),
    )
    assert [one["role"] for one in turns[-1].messages] == ["user"]


def test_turns_before_since_do_not_count() -> None:
    turns, left_out = look(*FINE, answer("One file."), since="2026-11-15T10:00:02Z")
    assert [one.tools for one in turns] == [""]
    assert not left_out


def test_the_chosen_ones_are_spread_over_tools_and_sessions_and_nothing_is_asked_twice() -> None:
    def turn(session: str, tool: str, number: int, n_chars: int = 10) -> HistoryTurn:
        said = [{"role": "user", "content": f"Job {'x' * n_chars}"}]
        words = "abcdefghij"[number % 10] * (number // 10 + 2)
        return HistoryTurn(
            session_id=session,
            at=f"{number:03}",
            model="m",
            cwd="/",
            messages=said,
            question=words,
            calls=[Call(tool, {"path": words})],
            asks=False,
            first_output="",
        )

    many = [turn(f"s{n % 4}", "exec", n, 10 * n) for n in range(60)]
    few = [turn("s9", "read", n) for n in range(3)]
    left_out: Counter[str] = Counter()
    chosen = choose_turns([*many, *few, *many[:5]], 15, left_out)
    assert Counter(one.tools for one in chosen) == {"exec": 12, "read": 3}
    assert Counter(one.session_id for one in chosen if one.tools == "exec") == {
        "s0": 3,
        "s1": 3,
        "s2": 3,
        "s3": 3,
    }
    assert left_out == {LeftOut.NEAR_DUPLICATES: 5, LeftOut.MORE_THAN_MAX: 48}
    long_ones = sum(
        len(one.messages[0]["content"]) > 310 for one in choose_turns(many, 30, Counter())
    )
    assert 8 <= long_ones <= 22


def test_a_long_word_is_gone_through_once() -> None:
    assert MASKED_SECRET.search("a" * 400_000) is None
    assert MASKED_SECRET.search("abcdefgh…wxyz") is not None


@pytest.mark.skipif(not can_run(), reason="bashkit has no build here")
def test_looking_at_a_file_that_nobody_has_seen_is_no_agreement() -> None:
    write, look_at = (
        ("write", {"path": "a.md", "content": "two cups of tea\n"}),
        ("exec", {"command": "cat a.md"}),
    )
    talk = (
        user("Note it."),
        answer("", write),
        result("ok"),
        user("So?"),
        answer("", look_at),
        result("two cups of tea"),
    )
    (_, turn), _ = look(*talk)
    effect = find_effect(turn, Mask([], None, []))
    spec = {
        "type": "agreement",
        "expected_calls": [{"name": "exec", "arguments": look_at[1]}],
        "effect": effect,
    }
    tools = [
        {
            "type": "function",
            "function": {"name": "exec", "parameters": {"properties": {"command": {}}}},
        }
    ]
    for line, agrees in {
        "head a.md": True,
        "cat keys.md a.md": False,
        "cat /root/keys a.md": False,
    }.items():
        call = ToolInvocation(name="exec", arguments={"command": line}, channel="native")
        assert (
            judge(spec, Answer("", [call], tools_offered=True, tools=tools)).objective_pass
            is agrees
        ), line


@pytest.mark.skipif(not can_run(), reason="bashkit has no build here")
def test_printing_the_same_figure_by_chance_is_no_agreement() -> None:
    """Nearly every listing holds a 2 somewhere: what was printed must stand there as it did."""
    write = ("write", {"path": "notes.md", "content": "tea\n2 cups of tea\n"})
    count = ("exec", {"command": "grep -c tea notes.md"})
    messages = (
        user("Note it."),
        answer("", write),
        result("ok"),
        user("How many?"),
        answer("", count),
        result("2"),
    )
    (_, turn), _ = look(*messages)
    effect = find_effect(turn, Mask([], None, []))
    assert effect is not None
    wanted = [{"name": "exec", "arguments": count[1]}]
    spec = {"type": "agreement", "expected_calls": wanted, "cwd": turn.cwd, "effect": effect}
    check_spec(spec)
    tools = [
        {
            "type": "function",
            "function": {"name": "exec", "parameters": {"properties": {"command": {}}}},
        }
    ]
    lines = {
        "grep tea notes.md | wc -l": True,
        "ls -l": False,
        "cat notes.md": False,
        "wc notes.md": False,
    }
    for line, agrees in lines.items():
        call = ToolInvocation(name="exec", arguments={"command": line}, channel="native")
        assert (
            judge(spec, Answer("", [call], tools_offered=True, tools=tools)).objective_pass
            is agrees
        ), line
