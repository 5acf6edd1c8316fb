"""k of n, what the repeats among them are worth, and the percentiles of a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clawgauge.records import LatencyStats, Percentiles, PromptKey, Repeatability
from clawgauge.stats import (
    Cluster,
    Distribution,
    EffectiveCounts,
    Interval,
    effective_counts,
    pass_at_k,
    pass_hat_k,
    samples_needed,
    wilson_interval,
)
from clawgauge.summary.groups import Ending

_MIN_SAMPLES = {"p95": samples_needed(0.95), "p99": samples_needed(0.99)}


def to_latency_stats(figures: Distribution) -> LatencyStats:
    """The schema document's four figures."""
    return LatencyStats(p50=figures.p50, p95=figures.p95, p99=figures.p99, mean=figures.mean)


def to_percentiles(figures: Distribution) -> Percentiles:
    """All figures, with their intervals and the names of those that rest on too few calls."""
    thin = [name for name, least in _MIN_SAMPLES.items() if 0 < figures.n < least]
    return Percentiles(**figures._asdict(), indicative=thin)


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


def judge_repeatability(endings: Sequence[Ending], repeats: int) -> Repeatability | None:
    """pass@k and pass^k for k = `repeats`, or where the plan is not known the fewest times a prompt was judged.

    None where nothing was asked twice.
    """
    trials: dict[PromptKey, tuple[int, int]] = {}
    for ending in endings:
        if ending.judged:
            n, passes = trials.get(ending.prompt, (0, 0))
            trials[ending.prompt] = n + ending.n, passes + (ending.n if ending.passed else 0)
    k = repeats or min((n for n, _ in trials.values()), default=0)
    if k < 2:
        return None
    counted = [(n, passes) for n, passes in trials.values() if n >= k]
    return Repeatability(
        k=k,
        n_prompts=len(counted),
        pass_at_k=_mean([pass_at_k(n, passes, k) for n, passes in counted]),
        pass_hat_k=_mean([pass_hat_k(n, passes, k) for n, passes in counted]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
