"""Who is tied for best: pairs of models on the same families."""

from __future__ import annotations

import itertools
import math

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
    find_beaten,
)

from .stats_vectors import VECTORS, close

differences = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=2, max_size=30)


@pytest.mark.parametrize("name", ["paired_example", "paired_example_repeats"])
def test_a_pair_is_compared_by_sum_over_root_sum_of_squares(name: str) -> None:
    """Twice the one-sided test of a gate, the same whoever is named first."""
    vector = VECTORS[name]
    a_minus_b = differences_by_family(
        {str(family): value for family, value in enumerate(vector["A"])},
        {str(family): value for family, value in enumerate(vector["B"])},
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


def test_only_families_that_both_were_asked_are_compared() -> None:
    a = {"one": 0.8, "two": 1.0, "only a": 1.0}
    b = {"one": 0.5, "two": 0.5, "only b": 1.0}
    assert differences_by_family(a, b) == close([0.3, 0.5])


def test_models_that_never_differ_and_single_families_tell_nothing() -> None:
    assert compare_pair([FigureDifferences([0.0] * 40)]) == PairTest(t=0.0, p=1.0)
    assert compare_pair([FigureDifferences([1.0])]) == PairTest(t=0.0, p=1.0)
    assert compare_pair([FigureDifferences([])]) == PairTest(t=0.0, p=1.0)
    assert compare_pair([]) == PairTest(t=0.0, p=1.0)
    telling = FigureDifferences([1.0] * 40)
    assert compare_pair([telling, FigureDifferences([1.0])]) == PairTest(t=0.0, p=1.0)


@given(figure=differences, weight=st.floats(1e-100, 1))
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


def test_a_known_difference_has_no_variance_of_its_own() -> None:
    """Models that passed the same of forty prompts: one is cheaper. It is held against what four
    families that were not asked could change.
    """
    alike = FigureDifferences([0.0] * 40, 3.0)
    cheaper = compare_pair([alike], known=0.5)
    assert cheaper.t == close(0.5 / (3.0 * 2 / 40))
    assert cheaper.p == close(2 * student_t_cdf(-cheaper.t, 39))
    assert compare_pair([alike], known=-0.5).t == close(-cheaper.t)
    hardly_cheaper = compare_pair([alike], known=0.01)
    assert hardly_cheaper.p > 0.9
    moved = compare_pair([FigureDifferences([0.5, -0.5, *[0.0] * 38])], known=0.2)
    assert moved.t == close(0.2 / ((0.5 + 4 * 0.25) ** 0.5 / 40))


def test_a_known_difference_alone_needs_no_luck() -> None:
    assert compare_pair([], known=0.1).t > 0
    assert compare_pair([], known=-0.1).t < 0
    assert 0 < compare_pair([], known=0.1).p < 1e-300


def test_a_margin_is_what_may_have_other_causes() -> None:
    """A difference within it tells nothing; of a larger one the rest is tested."""
    figure = FigureDifferences([0.3, 0.1, 0.2, 0.2])
    assert compare_pair([figure], margin=0.2) == PairTest(t=0.0, p=1.0)
    root = (0.3**2 + 0.1**2 + 0.2**2 + 0.2**2) ** 0.5
    assert compare_pair([figure], margin=0.1).t == close(4 * 0.1 / root)
    mirrored = FigureDifferences([-d for d in figure.differences])
    assert compare_pair([mirrored], margin=0.1).t == close(-4 * 0.1 / root)
    assert compare_pair([], known=0.5, margin=0.5).p == 1.0


def test_what_moves_all_families_alike_is_no_matter_of_their_number() -> None:
    """A thousand families are as much in doubt as the spread: t is nearly .2 / .1."""
    few = compare_pair([FigureDifferences([0.2] * 10)], spread=0.1)
    many = compare_pair([FigureDifferences([0.2] * 1_000)], spread=0.1)
    assert few.t == close(0.2 / (0.04 / 10 + 0.01) ** 0.5)
    assert 1.99 < many.t < 2.0
    assert 0.045 < many.p < 0.047
    # The spread is known, and the fewer of the variance the families are, the more degrees of freedom.
    assert few.p == close(2 * student_t_cdf(-few.t, math.floor(9 * 3.5**2)))


def test_who_is_beaten_by_nobody_is_tied_for_best() -> None:
    """0 beats 2; 1 is between, beaten by none: 0 and 1 are tied."""
    pairs = {
        (0, 1): PairTest(t=1.0, p=0.3),
        (0, 2): PairTest(t=4.0, p=0.001),
        (1, 2): PairTest(t=1.8, p=0.07),
    }
    assert find_beaten(3, pairs) == [None, None, close(0.003)]
    turned = {(0, 1): PairTest(t=-4.0, p=0.001)}
    assert find_beaten(2, turned) == [0.001, None]


def test_pairs_are_corrected_together() -> None:
    """p = .02 tells two models apart, and not the best of three pairs; the second smallest is held
    to a milder level.
    """
    assert find_beaten(2, {(0, 1): PairTest(t=2.4, p=0.02)}) == [None, 0.02]
    pairs = {
        (0, 1): PairTest(t=2.4, p=0.02),
        (0, 2): PairTest(t=0.0, p=1.0),
        (1, 2): PairTest(t=0.0, p=1.0),
    }
    assert find_beaten(3, pairs) == [None, None, None]
    pairs[0, 2] = PairTest(t=3.5, p=0.001)
    assert find_beaten(3, pairs) == [None, close(0.04), close(0.003)]


def test_who_is_beaten_by_several_has_the_surest_of_them() -> None:
    pairs = {
        (0, 1): PairTest(t=0.1, p=0.9),
        (0, 2): PairTest(t=3.5, p=0.01),
        (1, 2): PairTest(t=3.0, p=0.001),
    }
    assert find_beaten(3, pairs) == [None, None, close(0.003)]
    pairs[0, 2] = PairTest(t=3.5, p=0.0001)
    assert find_beaten(3, pairs) == [None, None, close(0.0003)]


def test_models_that_were_not_compared_beat_nobody() -> None:
    assert find_beaten(3, {}) == [None, None, None]
    assert find_beaten(1, {}) == [None]
    assert find_beaten(0, {}) == []


def test_of_models_that_beat_each_other_in_a_circle_none_is_left_out() -> None:
    """As may be where every two of them were asked other prompts."""
    pairs = {
        (0, 1): PairTest(t=4.0, p=0.001),
        (1, 2): PairTest(t=4.0, p=0.001),
        (0, 2): PairTest(t=-4.0, p=0.001),
    }
    assert find_beaten(3, pairs) == [None, None, None]


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
    beaten = find_beaten(len(models), pairs)
    best = max(range(len(models)), key=lambda model: sum(models[model]))
    assert beaten[best] is None
