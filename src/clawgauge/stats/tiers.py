"""The tool-use tier of a success rate, how sure one may be of it, and what repeated trials are worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from clawgauge.stats.proportions import Cluster, binomial_cdf, regularized_beta, wilson_interval

TierPosterior: TypeAlias = tuple[float, float, float]

TIER_1_RATE = 0.8
TIER_2_RATE = 0.5
DECIDED_LEVEL = 0.95
_HALVINGS = 60


def point_tier(k: int, n: int) -> int | None:
    """1, 2 or 3 by the observed rate; None without trials. In integers, so 4 of 5 is exactly 80%."""
    if n == 0:
        return None
    if 5 * k >= 4 * n:
        return 1
    return 2 if 2 * k >= n else 3


def tier_posterior(k: float, n: float) -> TierPosterior:
    """P(true rate is in Tier 1, 2, 3) after k passes in n trials, from a uniform prior.

    Whole counts use the binomial sum; effective counts, which are seldom whole, the incomplete beta it is equal to.
    """
    if float(k).is_integer() and float(n).is_integer():
        p1 = binomial_cdf(int(k), int(n) + 1, TIER_1_RATE)
        p3 = 1.0 - binomial_cdf(int(k), int(n) + 1, TIER_2_RATE)
    else:
        p1 = 1.0 - regularized_beta(k + 1, n - k + 1, TIER_1_RATE)
        p3 = regularized_beta(k + 1, n - k + 1, TIER_2_RATE)
    return p1, max(0.0, 1.0 - p1 - p3), p3


def is_decided(posterior: TierPosterior) -> bool:
    """Whether one tier holds at least 95% of the probability."""
    return max(posterior) >= DECIDED_LEVEL


def judge_tier_1(k: float, n: float) -> bool | None:
    """Whether it is Tier 1, from a number of trials fixed before; None where that cannot be told at 95%.

    Yes where Tier 1 has 95% of the probability. No where a model of Tier 1 would do so badly in less than 5% of cases:
    the posterior would say no after a single failure.
    """
    if tier_posterior(k, n)[0] >= DECIDED_LEVEL:
        return True
    # P(Bin(n, .8) ≤ k), also for counts that are not whole.
    so_badly = regularized_beta(n - k, k + 1, 1 - TIER_1_RATE) if k < n else 1.0
    return False if so_badly <= 1 - DECIDED_LEVEL else None


def clean_passes_needed(k: float, n: float, tells: Callable[[float, float], bool | None] = judge_tier_1) -> int:
    """The fewest further passes, with no failure among them, after which k of n `tells` Tier 1; 0 if it does already.

    By default that is judged from a number of trials fixed before.
    """

    def decides(more: int) -> bool:
        return tells(k + more, n + more) is True

    if decides(0):
        return 0
    high = 1
    while not decides(high):
        high *= 2
    low = high // 2  # the number grows with every pass, so bisection between the last two powers finds the first
    while high - low > 1:
        middle = (low + high) // 2
        if decides(middle):
            high = middle
        else:
            low = middle
    return high


class EffectiveCounts(NamedTuple):
    """Passes and trials, shrunk to what they are worth as independent evidence."""

    passes: float
    trials: float


def effective_size(clusters: Sequence[Cluster]) -> float | None:
    """How many independent trials these are worth; None for one prompt repeated, which says nothing about others."""
    trials = sum(c.trials for c in clusters)
    if not trials:
        return None
    if trials == len(clusters):
        return float(trials)
    if len(clusters) == 1:
        return None
    failures = [Cluster(c.trials - c.passes, c.trials) for c in clusters]
    size = _bounded(clusters, _Sums(clusters).size(), TIER_1_RATE)
    return _bounded(failures, size, 1 - TIER_2_RATE)


def effective_counts(clusters: Sequence[Cluster]) -> EffectiveCounts | None:
    """Passes and trials scaled to the effective size, keeping the rate; None where the size is not known."""
    size = effective_size(clusters)
    if size is None:
        return None
    passes, trials = sum(c.passes for c in clusters), sum(c.trials for c in clusters)
    return EffectiveCounts(float(passes), size) if size == trials else EffectiveCounts(passes * size / trials, size)


class _Sums:
    """The sums a design effect is made of, in whole numbers, so that a prompt can be changed without adding up anew."""

    def __init__(self, clusters: Sequence[Cluster]) -> None:
        self.n_clusters = len(clusters)
        self.trials = sum(c.trials for c in clusters)
        self.passes = sum(c.passes for c in clusters)
        self._passes_squared = sum(c.passes**2 for c in clusters)
        self._passes_by_trials = sum(c.passes * c.trials for c in clusters)
        self._trials_squared = sum(c.trials**2 for c in clusters)

    def spoil(self, cluster: Cluster) -> None:
        """Put `cluster` in the place of a clean one of its size."""
        failures = cluster.trials - cluster.passes
        self.passes -= failures
        self._passes_squared += cluster.passes**2 - cluster.trials**2
        self._passes_by_trials -= failures * cluster.trials

    def size(self) -> float:
        """Trials ÷ design effect, or the number of prompts where there is no variance."""
        n, k = self.trials, self.passes
        if k in (0, n):
            return float(self.n_clusters)
        spread = n * n * self._passes_squared - 2 * k * n * self._passes_by_trials + k * k * self._trials_squared
        effect = self.n_clusters * (n - 1) * spread / ((self.n_clusters - 1) * n * n * k * (n - k))
        return n / max(1.0, effect)


def _bounded(clusters: Sequence[Cluster], size: float, edge: float) -> float:
    """`size`, cut until these results promise no more than cleaner ones, by the interval and by P(rate ≥ `edge`)."""
    rate = sum(c.passes for c in clusters) / sum(c.trials for c in clusters)
    if rate in (0, 1):
        return size
    cleaner = list(_cleaner(clusters))
    size = _largest(size, lambda s: _lower_end(rate, s), min(_lower_end(*one) for one in cleaner))
    if rate < edge:  # below the edge a smaller size makes the tier likelier, and no cut can help
        return size
    return _largest(size, lambda s: _chance(rate, s, edge), min(_chance(*one, edge) for one in cleaner))


def _cleaner(clusters: Sequence[Cluster]) -> Iterator[tuple[float, float]]:
    """(rate, size) with the failures of no prompt kept, of the worst, of the two worst, and so on but for all."""
    sums = _Sums([Cluster(c.trials, c.trials) for c in clusters])
    for cluster in sorted(clusters, key=lambda c: (c.passes - c.trials, c.trials)):
        if cluster.passes == cluster.trials:
            return
        yield sums.passes / sums.trials, sums.size()
        sums.spoil(cluster)


def _largest(size: float, measure: Callable[[float], float], ceiling: float) -> float:
    """The largest size up to `size` at which `measure`, which grows with it, is not above `ceiling`."""
    if measure(size) <= ceiling:
        return size
    low, high = 0.0, size
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if measure(middle) <= ceiling else (low, middle)
    return low


def _lower_end(rate: float, size: float) -> float:
    interval = wilson_interval(rate * size, size)
    return interval[0] if interval else 0.0


def _chance(rate: float, size: float, edge: float) -> float:
    """P(true rate ≥ `edge`) from a uniform prior."""
    return 1.0 - regularized_beta(rate * size + 1, (1 - rate) * size + 1, edge)
