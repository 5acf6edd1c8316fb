"""Percentiles and their order-statistic intervals."""

from __future__ import annotations

import random
import statistics
from array import array
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.records import Percentiles
from clawgauge.stats.proportions import binomial_cdf
from clawgauge.stats.quantiles import (
    CountedValues,
    describe,
    order_interval,
    percentile,
    percentile_interval,
    samples_needed,
)

from .stats_vectors import VECTORS, close


def cases(name: str) -> list[tuple[int, float, list | None]]:
    return [
        (int(k.split(",q=")[0][2:]), float(k.split(",q=")[1]), v) for k, v in VECTORS[name].items()
    ]


@pytest.mark.parametrize("vector", VECTORS["percentiles"].values(), ids=VECTORS["percentiles"])
def test_percentiles_are_type_7(vector):
    """p50, p90, p95 and p99 are numpy's default percentiles, from lists and from compact arrays alike."""
    for name in ("p50", "p90", "p95", "p99"):
        expected = close(vector[name]["linear"])
        assert percentile(sorted(vector["xs"]), int(name[1:]) / 100) == expected
        assert percentile(array("q", sorted(vector["xs"])), int(name[1:]) / 100) == expected
        assert percentile(CountedValues(Counter(vector["xs"])), int(name[1:]) / 100) == expected


@given(st.lists(st.integers(0, 10**7), min_size=2, max_size=200))
def test_describe_agrees_with_the_standard_library(values):
    """The seven figures of a column match statistics.quantiles(inclusive), fmean, min and max, in any order given."""
    figures = describe(array("i", values))
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    assert (figures.p50, figures.p95, figures.p99) == close((cuts[49], cuts[94], cuts[98]))
    assert figures.mean == close(statistics.fmean(values))
    assert (figures.n, figures.min, figures.max) == (len(values), min(values), max(values))
    assert describe(array("d", values)) == describe(CountedValues(Counter(values))) == figures


def test_nothing_measured_is_none_not_zero():
    """An empty column has n = 0 and no figures."""
    assert describe(array("q")) == describe(CountedValues({})) == Percentiles(n=0)
    assert percentile([], 0.5) is None


@pytest.mark.parametrize(("n", "q", "expected"), cases("quantile_order_ci_equal_tailed"))
def test_order_interval_is_equal_tailed(n, q, expected):
    """The ranks enclosing a percentile are the equal-tailed binomial ones, and null where n is too small."""
    low, high, _coverage = expected
    assert order_interval(n, q) == (low, high)


@pytest.mark.parametrize(
    ("n", "q"), [(n, q) for n, q, expected in cases("quantile_order_ci") if expected]
)
def test_each_end_of_a_printed_interval_is_a_bound(n, q):
    """The interval that is printed leaves at most 2.5% beyond either end."""
    low, high = order_interval(n, q)
    assert binomial_cdf(low - 1, n, q) <= 0.025
    if high is not None:
        assert 1 - binomial_cdf(high - 1, n, q) <= 0.025


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=300))
def test_counted_values_are_the_sorted_list(values):
    """Held as counts, a column has the length, the items and the sum of its sorted list."""
    counted, ordered = CountedValues(Counter(values)), sorted(values)
    assert ([counted[i] for i in range(len(counted))], counted.total()) == (ordered, sum(ordered))
    assert counted[-1] == ordered[-1]


@pytest.mark.parametrize("n", [1, 2, 7, 40, 199, 200, 201, 750])
@pytest.mark.parametrize("q", [0.5, 0.9, 0.95, 0.99])
def test_ranks_are_found_wherever_they_lie(n, q):
    """The search near the middle finds the same ranks as looking at every one of them."""
    below = [binomial_cdf(rank, n, q) for rank in range(n + 1)]
    low = next(rank for rank, p in enumerate(below) if p > 0.025)
    high = next(rank for rank, p in enumerate(below) if p >= 0.975) + 1
    assert order_interval(n, q) == (low or None, high if high <= n else None)


def test_interval_of_a_percentile_is_made_of_measured_values():
    """The median of twenty calls lies between the 6th and the 15th fastest; p95 of twenty has no interval."""
    ordered = list(range(100, 2100, 100))
    assert percentile_interval(ordered, 0.5) == (600.0, 1500.0)
    assert percentile_interval(ordered, 0.95) is None


@pytest.mark.parametrize(("q", "n"), [(0.5, 6), (0.95, 72), (0.99, 368)])
def test_a_percentile_is_more_than_indicative_once_it_has_an_interval(q, n):
    """p95 needs 72 samples and p99 needs 368: one threshold for the mark a reader sees and for the interval."""
    assert samples_needed(q) == n
    assert (
        percentile_interval(range(n - 1), q) is None
        and percentile_interval(range(n), q) is not None
    )


def test_repeats_of_a_prompt_are_not_as_many_calls():
    """A prompt's ten calls that all take alike are worth one; its calls that differ as those of others do, ten."""
    alike = [[float(n)] * 10 for n in range(80)]
    values = [value for family in alike for value in family]
    assert percentile_interval(values, 0.5, alike) == pytest.approx(
        percentile_interval(range(80), 0.5), abs=2
    )
    whole = list(map(float, range(800)))
    shuffled = random.Random(1).sample(whole, 800)
    mixed = [sorted(shuffled[first : first + 10]) for first in range(0, 800, 10)]
    assert percentile_interval(whole, 0.5, mixed) == pytest.approx(
        percentile_interval(whole, 0.5), abs=10
    )
    one = [list(map(float, range(80)))]
    assert percentile_interval(one[0], 0.95, one) == percentile_interval(one[0], 0.95)


def test_calls_of_which_the_prompt_is_not_known_are_as_much_alike():
    """A long run knows only of its first calls which prompt they belong to; the others repeat the same prompts."""
    known = [[float(n)] * 5 for n in range(80)]
    values = [float(n) for n in range(80) for _ in range(50)]
    assert percentile_interval(values, 0.5, known) == pytest.approx(
        percentile_interval(range(80), 0.5), abs=2
    )
