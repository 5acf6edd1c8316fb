"""The tool-use tier of a success rate, how sure one may be of it, and what repeated trials are
worth.

Some evidence may be looked at after every answer. An e-process is wealth from fair bets against a
hypothesis: were that true, the wealth would ever grow to 1/α with a chance of at most α (Ville
1939), wherever one stops. The bets are likelihood ratios averaged over a flat prior on the rates
that the hypothesis excludes (Robbins 1970; Howard et al. 2021). A rate may be the mean of a
family's verdicts: the ratio is convex in it, so the bet stays fair."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from clawgauge.stats.proportions import (
    Cluster,
    Interval,
    binomial_cdf,
    halve,
    lower_end,
    regularized_beta,
)

TierPosterior: TypeAlias = tuple[float, float, float]

TIER_1_RATE = 0.8
TIER_2_RATE = 0.5
DECIDED_LEVEL = 0.95
_ENOUGH = math.log(1 / 0.05)
# Each end of an interval may be wrong in half of α.
_ENOUGH_AT_AN_END = math.log(2 / 0.05)


def point_tier(k: int, n: int) -> int | None:
    """1, 2 or 3 by the observed rate; None without trials. In integers, so 4 of 5 is exactly
    80%."""
    if n == 0:
        return None
    if 5 * k >= 4 * n:
        return 1
    if 2 * k >= n:
        return 2
    return 3


def tier_posterior(k: float, n: float) -> TierPosterior:
    """P(true rate is in Tier 1, 2, 3) after k passes in n trials, from a uniform prior."""
    # Effective counts are seldom whole: for these the incomplete beta, which the binomial sum is
    # equal to.
    if float(k).is_integer() and float(n).is_integer():
        p1 = binomial_cdf(int(k), int(n) + 1, TIER_1_RATE)
        p3 = 1.0 - binomial_cdf(int(k), int(n) + 1, TIER_2_RATE)
    else:
        p1 = 1.0 - regularized_beta(k + 1, n - k + 1, TIER_1_RATE)
        p3 = regularized_beta(k + 1, n - k + 1, TIER_2_RATE)
    return p1, max(0.0, 1.0 - p1 - p3), p3


def judge_tier_1(k: float, n: float) -> bool | None:
    """Whether it is Tier 1, at 95%, from a number of trials fixed before; None where that cannot be
    told."""
    if tier_posterior(k, n)[0] >= DECIDED_LEVEL:
        return True
    # P(Bin(n, .8) ≤ k), also for counts that are not whole.
    so_badly = regularized_beta(n - k, k + 1, 1 - TIER_1_RATE) if k < n else 1.0
    return False if so_badly <= 1 - DECIDED_LEVEL else None


def clean_passes_needed(
    k: float, n: float, tells: Callable[[float, float], bool | None] = judge_tier_1
) -> int:
    """The fewest further passes, with no failure among them, after which k of n `tells` Tier 1; 0
    if it does now."""
    high = 1
    while not tells(k + high, n + high):
        high *= 2
    return bisect_left(range(high), True, key=lambda more: tells(k + more, n + more) is True)


class EffectiveCounts(NamedTuple):
    """Passes and trials, shrunk to what they are worth as independent evidence."""

    passes: float
    trials: float


def effective_counts(clusters: Sequence[Cluster]) -> EffectiveCounts | None:
    """Passes and trials scaled to what they are worth, keeping the rate; None without any, or of
    one prompt alone."""
    passes = sum(cluster.passes for cluster in clusters)
    trials = sum(cluster.trials for cluster in clusters)
    if not trials or (len(clusters) == 1 and trials > 1):
        return None
    if trials == len(clusters):
        return EffectiveCounts(float(passes), float(trials))
    failures = [Cluster(c.trials - c.passes, c.trials) for c in clusters]
    size = _bounded(clusters, _Sums(clusters).size(), TIER_1_RATE)
    size = _bounded(failures, size, 1 - TIER_2_RATE)
    return EffectiveCounts(float(passes) if size == trials else passes * size / trials, size)


class _Sums:
    """The sums a design effect is made of, in whole numbers, so that a prompt can be changed
    without adding up anew."""

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
        n = self.trials
        k = self.passes
        if k in (0, n):
            return float(self.n_clusters)
        spread = (
            n * n * self._passes_squared
            - 2 * k * n * self._passes_by_trials
            + k * k * self._trials_squared
        )
        effect = self.n_clusters * (n - 1) * spread / ((self.n_clusters - 1) * n * n * k * (n - k))
        return n / max(1.0, effect)


def _bounded(clusters: Sequence[Cluster], size: float, edge: float) -> float:
    """`size`, cut until these results promise no more than cleaner ones, by the interval and by
    P(rate ≥ `edge`)."""
    rate = sum(c.passes for c in clusters) / sum(c.trials for c in clusters)
    if rate in (0, 1):
        return size
    cleaner = list(_cleaner(clusters))
    lowest_end = min(lower_end(*results) for results in cleaner)
    size = _largest(size, lambda size: lower_end(rate, size), lowest_end)
    if rate < edge:  # below the edge a smaller size makes the tier likelier, and no cut can help
        return size
    lowest_chance = min(_chance(*results, edge) for results in cleaner)
    return _largest(size, lambda size: _chance(rate, size, edge), lowest_chance)


def _cleaner(clusters: Sequence[Cluster]) -> Iterator[tuple[float, float]]:
    """(rate, size) with the failures of no prompt kept, of the worst, of the two worst, and so on
    but for all."""
    sums = _Sums([Cluster(c.trials, c.trials) for c in clusters])
    for cluster in sorted(clusters, key=lambda c: (c.passes - c.trials, c.trials)):
        if cluster.passes == cluster.trials:
            return
        yield sums.passes / sums.trials, sums.size()
        sums.spoil(cluster)


def _largest(size: float, measure: Callable[[float], float], ceiling: float) -> float:
    """The largest size up to `size` at which `measure`, which grows with it, is not above
    `ceiling`."""
    if measure(size) <= ceiling:
        return size
    return halve(0.0, size, lambda smaller: measure(smaller) <= ceiling, 60)[0]


def _chance(rate: float, size: float, edge: float) -> float:
    """P(true rate ≥ `edge`) from a uniform prior."""
    return 1.0 - regularized_beta(rate * size + 1, (1 - rate) * size + 1, edge)


def log_evidence(k: float, n: float, edge: float) -> float:
    """The logarithm of the wealth from k passes in n trials against a true rate of `edge` or
    less."""
    # The share above the edge, as the mirrored lower tail: that keeps its digits where it is tiny.
    share = regularized_beta(n - k + 1, k + 1, 1.0 - edge)
    if share == 0.0:
        return -math.inf
    mean = (
        math.lgamma(k + 1)
        + math.lgamma(n - k + 1)
        - math.lgamma(n + 2)
        + math.log(share)
        - math.log(1.0 - edge)
    )
    return mean - k * math.log(edge) - (n - k) * math.log1p(-edge)


def tell_above(k: float, n: float, edge: float) -> bool | None:
    """Whether the true rate is above `edge`, after however many looks; None while that cannot be
    told."""
    if log_evidence(k, n, edge) >= _ENOUGH:
        return True
    return False if log_evidence(n - k, n, 1.0 - edge) >= _ENOUGH else None


def tell_tier_1(k: float, n: float) -> bool | None:
    return tell_above(k, n, TIER_1_RATE)


def can_tell_tier_1(k: float, n: float, n_left: int) -> bool:
    """Whether `n_left` more answers could tell, if all of them passed or all failed."""
    return tell_tier_1(k + n_left, n + n_left) is not None or tell_tier_1(k, n + n_left) is not None


def tier_1_bounds(n_most: int) -> Iterator[tuple[int, int]]:
    """After 1, 2, … `n_most` answers: the most passes that tell it is not Tier 1, and the fewest
    that tell it is."""
    no_at = -1
    yes_at = 1
    # One more answer moves either bound by one at most.
    for n in range(1, n_most + 1):
        while yes_at <= n and log_evidence(yes_at, n, TIER_1_RATE) < _ENOUGH:
            yes_at += 1
        while no_at < n and log_evidence(n - no_at - 1, n, 1.0 - TIER_1_RATE) >= _ENOUGH:
            no_at += 1
        yield no_at, yes_at


def confidence_sequence(k: float, n: float) -> Interval | None:
    """The 95% interval of k passes in n trials that holds at every n at once; None without
    trials."""
    if n <= 0:
        return None
    return _refuted_below(k, n), 1.0 - _refuted_below(n - k, n)


def _refuted_below(k: float, n: float) -> float:
    """The largest rate such that the wealth refutes it and all below."""
    return halve(
        0.0, k / n, lambda rate: rate > 0.0 and log_evidence(k, n, rate) >= _ENOUGH_AT_AN_END, 40
    )[0]
