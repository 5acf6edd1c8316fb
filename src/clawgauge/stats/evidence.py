"""What repeated trials are worth as independent evidence.

Owns: the effective number of trials. Refuses: saying what the evidence shows; intervals and tiers do that.

The rule. One trial a prompt: every trial counts. Under repeats the trials are worth n ÷ design effect; where all passed
or all failed there is no variance to take a design effect from, and they are worth the number of prompts.

Taken alone these two leave a gap that a failure can jump through: ten prompts passed ten times each are worth 10
trials, but with one failure in the hundred the design effect is estimated as 1 and they would be worth 100. A single
failure cannot show how failures cluster; that it lands in one prompt is no evidence that prompts do not matter. So a
third rule bounds the size: more failures must never look like more certainty. The results are laid beside cleaner
ones, in which only the worst prompts keep their failures and the others count as clean, down to a clean sweep. The size
is cut until neither the lower end of the interval nor the chance of Tier 1 is above that of any of them; and, with
passes and failures exchanged, neither the upper end nor the chance of Tier 3. Where failures are many enough to show
how they cluster the bound does not bite, and n ÷ design effect stands as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from clawgauge.stats.clusters import Cluster
from clawgauge.stats.distributions import regularized_beta
from clawgauge.stats.intervals import wilson_interval
from clawgauge.stats.tiers import TIER_1_RATE, TIER_2_RATE

_HALVINGS = 60


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
