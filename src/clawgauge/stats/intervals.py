"""Intervals around a proportion, and around the difference of two.

Owns: Wilson's score interval, for whole and for effective (fractional) counts, which reports print; Clopper and
Pearson's, which never covers too little, and Jeffreys', for comparison with other reports; Newcombe's, made of two of
Wilson's. Refuses: the normal approximation, which claims certainty from three passes of three.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from clawgauge.stats.distributions import beta_quantile

Interval: TypeAlias = tuple[float, float]

Z95 = 1.959963984540054
"""The two-sided 95% point of the standard normal distribution."""


def wilson_interval(k: float, n: float, z: float = Z95) -> Interval | None:
    """The score interval of k passes in n trials; None without trials. Exactly 0 at k = 0 and exactly 1 at k = n."""
    if n <= 0:
        return None
    rate = k / n
    centre = rate + z * z / (2 * n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At the ends the two terms cancel only in real numbers; in floats a stray 1e-17 would be printed.
    low = 0.0 if k <= 0 else (centre - half) / scale
    high = 1.0 if k >= n else (centre + half) / scale
    return low, high


def clopper_interval(k: float, n: float, level: float = 0.95) -> Interval | None:
    """The exact interval, at least `level` whatever the true rate; None without trials."""
    if n <= 0:
        return None
    tail = (1 - level) / 2
    low = 0.0 if k <= 0 else beta_quantile(tail, k, n - k + 1)
    high = 1.0 if k >= n else beta_quantile(1 - tail, k + 1, n - k)
    return low, high


def jeffreys_interval(k: float, n: float, level: float = 0.95) -> Interval | None:
    """The equal-tailed posterior interval under Jeffreys' prior; None without trials."""
    if n <= 0:
        return None
    tail = (1 - level) / 2
    return beta_quantile(tail, k + 0.5, n - k + 0.5), beta_quantile(1 - tail, k + 0.5, n - k + 0.5)


def newcombe_interval(k_a: int, n_a: int, k_b: int, n_b: int, z: float = Z95) -> Interval | None:
    """The interval of rate A − rate B for independent groups (Newcombe's hybrid score); None if either is empty."""
    wilson_a, wilson_b = wilson_interval(k_a, n_a, z), wilson_interval(k_b, n_b, z)
    if wilson_a is None or wilson_b is None:
        return None
    rate_a, rate_b = k_a / n_a, k_b / n_b
    difference = rate_a - rate_b
    below = math.hypot(rate_a - wilson_a[0], wilson_b[1] - rate_b)
    above = math.hypot(wilson_a[1] - rate_a, rate_b - wilson_b[0])
    return difference - below, difference + above
