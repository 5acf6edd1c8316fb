"""Distributions the other modules rest on: binomial, beta, Student's t; their cumulative functions and quantiles.

Owns: accuracy (1e-12 or better for the sizes a benchmark sees). Refuses: densities, sampling, and anything a caller
here does not need.
"""

from __future__ import annotations

import math
from collections.abc import Callable

# Beyond this the term-by-term sum, exact but slow, gives way to the incomplete beta it is equal to.
_TERMWISE_MAX_N = 200
_TINY = 1e-300
_EPSILON = 1e-16
_MAX_ITERATIONS = 100_000


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
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    # The continued fraction converges fast only left of the mean; right of it, use the mirrored one.
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


def beta_quantile(p: float, a: float, b: float) -> float:
    """The x with I_x(a, b) = p, by bisection to the last bit."""
    return _bisect(lambda x: regularized_beta(a, b, x) < p, 0.0, 1.0)


def student_t_cdf(t: float, df: int) -> float:
    """P(T ≤ t) for Student's t with `df` degrees of freedom."""
    tail = 0.5 * regularized_beta(df / 2, 0.5, df / (df + t * t))
    return 1.0 - tail if t > 0 else tail


def student_t_quantile(p: float, df: int) -> float:
    """The t with P(T ≤ t) = p, for 0.5 ≤ p < 1, by bisection to the last bit."""
    low, high = 0.0, 1.0
    while student_t_cdf(high, df) < p:
        high *= 2.0
    return _bisect(lambda t: student_t_cdf(t, df) < p, low, high)


def _bisect(is_below: Callable[[float], bool], low: float, high: float) -> float:
    """Where `is_below` turns from true to false between `low` and `high`."""
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        low, high = (middle, high) if is_below(middle) else (low, middle)
