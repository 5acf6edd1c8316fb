"""Which models are best: all that nobody beats, by the same prompts.

Two models are compared by the differences of their families: sum over root sum of squares (Efron
1969) beside Student's t. It takes the prompts as a sample, so what the answers to one prompt have
in common, over repeats, drawings or models, is in it. All pairs are tested and corrected together
(Holm 1979): to compare the others with the leader alone would be to choose the test by its
result."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from clawgauge.stats.paired import ALPHA, SMALLEST_P, holm
from clawgauge.stats.proportions import student_t_cdf


class FigureDifferences(NamedTuple):
    """What model A has more than model B of one figure, by family, and what the figure weighs."""

    differences: Sequence[float]
    weight: float = 1.0


class PairTest(NamedTuple):
    """`t` is above 0 where A is ahead; `p` is two-sided."""

    t: float
    p: float


def differences_by_family(
    a: Mapping[Hashable, Sequence[float]], b: Mapping[Hashable, Sequence[float]]
) -> list[float]:
    """A − B for each family that both have values of; repeats and drawings are averaged first."""
    differences = []
    for family, values in a.items():
        others = b.get(family)
        if values and others:
            differences.append(fmean(values) - fmean(others))
    return differences


def compare_pair(figures: Sequence[FigureDifferences]) -> PairTest:
    """A against B by one figure, or by the weighed sum of several.

    The variances of the figures add up with their weights squared, and their degrees of freedom
    are Satterthwaite's (1946): of a single figure its families less one. Nothing is told where a
    figure has fewer than two families."""
    change = 0.0
    variances = []
    for figure in figures:
        n = len(figure.differences)
        if n < 2:
            return PairTest(t=0.0, p=1.0)
        squares = math.fsum(d * d for d in figure.differences)
        change += figure.weight * math.fsum(figure.differences) / n
        variances.append((figure.weight**2 * squares / n**2, n - 1))
    variance = math.fsum(value for value, _ in variances)
    if variance == 0.0:
        return PairTest(t=0.0, p=1.0)
    doubt = math.fsum(value * value / df for value, df in variances)
    # Whole to a hair, where there is one figure alone.
    freedom = math.floor(variance * variance / doubt + 1e-9)
    t = change / math.sqrt(variance)
    p = 2 * student_t_cdf(-abs(t), max(1, freedom))
    return PairTest(t=t, p=min(1.0, max(SMALLEST_P, p)))


def find_tied_for_best(
    n_models: int, pairs: Mapping[tuple[int, int], PairTest], *, alpha: float = ALPHA
) -> list[bool]:
    """For each model whether nobody beats it. `pairs` has a test for every two models by their
    numbers, A before B; of two without one neither beats the other."""
    tests = list(pairs.items())
    adjusted = holm([test.p for _, test in tests])
    is_tied = [True] * n_models
    for ((a, b), test), p in zip(tests, adjusted, strict=True):
        if p > alpha:
            continue
        beaten = b if test.t > 0 else a
        is_tied[beaten] = False
    return is_tied
