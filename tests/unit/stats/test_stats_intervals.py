"""Proportions and the distributions under them, against reference values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.stats.proportions import (
    binomial_cdf,
    regularized_beta,
    student_t_cdf,
    student_t_quantile,
    wilson_interval,
)
from clawgauge.stats.tiers import confidence_sequence, tell_above

from .stats_vectors import VECTORS, close

INTERVALS = [pytest.param(v, id=f"{v['k']}/{v['n']}") for v in VECTORS["intervals"]]


@pytest.mark.parametrize("vector", INTERVALS)
def test_wilson_meets_the_reference(vector):
    """The interval printed beside k/n is the one statsmodels gives."""
    assert wilson_interval(vector["k"], vector["n"]) == close(tuple(vector["wilson95"]))


@pytest.mark.parametrize("n", [1, 3, 7, 10, 49, 1000, 12.5])
def test_wilson_ends_are_exact(n):
    """All failed starts at exactly 0 and all passed ends at exactly 1, whatever the rounding."""
    assert wilson_interval(0, n)[0] == 0.0
    assert wilson_interval(n, n)[1] == 1.0


def test_wilson_without_trials_is_none():
    """No trials, no interval: not the whole of 0 to 1."""
    assert wilson_interval(0, 0) is None


@given(n=st.integers(1, 500), data=st.data())
def test_wilson_holds_the_observed_rate(n, data):
    """The interval always contains the rate it is printed beside, and stays within 0 and 1."""
    k = data.draw(st.integers(0, n))
    low, high = wilson_interval(k, n)
    assert 0.0 <= low <= k / n <= high <= 1.0


@pytest.mark.parametrize("vector", INTERVALS)
def test_incomplete_beta_at_known_quantiles(vector):
    """The incomplete beta gives 2.5% and 97.5% at the bounds scipy found for whole and for half-integer parameters."""
    k, n = vector["k"], vector["n"]
    low, high = vector["jeffreys95"]
    assert regularized_beta(k + 0.5, n - k + 0.5, low) == close(0.025)
    assert regularized_beta(k + 0.5, n - k + 0.5, high) == close(0.975)
    low, high = vector["clopper95"]
    if k > 0:
        assert regularized_beta(k, n - k + 1, low) == close(0.025)
    if k < n:
        assert regularized_beta(k + 1, n - k, high) == close(0.975)


@pytest.mark.parametrize(("n", "k"), [(1001, 400), (2000, 1000), (5000, 4010), (20_000, 16_050)])
def test_large_binomials_agree_with_an_exact_integer_sum(n, k):
    """Beyond the size where terms fit a float the binomial tail still equals the sum in whole numbers."""
    term, total = 1, 0
    for i in range(k + 1):
        total += term
        term = term * 4 * (n - i) // (i + 1)
    assert binomial_cdf(k, n, 0.8) == close(total / 5**n)


def test_binomial_outside_its_range():
    """Below 0 passes nothing has happened; at n everything has."""
    assert binomial_cdf(-1, 10, 0.5) == 0.0
    assert binomial_cdf(10, 10, 0.5) == 1.0


def test_incomplete_beta_at_and_beyond_its_ends():
    """Nothing lies below 0 and everything below 1."""
    assert (regularized_beta(2, 3, 0.0), regularized_beta(2, 3, -0.1)) == (0.0, 0.0)
    assert (regularized_beta(2, 3, 1.0), regularized_beta(2, 3, 1.1)) == (1.0, 1.0)


def test_student_t_against_tables():
    """The t quantile is the printed table's value, and the cdf inverts it."""
    assert student_t_quantile(0.975, 9) == close(2.2621571627409915)
    assert student_t_quantile(0.975, 1) == close(12.706204736432095)
    assert student_t_cdf(student_t_quantile(0.9, 4), 4) == close(0.9)
    assert student_t_cdf(-1.0, 5) == close(1 - student_t_cdf(1.0, 5))


@pytest.mark.parametrize(
    ("k", "n"), [(0, 3), (1, 7), (20, 20), (40, 45), (90, 100), (2.5, 4), (500, 1000)]
)
def test_an_interval_that_may_be_looked_at_any_time_is_wider(k, n):
    """It holds the observed rate and the interval of a fixed n, mirrors itself, and ends at 0 and 1 exactly."""
    low, high = confidence_sequence(k, n)
    fixed_low, fixed_high = wilson_interval(k, n)
    assert 0 <= low <= min(k / n, fixed_low + 0.02) and max(k / n, fixed_high - 0.02) <= high <= 1
    assert (1 - high, 1 - low) == pytest.approx(confidence_sequence(n - k, n), abs=1e-9)
    assert (low == 0.0) == (k == 0) and (high == 1.0) == (k == n)
    assert confidence_sequence(0, 0) is None


@pytest.mark.parametrize(
    ("k", "n", "told"), [(20, 20, True), (19, 19, None), (0, 3, False), (0, 2, None)]
)
def test_twenty_passes_or_three_failures_tell(k, n, told):
    """From nothing, looked at after each."""
    assert tell_above(k, n, 0.8) is told


def test_much_evidence_does_not_overflow():
    """A thousand answers far from the edge tell the right side, and only that."""
    assert tell_above(300, 1000, 0.8) is False and tell_above(99_000, 100_000, 0.8) is True
    assert tell_above(0, 100_000, 0.8) is False
