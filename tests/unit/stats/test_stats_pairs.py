"""Two models on the same prompts."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.stats import paired
from clawgauge.stats.paired import (
    Moved,
    agree,
    compare_run_means,
    holm,
    mcnemar_exact,
    median_interval,
    paired_rate_interval,
    sign_flip_p,
    signed_rank,
    smallest_rate_change,
)

from .stats_vectors import VECTORS, close


@pytest.mark.parametrize("vector", VECTORS["mcnemar"], ids=lambda v: f"{v['b']}-{v['c']}")
def test_mcnemar_meets_the_reference(vector):
    """The exact p-value of b and c discordant prompts, the same whichever model is named first."""
    assert mcnemar_exact(vector["b"], vector["c"]) == close(vector["exact"])
    assert mcnemar_exact(vector["c"], vector["b"]) == close(vector["exact"])


def test_models_that_never_disagree_do_not_differ():
    """No discordant prompt gives p = 1."""
    assert mcnemar_exact(0, 0) == 1.0
    assert sign_flip_p([0.0, 0.0]) == 1.0
    assert sign_flip_p([]) == 1.0


@pytest.mark.parametrize("name", ["paired_example", "paired_example_repeats"])
def test_sign_flips_meet_the_reference(name):
    """The sign-flip p-value is the reference's."""
    vector = VECTORS[name]
    differences = [a - b for a, b in zip(vector["A"], vector["B"], strict=True)]
    assert sign_flip_p(differences) == close(vector["p_signflip_exact"])


@given(
    st.lists(
        st.sampled_from([-1.0, -2 / 3, -1 / 3, 0.0, 1 / 3, 2 / 3, 1.0]), min_size=1, max_size=9
    )
)
def test_sign_flips_are_all_counted(differences):
    """The p-value is the plain count over every sign pattern, ties included."""
    observed = abs(sum(differences)) - 1e-9
    patterns = list(itertools.product((1, -1), repeat=len(differences)))
    hits = sum(
        abs(sum(s * d for s, d in zip(p, differences, strict=True))) >= observed for p in patterns
    )
    assert sign_flip_p(differences) == close(hits / len(patterns))


@pytest.mark.parametrize(("up", "down"), [(15, 5), (40, 0), (300, 250), (700, 640), (3_100, 2_950)])
def test_many_differences_are_counted_too(up, down):
    """However many prompts moved a whole step, the sign flips are McNemar's, which has a formula of its own."""
    exact = mcnemar_exact(up, down)
    tolerance = 1e-4 if up + down > 5_000 else 0
    assert sign_flip_p([1.0] * up + [-1.0] * down) == pytest.approx(exact, rel=1e-9, abs=tolerance)


def test_differences_of_no_common_fraction_are_counted_on_a_fine_grid():
    """Nine differences that are multiples of nothing: near the plain count over all patterns."""
    differences = [
        0.1234567,
        -0.7654321,
        0.3141592,
        0.2718281,
        0.5772156,
        -0.1414213,
        0.1732050,
        0.6180339,
        0.4669201,
    ]
    patterns = list(itertools.product((1, -1), repeat=9))
    hits = sum(
        abs(sum(s * d for s, d in zip(p, differences, strict=True))) >= abs(sum(differences)) - 1e-9
        for p in patterns
    )
    assert sign_flip_p(differences) == pytest.approx(hits / len(patterns), abs=2 / len(patterns))


def prompts(n, only_a, only_b):
    return (
        [Moved(-1.0, 1)] * only_a
        + [Moved(1.0, 1)] * only_b
        + [Moved(0.0, 1)] * (n - only_a - only_b)
    )


def test_one_trial_each_has_the_interval_of_bonett_and_price():
    """A worked example: 12 and 3 of 60 prompts moved; p̃ = (x + 1) / (n + 2) each, Wald from there."""
    up, down = 4 / 62, 13 / 62
    half = 1.959963984540054 * math.sqrt((up + down - (up - down) ** 2) / 62)
    found = paired_rate_interval(prompts(60, 12, 3), single=True)
    assert found == close((up - down - half, up - down + half))


def test_an_interval_of_rates_is_always_there_and_never_without_width():
    """Where nothing moved, what could have moved unseen is its width; only without a prompt is there none."""
    for n in (1, 5, 36, 1000):
        low, high = paired_rate_interval(prompts(n, 0, 0), single=True)
        assert -1 <= low < 0 < high <= 1
    assert paired_rate_interval([], single=True) is None


def test_variants_of_one_prompt_are_one_piece_of_evidence():
    """Ten prompts of ten variants each, that move together, are worth ten prompts: the interval is as wide."""
    families = [Moved(-10.0, 10)] * 3 + [Moved(0.0, 10)] * 7
    alone = [Moved(-1.0, 1)] * 3 + [Moved(0.0, 1)] * 7
    assert paired_rate_interval(families, single=False) == close(
        paired_rate_interval(alone, single=False)
    )
    assert smallest_rate_change(families) == close(smallest_rate_change(alone))


def test_a_test_that_cannot_reach_its_level_has_no_smallest_change():
    """Five prompts that all move are p = 0.06; of six, all have to."""
    assert smallest_rate_change(prompts(5, 0, 0)) is None
    assert smallest_rate_change(prompts(6, 0, 0)) == pytest.approx(0.9, abs=0.05)
    assert smallest_rate_change(prompts(100, 0, 0)) < smallest_rate_change(prompts(100, 8, 8)) < 0.2


@given(st.integers(0, 25), st.integers(0, 25), st.integers(1, 60))
def test_an_interval_of_rates_leaves_out_no_change_just_where_its_p_is_small(
    only_a, only_b, others
):
    """Whatever moved, the two do not contradict each other."""
    moved = prompts(only_a + only_b + others, only_a, only_b)
    p = mcnemar_exact(only_a, only_b)
    low, high = agree(paired_rate_interval(moved, single=True), p, only_b - only_a)
    assert (low <= 0 <= high) == (p >= 0.05)


@given(st.lists(st.floats(-9, 9).filter(lambda x: abs(x) > 1e-6), min_size=1, max_size=40))
def test_the_interval_of_a_median_is_the_sign_tests(values):
    """It leaves out 0 just where the sign test finds a change, and is not there where that never could."""
    p = mcnemar_exact(sum(v < 0 for v in values), sum(v > 0 for v in values))
    interval = median_interval(values)
    assert (interval is None) == (len(values) < 6)
    if interval is not None:
        assert (interval[0] <= 0 <= interval[1]) == (p >= 0.05)


@given(st.lists(st.integers(-40, 40).filter(bool), min_size=1, max_size=60))
def test_signed_ranks_and_their_interval_do_not_contradict_each_other(values):
    """Without ties the two agree; with ties p is exact over the ranks as they are."""
    found = signed_rank(values)
    assert (found.interval is None) == (len(values) < 6)
    if found.interval is not None:
        low, high = found.interval
        assert low <= found.estimate <= high
        if len(set(map(abs, values))) == len(values):
            assert (low <= 0 <= high) == (found.p >= 0.05)


def test_signed_ranks_of_a_known_sample():
    """Nine differences, W = 5: two-sided exact p = 20/512, and the pseudo-median of all 45 means."""
    differences = [1.83 - 0.878, 0.50 - 0.647, 1.62 - 0.598, 2.48 - 2.05, 1.68 - 1.06, 1.88 - 1.29, 1.55 - 1.06,
                   3.06 - 3.14, 1.30 - 1.29]  # fmt: skip
    found = signed_rank(differences)
    assert found.p == close(0.0390625) and found.estimate == pytest.approx(0.46, abs=1e-6)
    assert found.interval == pytest.approx((0.01, 0.786), abs=1e-6)


def test_runs_are_compared_by_how_runs_differ():
    """Student's example by hand; with four a side the arrangements of the runs have a say too."""
    found = compare_run_means([0.0, 0.1, 0.2], [0.5, 0.6, 0.7])
    half = 2.7764451051977987 * 0.1 * math.sqrt(2 / 3)
    assert found.estimate == close(0.5) and found.interval == close((0.5 - half, 0.5 + half))
    assert found.p == pytest.approx(0.003602, abs=1e-6)
    assert compare_run_means([0, 1, 2, 3], [9, 9.1, 9.2, 9.3]).p == close(2 / 70)
    assert compare_run_means([0.1] * 3, [0.1] * 3).p == 1.0


def test_holm_meets_the_reference_in_any_order():
    """Adjusted p-values follow the p-values they belong to, wherever they stand."""
    vector = VECTORS["multi"]
    assert holm(vector["p"]) == close(vector["holm"])
    assert holm(vector["p"][::-1]) == close(vector["holm"][::-1])
    assert holm([0.4, 0.9]) == close([0.8, 0.9])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_ranks_of_hundreds_of_values_are_counted():
    """All tied they are signs, counted as such; of different sizes they are ranks."""
    values = [1.0] * 220 + [-1.0] * 180
    assert signed_rank(values).p == pytest.approx(mcnemar_exact(220, 180), rel=1e-9)
    assert signed_rank([*range(1, 141), *range(-60, 0)]).p < 0.001


def test_no_p_value_is_zero() -> None:
    """However many prompts went one way, the exact tests tell a p-value that can be divided by."""
    for n in (1_000, 1_073, 1_080, 5_000, 100_000):
        moved = [1.0] * n
        uneven = [(1 + number % 97) / 98 + (number % 101) / 10_201 for number in range(n)]
        for p in (
            paired.mcnemar_exact(0, n),
            paired.sign_flip_p(moved),
            paired.sign_flip_p(uneven),
        ):
            assert 0 < p < 1e-100
        assert 0 < paired.above_zero_p([value + 1 for value in uneven]) < 1e-100
    assert paired.compare_run_means([1.0, 1.0, 1.0], [9.0, 9.0, 9.0]).p > 0


def test_the_level_of_a_corrected_interval_lies_between_bonferronis_and_five_percent() -> None:
    for p_values in (
        [0.0, 0.0, 0.0],
        [5e-324, 0.01, 0.9],
        [1e-310, 1e-310],
        [0.01, 0.015],
        [0.0, 1.0],
        [0.04],
    ):
        for p, p_holm in zip(p_values, paired.holm(p_values), strict=True):
            level = paired.holm_level(p, p_holm, len(p_values))
            assert 0.05 / len(p_values) <= level <= 0.05
