"""Two capacity runs, load by load: when a figure has changed, and when nothing can be said."""

from __future__ import annotations

from typing import Any

import pytest

from clawgauge.records.summary import CapacitySummary, Percentiles, StepSummary
from clawgauge.verdict.load import compare_capacity

TARGET = "ollama:m"


def capacity(
    requests_ci95: tuple[float, float] | None,
    ttft_ci95: tuple[float, float] | None = None,
    *,
    trusted: bool = True,
    concurrency: int = 2,
) -> CapacitySummary:
    """A run with one step, of these intervals; swapping models took as long as a first token."""
    ttft_ms = Percentiles(n=60, p50=1.0, p95=1.0, p99=1.0, mean=1.0, p50_ci95=ttft_ci95)
    step = StepSummary(
        step="2000/c2",
        concurrency=concurrency,
        rate=None,
        n=60,
        requests_per_s=1.0,
        requests_per_s_ci95=requests_ci95,
        output_tokens_per_s=None,
        tokens_per_s_user=None,
        ttft_ms=ttft_ms,
        tpot_ms=ttft_ms,
        itl_ms=ttft_ms,
        e2e_ms=ttft_ms,
        goodput_per_s=None,
        attained=None,
        n_failed=0,
        n_dropped=0,
        trusted=trusted,
        untrusted=None,
        growing=False,
        input_tokens=None,
        output_tokens=None,
        cached_tokens=None,
    )
    return CapacitySummary(
        target=TARGET, mode="closed", context_tokens=2000, steps=[step], swap_ms={"cold": ttft_ms}
    )


def verdicts(a: CapacitySummary, b: CapacitySummary) -> dict[tuple[str, str], str]:
    return {(change.load, change.figure): change.verdict for change in compare_capacity([a], [b])}


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((1.0, 2.0), (2.1, 3.0), "changed"),
        ((2.1, 3.0), (1.0, 2.0), "changed"),
        ((1.0, 2.0), (1.5, 3.0), "no change seen"),
        ((1.5, 3.0), (1.0, 2.0), "no change seen"),
        ((1.0, 2.0), (2.0, 3.0), "no change seen"),
        ((1.0, 2.0), (2.019, 3.0), "no change seen"),
        ((2.019, 3.0), (1.0, 2.0), "no change seen"),
        ((1.0, 2.0), (2.021, 3.0), "changed"),
        ((2.021, 3.0), (1.0, 2.0), "changed"),
        ((1.0, 4.0), (2.0, 3.0), "no change seen"),
        (None, (2.0, 3.0), ""),
        ((2.0, 3.0), None, ""),
    ],
)
def test_a_figure_has_changed_where_its_intervals_are_more_than_a_hundredth_apart(
    before: tuple[float, float] | None, after: tuple[float, float] | None, verdict: str
) -> None:
    """Whichever way it went, of throughput, first token and swaps alike; without an interval nothing is said."""
    steady = (1.0, 1.0)
    rates = verdicts(capacity(before, steady), capacity(after, steady))
    assert rates["2k, 2", "requests/s"] == verdict
    assert rates["2k, 2", "ttft p50 ms"] == "no change seen"
    times = verdicts(capacity(steady, before), capacity(steady, after))
    assert times["2k, 2", "ttft p50 ms"] == times["cold", "ttft p50 ms"] == verdict
    assert times["2k, 2", "requests/s"] == "no change seen"


@pytest.mark.parametrize(
    "other",
    [{"trusted": False}, {"concurrency": 4}],
    ids=["a step that cannot be trusted", "a level that only one tried"],
)
def test_only_loads_that_both_have_tried_and_that_can_be_trusted_are_compared(
    other: dict[str, Any],
) -> None:
    a = capacity((1.0, 2.0), (1.0, 2.0))
    b = capacity((5.0, 6.0), (5.0, 6.0), **other)
    for first, second in ((a, b), (b, a)):
        assert not [load for load, _ in verdicts(first, second) if load.startswith("2k,")]
