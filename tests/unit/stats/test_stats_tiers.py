"""Tiers: the point tier, its confidence, and what it would take to settle it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.stats import (
    DECIDED_LEVEL,
    binomial_cdf,
    binomial_design,
    clean_passes_needed,
    clopper_interval,
    is_decided,
    point_tier,
    prompts_needed,
    tier_posterior,
    wilson_interval,
)

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
    assert tier_posterior(k, n, prior=0.5) == close(tuple(vector["jeffreys"]))


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
    """The fewest passes of n that make Tier 1, by the point, by two bounds and by a posterior, are the reference's."""
    total = int(n)

    def fewest(is_enough):
        return next((k for k in range(total + 1) if is_enough(k)), None)

    assert fewest(lambda k: point_tier(k, total) == 1) == row["point"]
    assert fewest(lambda k: wilson_interval(k, total)[0] >= 0.8) == row["wilson95_lower"]
    assert fewest(lambda k: clopper_interval(k, total)[0] >= 0.8) == row["clopper95_lower"]
    assert fewest(lambda k: tier_posterior(k, total, prior=0.5)[0] >= 0.95) == row["jeffreys.95"]


@pytest.mark.parametrize(
    ("rate", "n", "expected"),
    [(float(rate), int(n), v) for rate, by_n in VECTORS["tier_by_point_probs"].items() for n, v in by_n.items()],
)
def test_how_often_the_point_tier_misleads(rate, n, expected):
    """A true rate of 0.7 is labelled Tier 1 in 42% of six-prompt runs, and so on through the reference table."""
    fewest_1 = min(k for k in range(n + 1) if point_tier(k, n) == 1)
    most_3 = max(k for k in range(n + 1) if point_tier(k, n) == 3)
    assert 1 - binomial_cdf(fewest_1 - 1, n, rate) == close(expected["t1"])
    assert binomial_cdf(most_3, n, rate) == close(expected["t3"])


@pytest.mark.parametrize(("case", "expected"), VECTORS["n_req_exact_binomial"].items())
def test_exact_binomial_designs(case, expected):
    """The fewest trials that tell one rate from another at 5% and 80%, and the critical count, are the reference's."""
    null, other = map(float, re.findall(r"p=([\d.]+)", case))
    n, critical = binomial_design(null, other)
    assert [n, critical] == expected
    tail = binomial_cdf(critical, n, null) if other < null else 1 - binomial_cdf(critical - 1, n, null)
    assert tail <= 0.05


def test_rates_far_apart_take_one_trial():
    """A coin that never falls so and one that always does: one look is enough, whichever is expected."""
    assert binomial_design(0.01, 0.99) == (1, 1)
    assert binomial_design(0.99, 0.01) == (1, 0)


def test_rates_too_close_to_tell_apart():
    """A design that would take more than ten thousand trials is none."""
    assert binomial_design(0.8, 0.801, power=0.999) is None


MILLER = VECTORS["miller_n"]


@pytest.mark.parametrize(
    ("case", "difference", "variance"),
    [
        ("delta=.03,omega2=1/9,KA=KB=1,s2=0", 0.03, 1 / 9),
        ("paper: delta=.03,omega2=1/9,sA2=sB2=1/6? ", 0.03, 1 / 9 + 1 / 6 + 1 / 6),
        ("delta=.2,disc=.3 => omega2=.26", 0.2, 0.3 - 0.2**2),
        ("delta=.1,disc=.2", 0.1, 0.2 - 0.1**2),
        ("delta=.3,disc=.4", 0.3, 0.4 - 0.3**2),
    ],
)
def test_prompts_a_paired_comparison_needs(case, difference, variance):
    """How many prompts show a difference between two models at 5% and 80% is the reference's."""
    assert len(MILLER) == 5
    assert prompts_needed(difference, variance) == close(MILLER[case])


def test_straight_passes_by_every_rule():
    """How many passes in a row put 0.8 below the bound, by the exact interval, Wilson's, and Jeffreys' posterior."""
    table = VECTORS["n_all_pass"]

    def first(is_enough):
        return next(n for n in range(1, 100) if is_enough(n))

    assert first(lambda n: clopper_interval(n, n)[0] >= 0.8) == table["clopper2s95_allpass"]
    assert first(lambda n: clopper_interval(n, n, 0.9)[0] >= 0.8) == table["clopper1s95_allpass"]
    assert first(lambda n: wilson_interval(n, n)[0] >= 0.8) == table["wilson2s95_allpass"]
    for level in (0.9, 0.95, 0.99):
        key = f"jeffreys_allpass_P(p>=.8)>={level}"
        assert first(lambda n, level=level: tier_posterior(n, n, prior=0.5)[0] >= level) == table[key]


def test_thirteen_clean_passes_decide_tier_1_from_nothing():
    """Twelve straight passes are provisional, thirteen are decided; and the other levels of the reference agree."""
    assert clean_passes_needed(0, 0) == VECTORS["n_all_pass"]["uniform_allpass_P(p>=.8)>=0.95"] == 13
    assert not is_decided(tier_posterior(12, 12))
    assert is_decided(tier_posterior(13, 13))
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
    assert is_decided(tier_posterior(0, 6))
    assert not is_decided(tier_posterior(6, 6))


def test_a_decided_tier_is_the_point_tier():
    """Whenever a tier is decided, the likeliest tier and the one shown by the observed rate are the same."""
    decided = 0
    for n in range(1, 121):
        for k in range(n + 1):
            posterior = tier_posterior(k, n)
            if is_decided(posterior):
                decided += 1
                assert posterior.index(max(posterior)) + 1 == point_tier(k, n)
    assert decided > 1000
