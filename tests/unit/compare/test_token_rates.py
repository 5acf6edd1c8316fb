"""Tokens a second by two rules are two figures: they are neither pooled nor compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clawgauge.compare.comparison import ComparisonOptions, compare_runs
from clawgauge.compare.gate import parse_rule
from clawgauge.records import CapacitySummary, Slo, WithinSlo
from clawgauge.reports.compare import describe_comparison
from clawgauge.reports.terminal import as_text
from clawgauge.summary.summarize import summarize_folder
from clawgauge.verdict.load import AT_ONCE, compare_capacity
from support.written_runs import config, prompt, record, write_run

IDS = [f"P{n}" for n in range(20)]
PLAN = config([prompt(i) for i in IDS])


def write(path: Path, rate: float, **marks: Any) -> Path:
    return write_run(path, [record(i, output_tps=rate, **marks) for i in IDS], config=PLAN)


@pytest.mark.parametrize(
    ("marks_a", "marks_b", "outcome"),
    [
        ({}, {"tps_rule": 2}, "not_judged"),
        ({}, {}, "broken"),
        ({"tps_rule": 2}, {"tps_rule": 2}, "broken"),
    ],
    ids=["another rule", "the older one", "the newer one"],
)
def test_rates_of_two_rules_are_not_compared(
    tmp_path: Path, marks_a: dict[str, int], marks_b: dict[str, int], outcome: str
) -> None:
    """118 by the older rule and 100 by the newer may be one speed: that is said, and no gate goes by it."""
    a, b = write(tmp_path / "a", 118.0, **marks_a), write(tmp_path / "b", 100.0, **marks_b)
    found = compare_runs(a, b, ComparisonOptions(rules=[parse_rule("output_tps_p50<-10%")]))
    assert [finding.outcome for finding in found.rules] == [outcome]
    shown = " ".join(as_text(describe_comparison(found)).split())
    sentence = "tokens a second cannot be compared: A's go by rule 1 and B's by rule 2; run A again with this version"
    assert (sentence in shown) is (outcome == "not_judged")


def test_a_run_that_a_later_version_went_on_with_shows_the_later_rule(tmp_path: Path) -> None:
    """Rates of both rules in one folder: those of the later one make the figure, and the summary says which it is."""
    lines = [
        record(i, output_tps=118.0) if n < 12 else record(i, output_tps=100.0, tps_rule=2)
        for n, i in enumerate(IDS)
    ]
    (group,) = summarize_folder(write_run(tmp_path / "run", lines, config=PLAN)).models
    assert (group.tps_rule, group.output_tps.n, group.output_tps.p50) == (2, 8, 100.0)
    (older,) = summarize_folder(write(tmp_path / "older", 118.0)).models
    assert (older.tps_rule, older.output_tps.n, older.output_tps.p50) == (1, 20, 118.0)
    (none,) = summarize_folder(
        write_run(tmp_path / "none", [record("P0", output_tps=None)], config=PLAN)
    ).models
    assert (none.tps_rule, none.output_tps.n) == (None, 0)


@pytest.mark.parametrize(("slo", "told"), [(Slo(tpot_ms=80), True), (Slo(ttft_ms=80), False)])
def test_what_a_server_carries_within_a_time_per_token_is_not_compared_between_rules(
    slo: Slo, told: bool
) -> None:
    within = WithinSlo(concurrency=4, broken_at=8)
    older, newer = (
        CapacitySummary(
            target="t",
            mode="closed",
            context_tokens=1000,
            slo=slo,
            within_slo=within,
            tps_rule=rule,
        )
        for rule in (1, 2)
    )
    (change,) = [one for one in compare_capacity([older], [newer]) if one.figure == AT_ONCE]
    assert change.verdict.startswith("cannot tell") is told
