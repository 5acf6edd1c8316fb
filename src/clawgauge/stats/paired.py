"""Two models on the same prompts: is the difference more than luck, how large may it be, what could
have been seen?"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, combinations, combinations_with_replacement, groupby
from statistics import NormalDist
from statistics import median as median
from typing import NamedTuple

from clawgauge.stats.proportions import (
    Interval,
    binomial_cdf,
    halve,
    student_t_cdf,
    student_t_quantile,
)

ALPHA = 0.05
POWER = 0.8
# In points of a rate, as a share of a time or of tokens: what is noticed in use.
NOTICEABLE_CHANGE = 0.10
# The largest change that may go unseen where "no change seen" is said.
SMALL_ENOUGH_TO_SEE = 0.25
# No outcome is impossible under luck alone, so no p-value is 0. Where more than a thousand prompts
# all moved the same way the exact one is smaller than a float can hold: it is given as this bound.
SMALLEST_P = sys.float_info.min
# More work than this (a quarter of a second) is for hundreds of ranks or thousands of prompts:
# their sum of random signs is normal to four digits of p.
_COUNTED_BITS_MAX = 1 << 32
# Repeats of any number up to ten have a common denominator; what has none is rounded to so many
# steps in all.
_MAX_DENOMINATOR = 2_520
_GRID_STEPS = 20_000
_ARRANGEMENTS_MAX = 20_000
# Fractions in floats are off by rounding; they are ties all the same.
_TIE_TOLERANCE = 1e-9
_ABOVE_ZERO = 1e-12
_RANKED_MAX = 1_000
_COUNTED_RANKS_MAX = 60
# A row of runs: the evidence of a change that within 50 runs without one comes up in at most 5% of
# all rows.
_ALARM = 50 / 0.05
# Prior variances of the change, in those of a run: some standard deviations, or many.
_VARIANCES = (4.0, 30.0)
_MAX_LOG = 50.0
_z = NormalDist().inv_cdf


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values (1979), in the order given."""
    adjusted = [1.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def holm_level(p: float, p_holm: float, n_tests: int) -> float:
    """The level of the interval that leaves out 0 just where the corrected p-value is below 5%:
    that of the test's own step, between 5% / `n_tests` and 5%."""
    share = 1 / n_tests
    if 0 < p_holm < 1:
        share = min(1.0, max(p / p_holm, share))
    return ALPHA * share


def _clamp_p(p: float) -> float:
    return min(1.0, max(SMALLEST_P, p))


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """The two-sided p-value from the prompts one model passed and the other did not; 1 when they
    never disagree."""
    return _clamp_p(2.0 * binomial_cdf(min(only_a, only_b), only_a + only_b, 0.5))


def bets_p(only_a: int, only_b: int) -> float:
    """The same at any stop: one over what a bet against luck has made of its stake, whenever the
    asking ended and whyever (Ville 1939). The bet is on every share of the prompts that one side
    alone passed, each as likely before."""
    n = only_a + only_b
    log_won = n * math.log(2) + math.lgamma(only_a + 1) + math.lgamma(only_b + 1)
    log_won -= math.lgamma(n + 2)
    return _clamp_p(math.exp(min(_MAX_LOG, -log_won)))


def sign_flip_p(differences: Sequence[float]) -> float:
    """The two-sided permutation p-value of per-prompt differences, exact but of thousands."""
    moving = [abs(d) for d in differences if abs(d) > _TIE_TOLERANCE]
    signed = abs(math.fsum(differences))
    if signed < _TIE_TOLERANCE or not moving:
        return 1.0

    def is_common(q: int) -> bool:
        return all(abs(d * q - round(d * q)) < _TIE_TOLERANCE * max(1.0, d * q) for d in moving)

    # On the grid the mean difference is ten steps or more, so that not all of them are rounded to
    # nothing.
    grid_scale = max(_GRID_STEPS, 10 * len(moving)) / math.fsum(moving)
    scale = next(filter(is_common, range(1, _MAX_DENOMINATOR + 1)), grid_scale)
    whole = [round(d * scale) for d in moving]
    step = math.gcd(*whole)
    steps = [difference // step for difference in whole]
    # A pattern's sum is the total less twice what turns negative: as large as the one seen, or its
    # mirror image.
    most = max(0, sum(steps) - round(signed * scale / step)) // 2
    if len(steps) ** 2 * (most + 1) > _COUNTED_BITS_MAX:
        # The sums lie two steps apart: half of that is the correction for continuity.
        reached = sum(steps) - 2 * most - 1
        variance = sum(n_steps * n_steps for n_steps in steps)
        return _clamp_p(math.erfc(reached / math.sqrt(2 * variance)))
    # Digit s of this number, in a base that no count reaches, counts the patterns in which s turns
    # negative.
    width = len(steps) + 1
    mask = (1 << width * (most + 1)) - 1
    counts = 1
    for n_steps in steps:
        counts += (counts << width * n_steps) & mask
    hits = 2 * (counts % ((1 << width) - 1))
    return _clamp_p(hits / (1 << len(steps)))


def above_zero_p(differences: Sequence[float]) -> float:
    """The one-sided p-value of a mean above zero: sum over root sum of squares (Efron 1969) beside
    Student's t."""
    norm = math.sqrt(math.fsum(d * d for d in differences))
    if not norm or len(differences) < 2:
        return 1.0
    return _clamp_p(student_t_cdf(-math.fsum(differences) / norm, len(differences) - 1))


class Moved(NamedTuple):
    """The differences of the prompts of one family, added up: they are alike and stand or fall
    together."""

    total: float
    n_prompts: int


def paired_rate_interval(
    moved: Sequence[Moved], *, single: bool, alpha: float = ALPHA
) -> Interval | None:
    """The interval of a mean difference of paired rates; None without a prompt. Where every prompt
    was asked once (`single`) and stands alone this is Bonett & Price (2012): Wald's after adding
    one prompt that only A passed and one that only B did. Under repeats the two are as large as the
    largest move seen, the spread is that of families, and the quantile Student's."""
    n_families = len(moved)
    if not n_families:
        return None
    size = sum(family.n_prompts for family in moved) / n_families
    largest_move = max(abs(family.total / family.n_prompts) for family in moved)
    step = size * (largest_move or 1.0)
    padded = [(family.total, float(family.n_prompts)) for family in moved]
    padded += [(step, size), (-step, size)]
    n = math.fsum(prompts for _, prompts in padded)
    mean = math.fsum(total for total, _ in padded) / n
    error = math.sqrt(math.fsum((total - mean * prompts) ** 2 for total, prompts in padded)) / n
    if single and size == 1:
        quantile = _z(1 - alpha / 2)
    else:
        quantile = student_t_quantile(1 - alpha / 2, n_families + 1)
    return max(-1.0, mean - quantile * error), min(1.0, mean + quantile * error)


def smallest_rate_change(moved: Sequence[Moved], *, alpha: float = ALPHA) -> float | None:
    """The smallest change of a paired rate that its test finds in 80% of cases; None where it could
    find none. Connor (1987), from the prompts that move both ways anyway: a change δ adds to their
    share in steps of the largest move seen, which is a whole prompt where each was asked once or
    none moved."""
    n = len(moved)
    if not n:
        return None
    rates = [family.total / family.n_prompts for family in moved]
    up = math.fsum(rate * rate for rate in rates if rate > 0)
    down = math.fsum(rate * rate for rate in rates if rate < 0)
    background = 2 * min(up, down) / n
    step = max(map(abs, rates)) or 1.0
    z_alpha = _z(1 - alpha / 2)
    z_power = _z(POWER)

    def is_seen(change: float) -> bool:
        moving = background + change * step
        needed = z_alpha * math.sqrt(moving)
        needed += z_power * math.sqrt(max(0.0, moving - change * change))
        # Below this many moves in one direction the test has no p-value under the level, whatever
        # they are.
        return change * math.sqrt(n) >= needed and n * change >= step * math.log2(2 / alpha)

    return halve(0.0, step, lambda change: not is_seen(change), 40)[1] if is_seen(step) else None


def median_interval(values: Sequence[float], *, alpha: float = ALPHA) -> Interval | None:
    """The order statistics between which the sign test at this level places the median; None where
    too few for it."""
    n = len(values)
    rank = bisect_left(range(n), True, key=lambda below: 2 * binomial_cdf(below, n, 0.5) >= alpha)
    if not rank:
        return None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[n - rank]


class Shift(NamedTuple):
    """How far values lie from 0: an estimate, an interval (None where there are too few) and a
    p-value."""

    estimate: float
    interval: Interval | None
    p: float
    smallest: float | None = None


def signed_rank(values: Sequence[float], *, alpha: float = ALPHA) -> Shift:
    """Wilcoxon's signed ranks (1945) of one value or more, exact with ties; estimate and interval
    are Hodges and Lehmann's (1963), from the means of all pairs. Of more than a thousand values the
    signs alone are enough."""
    if len(values) > _RANKED_MAX:
        p = mcnemar_exact(sum(x < 0 for x in values), sum(x > 0 for x in values))
        return Shift(median(values), median_interval(values, alpha=alpha), p)
    moving = sorted((x for x in values if x), key=abs)
    ranks: list[float] = []
    for _, tied in groupby(moving, key=abs):
        signs = [math.copysign(1.0, x) for x in tied]
        ranks += [sign * (len(ranks) + (len(signs) + 1) / 2) for sign in signs]
    means = sorted((x + y) / 2 for x, y in combinations_with_replacement(values, 2))
    cut = _signed_rank_cut(len(values), alpha)
    return Shift(median(means), (means[cut - 1], means[-cut]) if cut else None, sign_flip_p(ranks))


@lru_cache(maxsize=64)
def _signed_rank_cut(n: int, alpha: float) -> int:
    """How many of the means of pairs lie outside the interval on each side."""
    if n > _COUNTED_RANKS_MAX:
        spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return math.floor(n * (n + 1) / 4 - _z(1 - alpha / 2) * spread)
    # How many sets of the ranks 1 to n have each sum.
    sets = [1]
    for rank in range(1, n + 1):
        sets = [
            without + held
            for without, held in zip(sets + [0] * rank, [0] * rank + sets, strict=True)
        ]
    return bisect_right(list(accumulate(sets)), alpha / 2 * 2**n)


def agree(interval: Interval, p: float, difference: float, *, alpha: float = ALPHA) -> Interval:
    """The interval made to agree with an exact test of no change at the same level: it holds 0 just
    where p does."""
    low, high = interval
    if p >= alpha:
        return min(low, 0.0), max(high, 0.0)
    return (max(low, _ABOVE_ZERO), high) if difference > 0 else (low, min(high, -_ABOVE_ZERO))


def smallest_ratio_change(ratio_interval: Interval | None, *, alpha: float = ALPHA) -> float | None:
    """The smallest share by which a ratio could have moved and been found in 80% of cases; None
    without a width."""
    if ratio_interval is None or not 0 < ratio_interval[0] < ratio_interval[1]:
        return None
    z_alpha = _z(1 - alpha / 2)
    z_power = _z(POWER)
    error = math.log(ratio_interval[1] / ratio_interval[0]) / (2 * z_alpha)
    return math.expm1((z_alpha + z_power) * error)


def compare_run_means(a: Sequence[float], b: Sequence[float], *, alpha: float = ALPHA) -> Shift:
    """B − A of one figure per run, three a side or more: Student's test, and Fisher's permutation
    where it can."""
    difference = math.fsum(b) / len(b) - math.fsum(a) / len(a)
    df = len(a) + len(b) - 2
    spread = math.fsum((x - math.fsum(side) / len(side)) ** 2 for side in (a, b) for x in side) / df
    error = math.sqrt(spread * (1 / len(a) + 1 / len(b))) or 1e-12
    p = _clamp_p(max(2 * student_t_cdf(-abs(difference) / error, df), _arrangement_p(a, b, alpha)))
    half = student_t_quantile(1 - alpha / 2, df) * error
    smallest = half + student_t_quantile(POWER, df) * error
    return Shift(difference, (difference - half, difference + half), p, smallest)


def _arrangement_p(a: Sequence[float], b: Sequence[float], alpha: float) -> float:
    """The share of the ways to deal the runs to two sides that differ as much; 0 where too few ways
    can tell."""
    values = [*a, *b]
    n_ways = math.comb(len(values), len(a))
    if not 2 / alpha <= n_ways <= _ARRANGEMENTS_MAX:
        return 0.0
    total = math.fsum(values)

    def gap(side: Sequence[float]) -> float:
        sum_of_side = math.fsum(side)
        return abs((total - sum_of_side) / len(b) - sum_of_side / len(a))

    # The last bits of a sum depend on its order.
    gap_of_runs = gap(a) * (1 - 1e-12)
    n_as_large = sum(gap(side) >= gap_of_runs for side in combinations(values, len(a)))
    return n_as_large / n_ways


def find_change(values: Sequence[float], usual_sd: float, n_usual: int = 4) -> int | None:
    """The index of the first value after the latest change of level, asked after every run; None
    where none is seen. An e-detector (Shin, Ramdas & Rinaldo 2022): for every run at which the
    level may have changed, the evidence that it did, all added up. Were there no change, that sum
    would be t after t runs on average, so it reaches 1,000 within 50 runs in at most 5% of all
    rows. The evidence is a Bayes factor of two means (Gönen et al. 2005), its spread that between
    the runs. `usual_sd`, what values commonly differ by, counts as `n_usual` runs would: for the
    first few."""
    begin = 0
    latest_change = None
    for end in range(2, len(values) + 1):
        evidence = _evidence(values[begin:end], usual_sd, n_usual)
        if evidence and math.fsum(evidence) >= _ALARM:
            begin += 1 + evidence.index(max(evidence))
            latest_change = begin
    return latest_change


def _evidence(values: Sequence[float], usual_sd: float, n_usual: int) -> list[float]:
    """The Bayes factor of a change after the first value, after the second, and so on but the
    last."""
    n = len(values)
    sums = list(accumulate(values))
    squares = list(accumulate(value * value for value in values))
    factors = []
    for n_before in range(1, n):
        n_after = n - n_before
        before = sums[n_before - 1]
        after = sums[-1] - before
        within = squares[-1] - before * before / n_before - after * after / n_after
        n_effective = n_before * n_after / n
        freedom = n - 2 + n_usual
        variance = (max(0.0, within) + n_usual * usual_sd**2) / freedom
        change = after / n_after - before / n_before
        t_squared = change**2 * n_effective / variance
        by_prior = [_factor(t_squared, n_effective, freedom, prior) for prior in _VARIANCES]
        factors.append(math.fsum(by_prior) / len(_VARIANCES))
    return factors


def _factor(t_squared: float, n_effective: float, freedom: int, prior_variance: float) -> float:
    wider = 1.0 + n_effective * prior_variance
    gain = math.log1p(t_squared / freedom) - math.log1p(t_squared / (freedom * wider))
    return math.exp(min(_MAX_LOG, (freedom + 1) / 2 * gain - math.log(wider) / 2))
