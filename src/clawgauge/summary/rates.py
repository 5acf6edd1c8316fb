"""k of n, what the repeats among them are worth, the percentiles of a time, and what a context does to both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import NamedTuple

import msgspec

from clawgauge.records import InContext, Percentiles, PromptKey, Repeatability
from clawgauge.run_data import Schedule
from clawgauge.stats import paired
from clawgauge.stats.proportions import (
    Cluster,
    Interval,
    clustered_interval,
    pass_at_k,
    pass_hat_k,
    wilson_interval,
)
from clawgauge.stats.tiers import EffectiveCounts, confidence_sequence, effective_counts
from clawgauge.summary.groups import BEYOND_MS, Ending, Family, Group

# No recorded time is as long: what lies above it has a timeout in it.
MAX_MS = 2**53


def to_censored(whole: Percentiles, deadline_ms: int | None) -> Percentiles:
    """The same with the timeouts in. A percentile `beyond` lies among them, and neither mean nor maximum is known."""
    if deadline_ms is None:
        return whole
    figures_of = {name: getattr(whole, name) for name in ("p50", "p95", "p99")}
    # Between the last answer and the first timeout lies a number that means nothing: it is beyond as well.
    beyond = [name for name, value in figures_of.items() if value is not None and value > MAX_MS]
    intervals = {f"{name}_ci95": getattr(whole, f"{name}_ci95") for name in figures_of}
    open_ended = {name: None for name, ends in intervals.items() if ends and ends[1] >= BEYOND_MS}
    bounds = dict.fromkeys(beyond, float(deadline_ms))
    return msgspec.structs.replace(
        whole, mean=None, max=None, beyond=beyond, **bounds, **open_ended
    )


class PooledRate(NamedTuple):
    """Passes among trials. `effective` is None where the trials say nothing about other prompts. Where how much was
    asked hung on the answers (`searched`) there is no fixed n: then each family is one trial, passed to the share its
    members passed, and the interval is one that holds whenever the asking stopped."""

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


def pool_rate(
    outcomes: Iterable[tuple[PromptKey, bool, int]], *, searched: bool = False
) -> PooledRate:
    clusters = list(cluster(outcomes).values())
    by_family = EffectiveCounts(
        math.fsum(c.passes / c.trials for c in clusters), float(len(clusters))
    )
    k, n = sum(c.passes for c in clusters), sum(c.trials for c in clusters)
    return PooledRate(k, n, effective_counts(clusters), by_family, searched)


def cluster(outcomes: Iterable[tuple[PromptKey, bool, int]]) -> dict[PromptKey, Cluster]:
    clusters: dict[PromptKey, Cluster] = {}
    for key, passed, n in outcomes:
        passes, trials = clusters.get(key, (0, 0))
        clusters[key] = Cluster(passes + (n if passed else 0), trials + n)
    return clusters


def judge_repeatability(
    endings: Sequence[Ending], repeats: int, family: Family
) -> Repeatability | None:
    """pass@k and pass^k for k = `repeats`, else the fewest times a prompt was judged; None where that is once."""
    trials = cluster((e.prompt, e.passed, e.n) for e in endings if e.judged)
    k = repeats or min((n for _, n in trials.values()), default=0)
    if k < 2:
        return None
    counted = [(family(prompt), n, passes) for prompt, (passes, n) in trials.items() if n >= k]
    one = [(name, pass_at_k(n, passes, k)) for name, n, passes in counted]
    all_of = [(name, pass_hat_k(n, passes, k)) for name, n, passes in counted]
    return Repeatability(
        k=k, n_prompts=len(counted), pass_at_k_ci95=clustered_interval(one), pass_hat_k_ci95=clustered_interval(all_of),
        pass_at_k=math.fsum(share for _, share in one) / len(one) if one else None,
        pass_hat_k=math.fsum(share for _, share in all_of) / len(all_of) if all_of else None,
    )  # fmt: skip


def measure_context(bare: Group, inside: Group, schedule: Schedule) -> list[InContext]:
    """What a model lost or won inside the context, over the prompts that were answered both ways."""
    answers: dict[PromptKey, list[bool]] = {}
    kind_of: dict[PromptKey, str] = {}
    for ending in (*bare.endings, *inside.endings):
        if ending.is_evidence:
            answers.setdefault(ending.prompt, []).extend([ending.passed] * ending.n)
            kind = (
                "tasks"
                if ending.prompt in schedule.tasks
                else "calls"
                if ending.expected_tools
                else "other"
            )
            kind_of[ending.prompt] = "restraint" if ending.prompt in schedule.restraint else kind
    pairs = {
        key: twin for key, twin in schedule.bare_of.items() if key in answers and twin in answers
    }
    rates = []
    for kind in ("calls", "restraint", "tasks", "other"):
        keys = [key for key in pairs if kind_of[key] == kind]
        families: dict[PromptKey, list[float]] = {}
        for key in keys:
            move = fmean(answers[key]) - fmean(answers[pairs[key]])
            families.setdefault(schedule.family(pairs[key]), []).append(move)
        if not keys:
            continue
        moved = [paired.Moved(sum(moves), len(moves)) for moves in families.values()]
        before, after = (
            fmean(fmean(answers[one]) for one in side)
            for side in ([pairs[key] for key in keys], keys)
        )
        # Of prompts asked once that stand alone this is McNemar's exact test.
        p = paired.sign_flip_p([one.total for one in moved])
        once = all(len(answers[one]) == 1 for key in keys for one in (key, pairs[key]))
        interval = paired.paired_rate_interval(moved, single=once)
        ci95 = paired.agree(interval, p, after - before) if interval else None
        rates.append(
            InContext(what=kind, n=len(keys), bare=before, in_context=after, ci95=ci95, p=p)
        )
    corrected = paired.holm([rate.p or 0.0 for rate in rates])
    found = [msgspec.structs.replace(rate, p=p) for rate, p in zip(rates, corrected, strict=True)]
    before_ms, after_ms = bare.prompt_times_ms("ttft_ms"), inside.prompt_times_ms("ttft_ms")
    timed = [
        (before_ms[twin], after_ms[key])
        for key, twin in pairs.items()
        if key in after_ms and twin in before_ms
    ]
    if timed:
        medians = [median([median(times) for times in side]) for side in zip(*timed, strict=True)]
        found.append(
            InContext(what="first_token", n=len(timed), bare=medians[0], in_context=medians[1])
        )
    # Harm is known of all tasks together: it is told where each was answered both ways.
    n_tasks = [kind_of[key] for key in pairs].count("tasks")
    tasks = {ending.prompt for ending in (*bare.endings, *inside.endings)} & set(schedule.tasks)
    if n_tasks and len(tasks) == 2 * n_tasks:
        harms = [group.total("harm").value for group in (bare, inside)]
        found.append(InContext(what="harm", n=n_tasks, bare=harms[0], in_context=harms[1]))
    return found
