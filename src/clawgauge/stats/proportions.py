"""Proportions: binomial, beta and t distributions, intervals around a rate, and repeats that are not independent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

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


class Cluster(NamedTuple):
    """One prompt's repeats."""

    passes: int
    trials: int


def _totals(clusters: Sequence[Cluster]) -> tuple[int, int]:
    return sum(c.passes for c in clusters), sum(c.trials for c in clusters)


def naive_error(clusters: Sequence[Cluster]) -> float | None:
    """The standard error of the pass rate if all trials were independent; None under two trials."""
    passes, trials = _totals(clusters)
    if trials < 2:
        return None
    rate = passes / trials
    return math.sqrt(rate * (1 - rate) / (trials - 1))


def clustered_error(clusters: Sequence[Cluster]) -> float | None:
    """The standard error of the pass rate with trials clustered by prompt; None under two clusters."""
    if len(clusters) < 2:
        return None
    passes, trials = _totals(clusters)
    rate = passes / trials
    spread = math.fsum((c.passes - c.trials * rate) ** 2 for c in clusters)
    return math.sqrt(len(clusters) / (len(clusters) - 1) * spread) / trials


def prompt_means_error(clusters: Sequence[Cluster]) -> float | None:
    """The standard error of the mean of per-prompt rates, each prompt counting once; None under two prompts."""
    if len(clusters) < 2:
        return None
    rates = [c.passes / c.trials for c in clusters]
    mean = math.fsum(rates) / len(rates)
    return math.sqrt(math.fsum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1) / len(rates))


def design_effect(clusters: Sequence[Cluster]) -> float | None:
    """How many times the clustered variance exceeds the naive one, at least 1; None where either is not known."""
    clustered, naive = clustered_error(clusters), naive_error(clusters)
    if clustered is None or not naive:
        return None
    return max(1.0, (clustered / naive) ** 2)


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """The chance that at least one of k trials drawn from n with c passes is a pass; None if k > n."""
    if k > n:
        return None
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """The chance that all k trials drawn from n with c passes are passes; None if k > n."""
    if k > n:
        return None
    return math.comb(c, k) / math.comb(n, k)
