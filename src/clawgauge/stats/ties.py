"""Which models are best: all that nobody beats, by the same prompts.

Two models are compared by the differences of their families: sum over root sum of squares (Efron
1969) beside Student's t. It takes the prompts as a sample, so what the answers to one prompt have
in common, over repeats, drawings or models, is in it. All pairs are tested and corrected together
(Holm 1979): to compare the others with the leader alone would be to choose the test by its
result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clawgauge.stats.paired import ALPHA, SMALLEST_P, bets_p, holm
from clawgauge.stats.proportions import student_t_cdf

# Of a figure beside a known difference, so many families count as moved that were not seen to move.
_UNSEEN_MOVES = 4
# With so many degrees of freedom Student's distribution is the normal one.
_MOST_FREEDOM = 1e6


class FigureDifferences(NamedTuple):
    """What model A has more than model B of one figure, by family, and what the figure weighs."""

    differences: Sequence[float]
    weight: float = 1.0


class PairTest(NamedTuple):
    """`t` is above 0 where A is ahead; `p` is two-sided."""

    t: float
    p: float


def differences_by_family(a: Mapping[str, float], b: Mapping[str, float]) -> list[float]:
    """A − B for each family that both have a value of."""
    differences = []
    for family, value in a.items():
        other = b.get(family)
        if other is not None:
            differences.append(value - other)
    return differences


def compare_pair(
    figures: Sequence[FigureDifferences],
    *,
    known: float = 0.0,
    margin: float = 0.0,
    spread: float = 0.0,
) -> PairTest:
    """A against B by one figure, or by the weighed sum of several.

    The variances of the figures add up with their weights squared, and their degrees of freedom
    are Satterthwaite's (1946): of a single figure its families less one. Nothing is told where a
    figure has fewer than two families.

    - `known` is what A has more than B, weighed, of figures that are the same for every prompt, as
      a price is: it has no variance.
    - `margin` is how much of the difference may be something else: whether it is larger is tested.
    - `spread` is the standard deviation of what moves all families of a model alike."""
    change = known
    variances = []
    for figure in figures:
        n = len(figure.differences)
        if n < 2:
            return PairTest(t=0.0, p=1.0)
        squares = math.fsum(d * d for d in figure.differences)
        if known:
            squares += _unseen_squares(figure.differences)
        change += figure.weight * math.fsum(figure.differences) / n
        variances.append((figure.weight**2 * squares / n**2, n - 1))
    if abs(change) <= margin:
        return PairTest(t=0.0, p=1.0)
    change -= math.copysign(margin, change)
    variance = math.fsum(value for value, _ in variances)
    if variance == 0.0:
        return PairTest(t=math.copysign(math.inf, change), p=SMALLEST_P)
    doubt = math.fsum((value / variance) ** 2 / df for value, df in variances)
    widened = (variance + spread * spread) / variance
    # Whole to a hair, where there is one figure alone.
    freedom = math.floor(min(widened * widened / doubt, _MOST_FREEDOM) + 1e-9)
    t = change / math.sqrt(variance * widened)
    p = 2 * student_t_cdf(-abs(t), max(1, freedom))
    return PairTest(t=t, p=min(1.0, max(SMALLEST_P, p)))


def _unseen_squares(differences: Sequence[float]) -> float:
    """What families that were not asked may add to the squares: two moves to each side, as large
    as the largest that was seen.

    A known difference is held against how much the figures beside it may differ by, and models
    that never differed in forty families may do so in the next."""
    largest = max(abs(d) for d in differences) or 1.0
    return _UNSEEN_MOVES * largest**2


def bet_on_pair(only_a: int, only_b: int) -> PairTest:
    """A against B by how many families only one of them passed: it holds whenever one looks."""
    return PairTest(t=float(only_a - only_b), p=bets_p(only_a, only_b))


def find_beaten(
    n_models: int, pairs: Mapping[tuple[int, int], PairTest], *, alpha: float = ALPHA
) -> list[float | None]:
    """For each model the smallest corrected p-value by which another is ahead of it. Who has none
    is beaten by nobody, and tied for best.

    `pairs` has a test for every two models by their numbers, A before B; of two without one neither
    beats the other. Where each is beaten by another one, as may be where every two were asked other
    prompts, nobody is worse than all, and all are tied."""
    tests = list(pairs.items())
    adjusted = holm([test.p for _, test in tests])
    beaten_by: list[float | None] = [None] * n_models
    for ((a, b), test), p in zip(tests, adjusted, strict=True):
        if p > alpha:
            continue
        beaten = b if test.t > 0 else a
        before = beaten_by[beaten]
        beaten_by[beaten] = p if before is None else min(p, before)
    if None not in beaten_by:
        return [None] * n_models
    return beaten_by
