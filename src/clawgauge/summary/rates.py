"""k of n, what the repeats among them are worth, and what was scheduled."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clawgauge.records import Event, LatencyStats, Percentiles, Repeatability, Target
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
from clawgauge.summary.groups import EndingCount
from clawgauge.summary.schedule import PromptKey, Schedule

_MIN_SAMPLES = {"p95": samples_needed(0.95), "p99": samples_needed(0.99)}
# A search that settled nothing still asks each prompt once only: the repeats were not needed.
_SEARCH_ENDS = ("decided", "undecided")


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


def judge_repeatability(endings: Sequence[EndingCount], repeats: int) -> Repeatability | None:
    """pass@k and pass^k for k = `repeats`, or where the plan is not known the fewest times a prompt was judged.

    None where nothing was asked twice.
    """
    trials: dict[PromptKey, tuple[int, int]] = {}
    for ending in endings:
        if ending.ending.judged:
            n, passes = trials.get(ending.prompt, (0, 0))
            trials[ending.prompt] = n + ending.n, passes + (ending.n if ending.ending.passed else 0)
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


class Stop(NamedTuple):
    """Cells left out because they could change nothing; whether a decided tier was why; a budget that ran out."""

    n_not_needed: int = 0
    early: bool = False
    budget: str | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """Cells a target was to fill (with a verdict), and how many were left out on purpose."""

    n_scheduled: int
    n_scheduled_judged: int
    n_not_needed: int

    def pass_rate(self, n_passed: int) -> float | None:
        return n_passed / self.n_scheduled_judged if self.n_scheduled_judged else None


def count_missing(schedule: Schedule, target: Target, recorded: Mapping[PromptKey, int]) -> int:
    """Cells planned and not recorded."""
    return schedule.cells(target, recorded) - sum(recorded.values())


def read_stop(events: Iterable[Event], target_label: str, n_missing: int) -> Stop:
    """Why some of a target's `n_missing` cells were left out on purpose, if they were.

    The last event of each kind counts: a resumed run tells it anew. Cells that were asked after all are not missing.
    """
    search: Event | None = None
    budget: Event | None = None
    for event in events:
        if event.target == target_label:
            search = event if event.event in _SEARCH_ENDS else search
            budget = event if event.event == "budget_spent" else budget
    decided = search is not None and search.event == "decided"
    claimed = 0 if search is None else search.detail.get("not_needed", search.detail.get("not_asked") if decided else 0)
    n_not_needed = max(0, min(claimed, n_missing)) if isinstance(claimed, int) else 0
    spent = None
    if budget is not None and n_missing > n_not_needed:
        spent = f"{budget.detail.get('budget')} {budget.detail.get('limit')}"
    return Stop(n_not_needed, decided and n_not_needed > 0, spent)


def cover(
    schedule: Schedule,
    target: Target,
    recorded: Mapping[PromptKey, int],
    n_not_needed: int,
    suites: Collection[str] | None = None,
) -> Coverage:
    """The scheduled cells of `target`, in `suites` if given; cells not needed are missing ones, and are not counted."""
    planned = schedule.cells(target, recorded, suites=suites)
    judged = schedule.cells(target, recorded, suites=suites, judged_only=True)
    mine = {prompt: n for prompt, n in recorded.items() if suites is None or prompt[0] in suites}
    left_out = min(n_not_needed, planned - sum(mine.values()))
    missing_judged = judged - sum(n for prompt, n in mine.items() if prompt in schedule.judged)
    return Coverage(planned - left_out, judged - min(left_out, missing_judged), left_out)
