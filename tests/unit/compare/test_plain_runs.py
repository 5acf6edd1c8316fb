"""Runs whose answers decided what was asked: they are compared over the prompts that both were asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clawgauge.compare.comparison import ComparisonOptions, compare_runs
from clawgauge.compare.findings import Comparison
from clawgauge.compare.gate import parse_rule
from clawgauge.reports.compare import describe_comparison
from clawgauge.reports.terminal import as_text
from clawgauge.stats.paired import bets_p
from support.written_runs import LABEL, config, prompt, record, write_run

IDS = [f"P{n}" for n in range(60)]
PLAIN: dict[str, Any] = {"rule": 2, "decision": {"jobs": ["main agent"]}}


def write_plain(
    path: Path,
    n_asked: int,
    n_passed: int,
    *,
    most_at_once: int | None = None,
    concurrency: int = 0,
    **changes: Any,
) -> Path:
    """A run that asked the first of sixty prompts and passed the first of these."""
    plan = config([prompt(i) for i in IDS], options={"concurrency": concurrency}, **PLAIN)
    lines = [record(i, n < n_passed, **changes) for n, i in enumerate(IDS[:n_asked])]
    write_run(path, lines, config=plan)
    if most_at_once is not None:
        detail = {"most_at_once": most_at_once}
        event = {"at_ms": 1, "event": "target_finished", "target": LABEL, "detail": detail}
        (path / "events.jsonl").write_text(json.dumps(event) + "\n")
    return path


def shown(comparison: Comparison) -> str:
    return " ".join(as_text(describe_comparison(comparison), 200).split())


def test_figures_are_over_what_both_were_asked_and_it_is_said_over_how_many(tmp_path: Path) -> None:
    """What B was asked alone, and failed, is not held against it; what nobody was asked is nowhere."""
    a = write_plain(tmp_path / "a", 20, 20)
    b = write_plain(tmp_path / "b", 40, 20)
    comparison = compare_runs(a, b, ComparisonOptions())
    (pair,) = comparison.pairs
    assert (pair.asked, pair.n_shared, pair.only_in_a, len(pair.only_in_b)) == (
        "decision",
        20,
        [],
        20,
    )
    rates = pair.rates["objective_pass_rate"]
    assert (rates.rate_a, rates.rate_b, rates.n_trials_b) == (1.0, 1.0, 20)
    assert {(figure.a, figure.b) for figure in pair.figures if figure.name == "n_ok"} == {(20, 20)}
    assert pair.unanswered == []
    assert "all figures are over the 20 prompts that both sides were asked" in shown(comparison)


def test_a_rule_of_a_gate_says_over_how_many_it_was_held(tmp_path: Path) -> None:
    a = write_plain(tmp_path / "a", 20, 20)
    b = write_plain(tmp_path / "b", 40, 15)
    rules = [
        parse_rule("objective_pass_rate<-0.5"),
        parse_rule("objective_pass_rate<-0.05 (significant)"),
    ]
    held, unjudged = compare_runs(a, b, ComparisonOptions(rules=rules)).rules
    assert (held.outcome, held.b) == ("held", 0.75)
    assert held.reason == "within the limit; over 20 prompts that both sides were asked"
    assert unjudged.outcome == "not_judged"
    assert "the results of a side decided how many prompts it was asked" in unjudged.reason


@pytest.mark.parametrize(
    ("only_a", "only_b", "e"), [(0, 0, 1.0), (1, 0, 1.0), (8, 0, 256 / 9), (7, 1, 256 / 72)]
)
def test_bets_win_what_their_formula_says(only_a: int, only_b: int, e: float) -> None:
    assert bets_p(only_a, only_b) == pytest.approx(min(1.0, 1 / e))
    assert bets_p(only_b, only_a) == bets_p(only_a, only_b)


def test_a_change_between_plain_runs_is_told_by_bets_that_hold_at_any_stop(tmp_path: Path) -> None:
    """Eight prompts lost and none gained are enough, seven are not; there is no interval either way."""
    whole = write_plain(tmp_path / "whole", 30, 30)
    verdicts = {}
    for n_lost in (7, 8):
        other = write_plain(tmp_path / f"less{n_lost}", 30, 30 - n_lost)
        (pair,) = compare_runs(whole, other, ComparisonOptions()).pairs
        rate = pair.rates["objective_pass_rate"]
        assert (rate.test, rate.ci95, rate.ci_holm) == ("bets", None, None)
        verdicts[n_lost] = rate.verdict
    assert verdicts == {7: "cannot_tell", 8: "changed"}


def test_a_list_beside_a_plain_run_shares_what_the_plain_run_asked(tmp_path: Path) -> None:
    plan = config([prompt(i) for i in IDS], options={"concurrency": 1})
    listed = write_run(tmp_path / "list", [record(i) for i in IDS], config=plan)
    plain = write_plain(tmp_path / "plain", 25, 25, concurrency=1)
    (pair,) = compare_runs(listed, plain, ComparisonOptions()).pairs
    assert (pair.asked, pair.n_shared) == ("decision", 25)


@pytest.mark.parametrize(
    ("first", "second", "values"),
    [
        ((0, 8), (0, 8), None),
        ((0, 1), (1, None), None),
        ((0, 8), (0, 2), ("8", "2")),
        ((0, 8), (1, None), ("8", "1")),
        ((0, None), (1, None), ("found out", "1")),
        ((4, None), (1, None), ("4", "1")),
    ],
    ids=str,
)
def test_times_under_another_load_cannot_be_told(
    tmp_path: Path,
    first: tuple[int, int | None],
    second: tuple[int, int | None],
    values: tuple[str, str] | None,
) -> None:
    """What counts is how many calls were under way at once, given or found out."""
    sides = []
    for name, (concurrency, found) in (("a", first), ("b", second)):
        side = write_plain(tmp_path / name, 20, 20, concurrency=concurrency, most_at_once=found)
        sides.append(side)
    comparison = compare_runs(sides[0], sides[1], ComparisonOptions())
    assert comparison.latency_compared is (values is None)
    told = [(one.a, one.b) for one in comparison.differences if one.what == "concurrency"]
    assert told == ([] if values is None else [values])
    assert ("latency: cannot tell, other concurrency" in shown(comparison)) is (values is not None)
