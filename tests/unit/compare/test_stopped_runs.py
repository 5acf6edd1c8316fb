"""Runs that asked no further once a tier was decided: what they left out is not held against them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clawgauge.compare.comparison import ComparisonOptions, compare_runs
from clawgauge.compare.findings import PairComparison
from clawgauge.compare.gate import parse_rule
from clawgauge.reports.compare import describe_comparison
from clawgauge.reports.terminal import as_text
from support.written_runs import LABEL, config, prompt, record, write_run

IDS = [f"P{n}" for n in range(30)]
TOOL = {"expected_tools": ["free"]}


def write_stopped(
    folder: Path,
    n_asked: int,
    event: str = "decided",
    *,
    n_passed: int | None = None,
    repeats: int = 1,
    restrained: tuple[int, int] = (0, 0),
) -> Path:
    """A run of thirty tool prompts and one text prompt that ended after `n_asked` tool prompts, asked once each.

    Beside these it asked prompts that want no call, and k of n were left without one.
    """
    passed = n_asked if n_passed is None else n_passed
    n_restrained, n_restraint = restrained
    restraint_ids = [f"R{n}" for n in range(n_restraint)]
    no_call = {"type": "tool_call", "no_call": True}
    restraint_prompts = [prompt(i, validator=no_call) for i in restraint_ids]
    prompts = [*(prompt(i, **TOOL) for i in IDS), prompt("T0"), *restraint_prompts]
    plan = config(prompts, options={"repeats": repeats})
    lines: list[dict[str, Any] | str] = [
        record(i, n < passed, tool_use_success=n < passed, **TOOL)
        for n, i in enumerate(IDS[:n_asked])
    ]
    for n, i in enumerate(restraint_ids):
        lines.append(record(i, n < n_restrained, tools_offered=True))
    write_run(folder, [*lines, *(record("T0", repeat=n) for n in range(repeats))], config=plan)
    not_asked = len(IDS) * repeats - n_asked
    detail = {
        "not_asked": not_asked,
        "not_needed": not_asked if event == "decided" else len(IDS) * (repeats - 1),
    }
    told = {"at_ms": 1, "event": event, "target": LABEL, "detail": detail}
    (folder / "events.jsonl").write_text(json.dumps(told) + "\n", encoding="utf-8")
    return folder


def only_pair(a: Path, b: Path) -> PairComparison:
    (pair,) = compare_runs(a, b, ComparisonOptions()).pairs
    return pair


def test_what_was_not_needed_is_not_missed(tmp_path: Path) -> None:
    """Thirteen clean answers beside twenty are no rise of the passed share, and nothing is unanswered."""
    pair = only_pair(write_stopped(tmp_path / "a", 13), write_stopped(tmp_path / "b", 20))
    rate = pair.rates["pass_rate_scheduled"]
    assert (rate.rate_a, rate.rate_b, rate.n_trials_a, rate.n_trials_b, rate.p) == (
        1.0,
        1.0,
        14,
        14,
        1.0,
    )
    assert pair.unanswered == []
    assert next((f.a, f.b) for f in pair.figures if f.name == "pass_rate_scheduled") == (1.0, 1.0)


def test_a_stopped_side_has_no_fixed_n_interval_and_is_said(tmp_path: Path) -> None:
    """The results chose how many there are, which an interval for a fixed number does not know."""
    a, b = write_stopped(tmp_path / "a", 13), write_stopped(tmp_path / "b", 20, n_passed=5)
    pair = only_pair(a, b)
    assert {name: rate.ci95 for name, rate in pair.rates.items()} == dict.fromkeys(
        ("objective_pass_rate", "pass_rate_scheduled", "tool_use_rate")
    )
    assert [(s.side, s.n_asked, s.n_not_needed) for s in pair.stopped] == [
        ("a", 14, 17),
        ("b", 21, 10),
    ]
    shown = as_text(describe_comparison(compare_runs(a, b, ComparisonOptions())), 400)
    assert (
        f"A stopped early: the search for the tier of {LABEL} was over after 14 calls, 17 prompts were not needed"
        in shown
    )


def test_what_a_stopped_side_asked_to_the_end_is_compared_as_ever(tmp_path: Path) -> None:
    """Only tool prompts are left out once a tier is decided: restraint has its interval and its verdict."""
    a = write_stopped(tmp_path / "a", 13, restrained=(20, 20))
    b = write_stopped(tmp_path / "b", 20, n_passed=5, restrained=(8, 20))
    rates = only_pair(a, b).rates
    assert rates["restraint"].verdict == "changed" and rates["restraint"].ci95 is not None
    assert rates["tool_use_rate"].ci95 is None


def test_a_fall_of_a_stopped_side_is_not_judged_and_does_not_pass(tmp_path: Path) -> None:
    """A rate without a verdict has none at the gate either: neither broken by luck nor held for want of evidence."""
    a, b = write_stopped(tmp_path / "a", 13), write_stopped(tmp_path / "b", 20, n_passed=5)
    found = compare_runs(
        a, b, ComparisonOptions(rules=[parse_rule("tool_use_rate<0 (significant)")])
    )
    assert [(finding.outcome, finding.p_holm) for finding in found.rules] == [("not_judged", None)]
    assert (
        "a side decided how many prompts it was asked" in found.rules[0].reason
        and found.gate_failed
    )


def test_a_search_that_settled_nothing_misses_first_calls_alone(tmp_path: Path) -> None:
    """Undecided, a repeat is no new evidence and not missed; a prompt never asked is."""
    pair = only_pair(
        write_stopped(tmp_path / "a", 29, "undecided", repeats=2),
        write_stopped(tmp_path / "b", 30, "undecided", repeats=2),
    )
    rate = pair.rates["pass_rate_scheduled"]
    assert (rate.n_trials_a, rate.n_trials_b, rate.rate_b) == (
        32,
        32,
        1.0,
    ) and rate.rate_a == 30 / 31
    assert [u.prompt_id for u in pair.unanswered] == ["P29"] and pair.stopped == []


def test_a_run_that_was_broken_off_misses_what_it_did_not_ask(tmp_path: Path) -> None:
    """Without a decision, what has no record is no pass."""
    a, b = write_stopped(tmp_path / "a", 13), write_stopped(tmp_path / "b", 20)
    (a / "events.jsonl").unlink()
    (b / "events.jsonl").unlink()
    rate = only_pair(a, b).rates["pass_rate_scheduled"]
    assert (rate.n_prompts, rate.rate_a, rate.rate_b) == (31, 14 / 31, 21 / 31)
