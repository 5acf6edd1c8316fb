"""What a person is told of a model whose asking takes long, before it is decided."""

from __future__ import annotations

import pytest

from clawgauge.console.plain import PlainLines, Progress, word_answer_so_far
from clawgauge.records import Target
from clawgauge.verdict.states import FitState, JobState
from support.simulated_decisions import ask, plain_agenda

TARGET = Target("box", "m")


def test_every_job_is_named_with_what_is_likely_and_what_was_not_asked() -> None:
    """A line for each thing that is known, which fits a narrow terminal."""
    states = {
        "main agent": JobState(FitState.OPEN, None, unasked=("tasks",)),
        "subagent with full tools": JobState(FitState.OPEN, None, unasked=("tasks",)),
        "structured data": JobState(FitState.LIKELY_FIT, 0.883),
        "heartbeat and triage": JobState(FitState.LIKELY_NOT_FIT, 0.12),
        "writer": JobState(FitState.DECIDED_NOT_FIT, None),
    }
    lines = word_answer_so_far(TARGET, 24, states)
    assert lines == [
        "box:m, so far, after 24 answers (it goes on):",
        "  main agent, subagent with full tools: nothing against it yet; tasks not asked",
        "  structured data: likely fit (88%)",
        "  heartbeat and triage: likely not fit (88%)",
        "  writer: not fit",
    ]
    assert max(map(len, lines)) <= 80


def test_it_has_lines_of_its_own_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PlainLines({TARGET: Progress()})
    lines.answer_so_far(TARGET, 20, {"main agent": JobState(FitState.OPEN, 0.62)})
    assert "main agent: open (62%)" in capsys.readouterr().err


def test_after_twenty_right_answers_triage_and_data_look_good_and_tasks_were_not_tried() -> None:
    agenda = plain_agenda()
    ask(agenda, lambda prompt, draw: True, at_most=24)
    states = agenda.states()
    assert states["main agent"].state is FitState.OPEN and states["main agent"].chance is None
    assert states["main agent"].unasked == ("tasks",)
    assert states["structured data"].state in (FitState.LIKELY_FIT, FitState.DECIDED_FIT)
