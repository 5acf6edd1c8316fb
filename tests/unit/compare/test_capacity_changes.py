"""Two capacity runs, load by load: when a figure has changed, and when nothing can be said."""

from __future__ import annotations

import math
from typing import Any

import pytest

from clawgauge.records.summary import CapacitySummary, Percentiles, StepSummary, VisitSummary
from clawgauge.reports.capacity import describe_load_changes
from clawgauge.reports.terminal import as_text
from clawgauge.verdict.load import LoadChange, compare_capacity

TARGET = "ollama:m"
QUIET = [10.0, 10.1, 9.9, 10.0, 10.0]


def capacity(
    rates: list[float],
    times_ms: list[float | None] | None = None,
    *,
    trusted: bool = True,
    untrusted_visits: tuple[int, ...] = (),
    concurrency: int = 2,
    swap_ci95: tuple[float, float] | None = None,
) -> CapacitySummary:
    """A run with one step, of visits with these requests a second and first tokens."""
    visits = []
    for number, rate in enumerate(rates, start=1):
        ttft_ms = 100.0 if times_ms is None else times_ms[number - 1]
        visits.append(
            VisitSummary(
                visit=number,
                step=f"2000/c2v{number}",
                n=60,
                requests_per_s=rate,
                ttft_p50_ms=ttft_ms,
                untrusted="late" if number in untrusted_visits else None,
            )
        )
    ttft_ms = Percentiles(n=60, p50=1.0, p95=1.0, p99=1.0, mean=1.0, p50_ci95=swap_ci95)
    step = StepSummary(
        step="2000/c2",
        concurrency=concurrency,
        rate=None,
        n=60,
        requests_per_s=1.0,
        requests_per_s_ci95=None,
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
        visits=visits,
    )
    return CapacitySummary(
        target=TARGET, mode="closed", context_tokens=2000, steps=[step], swap_ms={"cold": ttft_ms}
    )


def changes(a: CapacitySummary, b: CapacitySummary) -> dict[tuple[str, str], LoadChange]:
    return {(change.load, change.figure): change for change in compare_capacity([a], [b])}


def scaled(factor: float) -> list[float]:
    return [rate * factor for rate in QUIET]


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (QUIET, "no change seen"),
        (scaled(1.015), "no change seen"),
        (scaled(1.1), "changed"),
        (scaled(0.9), "changed"),
        ([10, 13, 10, 13, 10], "cannot tell: so large a move may still be luck"),
        ([10.0, 13.0, 8.0, 12.5, 8.1], "cannot tell: the visits differ too much"),
        ([20.0], "cannot tell: too few visits"),
        ([20.0, 20.0], "cannot tell: too few visits"),
        ([20.0, 20.0, 0.0], "cannot tell: too few visits"),
        ([20.0, 20.0, 20.0], "changed"),
    ],
)
def test_a_figure_has_changed_where_its_visits_say_so(after: list[float], verdict: str) -> None:
    """Whichever way it went, of throughput and first token alike; a run of before 0.3.0, with one
    visit, tells nothing, however far apart the two are.
    """
    rates = changes(capacity(QUIET), capacity(after))
    assert rates["2k, 2", "requests/s"].verdict == verdict
    if min(after) > 0:
        times = changes(capacity(QUIET, [*QUIET]), capacity([10.0] * len(after), [*after]))
        assert times["2k, 2", "ttft p50 ms"].verdict == verdict


def test_what_has_changed_has_its_ratio_and_a_corrected_p() -> None:
    both = changes(capacity(QUIET), capacity(scaled(1.1)))
    rate = both["2k, 2", "requests/s"]
    assert rate.p is not None
    assert rate.ratio_ci95 is not None
    low, high = rate.ratio_ci95
    assert low < 1.1 < high
    assert math.sqrt(low * high) == pytest.approx(1.1)
    # The more figures there are, the more of them move by luck.
    without_first_token = changes(capacity(QUIET, [None] * 5), capacity(scaled(1.1), [None] * 5))
    alone = without_first_token["2k, 2", "requests/s"].p
    assert alone is not None
    assert rate.p == pytest.approx(2 * alone)


def test_a_visit_that_cannot_be_trusted_has_no_part_in_it() -> None:
    odd = capacity([*QUIET, 99.0], untrusted_visits=(6,))
    assert changes(odd, capacity(QUIET))["2k, 2", "requests/s"].verdict == "no change seen"


@pytest.mark.parametrize(
    "other",
    [{"trusted": False}, {"concurrency": 4}],
    ids=["a step that cannot be trusted", "a level that only one tried"],
)
def test_only_loads_that_both_have_tried_and_that_can_be_trusted_are_compared(
    other: dict[str, Any],
) -> None:
    a = capacity(QUIET)
    b = capacity(scaled(2), **other)
    for first, second in ((a, b), (b, a)):
        assert not [load for load, _ in changes(first, second) if load.startswith("2k,")]


def test_the_screen_says_why_too_few_visits_tell_nothing() -> None:
    text = as_text(
        describe_load_changes([*compare_capacity([capacity([1.0])], [capacity(QUIET)])]), 200
    )
    assert "first token p50 ms" in text
    assert "too few visits: it takes 3 in each run" in text
    assert "runs before 0.3.0" in text


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((1.0, 2.0), (2.1, 3.0), "changed"),
        ((2.1, 3.0), (1.0, 2.0), "changed"),
        ((1.0, 2.0), (1.5, 3.0), "no change seen"),
        ((1.0, 2.0), (2.019, 3.0), "no change seen"),
        ((2.019, 3.0), (1.0, 2.0), "no change seen"),
        ((1.0, 2.0), (2.021, 3.0), "changed"),
        ((1.0, 4.0), (2.0, 3.0), "no change seen"),
        (None, (2.0, 3.0), ""),
        ((2.0, 3.0), None, ""),
    ],
)
def test_a_change_of_models_takes_longer_where_intervals_are_more_than_a_hundredth_apart(
    before: tuple[float, float] | None, after: tuple[float, float] | None, verdict: str
) -> None:
    """Each of its calls was made in a round of its own; without an interval nothing is said."""
    both = changes(capacity(QUIET, swap_ci95=before), capacity(QUIET, swap_ci95=after))
    assert both["cold", "ttft p50 ms"].verdict == verdict
