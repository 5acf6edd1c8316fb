"""Answers whose check broke: they have no verdict, and are part of no rate until they have one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from clawgauge.cli.resume import _read_answers
from clawgauge.compare.comparison import ComparisonOptions, compare_runs
from clawgauge.figures import Rate, passed_of_asked
from clawgauge.prices import load_prices
from clawgauge.routing.evidence import gather_evidence
from clawgauge.run_data.evidence import Weight
from clawgauge.summary import summarize_folder
from support.command import clawgauge, read_records
from support.written_runs import config, prompt, record, write_run

IDS = [f"P{n}" for n in range(20)]
UNJUDGED: dict[str, Any] = {
    "not_judged": "check_failed",
    "judged_by": None,
    "error": "the check failed: KeyError",
}
TOOLED: dict[str, Any] = {"expected_tools": ["free"], "tools_offered": True}


def write(path: Path, n_passed: int, n_unjudged: int, **fields: Any) -> Path:
    """Twenty answers: so many passed, the last so many without a verdict, the others failed."""
    lines = []
    for n, prompt_id in enumerate(IDS):
        is_unjudged, passed = n >= len(IDS) - n_unjudged, n < n_passed
        calls = (
            {"tool_use_success": passed, "tool_channel": "native" if passed else "none"}
            if fields
            else {}
        )
        verdict = UNJUDGED if is_unjudged else {}
        lines.append(
            record(prompt_id, None if is_unjudged else passed, **fields, **calls, **verdict)
        )
    tools = {
        "expected_tools": ["free"],
        "tools": [{"type": "function", "function": {"name": "free"}}],
    }
    return write_run(
        path, lines, config=config([prompt(i, **(tools if fields else {})) for i in IDS])
    )


@pytest.mark.parametrize("fields", [{}, TOOLED], ids=["plain", "with tools"])
def test_an_answer_without_a_verdict_counts_neither_for_nor_against_the_model(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    """Sixteen of sixteen, not of twenty; the calls themselves were answered, and the summary says what to do."""
    (group,) = summarize_folder(write(tmp_path / "run", 16, 4, **fields)).models
    assert (group.n_ok, group.n_success, group.n_unjudged) == (20, 20, 4)
    assert (group.n_passed, group.n_judged, group.pass_rate_scheduled) == (16, 16, 1.0)
    assert passed_of_asked(group) == Rate(16, 16)
    (suite,) = group.suites
    assert (passed_of_asked(suite), suite.pass_rate_scheduled) == (Rate(16, 16), 1.0)
    assert (group.tool_use.k, group.tool_use.n) == ((16, 16) if fields else (0, 0))
    (note,) = [warning for warning in group.warnings if "no verdict" in warning]
    assert note.startswith("4 answers have no verdict") and "clawgauge rescore" in note


@pytest.mark.parametrize("fields", [{}, TOOLED], ids=["plain", "with tools"])
def test_an_answer_without_a_verdict_is_no_fall_to_compare(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    a, b = write(tmp_path / "a", 20, 0, **fields), write(tmp_path / "b", 16, 4, **fields)
    (pair,) = compare_runs(a, b, ComparisonOptions()).pairs
    rates = {name: (rate.rate_a, rate.rate_b, rate.n_prompts) for name, rate in pair.rates.items()}
    assert set(rates.values()) == {(1.0, 1.0, 16)} and "pass_rate_scheduled" in rates
    assert pair.flips == [] and pair.unanswered == []


def test_rescoring_judges_what_was_left(tmp_path: Path) -> None:
    """With a check that works the answer gets its verdict, and the error of the broken one is gone."""
    folder = write(tmp_path / "runs" / "run", 16, 4)
    done = clawgauge(tmp_path, "rescore", str(folder))
    assert done.code == 0 and "no verdict → fail" in done.stderr
    judged = read_records(folder)[-4:]
    assert [(one["objective_pass"], one["not_judged"], one["error"]) for one in judged] == [
        (False, None, None)
    ] * 4
    assert all(one["judged_by"] for one in judged)


@pytest.mark.parametrize("fields", [{}, TOOLED], ids=["plain", "with tools"])
def test_a_chain_of_models_is_not_made_worse_by_it(tmp_path: Path, fields: dict[str, Any]) -> None:
    """What a routing rests on leaves it out as well, of what passed and of what called a tool."""
    ((evidence,), _) = gather_evidence([write(tmp_path / "run", 16, 4, **fields)], load_prices())
    assert {cluster.passes / cluster.trials for cluster in evidence.verdicts.values()} == {1.0}
    assert len(evidence.verdicts) == 16 and len(evidence.cells) == 20
    used = [cell.used_tool for cell in evidence.cells.values() if cell.used_tool is not None]
    assert used == ([True] * 16 if fields else [])


def test_a_decision_takes_no_account_of_it(tmp_path: Path) -> None:
    """Neither while a run goes on nor when it is resumed: a call that was not looked for is no missing call."""
    folder = write(tmp_path / "run", 16, 4, **TOOLED)
    (answers,) = _read_answers(folder).values()
    weights = Counter(observation.weight for observation in answers.observations.values())
    assert weights == {Weight.ANSWER: 16, Weight.NONE: 4}
