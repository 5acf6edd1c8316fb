"""A level of load visited several times: a server's mood lasts longer than a visit, and is seen
only between visits.

So a visit is one observation, whatever number of calls it took (batch means: Conway 1963; Law &
Kelton 2000)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from clawgauge.stats.paired import SMALLEST_P, Shift
from clawgauge.stats.proportions import Interval, student_t_cdf, student_t_quantile

# The share of requests that must be within all SLOs.
ATTAINED = 0.95
# How often a level is visited until its range is taken as it is: once by the search, then in
# rounds.
N_ROUNDS = 5
# Visits that differ by less do so by luck.
_LEAST_SD = 0.01
_LEAST_CHANGE = math.log(1.02)


class RateOverVisits(NamedTuple):
    """Per second: the geometric mean of the visits. One visit has no interval."""

    rate: float
    interval: Interval | None
    n_visits: int


def average_visits(rates: Sequence[float]) -> RateOverVisits | None:
    """What a level comes to; None where a visit had no throughput at all."""
    if not rates or min(rates) <= 0:
        return None
    logs = [math.log(rate) for rate in rates]
    n = len(logs)
    mean = fmean(logs)
    interval = None
    if n > 1:
        half = student_t_quantile(0.975, n - 1) * math.sqrt(_variance(logs) / n)
        interval = math.exp(mean - half), math.exp(mean + half)
    return RateOverVisits(rate=math.exp(mean), interval=interval, n_visits=n)


def _variance(logs: Sequence[float]) -> float:
    mean = fmean(logs)
    variance = math.fsum((x - mean) ** 2 for x in logs) / (len(logs) - 1)
    return max(_LEAST_SD**2, variance)


class LevelRange(NamedTuple):
    """From the level that always keeps the limits to the one that does in quiet moments; 0 where
    not even the lowest does."""

    low: float
    high: float


def find_most_within(attained: Mapping[float, Sequence[float]]) -> LevelRange:
    """The most load within the limits, from the shares of calls that kept them at each visit of
    each level.

    It begins with the largest level whose visits, and those of all below, all keep them. It ends
    with the largest whose best visit does; best visits are made to fall with the load first, so
    that one lucky visit of a high level proves nothing."""
    levels = sorted(level for level, shares in attained.items() if shares)
    low = 0.0
    for level in levels:
        if min(attained[level]) < ATTAINED:
            break
        low = level
    high = low
    best = pool_to_fall([max(attained[level]) for level in levels])
    for level, share in zip(levels, best, strict=True):
        if share >= ATTAINED:
            high = max(high, level)
    return LevelRange(low=low, high=high)


def pool_to_fall(values: Sequence[float]) -> list[float]:
    """The nearest values that nowhere rise, by squares: neighbours that do are averaged until none
    does (pool adjacent violators: Ayer et al. 1955)."""
    blocks: list[list[float]] = []
    for value in values:
        blocks.append([value])
        while len(blocks) > 1 and fmean(blocks[-2]) < fmean(blocks[-1]):
            last = blocks.pop()
            blocks[-1] += last
    pooled = []
    for block in blocks:
        pooled += [fmean(block)] * len(block)
    return pooled


def compare_visits(a: Sequence[float], b: Sequence[float]) -> Shift | None:
    """B against A at one level, as a logarithm of the ratio; None of fewer than two visits a side.

    Each side has its own variance (as in Welch 1947), and the degrees of freedom are those of both
    together. A change under 2% has p = 1. The p-values of all levels and figures are to be
    corrected together, by `paired.holm`."""
    if min(len(a), len(b)) < 2 or min(*a, *b) <= 0:
        return None
    logs_a = [math.log(rate) for rate in a]
    logs_b = [math.log(rate) for rate in b]
    change = fmean(logs_b) - fmean(logs_a)
    error = math.sqrt(_variance(logs_a) / len(a) + _variance(logs_b) / len(b))
    freedom = len(a) + len(b) - 2
    half = student_t_quantile(0.975, freedom) * error
    p = 1.0
    if abs(change) > _LEAST_CHANGE:
        p = max(SMALLEST_P, 2 * student_t_cdf(-abs(change) / error, freedom))
    return Shift(estimate=change, interval=(change - half, change + half), p=p)
