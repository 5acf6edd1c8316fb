"""Two models on the same prompts: is the difference more than luck, how large may it be, and what could have been seen?

Every interval takes its own level, so that it can be as strict as the p-value beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from statistics import NormalDist
from typing import NamedTuple

from clawgauge.stats.proportions import Interval, binomial_cdf, student_t_cdf, student_t_quantile

ALPHA = 0.05
POWER = 0.8
# More work than this (a second) is for thousands of prompts, whose sum of random signs is normal to four digits of p.
_COUNTED_BITS_MAX = 1 << 35
# The finest grid that differences are counted on: finer ones (of no two repeats alike) are rounded to it.
_GRID_MAX = 20_000
_MAX_REPEATS = 10_000
_ABOVE_ZERO = 1e-12
_NORMAL = NormalDist()


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values (1979), in the order given."""
    adjusted = [1.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """The two-sided p-value from the prompts one model passed and the other did not; 1 when they never disagree."""
    discordant = only_a + only_b
    if discordant == 0:
        return 1.0
    return min(1.0, 2.0 * binomial_cdf(min(only_a, only_b), discordant, 0.5))


def sign_flip_p(differences: Sequence[float]) -> float:
    """The two-sided permutation p-value of per-prompt differences: how often random signs reach as large a sum.

    Exact: differences of rates are whole multiples of one fraction, and the sums of all sign patterns are counted as
    whole numbers. Only of thousands that are not zero is the sum taken as normal.
    """
    moving = [Fraction(abs(d)).limit_denominator(_MAX_REPEATS) for d in differences if d]
    signed = sum(Fraction(d).limit_denominator(_MAX_REPEATS) for d in differences if d)
    if not signed:
        return 1.0
    scale = Fraction(math.lcm(*(d.denominator for d in moving)))
    scale = min(scale, Fraction(_GRID_MAX) / sum(moving))
    steps = [round(d * scale) for d in moving]
    # A pattern's sum is the total less twice what turns negative: as large as the one seen, or its mirror image.
    most = (sum(steps) - abs(round(signed * scale))) // 2
    if len(steps) ** 2 * (most + 1) > _COUNTED_BITS_MAX:
        # The sums lie twice the common step apart: half of that is the correction for continuity.
        reached = sum(steps) - 2 * most - math.gcd(*steps)
        return math.erfc(reached / math.sqrt(2 * sum(step * step for step in steps)))
    # Digit s of this number, in a base that no count reaches, counts the patterns in which s turns negative.
    width = len(steps) + 1
    mask = (1 << width * (most + 1)) - 1
    counts = 1
    for step in steps:
        counts += (counts << width * step) & mask
    hits = 2 * (counts % ((1 << width) - 1))
    return float(min(Fraction(1), Fraction(hits, 1 << len(steps))))


class Moved(NamedTuple):
    """The differences of the prompts of one family, added up: they are alike and stand or fall together."""

    total: float
    n_prompts: int


def paired_rate_interval(moved: Sequence[Moved], *, single: bool, alpha: float = ALPHA) -> Interval | None:
    """The interval of a mean difference of paired rates; None without a prompt.

    Where every prompt was asked once (`single`) and stands alone this is Bonett & Price (2012): the Wald interval after
    adding one prompt that only A passed and one that only B passed. The same two are added to rates under repeats, as
    large as the largest move seen, and the spread is that of families; then the quantile is Student's.
    """
    n_families = len(moved)
    if not n_families:
        return None
    size = sum(one.n_prompts for one in moved) / n_families
    step = size * (max(abs(one.total / one.n_prompts) for one in moved) or 1.0)
    padded = [(one.total, float(one.n_prompts)) for one in moved] + [(step, size), (-step, size)]
    n = math.fsum(prompts for _, prompts in padded)
    mean = math.fsum(total for total, _ in padded) / n
    error = math.sqrt(math.fsum((total - mean * prompts) ** 2 for total, prompts in padded)) / n
    plain = single and size == 1
    quantile = _NORMAL.inv_cdf(1 - alpha / 2) if plain else student_t_quantile(1 - alpha / 2, n_families + 1)
    return max(-1.0, mean - quantile * error), min(1.0, mean + quantile * error)


def smallest_rate_change(moved: Sequence[Moved], *, alpha: float = ALPHA) -> float | None:
    """The smallest change of a paired rate that its test finds in 80% of cases; None where it could find none.

    Connor (1987), from the prompts that move both ways anyway: a change δ adds to their share in steps of the largest
    move seen, which is a whole prompt where each was asked once or none moved.
    """
    n = len(moved)
    if not n:
        return None
    rates = [one.total / one.n_prompts for one in moved]
    up, down = math.fsum(d * d for d in rates if d > 0), math.fsum(d * d for d in rates if d < 0)
    background = 2 * min(up, down) / n
    step = max(map(abs, rates)) or 1.0
    z_alpha, z_power = _NORMAL.inv_cdf(1 - alpha / 2), _NORMAL.inv_cdf(POWER)

    def is_seen(change: float) -> bool:
        moving = background + change * step
        wanted = z_alpha * math.sqrt(moving) + z_power * math.sqrt(max(0.0, moving - change * change))
        # Below this many moves in one direction the test has no p-value under the level, whatever they are.
        return change * math.sqrt(n) >= wanted and n * change >= step * math.log2(2 / alpha)

    return _smallest(is_seen, step)


def median_interval(values: Sequence[float], *, alpha: float = ALPHA) -> Interval | None:
    """The order statistics (of any order given) that the sign test at this level tells from no median in between.

    None where there are too few for both ends.
    """
    n = len(values)
    rank = 0
    while rank < n and 2 * binomial_cdf(rank, n, 0.5) < alpha:
        rank += 1
    ordered = sorted(values)
    return (ordered[rank - 1], ordered[n - rank]) if rank else None


def agree(interval: Interval, p: float, difference: float, *, alpha: float = ALPHA) -> Interval:
    """The interval made to agree with an exact test of no change at the same level: it holds 0 just where p does.

    What the test cannot refuse stays in, and what it refuses goes out with all that lies beyond; at 0 the interval
    then errs as seldom as the test.
    """
    low, high = interval
    if p >= alpha:
        return min(low, 0.0), max(high, 0.0)
    return (max(low, _ABOVE_ZERO), high) if difference > 0 else (low, min(high, -_ABOVE_ZERO))


def smallest_ratio_change(ratio_interval: Interval | None, *, alpha: float = ALPHA) -> float | None:
    """The smallest share by which a ratio could have moved and been found in 80% of cases, from its interval."""
    if ratio_interval is None or ratio_interval[0] <= 0:
        return None
    z_alpha, z_power = _NORMAL.inv_cdf(1 - alpha / 2), _NORMAL.inv_cdf(POWER)
    error = math.log(ratio_interval[1] / ratio_interval[0]) / (2 * z_alpha)
    return math.expm1((z_alpha + z_power) * error)


def _smallest(is_seen: Callable[[float], bool], largest: float) -> float | None:
    if not is_seen(largest):
        return None
    low, high = 0.0, largest
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if is_seen(middle) else (middle, high)
    return high


class BetweenRuns(NamedTuple):
    """The mean difference of two groups of runs, its interval and p-value, and the smallest that could be seen."""

    difference: float
    interval: Interval
    p: float
    smallest: float


def compare_run_means(a: Sequence[float], b: Sequence[float], *, alpha: float = ALPHA) -> BetweenRuns:
    """B − A of one figure per run, three runs a side or more: what differs between runs of one side is the measure.

    Student's two-sample test on the runs. Where there are runs enough for it to reach the level, the share of the
    arrangements of the runs that differ as much has to be as small too (Fisher's permutation); with three a side the
    most extreme of the twenty arrangements is 1 in 10.
    """
    difference = math.fsum(b) / len(b) - math.fsum(a) / len(a)
    df = len(a) + len(b) - 2
    spread = math.fsum((x - math.fsum(side) / len(side)) ** 2 for side in (a, b) for x in side) / df
    error = math.sqrt(spread * (1 / len(a) + 1 / len(b))) or 1e-12
    p = max(2 * (1 - student_t_cdf(abs(difference) / error, df)), _arrangement_p(a, b, alpha))
    half = student_t_quantile(1 - alpha / 2, df) * error
    smallest = (student_t_quantile(1 - alpha / 2, df) + student_t_quantile(POWER, df)) * error
    return BetweenRuns(difference, (difference - half, difference + half), p, smallest)


def _arrangement_p(a: Sequence[float], b: Sequence[float], alpha: float) -> float:
    """The share of the ways to deal the runs to two sides that differ as much; 0 where too few ways can tell."""
    values = [*a, *b]
    n_ways = math.comb(len(values), len(a))
    if not 2 / alpha <= n_ways <= _GRID_MAX:
        return 0.0
    total = math.fsum(values)

    def gap(side: Sequence[float]) -> float:
        own = math.fsum(side)
        return abs((total - own) / len(b) - own / len(a))

    seen = gap(a) * (1 - 1e-12)
    return sum(gap(side) >= seen for side in combinations(values, len(a))) / n_ways
