"""k of n, what the repeats among them are worth, and the percentiles of a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from clawgauge.records import LatencyStats, Percentiles, PromptKey, Repeatability
from clawgauge.stats.proportions import Cluster, Interval, clustered_interval, pass_at_k, pass_hat_k, wilson_interval
from clawgauge.stats.tiers import EffectiveCounts, confidence_sequence, effective_counts
from clawgauge.summary.groups import BEYOND_MS, Ending

_MAX_MS = 2**53


def to_latency_stats(figures: Percentiles) -> LatencyStats:
    """The schema document's four figures."""
    return LatencyStats(p50=figures.p50, p95=figures.p95, p99=figures.p99, mean=figures.mean)


def to_censored(whole: Percentiles, deadline_ms: int | None) -> Percentiles:
    """The same with the timeouts in. A percentile `beyond` lies among them: it is longer than the shortest deadline.

    Neither the mean of such calls is known nor the longest; nor is an interval that ends among them.
    """
    if deadline_ms is None:
        return whole
    figures_of = {name: getattr(whole, name) for name in ("p50", "p95", "p99")}
    # Between the last answer and the first timeout lies a number that means nothing: it is beyond as well.
    beyond = [name for name, value in figures_of.items() if value is not None and value > _MAX_MS]
    intervals = {f"{name}_ci95": getattr(whole, f"{name}_ci95") for name in figures_of}
    open_ended = {name: None for name, ends in intervals.items() if ends and ends[1] >= BEYOND_MS}
    bounds = dict.fromkeys(beyond, float(deadline_ms))
    return msgspec.structs.replace(whole, mean=None, max=None, beyond=beyond, **bounds, **open_ended)


class PooledRate(NamedTuple):
    """Passes among trials. `effective` is None where the trials say nothing about other prompts.

    Where how much was asked hung on the answers (`searched`) there is no fixed n: then each family is one trial, passed
    to the share its members passed, and the interval is one that holds whenever the asking stopped.
    """

    k: int
    n: int
    effective: EffectiveCounts | None
    by_family: EffectiveCounts
    searched: bool = False

    @property
    def rate(self) -> float | None:
        return self.k / self.n if self.n else None

    @property
    def ci95(self) -> Interval | None:
        if self.searched:
            return confidence_sequence(*self.by_family)
        return None if self.effective is None else wilson_interval(*self.effective)


def pool_rate(outcomes: Iterable[tuple[PromptKey, bool, int]], *, searched: bool = False) -> PooledRate:
    """Pool (family, passed, how many times) into one rate."""
    clusters = list(_cluster(outcomes).values())
    by_family = EffectiveCounts(math.fsum(c.passes / c.trials for c in clusters), float(len(clusters)))
    k, n = sum(c.passes for c in clusters), sum(c.trials for c in clusters)
    return PooledRate(k, n, effective_counts(clusters), by_family, searched)


def _cluster(outcomes: Iterable[tuple[PromptKey, bool, int]]) -> dict[PromptKey, Cluster]:
    clusters: dict[PromptKey, Cluster] = {}
    for key, passed, n in outcomes:
        passes, trials = clusters.get(key, (0, 0))
        clusters[key] = Cluster(passes + (n if passed else 0), trials + n)
    return clusters


def judge_repeatability(
    endings: Sequence[Ending], repeats: int, family: Callable[[PromptKey], PromptKey]
) -> Repeatability | None:
    """pass@k and pass^k for k = `repeats`, or where the plan is not known the fewest times a prompt was judged.

    None where nothing was asked twice.
    """
    trials = _cluster((e.prompt, e.passed, e.n) for e in endings if e.judged)
    k = repeats or min((n for _, n in trials.values()), default=0)
    if k < 2:
        return None
    counted = [(family(prompt), n, passes) for prompt, (passes, n) in trials.items() if n >= k]
    one = [(name, pass_at_k(n, passes, k)) for name, n, passes in counted]
    all_of = [(name, pass_hat_k(n, passes, k)) for name, n, passes in counted]
    return Repeatability(
        k=k,
        n_prompts=len(counted),
        pass_at_k=math.fsum(share for _, share in one) / len(one) if one else None,
        pass_hat_k=math.fsum(share for _, share in all_of) / len(all_of) if all_of else None,
        pass_at_k_ci95=clustered_interval(one),
        pass_hat_k_ci95=clustered_interval(all_of),
    )
