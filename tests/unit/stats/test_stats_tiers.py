"""Tiers: the point tier, its confidence, and what it would take to settle it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.stats.proportions import binomial_cdf, wilson_interval
from clawgauge.stats.tiers import DECIDED_LEVEL, clean_passes_needed, point_tier, tier_posterior

from .stats_vectors import VECTORS, close

POSTERIORS = [pytest.param(v, id=f"{v['k']}/{v['n']}") for v in VECTORS["tier_posteriors"]]


@pytest.mark.parametrize("vector", POSTERIORS)
def test_posterior_meets_the_reference(vector):
    """The confidence printed beside a tier is the exact posterior under a uniform prior."""
    assert tier_posterior(vector["k"], vector["n"]) == close(tuple(vector["uniform"]))
    assert point_tier(vector["k"], vector["n"]) == vector["tier"]


@pytest.mark.parametrize("vector", POSTERIORS)
def test_fractional_counts_meet_the_reference(vector):
    """Half a trial less on each side gives scipy's half-integer posterior, so fractional evidence is weighed right."""
    k, n = vector["k"], vector["n"]
    if 0 < k < n:
        assert tier_posterior(k - 0.5, n - 1) == close(tuple(vector["jeffreys"]))


@given(n=st.integers(0, 300), data=st.data())
def test_fractional_and_whole_counts_meet(n, data):
    """A hair's breadth off a whole number the confidence is the same: no jump between the two formulas."""
    k = data.draw(st.integers(0, n))
    whole = tier_posterior(k, n)
    assert sum(whole) == close(1.0)
    assert tier_posterior(k + 1e-9, n + 2e-9) == pytest.approx(whole, abs=1e-6)


@pytest.mark.parametrize("edge", VECTORS["tier_edges"], ids=lambda e: f"{e['k']}/{e['n']}")
def test_edges_are_decided_in_integers(edge):
    """4 of 5 is Tier 1 and 799 of 1000 is not, with no float in between."""
    assert point_tier(edge["k"], edge["n"]) == edge["tier"]


@pytest.mark.parametrize(("n", "row"), VECTORS["min_pass_tier1"].items())
def test_fewest_passes_for_tier_1(n, row):
    """The fewest passes of n that make Tier 1, by the point and by the interval, are the reference's."""
    total = int(n)

    def fewest(is_enough):
        return next((k for k in range(total + 1) if is_enough(k)), None)

    assert fewest(lambda k: point_tier(k, total) == 1) == row["point"]
    assert fewest(lambda k: wilson_interval(k, total)[0] >= 0.8) == row["wilson95_lower"]


@pytest.mark.parametrize(
    ("rate", "n", "expected"),
    [
        (float(rate), int(n), v)
        for rate, by_n in VECTORS["tier_by_point_probs"].items()
        for n, v in by_n.items()
    ],
)
def test_how_often_the_point_tier_misleads(rate, n, expected):
    """A true rate of 0.7 is labelled Tier 1 in 42% of six-prompt runs, and so on through the reference table."""
    fewest_1 = min(k for k in range(n + 1) if point_tier(k, n) == 1)
    most_3 = max(k for k in range(n + 1) if point_tier(k, n) == 3)
    assert 1 - binomial_cdf(fewest_1 - 1, n, rate) == close(expected["t1"])
    assert binomial_cdf(most_3, n, rate) == close(expected["t3"])


def test_thirteen_clean_passes_decide_tier_1_from_nothing():
    """Twelve straight passes are provisional, thirteen are decided; and the other levels of the reference agree."""
    assert (
        clean_passes_needed(0, 0) == VECTORS["n_all_pass"]["uniform_allpass_P(p>=.8)>=0.95"] == 13
    )
    assert max(tier_posterior(12, 12)) < DECIDED_LEVEL
    assert max(tier_posterior(13, 13)) >= DECIDED_LEVEL
    for level in (0.9, 0.99):
        first = next(n for n in range(100) if tier_posterior(n, n)[0] >= level)
        assert first == VECTORS["n_all_pass"][f"uniform_allpass_P(p>=.8)>={level}"]


@given(n=st.integers(0, 120), data=st.data())
def test_needed_is_the_first_that_decides(n, data):
    """The number of clean passes a reader is told decides Tier 1, and one fewer does not."""
    k = data.draw(st.integers(0, n))
    needed = clean_passes_needed(k, n)
    assert tier_posterior(k + needed, n + needed)[0] >= DECIDED_LEVEL
    if needed:
        assert tier_posterior(k + needed - 1, n + needed - 1)[0] < DECIDED_LEVEL


def test_a_tier_can_be_decided_at_the_bottom_too():
    """Six failures of six settle Tier 3; six passes of six settle nothing."""
    assert max(tier_posterior(0, 6)) >= DECIDED_LEVEL
    assert not max(tier_posterior(6, 6)) >= DECIDED_LEVEL


def test_a_decided_tier_is_the_point_tier():
    """Whenever a tier is decided, the likeliest tier and the one shown by the observed rate are the same."""
    decided = 0
    for n in range(1, 121):
        for k in range(n + 1):
            posterior = tier_posterior(k, n)
            if max(posterior) >= DECIDED_LEVEL:
                decided += 1
                assert posterior.index(max(posterior)) + 1 == point_tier(k, n)
    assert decided > 1000
