"""What is asked next, and when no more is."""

from __future__ import annotations

import tracemalloc
from collections.abc import Collection

import pytest

from clawgauge.journal import CellKey
from clawgauge.plan import Evidence, OpenWork
from clawgauge.records import Prompt
from clawgauge.runner.agenda import Agenda, Cell, make_agenda
from support.plans import plan_of

from .prompts import TARGET, plain_prompt, result_of, tool_prompt

POOL = [tool_prompt(f"T{n}") for n in range(27)]
OTHERS = [plain_prompt(f"N{n}") for n in range(3)]
PROMPTS = [*OTHERS, *POOL]


def agenda_of(
    prompts: list[Prompt] = PROMPTS,
    evidence: Evidence | None = None,
    done: Collection[CellKey] = frozenset(),
    **options: object,
) -> Agenda:
    known = {} if evidence is None else {TARGET: evidence}
    plan = plan_of(
        prompts, **{"until_decided": True, "work": OpenWork(done, evidence=known), **options}
    )
    return make_agenda(plan, TARGET)


def ask_all(agenda: Agenda, passes: list[bool] | None = None) -> list[str]:
    """Take and answer every cell, one after another; tool prompts pass unless `passes` says otherwise in turn."""
    verdicts = iter(passes or [])
    asked = []
    while (cell := agenda.take()) is not None:
        asked.append(cell.prompt.id)
        is_tool = bool(cell.prompt.expected_tools)
        agenda.learn(result_of(cell.prompt, passed=next(verdicts, True) if is_tool else False))
    return asked


def test_twenty_clean_passes_decide_tier_1_and_the_rest_is_not_asked() -> None:
    """The tool prompts come first and end with the twentieth; the other prompts are asked as planned."""
    agenda = agenda_of()
    assert ask_all(agenda) == [*(f"T{n}" for n in range(20)), "N0", "N1", "N2"]
    (outcome,) = agenda.outcomes()
    assert outcome.event == "decided"
    assert outcome.detail == {
        "tier": 1,
        "tier1": "yes",
        "n": 20,
        "k": 20,
        "p": pytest.approx(0.991, abs=1e-3),
        "asked": 20,
        "not_asked": 7,
        "not_needed": 7,
        "futile": False,
    }


def test_three_failures_tell_that_it_is_not_tier_1() -> None:
    """Failures alone decide sooner than passes; which tier it is instead is only said to be likely."""
    agenda = agenda_of()
    assert ask_all(agenda, [False] * 20)[:4] == ["T0", "T1", "T2", "N0"]
    (outcome,) = agenda.outcomes()
    assert (outcome.event, outcome.detail["tier1"], outcome.detail["not_asked"]) == (
        "decided",
        "no",
        24,
    )
    assert outcome.detail["tier"] == 3 and outcome.detail["p"] < 0.95


def test_prompts_that_run_out_leave_the_tier_undecided() -> None:
    """Four of five passed: all are asked, and the event says what is likely so far."""
    agenda = agenda_of([*OTHERS, *POOL[:15]], max_calls=5)
    assert len(ask_all(agenda, [True, False, True, True, True])) == 5
    outcome = agenda.outcomes()[0]
    assert (outcome.event, outcome.detail["n"], outcome.detail["k"]) == ("undecided", 5, 4)
    assert outcome.detail["p"] < 0.95 and outcome.detail["not_needed"] == 0


def test_a_search_that_can_no_longer_tell_is_given_up() -> None:
    """After five passes the last five prompts could not decide, however they went: they are not asked."""
    agenda = agenda_of([*OTHERS, *POOL[:10]])
    assert ask_all(agenda) == [*(f"T{n}" for n in range(5)), "N0", "N1", "N2"]
    (outcome,) = agenda.outcomes()
    assert (outcome.event, outcome.detail["tier1"], outcome.detail["futile"]) == (
        "undecided",
        "cannot_tell",
        True,
    )
    assert (outcome.detail["n"], outcome.detail["not_needed"]) == (5, 5)


def test_of_a_family_one_answer_counts_and_its_variants_wait() -> None:
    """A variant is asked only where the prompt it varies has no answer; its verdict is no second one."""
    families = [
        [tool_prompt(f"T{n}"), *(tool_prompt(f"T{n}_{v}", variant_of=f"T{n}") for v in range(3))]
        for n in range(24)
    ]
    agenda = agenda_of([prompt for family in families for prompt in family])
    first = agenda.take()
    assert first is not None and agenda.n_open == 23
    agenda.learn(result_of(first.prompt, status="error"))
    asked = ask_all(agenda)
    assert asked == [f"T{n}" for n in range(1, 21)]
    assert agenda.outcomes()[0].detail["n"] == 20
    failing = agenda_of([prompt for family in families[:8] for prompt in family])
    cells = []
    while (cell := failing.take()) is not None and len(cells) < 11:
        cells.append(cell.prompt.id)
        failing.learn(result_of(cell.prompt, status="error"))
    assert cells[:10] == [*(f"T{n}" for n in range(8)), "T0_0", "T1_0"]


def test_a_repeat_is_never_evidence() -> None:
    """With --repeats the other prompts are asked again, a tool prompt is not; its repeats are not needed."""
    agenda = agenda_of(PROMPTS[:8], repeats=3)
    asked = ask_all(agenda, [False, True, False, False, True])
    assert sorted(asked) == sorted([*(f"T{n}" for n in range(5)), *["N0", "N1", "N2"] * 3])
    (outcome,) = agenda.outcomes()
    assert (outcome.event, outcome.detail["not_asked"], outcome.detail["not_needed"]) == (
        "undecided",
        10,
        10,
    )


def test_a_call_in_flight_that_fails_does_not_undo_the_decision() -> None:
    """Decided on what had come back, which holds whenever one stops; the one still out is in the count all the same."""
    agenda = agenda_of(POOL)
    cells = [agenda.take() for _ in range(21)]
    for cell in cells[:20]:
        assert cell is not None
        agenda.learn(result_of(cell.prompt))
    assert agenda.take() is None
    late = cells[20]
    assert late is not None
    agenda.learn(result_of(late.prompt, passed=False))
    assert agenda.take() is None
    detail = agenda.outcomes()[0].detail
    assert (detail["tier1"], detail["n"], detail["k"]) == ("yes", 21, 20)


def test_what_was_not_answered_is_no_evidence() -> None:
    """An error says nothing about tools: it counts as asked, not as a trial."""
    agenda = agenda_of(POOL)
    for _ in range(4):
        cell = agenda.take()
        assert cell is not None
        agenda.learn(result_of(cell.prompt, status="error"))
    assert agenda.outcomes()[0].detail | {"p": None} == {
        "tier": None, "tier1": "cannot_tell", "n": 0, "k": 0, "p": None,
        "asked": 4, "not_asked": 23, "not_needed": 0, "futile": False,
    }  # fmt: skip


def test_a_budget_ends_the_asking() -> None:
    """--max-calls bounds all calls to a target, and the event says how many cells it cost."""
    agenda = agenda_of(max_calls=5)
    assert agenda.n_open == 5
    assert len(ask_all(agenda, [True, False] * 10)) == 5
    undecided, spent = agenda.outcomes()
    assert (undecided.event, spent.event) == ("undecided", "budget_spent")
    assert spent.detail == {"budget": "max_calls", "limit": 5, "spent": 5, "not_asked": 25}


def test_a_cell_that_was_never_sent_costs_nothing() -> None:
    """Cells of a target that cannot answer are recorded without a call, and all of them are, whatever the budget."""
    agenda = agenda_of(until_decided=False, max_calls=2)
    taken = 0
    while (cell := agenda.take()) is not None:
        agenda.learn(result_of(cell.prompt, status="auth_error", asked=False))
        taken += 1
    assert taken == len(PROMPTS) and agenda.outcomes() == []


def test_a_resumed_run_goes_on_where_it_stood() -> None:
    """Nineteen passes from before need one more; a budget counts the calls made before."""
    done = {CellKey("fake", "model", None, "s", f"T{n}", 0) for n in range(19)}
    before = Evidence(n_calls=19, n_pool=19, asked=[(("s", f"T{n}"), True) for n in range(19)])
    agenda = agenda_of(PROMPTS, before, done, max_calls=21)
    assert ask_all(agenda) == ["T19", "N0"]
    assert [outcome.event for outcome in agenda.outcomes()] == ["decided", "budget_spent"]


def test_a_plain_run_asks_all_in_the_planned_order() -> None:
    """Without a rule nothing changes: repeats outside, prompts inside, and no event at the end."""
    agenda = agenda_of(PROMPTS[:4], until_decided=False, repeats=2)
    assert ask_all(agenda) == ["N0", "N1", "N2", "T0"] * 2
    assert agenda.outcomes() == []


def test_a_hundred_thousand_planned_calls_take_no_memory_to_speak_of() -> None:
    """A cell that is only planned is a byte."""
    prompts = [plain_prompt(f"N{n}") for n in range(100)]
    tracemalloc.start()
    try:
        agenda = agenda_of(prompts, repeats=1000)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert agenda.n_open == 100_000
    assert kept < 1_000_000


def test_only_a_planned_cell_can_be_taken_and_only_once() -> None:
    """Another machine may report what it was never asked."""
    first, second = OTHERS[:2]
    agenda = agenda_of([first, second], repeats=2)
    for strange in (Cell(first, 2), Cell(first, -1), Cell(OTHERS[2], 0), Cell(OTHERS[2], -1)):
        assert agenda.take(strange) is None
    assert agenda.take(Cell(second, 1)) == Cell(second, 1)
    assert agenda.take(Cell(second, 1)) is None
    left = [agenda.take() for _ in range(agenda.n_open)]
    assert left == [Cell(first, 0), Cell(second, 0), Cell(first, 1)]
    assert agenda.take() is None
