"""Percentiles and their order-statistic intervals."""

from __future__ import annotations

import statistics
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.stats import (
    binomial_cdf,
    describe,
    order_interval,
    percentile,
    percentile_interval,
    samples_needed,
)

from .stats_vectors import VECTORS, close


def cases(name: str) -> list[tuple[int, float, list | None]]:
    return [(int(k.split(",q=")[0][2:]), float(k.split(",q=")[1]), v) for k, v in VECTORS[name].items()]


@pytest.mark.parametrize("vector", VECTORS["percentiles"].values(), ids=VECTORS["percentiles"])
def test_percentiles_are_type_7(vector):
    """p50, p90, p95 and p99 are numpy's default percentiles, from lists and from compact arrays alike."""
    for name in ("p50", "p90", "p95", "p99"):
        expected = close(vector[name]["linear"])
        assert percentile(sorted(vector["xs"]), int(name[1:]) / 100) == expected
        assert percentile(array("q", sorted(vector["xs"])), int(name[1:]) / 100) == expected


@given(st.lists(st.integers(0, 10**7), min_size=2, max_size=200))
def test_describe_agrees_with_the_standard_library(values):
    """The seven figures of a column match statistics.quantiles(inclusive), fmean, min and max, in any order given."""
    figures = describe(array("i", values))
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    assert (figures.p50, figures.p95, figures.p99) == close((cuts[49], cuts[94], cuts[98]))
    assert figures.mean == close(statistics.fmean(values))
    assert (figures.n, figures.min, figures.max) == (len(values), min(values), max(values))
    assert describe(array("d", values)) == close(tuple(figures))


def test_nothing_measured_is_none_not_zero():
    """An empty column has n = 0 and no figures."""
    assert describe(array("q")) == (0, None, None, None, None, None, None)
    assert percentile([], 0.5) is None


@pytest.mark.parametrize(("n", "q", "expected"), cases("quantile_order_ci_equal_tailed"))
def test_order_interval_is_equal_tailed(n, q, expected):
    """The ranks enclosing a percentile are the equal-tailed binomial ones, and null where n is too small."""
    low, high, coverage = expected
    assert order_interval(n, q)[:2] == (low, high)
    assert order_interval(n, q).coverage == (None if coverage is None else close(coverage))


@pytest.mark.parametrize(("n", "q", "expected"), [c for c in cases("quantile_order_ci") if c[2]])
def test_coverage_of_given_ranks(n, q, expected):
    """The shortest intervals of the reference have the coverage it states; each of our tails holds 2.5% at most."""
    low, high, coverage = expected
    assert binomial_cdf(high - 1, n, q) - binomial_cdf(low - 1, n, q) == close(coverage)
    ours = order_interval(n, q)
    assert binomial_cdf(ours.low_rank - 1, n, q) <= 0.025
    if ours.high_rank is not None:
        assert 1 - binomial_cdf(ours.high_rank - 1, n, q) <= 0.025
        assert ours.coverage >= 0.95


def test_interval_of_a_percentile_is_made_of_measured_values():
    """The median of twenty calls lies between the 6th and the 15th fastest; p95 of twenty has no interval."""
    ordered = list(range(100, 2100, 100))
    assert percentile_interval(ordered, 0.5) == (600.0, 1500.0)
    assert percentile_interval(ordered, 0.95) is None


@pytest.mark.parametrize(("q", "row"), VECTORS["quantile_min_n"].items())
def test_samples_until_a_percentile_is_more_than_indicative(q, row):
    """p95 needs 59 samples and p99 needs 299, the marks a reader sees."""
    assert samples_needed(float(q)) == row["n_upper_bound_95"]
