"""What is asked next of a list of prompts, and when no more is."""

from __future__ import annotations

import tracemalloc
from collections.abc import Collection

from clawgauge.journal import CellKey
from clawgauge.plan import EarlierAnswers, OpenWork
from clawgauge.records import Prompt
from clawgauge.runner.agenda import Agenda, Cell
from clawgauge.runner.agendas import make_agenda
from support.plans import plan_of

from .prompts import TARGET, plain_prompt, result_of, tool_prompt

POOL = [tool_prompt(f"T{n}") for n in range(27)]
OTHERS = [plain_prompt(f"N{n}") for n in range(3)]
PROMPTS = [*OTHERS, *POOL]


def agenda_of(
    prompts: list[Prompt] = PROMPTS,
    earlier: EarlierAnswers | None = None,
    done: Collection[CellKey] = frozenset(),
    **options: object,
) -> Agenda:
    answers = {} if earlier is None else {TARGET: earlier}
    plan = plan_of(prompts, work=OpenWork(done, answers=answers), **options)
    agenda = make_agenda(plan, TARGET)
    assert isinstance(agenda, Agenda)
    return agenda


def ask_all(agenda: Agenda, passes: list[bool] | None = None) -> list[str]:
    """Take and answer every cell, one after another; tool prompts pass unless `passes` says otherwise in turn."""
    verdicts = iter(passes or [])
    asked = []
    while (cell := agenda.take()) is not None:
        asked.append(cell.prompt.id)
        is_tool = bool(cell.prompt.expected_tools)
        agenda.learn(result_of(cell.prompt, passed=next(verdicts, True) if is_tool else False))
    return asked


def test_a_budget_ends_the_asking() -> None:
    """--max-calls bounds all calls to a target, and the event says how many cells it cost."""
    agenda = agenda_of(max_calls=5)
    assert agenda.n_open == 5
    assert len(ask_all(agenda, [True, False] * 10)) == 5
    (spent,) = agenda.outcomes()
    assert spent.event == "budget_spent"
    assert spent.detail == {"budget": "max_calls", "limit": 5, "spent": 5, "not_asked": 25}


def test_a_cell_that_was_never_sent_costs_nothing() -> None:
    """Cells of a target that cannot answer are recorded without a call, and all of them are, whatever the budget."""
    agenda = agenda_of(max_calls=2)
    taken = 0
    while (cell := agenda.take()) is not None:
        agenda.learn(result_of(cell.prompt, status="auth_error", asked=False))
        taken += 1
    assert taken == len(PROMPTS) and agenda.outcomes() == []


def test_a_resumed_run_goes_on_where_it_stood() -> None:
    """What has a record is not asked again; a budget counts the calls made before."""
    done = {CellKey("fake", "model", None, "s", f"T{n}", 0) for n in range(19)}
    agenda = agenda_of(POOL, EarlierAnswers(n_calls=19), done, max_calls=21)
    assert ask_all(agenda) == ["T19", "T20"]
    assert [outcome.event for outcome in agenda.outcomes()] == ["budget_spent"]


def test_a_plain_run_asks_all_in_the_planned_order() -> None:
    """Without a rule nothing changes: repeats outside, prompts inside, and no event at the end."""
    agenda = agenda_of(PROMPTS[:4], repeats=2)
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
