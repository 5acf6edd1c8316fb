"""k of n, what the repeats among them are worth, the percentiles of a time, and what a context
does to both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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
    """The same with the timeouts in. A percentile `beyond` lies among them, and neither mean nor
    maximum is known."""
    if deadline_ms is None:
        return whole
    values = {"p50": whole.p50, "p95": whole.p95, "p99": whole.p99}
    # Between the last answer and the first timeout lies a number that means nothing: it is beyond
    # as well.
    beyond = [name for name, value in values.items() if value is not None and value > MAX_MS]
    deadline = float(deadline_ms)
    return msgspec.structs.replace(
        whole,
        mean=None,
        max=None,
        beyond=beyond,
        p50=deadline if "p50" in beyond else whole.p50,
        p95=deadline if "p95" in beyond else whole.p95,
        p99=deadline if "p99" in beyond else whole.p99,
        p50_ci95=_closed(whole.p50_ci95),
        p95_ci95=_closed(whole.p95_ci95),
        p99_ci95=_closed(whole.p99_ci95),
    )


def _closed(interval: Interval | None) -> Interval | None:
    """None of an interval whose upper end is a timeout."""
    if interval is None or interval[1] >= BEYOND_MS:
        return None
    return interval


class PooledRate(NamedTuple):
    """Passes among trials. `effective` is None where the trials say nothing about other prompts.
    Where how much was asked hung on the answers (`searched`) there is no fixed n: then each
    family is one trial, passed to the share its members passed, and the interval is one that
    holds whenever the asking stopped."""

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
    """What n answers of each family passed or not, as one rate."""
    clusters = list(cluster(outcomes).values())
    shares = math.fsum(cluster.passes / cluster.trials for cluster in clusters)
    return PooledRate(
        k=sum(cluster.passes for cluster in clusters),
        n=sum(cluster.trials for cluster in clusters),
        effective=effective_counts(clusters),
        by_family=EffectiveCounts(shares, float(len(clusters))),
        searched=searched,
    )


def cluster(outcomes: Iterable[tuple[PromptKey, bool, int]]) -> dict[PromptKey, Cluster]:
    clusters: dict[PromptKey, Cluster] = {}
    for key, passed, n in outcomes:
        before = clusters.get(key, Cluster(0, 0))
        n_passed = n if passed else 0
        clusters[key] = Cluster(before.passes + n_passed, before.trials + n)
    return clusters


def judge_repeatability(
    endings: Sequence[Ending], repeats: int, family: Family
) -> Repeatability | None:
    """pass@k and pass^k for k = `repeats`, else the fewest times a prompt was judged; None where
    that is once."""
    trials = cluster((e.prompt, e.passed, e.n) for e in endings if e.judged)
    k = repeats or min((of_prompt.trials for of_prompt in trials.values()), default=0)
    if k < 2:
        return None
    chances_of_one = []
    chances_of_all = []
    for prompt, (n_passed, n) in trials.items():
        if n >= k:
            chances_of_one.append((family(prompt), pass_at_k(n, n_passed, k)))
            chances_of_all.append((family(prompt), pass_hat_k(n, n_passed, k)))
    return Repeatability(
        k=k,
        n_prompts=len(chances_of_one),
        pass_at_k=_mean_chance(chances_of_one),
        pass_hat_k=_mean_chance(chances_of_all),
        pass_at_k_ci95=clustered_interval(chances_of_one),
        pass_hat_k_ci95=clustered_interval(chances_of_all),
    )


def _mean_chance(chances: Sequence[tuple[PromptKey, float]]) -> float | None:
    if not chances:
        return None
    return math.fsum(chance for _, chance in chances) / len(chances)


def measure_context(bare: Group, inside: Group, schedule: Schedule) -> list[InContext]:
    """What a model lost or won inside the context, over the prompts that were answered both
    ways."""
    answers: dict[PromptKey, list[bool]] = {}
    kind_by_prompt: dict[PromptKey, str] = {}
    for ending in (*bare.endings, *inside.endings):
        if ending.is_evidence:
            answers.setdefault(ending.prompt, []).extend([ending.passed] * ending.n)
            kind_by_prompt[ending.prompt] = _kind_of(ending, schedule)
    # Each prompt in the context, and the bare one that it is the twin of.
    twins = {}
    for prompt, twin in schedule.bare_of.items():
        if prompt in answers and twin in answers:
            twins[prompt] = twin
    rates = []
    twins_by_kind: dict[str, dict[PromptKey, PromptKey]] = {}
    for kind in ("calls", "restraint", "tasks", "other"):
        twins_by_kind[kind] = {p: twin for p, twin in twins.items() if kind_by_prompt[p] == kind}
        if twins_by_kind[kind]:
            rates.append(_compare_twins(kind, twins_by_kind[kind], answers, schedule))
    corrected = paired.holm([rate.p or 0.0 for rate in rates])
    figures = []
    for rate, p in zip(rates, corrected, strict=True):
        figures.append(msgspec.structs.replace(rate, p=p))
    first_token = _compare_first_tokens(bare, inside, twins)
    if first_token is not None:
        figures.append(first_token)
    harm = _compare_harm(bare, inside, schedule, n_tasks=len(twins_by_kind["tasks"]))
    if harm is not None:
        figures.append(harm)
    return figures


def _compare_harm(
    bare: Group, inside: Group, schedule: Schedule, *, n_tasks: int
) -> InContext | None:
    """Harm is known of all tasks together: there is no figure unless each of them was answered both
    ways, which `n_tasks` were."""
    recorded = {ending.prompt for ending in (*bare.endings, *inside.endings)}
    tasks = recorded & set(schedule.tasks)
    if not n_tasks or len(tasks) != 2 * n_tasks:
        return None
    return InContext(
        what="harm",
        n=n_tasks,
        bare=bare.total("harm").value,
        in_context=inside.total("harm").value,
    )


def _kind_of(ending: Ending, schedule: Schedule) -> str:
    """What a prompt tells of: `restraint`, `tasks`, `calls` or something `other`."""
    if ending.prompt in schedule.restraint:
        return "restraint"
    if ending.prompt in schedule.tasks:
        return "tasks"
    if ending.prompt in schedule.pairs:
        return "other"
    return "calls" if ending.expected_tools else "other"


def _compare_twins(
    kind: str,
    twins: Mapping[PromptKey, PromptKey],
    answers: Mapping[PromptKey, Sequence[bool]],
    schedule: Schedule,
) -> InContext:
    """The mean pass rates of the bare prompts and of their twins in the context, and how sure
    the difference is."""
    before = fmean(fmean(answers[twin]) for twin in twins.values())
    after = fmean(fmean(answers[prompt]) for prompt in twins)
    changes_by_family: dict[PromptKey, list[float]] = {}
    for prompt, twin in twins.items():
        change = fmean(answers[prompt]) - fmean(answers[twin])
        changes_by_family.setdefault(schedule.family(twin), []).append(change)
    moved = [paired.Moved(sum(moves), len(moves)) for moves in changes_by_family.values()]
    # Of prompts asked once that stand alone this is McNemar's exact test.
    p = paired.sign_flip_p([family.total for family in moved])
    asked_once = all(len(answers[prompt]) == 1 for pair in twins.items() for prompt in pair)
    interval = paired.paired_rate_interval(moved, single=asked_once)
    ci95 = paired.agree(interval, p, after - before) if interval else None
    return InContext(what=kind, n=len(twins), bare=before, in_context=after, ci95=ci95, p=p)


def _compare_first_tokens(
    bare: Group, inside: Group, twins: Mapping[PromptKey, PromptKey]
) -> InContext | None:
    """The medians of the prompts' median first tokens; None where none was timed both ways."""
    times_bare = bare.prompt_times_ms("ttft_ms")
    times_inside = inside.prompt_times_ms("ttft_ms")
    medians_bare = []
    medians_inside = []
    for prompt, twin in twins.items():
        if twin in times_bare and prompt in times_inside:
            medians_bare.append(median(times_bare[twin]))
            medians_inside.append(median(times_inside[prompt]))
    if not medians_bare:
        return None
    return InContext(
        what="first_token",
        n=len(medians_bare),
        bare=median(medians_bare),
        in_context=median(medians_inside),
    )
