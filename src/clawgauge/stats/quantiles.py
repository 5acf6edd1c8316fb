"""Percentiles of measured values, and how far to trust them.

Intervals are equal-tailed, so each end is a bound in its own right. Calls of one prompt, or of
variants of it, are alike: with these told, an interval is Woodruff's (1952), its ranks those of as
many independent calls as the share up to the percentile is worth, fewer where there are few
families (Korn & Graubard 1998)."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TypeAlias

import msgspec

from clawgauge.records import Percentiles
from clawgauge.stats.proportions import Z95, Interval, binomial_cdf, student_t_quantile

Numbers: TypeAlias = "Sequence[float] | array[int] | array[float] | CountedValues"

PERCENTILES = (0.50, 0.95, 0.99)
_TAIL = 0.025


class CountedValues:
    """Whole numbers in ascending order, held as distinct values and how often each came: a million
    fit in a page."""

    def __init__(self, counts: Mapping[int, int]) -> None:
        self.values = sorted(counts)
        self._ends = list(accumulate(counts[value] for value in self.values))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> int:
        return self.values[bisect_right(self._ends, index % len(self))]

    def total(self) -> int:
        begins = [0, *self._ends[:-1]]
        return sum(
            v * (end - begin) for v, begin, end in zip(self.values, begins, self._ends, strict=True)
        )


def percentile(ordered: Numbers, q: float) -> float | None:
    """The type-7 percentile (0 ≤ q ≤ 1) of values already in ascending order; None when there are
    none."""
    if not ordered:
        return None
    position = (len(ordered) - 1) * q
    below = math.floor(position)
    value = float(ordered[below])
    return (
        value
        if below + 1 == len(ordered)
        else value + (position - below) * (ordered[below + 1] - value)
    )


def describe(values: Numbers, families: Collection[Sequence[float]] = ()) -> Percentiles:
    """All figures of values in any order. `families` are the values, or many of them, sorted, by
    what they share."""
    if not values:
        return Percentiles(n=0)
    if isinstance(values, CountedValues):
        ordered: Numbers = values
        total: float = values.total()
    else:
        ordered = sorted(values)
        total = sum(ordered) if isinstance(ordered[0], int) else math.fsum(ordered)
    p50, p95, p99 = (percentile(ordered, q) for q in PERCENTILES)
    p50_ci95, p95_ci95, p99_ci95 = (percentile_interval(ordered, q, families) for q in PERCENTILES)
    indicative = []
    if p95_ci95 is None:
        indicative.append("p95")
    if p99_ci95 is None:
        indicative.append("p99")
    return Percentiles(
        n=len(ordered),
        p50=p50,
        p95=p95,
        p99=p99,
        mean=total / len(ordered),
        min=float(ordered[0]),
        max=float(ordered[-1]),
        p50_ci95=p50_ci95,
        p95_ci95=p95_ci95,
        p99_ci95=p99_ci95,
        indicative=indicative,
    )


@lru_cache(maxsize=256)  # the columns of a group mostly have the same n
def order_interval(n: int, q: float) -> tuple[int | None, int | None]:
    """The ranks (from 1) that enclose the q-th percentile of n samples at 95%, equal-tailed; None
    where too few."""
    low = _first_rank(n, q, lambda p: p > _TAIL)
    high = _first_rank(n, q, lambda p: p >= 1.0 - _TAIL) + 1
    return low if low >= 1 else None, high if high <= n else None


def _first_rank(n: int, q: float, reached: Callable[[float], bool]) -> int:
    """The first rank at which the binomial distribution function satisfies `reached`."""
    # Searched only within eight standard deviations of the middle: outside, the function is 0 or 1
    # in a float.
    spread = 8 * math.sqrt(n * q * (1 - q)) + 8
    first = max(0, math.floor(n * q - spread))
    last = min(n, math.ceil(n * q + spread))
    return first + bisect_left(
        range(first, last + 1), True, key=lambda rank: reached(binomial_cdf(rank, n, q))
    )


def percentile_interval(
    ordered: Numbers, q: float, families: Collection[Sequence[float]] = ()
) -> Interval | None:
    """The values that enclose the q-th percentile at 95%; None where there are too few samples for
    both sides."""
    n = len(ordered)
    worth = math.floor(independent_calls(ordered, q, families))
    low, high = order_interval(worth, q)
    if low is None or high is None:
        return None
    scale = n / worth
    low_rank = math.floor(low * scale)
    high_rank = min(n, math.ceil(high * scale))
    return float(ordered[low_rank - 1]), float(ordered[high_rank - 1])


def independent_calls(ordered: Numbers, q: float, families: Collection[Sequence[float]]) -> float:
    """How many independent calls these are worth for their q-th percentile: no more than for their
    median."""
    n = len(ordered)
    n_known = sum(map(len, families))
    n_families = len(families)
    if n_known == n_families or n_families == 1:
        # One prompt asked many times is asked about itself alone.
        return float(n)
    effect = max(
        _design_effect(percentile(ordered, at) or 0.0, families, n_known) for at in {q, 0.5}
    )
    # Of the calls that are not known by family there are as many more in each.
    worth = n / (1.0 + (effect - 1.0) * n / n_known)
    return worth * (Z95 / student_t_quantile(0.975, n_families - 1)) ** 2


def _design_effect(value: float, families: Collection[Sequence[float]], n: int) -> float:
    """By what factor families inflate the variance of the share of calls that are at most
    `value`."""
    below = [bisect_right(family, value) for family in families]
    share = sum(below) / n
    if share in (0, 1):
        return n / len(families)
    spread = math.fsum(
        (k - share * len(family)) ** 2 for k, family in zip(below, families, strict=True)
    )
    return max(1.0, len(families) / (len(families) - 1) * spread / (n * share * (1 - share)))


def mark_few(times: Percentiles) -> Percentiles:
    """The same, marked as indicative where there are fewer calls than any interval takes. Figures
    of a part of a run, and those of an earlier version, come without the marks."""
    few = [name for name, q in (("p95", 0.95), ("p99", 0.99)) if times.n < samples_needed(q)]
    marked = [name for name in ("p95", "p99") if name in few or name in times.indicative]
    return msgspec.structs.replace(times, indicative=marked)


def samples_needed(q: float) -> int:
    """How many independent samples until an interval of the q-th percentile has both its ends: 72
    for p95."""
    return math.ceil(math.log(_TAIL) / math.log(q))
