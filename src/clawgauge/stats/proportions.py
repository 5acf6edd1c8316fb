"""Proportions: binomial, beta and t distributions, intervals around a rate, and chances under
repeats."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

Interval: TypeAlias = tuple[float, float]

Z95 = 1.959963984540054
"""The two-sided 95% point of the standard normal distribution."""

# Beyond this the term-by-term sum, exact but slow, gives way to the incomplete beta it is equal to.
_TERMWISE_MAX_N = 200
_TINY = 1e-300
_EPSILON = 1e-16
_MAX_ITERATIONS = 100_000


def halve(
    low: float, high: float, is_low: Callable[[float], bool], times: int | None = None
) -> Interval:
    """Low and high after so many halvings about the value at which `is_low` ends, or all that
    floats allow."""
    middle = (low + high) / 2
    while times != 0 and middle not in (low, high):
        if is_low(middle):
            low = middle
        else:
            high = middle
        middle = (low + high) / 2
        if times is not None:
            times -= 1
    return low, high


def binomial_cdf(k: int, n: int, p: float) -> float:
    """P(Bin(n, p) ≤ k)."""
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    if n > _TERMWISE_MAX_N:
        return regularized_beta(n - k, k + 1, 1.0 - p)
    q = 1.0 - p
    if 2 * k > n:  # fewer terms on the other side, and a small tail keeps its relative accuracy
        return 1.0 - math.fsum(math.comb(n, i) * p**i * q ** (n - i) for i in range(k + 1, n + 1))
    return math.fsum(math.comb(n, i) * p**i * q ** (n - i) for i in range(k + 1))


def regularized_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), the distribution function of Beta(a, b) at x, for a, b > 0."""
    if not 0.0 < x < 1.0:
        return 0.0 if x <= 0.0 else 1.0
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # The continued fraction converges fast only left of the mean; right of it, use the mirrored
    # one.
    if x < (a + 1.0) / (a + b + 2.0):
        return math.exp(log_front) * _beta_fraction(a, b, x) / a
    return 1.0 - math.exp(log_front) * _beta_fraction(b, a, 1.0 - x) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta, by Lentz's method."""
    c = 1.0
    d = 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _MAX_ITERATIONS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        step = 1.0
        for numerator in (even, odd):
            d = 1.0 / _away_from_zero(1.0 + numerator * d)
            c = _away_from_zero(1.0 + numerator / c)
            step = c * d
            value *= step
        if abs(step - 1.0) <= _EPSILON:
            return value
    raise ArithmeticError(f"the incomplete beta did not converge for a={a}, b={b}, x={x}")


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def student_t_cdf(t: float, df: int) -> float:
    """P(T ≤ t) for Student's t with `df` degrees of freedom."""
    tail = 0.5 * regularized_beta(df / 2, 0.5, df / (df + t * t))
    return 1.0 - tail if t > 0 else tail


@lru_cache(maxsize=64)
def student_t_quantile(p: float, df: int) -> float:
    """The t with P(T ≤ t) = p, for 0.5 ≤ p < 1, by bisection to the last bit."""
    high = 1.0
    while student_t_cdf(high, df) < p:
        high *= 2.0
    return sum(halve(0.0, high, lambda t: student_t_cdf(t, df) < p)) / 2


def wilson_interval(k: float, n: float, z: float = Z95) -> Interval | None:
    """The score interval of k passes in n trials; None without trials. Exactly 0 at k = 0 and
    exactly 1 at k = n. `z` is the point of the normal distribution for its level."""
    if n <= 0:
        return None
    rate = k / n
    centre = rate + z * z / (2 * n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At the ends the two terms cancel only in real numbers; in floats a stray 1e-17 would be
    # printed.
    low = 0.0 if k <= 0 else (centre - half) / scale
    high = 1.0 if k >= n else (centre + half) / scale
    return low, high


def lower_end(rate: float | None, n: float) -> float:
    """What is shown at least by a rate of n trials; 0 where it does not exist."""
    bounds = None if rate is None else wilson_interval(rate * n, n)
    return bounds[0] if bounds else 0.0


class Cluster(NamedTuple):
    passes: int
    trials: int


def clustered_interval(shares: Sequence[tuple[Hashable, float]]) -> Interval | None:
    """The 95% interval of the mean of shares, each with the name of its cluster (Miller 2024); None
    of one cluster."""
    sums: dict[Hashable, tuple[float, int]] = {}
    for name, share in shares:
        total, n = sums.get(name, (0.0, 0))
        sums[name] = total + share, n + 1
    if len(sums) < 2:
        return None
    mean = math.fsum(share for _, share in shares) / len(shares)
    spread = math.fsum((total - n * mean) ** 2 for total, n in sums.values())
    variance = len(sums) / (len(sums) - 1) * spread / len(shares) ** 2
    n_eff = min(len(shares), mean * (1 - mean) / variance) if variance > 0 else len(sums)
    return wilson_interval(mean * n_eff, n_eff)


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of k ≤ n trials drawn from n with c passes is a pass."""
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """The chance that all k ≤ n trials drawn from n with c passes are passes."""
    return math.comb(c, k) / math.comb(n, k)
