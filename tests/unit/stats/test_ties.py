"""Who is tied for best: pairs of models on the same families."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.stats.paired import above_zero_p
from clawgauge.stats.proportions import student_t_cdf
from clawgauge.stats.ties import (
    FigureDifferences,
    PairTest,
    compare_pair,
    differences_by_family,
    find_tied_for_best,
)

from .stats_vectors import VECTORS, close

differences = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=2, max_size=30)


@pytest.mark.parametrize("name", ["paired_example", "paired_example_repeats"])
def test_a_pair_is_compared_by_sum_over_root_sum_of_squares(name: str) -> None:
    """Twice the one-sided test of a gate, the same whoever is named first."""
    vector = VECTORS[name]
    a_minus_b = differences_by_family(
        {family: [value] for family, value in enumerate(vector["A"])},
        {family: [value] for family, value in enumerate(vector["B"])},
    )
    assert len(a_minus_b) == vector["n"]
    test = compare_pair([FigureDifferences(a_minus_b)])
    mirrored = compare_pair([FigureDifferences([-d for d in a_minus_b])])
    assert test.p == close(2 * above_zero_p(a_minus_b))
    assert test.t > 0
    assert mirrored == PairTest(t=close(-test.t), p=close(test.p))


def test_a_pair_by_hand() -> None:
    """Ten families: four that only A passes, one that only B does. t is 3 / √5, of nine degrees."""
    test = compare_pair([FigureDifferences([1, 1, 1, 1, -1, 0, 0, 0, 0, 0])])
    assert test.t == close(3 / 5**0.5)
    assert test.p == close(2 * student_t_cdf(-3 / 5**0.5, 9))
    two = compare_pair([FigureDifferences([1.0, 0.5])])
    assert two.p == close(2 * student_t_cdf(-1.5 / 1.25**0.5, 1))


def test_repeats_and_drawings_of_a_family_are_averaged_first() -> None:
    """A family asked five times counts once; one that a side was not asked does not count."""
    a = {"one": [1, 1, 1, 1, 0], "two": [1], "only a": [1], "unanswered": []}
    b = {"one": [1, 0], "two": [0, 0, 1, 1], "only b": [1], "unanswered": [1]}
    assert differences_by_family(a, b) == close([0.3, 0.5])


def test_models_that_never_differ_and_single_families_tell_nothing() -> None:
    assert compare_pair([FigureDifferences([0.0] * 40)]) == PairTest(t=0.0, p=1.0)
    assert compare_pair([FigureDifferences([1.0])]) == PairTest(t=0.0, p=1.0)
    assert compare_pair([FigureDifferences([])]) == PairTest(t=0.0, p=1.0)
    assert compare_pair([]) == PairTest(t=0.0, p=1.0)
    telling = FigureDifferences([1.0] * 40)
    assert compare_pair([telling, FigureDifferences([1.0])]) == PairTest(t=0.0, p=1.0)


@given(figure=differences, weight=st.floats(0.01, 100))
def test_the_weight_of_a_single_figure_does_not_matter(figure: list[float], weight: float) -> None:
    plain = compare_pair([FigureDifferences(figure)])
    weighed = compare_pair([FigureDifferences(figure, weight)])
    assert weighed.t == close(plain.t)
    assert weighed.p == close(plain.p)


def test_figures_of_a_weighed_score_add_up_with_their_variances() -> None:
    """Weights .75 and .25: the score's difference over the root of the weighed variances,
    Satterthwaite's degrees.
    """
    first = [1.0, 1.0, 0.0, 1.0, -1.0, 0.0, 1.0, 1.0]
    second = [0.5, -0.5, 0.5, 0.5, 0.5]
    change = 0.75 * 4 / 8 + 0.25 * 1.5 / 5
    variances = (0.75**2 * 6 / 64, 0.25**2 * 1.25 / 25)
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / 7 + variances[1] ** 2 / 4)
    t = change / sum(variances) ** 0.5
    test = compare_pair([FigureDifferences(first, 0.75), FigureDifferences(second, 0.25)])
    assert test.t == close(t)
    assert test.p == close(2 * student_t_cdf(-t, int(freedom)))


def test_who_is_beaten_by_nobody_is_tied_for_best() -> None:
    """0 beats 2; 1 is between, beaten by none: 0 and 1 are tied."""
    pairs = {
        (0, 1): PairTest(t=1.0, p=0.3),
        (0, 2): PairTest(t=4.0, p=0.001),
        (1, 2): PairTest(t=1.8, p=0.07),
    }
    assert find_tied_for_best(3, pairs) == [True, True, False]
    turned = {(0, 1): PairTest(t=-4.0, p=0.001)}
    assert find_tied_for_best(2, turned) == [False, True]


def test_pairs_are_corrected_together() -> None:
    """p = .02 tells two models apart, and not the best of three pairs; the second smallest is held
    to a milder level.
    """
    assert find_tied_for_best(2, {(0, 1): PairTest(t=2.4, p=0.02)}) == [True, False]
    pairs = {
        (0, 1): PairTest(t=2.4, p=0.02),
        (0, 2): PairTest(t=0.0, p=1.0),
        (1, 2): PairTest(t=0.0, p=1.0),
    }
    assert find_tied_for_best(3, pairs) == [True, True, True]
    pairs[0, 2] = PairTest(t=3.5, p=0.001)
    assert find_tied_for_best(3, pairs) == [True, False, False]


def test_models_that_were_not_compared_beat_nobody() -> None:
    assert find_tied_for_best(3, {}) == [True, True, True]
    assert find_tied_for_best(1, {}) == [True]
    assert find_tied_for_best(0, {}) == []


@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=12, max_size=12),
        min_size=2,
        max_size=5,
    )
)
def test_somebody_is_always_tied_for_best(models: list[list[float]]) -> None:
    """On the same families the model with the highest mean is never beaten."""
    pairs = {}
    for a, b in itertools.combinations(range(len(models)), 2):
        by_family = [x - y for x, y in zip(models[a], models[b], strict=True)]
        pairs[a, b] = compare_pair([FigureDifferences(by_family)])
    tied = find_tied_for_best(len(models), pairs)
    best = max(range(len(models)), key=lambda model: sum(models[model]))
    assert tied[best]
