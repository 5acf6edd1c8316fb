"""k of n, with what the repeats among them are worth.

Owns: pooling outcomes by prompt, and the rate and interval of the pool. Refuses: choosing what counts; it is given
that. Every interval of a summary comes through here, so all of them treat repeats alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from clawgauge.stats import Cluster, EffectiveCounts, Interval, effective_counts, wilson_interval
from clawgauge.summary.schedule import PromptKey


@dataclass(frozen=True, slots=True)
class PooledRate:
    """Passes among trials. `effective` is None where the trials say nothing about other prompts."""

    k: int
    n: int
    effective: EffectiveCounts | None

    @property
    def rate(self) -> float | None:
        return self.k / self.n if self.n else None

    @property
    def ci95(self) -> Interval | None:
        return None if self.effective is None else wilson_interval(*self.effective)


def pool_rate(outcomes: Iterable[tuple[PromptKey, bool, int]]) -> PooledRate:
    """Pool (prompt, passed, how many times) into one rate."""
    passes: dict[PromptKey, int] = {}
    trials: dict[PromptKey, int] = {}
    for prompt, passed, n in outcomes:
        trials[prompt] = trials.get(prompt, 0) + n
        passes[prompt] = passes.get(prompt, 0) + (n if passed else 0)
    clusters = [Cluster(passes[prompt], count) for prompt, count in trials.items()]
    return PooledRate(sum(passes.values()), sum(trials.values()), effective_counts(clusters))
