"""Percentiles of measured values, and how far to trust them.

Owns: type-7 percentiles (the ones spreadsheets and numpy give), a seven-figure description of a column of numbers, and
distribution-free intervals by order statistics. Refuses: estimating from a sketch; every value is kept, compactly, by
the caller.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from clawgauge.stats.distributions import binomial_cdf

Numbers: TypeAlias = "Sequence[int] | Sequence[float] | array[int] | array[float]"


class Distribution(NamedTuple):
    """A column of numbers in seven figures; all but `n` are None when it is empty."""

    n: int
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None
    min: float | None = None
    max: float | None = None


class OrderInterval(NamedTuple):
    """Ranks (from 1) whose values enclose a percentile; a rank that n is too small for is None, and so is coverage."""

    low_rank: int | None
    high_rank: int | None
    coverage: float | None


def percentile(ordered: Numbers, q: float) -> float | None:
    """The type-7 percentile (0 ≤ q ≤ 1) of values already in ascending order; None when there are none."""
    if not ordered:
        return None
    position = (len(ordered) - 1) * q
    below = math.floor(position)
    value = float(ordered[below])
    if below + 1 == len(ordered):
        return value
    return value + (position - below) * (ordered[below + 1] - value)


def describe(values: Numbers) -> Distribution:
    """p50, p95, p99, mean, min and max of values in any order."""
    if not values:
        return Distribution(n=0)
    ordered = sorted(values)
    total = sum(ordered) if isinstance(ordered[0], int) else math.fsum(ordered)
    return Distribution(
        n=len(ordered),
        p50=percentile(ordered, 0.50),
        p95=percentile(ordered, 0.95),
        p99=percentile(ordered, 0.99),
        mean=total / len(ordered),
        min=float(ordered[0]),
        max=float(ordered[-1]),
    )


def order_interval(n: int, q: float, level: float = 0.95) -> OrderInterval:
    """The equal-tailed order-statistic interval of the q-th percentile of n samples."""
    tail = (1.0 - level) / 2

    def below(rank: int) -> float:
        return binomial_cdf(rank, n, q)

    low = bisect_right(range(n + 1), tail, key=below)
    high = bisect_left(range(n + 1), 1.0 - tail, key=below) + 1
    low_rank = low if low >= 1 else None
    high_rank = high if high <= n else None
    if low_rank is None or high_rank is None:
        return OrderInterval(low_rank, high_rank, None)
    return OrderInterval(low_rank, high_rank, below(high - 1) - below(low - 1))


def percentile_interval(ordered: Numbers, q: float, level: float = 0.95) -> tuple[float, float] | None:
    """The values that enclose the q-th percentile at `level`; None where there are too few samples for both sides."""
    ranks = order_interval(len(ordered), q, level)
    if ranks.low_rank is None or ranks.high_rank is None:
        return None
    return float(ordered[ranks.low_rank - 1]), float(ordered[ranks.high_rank - 1])


def samples_needed(q: float, level: float = 0.95) -> int:
    """How many samples until the largest one bounds the q-th percentile from above at `level`: 59 for p95."""
    return math.ceil(math.log(1.0 - level) / math.log(q))
