"""What is left of a run, as a person who waits is told."""

from __future__ import annotations

import pytest

from clawgauge.console.plain import PlainLines, Progress, Tally
from clawgauge.errors import CallFailure
from clawgauge.records import Target
from clawgauge.runner.agenda import Cell
from clawgauge.suites import load_suite
from support.simulated_decisions import answer

ONE, TWO = Target("fake", "one"), Target("fake", "two")


def asked(n_done: int, took_s: float, **known: float) -> Progress:
    """Ten calls, of which some took so long."""
    return Progress(n_calls=10, n_done=n_done, started_s=100.0, newest_s=100.0 + took_s, **known)  # type: ignore[arg-type]


def test_what_came_counts_more_and_more() -> None:
    """Earlier runs say how long it will take until this one does."""
    assert Tally({ONE: Progress(n_calls=10, past_s=2.0)}).left_s() == pytest.approx(20.0)
    assert Tally({ONE: asked(5, 20.0, past_s=2.0)}).left_s() == pytest.approx(5 * 3.0)
    assert Tally({ONE: asked(10, 40.0, past_s=2.0)}).left_s() == 0


def test_targets_to_come_are_taken_to_be_like_those_that_came() -> None:
    """Without a pace of its own; as long as there is none at all, nothing is said."""
    assert Tally({ONE: asked(5, 20.0), TWO: Progress(n_calls=10)}).left_s() == pytest.approx(
        15 * 4.0
    )
    assert Tally({ONE: Progress(n_calls=10)}).left_s() is None


def test_a_target_that_cannot_answer_takes_no_time_and_sets_no_pace() -> None:
    rows = {ONE: asked(5, 0.001), TWO: asked(5, 20.0)}
    dead = {ONE: CallFailure("skipped_unavailable", "connection_refused")}
    assert Tally(rows, ended=dead).left_s() == pytest.approx(20.0)


def test_targets_that_take_turns_share_their_time() -> None:
    rows = {ONE: asked(5, 20.0), TWO: asked(5, 20.0)}
    assert Tally(rows, interleaved=True).left_s() == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("n_others", "said"), [(0, "(gone: why)\n"), (1, "other prompt is not"), (2, "prompts are not")]
)
def test_a_dead_target_speaks_of_other_prompts_where_it_has_some(
    capsys: pytest.CaptureFixture[str], n_others: int, said: str
) -> None:
    PlainLines({ONE: Progress(9)}).target_skipped(
        ONE, CallFailure("error", "gone", "why"), n_others
    )
    assert said in capsys.readouterr().err


def test_what_is_left_costs_what_calls_have_cost() -> None:
    """At first by what is expected of a call; of a target that cannot answer nothing is left."""
    row = asked(5, 20.0, past_usd=0.02)
    assert Tally({ONE: row}).left_usd() == pytest.approx(0.10)
    row.cost_usd = 0.25
    row.n_priced = 5
    tally = Tally({ONE: row, TWO: Progress(n_calls=10, past_s=1.0, past_usd=0.01)})
    assert tally.left_usd() == pytest.approx(0.25 + 0.10)
    assert tally.word_left() == "about 30 s and $0.3500 left"
    tally.ended[TWO] = CallFailure("skipped_unavailable", "connection_refused")
    assert tally.left_usd() == pytest.approx(0.25)
    assert Tally({ONE: asked(5, 20.0)}).left_usd() is None


@pytest.mark.parametrize(("counts_turns", "n_calls"), [(True, 7), (False, 1)])
def test_where_turns_are_counted_a_task_is_as_many_calls_as_it_took(counts_turns, n_calls) -> None:
    """A run that decides says what is left in requests, and counts what is done in them too."""
    task = load_suite("agentic").prompts[0]
    tally = Tally({ONE: Progress(n_calls=20)}, counts_turns=counts_turns)
    tally.target_started(ONE, 20)
    tally.recorded(ONE, answer(Cell(task, 0), True))
    tally.calls_left(ONE, 13)
    assert tally.rows[ONE].n_done == n_calls
    assert tally.rows[ONE].n_calls == n_calls + 13


def test_where_answers_decide_what_is_asked_what_is_left_is_called_an_estimate() -> None:
    """How many calls there will be is not known: neither their number nor their time is a promise."""
    tally = Tally({ONE: asked(5, 20.0)}, counts_turns=True)
    assert tally.word_left() == "up to about 20 s left"
    assert tally.word_calls(5, 10) == "5 of about 10" and tally.word_calls(10, 10) == "10/10"
    assert Tally({ONE: asked(5, 20.0)}).word_calls(5, 10) == "5/10"
