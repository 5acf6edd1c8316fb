"""Percentiles of measured values, and how far to trust them.

The intervals of a description are equal-tailed: at most 2.5% lie beyond either end, so each end is a bound in its own
right.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, TypeAlias, overload

from clawgauge.stats.proportions import binomial_cdf

Numbers: TypeAlias = "Sequence[int] | Sequence[float] | array[int] | array[float]"

_LEVEL = 0.95
_TAIL = (1.0 - _LEVEL) / 2


class CountedValues(Sequence[int]):
    """Whole numbers in ascending order, held as distinct values and how often each came: a million fit in a page."""

    def __init__(self, counts: Mapping[int, int]) -> None:
        self.values = sorted(counts)
        self._ends = list(accumulate(counts[value] for value in self.values))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.values[bisect_right(self._ends, index % len(self))]

    def total(self) -> int:
        """The exact sum."""
        begins = [0, *self._ends[:-1]]
        return sum(v * (end - begin) for v, begin, end in zip(self.values, begins, self._ends, strict=True))


class Distribution(NamedTuple):
    """A column of numbers in figures; all but `n` are None when it is empty, and an interval when n is too small."""

    n: int
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None
    min: float | None = None
    max: float | None = None
    p50_ci95: tuple[float, float] | None = None
    p95_ci95: tuple[float, float] | None = None
    p99_ci95: tuple[float, float] | None = None


class OrderInterval(NamedTuple):
    """Ranks (from 1) whose values enclose a percentile; a rank that n is too small for is None."""

    low_rank: int | None
    high_rank: int | None


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
    """p50, p95, p99 with their intervals, mean, min and max of values in any order."""
    if not values:
        return Distribution(n=0)
    ordered: Numbers = values if isinstance(values, CountedValues) else sorted(values)
    return Distribution(
        n=len(ordered),
        p50=percentile(ordered, 0.50),
        p95=percentile(ordered, 0.95),
        p99=percentile(ordered, 0.99),
        mean=_total(ordered) / len(ordered),
        min=float(ordered[0]),
        max=float(ordered[-1]),
        p50_ci95=percentile_interval(ordered, 0.50),
        p95_ci95=percentile_interval(ordered, 0.95),
        p99_ci95=percentile_interval(ordered, 0.99),
    )


def _total(ordered: Numbers) -> float:
    if isinstance(ordered, CountedValues):
        return ordered.total()
    return sum(ordered) if isinstance(ordered[0], int) else math.fsum(ordered)


@lru_cache(maxsize=256)  # the columns of a group mostly have the same n
def order_interval(n: int, q: float) -> OrderInterval:
    """The equal-tailed 95% order-statistic interval of the q-th percentile of n samples."""
    low = _first_rank(n, q, lambda p: p > _TAIL)
    high = _first_rank(n, q, lambda p: p >= 1.0 - _TAIL) + 1
    return OrderInterval(low if low >= 1 else None, high if high <= n else None)


def _first_rank(n: int, q: float, reached: Callable[[float], bool]) -> int:
    """The first rank at which the binomial distribution function satisfies `reached`.

    Searched only within eight standard deviations of the middle: outside, the function is 0 or 1 in a float.
    """
    spread = 8 * math.sqrt(n * q * (1 - q)) + 8
    first, last = max(0, math.floor(n * q - spread)), min(n, math.ceil(n * q + spread))
    return first + bisect_left(range(first, last + 1), True, key=lambda rank: reached(binomial_cdf(rank, n, q)))


def percentile_interval(ordered: Numbers, q: float) -> tuple[float, float] | None:
    """The values that enclose the q-th percentile at 95%; None where there are too few samples for both sides."""
    ranks = order_interval(len(ordered), q)
    if ranks.low_rank is None or ranks.high_rank is None:
        return None
    return float(ordered[ranks.low_rank - 1]), float(ordered[ranks.high_rank - 1])


def samples_needed(q: float) -> int:
    """How many samples until the largest one bounds the q-th percentile from above at 95%: 59 for p95."""
    return math.ceil(math.log(1.0 - _LEVEL) / math.log(q))
