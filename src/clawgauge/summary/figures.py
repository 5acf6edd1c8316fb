"""From what was accumulated of a group to its entry in summary.json.

Owns: the meaning of every figure: its denominator, and null where that is 0. Refuses: reading files and wording.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from clawgauge.records import (
    FailureCount,
    GroupSummary,
    LatencyStats,
    Percentiles,
    RateWithInterval,
    SuiteBreakdown,
    TaskSummary,
)
from clawgauge.stats import Distribution
from clawgauge.summary.groups import EndingCount, GroupAccumulator, wall_clock_ms
from clawgauge.summary.hints import find_hint
from clawgauge.summary.machine import Machine
from clawgauge.summary.notes import count_truncated, group_warnings
from clawgauge.summary.rates import PooledRate, pool_rate
from clawgauge.summary.schedule import PromptKey, Schedule
from clawgauge.summary.strata import Total
from clawgauge.summary.tool_use import judge_tool_use

_e2e_ms = attrgetter("e2e_ms")


@dataclass(frozen=True, slots=True)
class _Counts:
    """The cells of a group, by status and by prompt."""

    statuses: Counter[str]
    recorded: Counter[PromptKey]
    n_success: int
    n_timeouts: int


def summarize_group(
    group: GroupAccumulator, schedule: Schedule, machine: Machine, provider_settings: Mapping[str, Any]
) -> GroupSummary:
    """Every figure of one target."""
    endings = group.endings()
    counts, judged = _count(endings), pool_judged(endings)
    n_ok, n_success = counts.statuses["ok"], counts.n_success
    n_scheduled = schedule.cells(group.target, counts.recorded)
    n_scheduled_judged = schedule.cells(group.target, counts.recorded, judged_only=True)
    ttft = group.describe(attrgetter("ttft_ms"))
    return GroupSummary(
        provider=group.target.provider,
        model=group.target.model,
        thinking_level=group.target.thinking_level,
        n_total=counts.statuses.total(),
        n_ok=n_ok,
        n_success=n_success,
        n_skipped_unavailable=counts.statuses["skipped_unavailable"],
        n_rate_limited=counts.statuses["rate_limited"],
        n_error=counts.statuses["error"],
        success_rate_ok=n_success / n_ok if n_ok else None,
        objective_pass_rate=judged.rate,
        wall_clock_ms=wall_clock_ms(group.spans()),
        latency_ms=_latency(group.describe(_e2e_ms)),
        resources_before=machine.before,
        resources_after=machine.after,
        n_auth_error=counts.statuses["auth_error"],
        n_judged=judged.n,
        n_passed=judged.k,
        objective_pass_ci95=judged.ci95,
        n_scheduled=n_scheduled,
        pass_rate_scheduled=judged.k / n_scheduled_judged if n_scheduled_judged else None,
        n_scheduled_judged=n_scheduled_judged,
        tool_use=judge_tool_use(endings, group.tool_signs(), apart=schedule.restraint | schedule.tasks),
        restraint=_restraint(endings, schedule.restraint),
        tasks=_tasks(endings, schedule.tasks, group.total(attrgetter("turns"))),
        ttft_ms=_percentiles(ttft),
        ttfa_ms=_percentiles(group.describe(attrgetter("ttfa_ms"))),
        output_tps=_percentiles(group.describe(attrgetter("output_tps"))),
        latency_warm_ms=_percentiles(group.describe(_e2e_ms, lambda key: key.cold_start is False)),
        latency_cold_ms=_percentiles(group.describe(_e2e_ms, lambda key: key.cold_start is True)),
        n_timeouts=counts.n_timeouts,
        input_tokens=_whole(group.total(attrgetter("input_tokens"))),
        output_tokens=_whole(group.total(attrgetter("output_tokens"))),
        cost_usd=_known(group.total(attrgetter("cost_usd"))),
        peak_memory_bytes=machine.peak_memory_bytes,
        peak_vram_bytes=machine.peak_vram_bytes,
        n_truncated_by_max_tokens=count_truncated(endings),
        suites=_suites(group, endings, schedule),
        failures=_failures(group, endings, provider_settings),
        warnings=group_warnings(group, endings, n_scheduled=n_scheduled, n_success=n_success, n_ttft=ttft.n),
    )


def _count(endings: Sequence[EndingCount]) -> _Counts:
    statuses: Counter[str] = Counter()
    recorded: Counter[PromptKey] = Counter()
    for ending in endings:
        statuses[ending.ending.availability_status] += ending.n
        recorded[ending.prompt] += ending.n
    return _Counts(
        statuses=statuses,
        recorded=recorded,
        n_success=sum(e.n for e in endings if e.ending.succeeded),
        n_timeouts=sum(e.n for e in endings if e.ending.failure_type == "timeout"),
    )


def pool_judged(endings: Sequence[EndingCount]) -> PooledRate:
    """Passes among the successful calls that have a verdict."""
    return pool_rate((e.prompt, e.ending.passed, e.n) for e in endings if e.ending.judged)


def _pool_answered(endings: Sequence[EndingCount], prompts: frozenset[PromptKey]) -> PooledRate:
    """Passes among the answered cells of some prompts; an empty answer is an answer, and no pass."""
    return pool_rate((e.prompt, e.ending.passed, e.n) for e in endings if e.ending.answered and e.prompt in prompts)


def _restraint(endings: Sequence[EndingCount], prompts: frozenset[PromptKey]) -> RateWithInterval:
    pooled = _pool_answered(endings, prompts)
    return RateWithInterval(n=pooled.n, k=pooled.k, rate=pooled.rate, ci95=pooled.ci95)


def _tasks(endings: Sequence[EndingCount], prompts: frozenset[PromptKey], turns: Total) -> TaskSummary:
    pooled = _pool_answered(endings, prompts)
    mean_turns = turns.value / turns.n if turns.n else None
    return TaskSummary(n=pooled.n, k=pooled.k, rate=pooled.rate, ci95=pooled.ci95, mean_turns=mean_turns)


def _suites(group: GroupAccumulator, endings: Sequence[EndingCount], schedule: Schedule) -> list[SuiteBreakdown]:
    present = group.suites()
    in_order = [suite for suite in schedule.suites if suite in present]
    in_order += [suite for suite in present if suite not in schedule.suites]
    return [_suite(group, suite, [e for e in endings if e.suite == suite]) for suite in in_order]


def _suite(group: GroupAccumulator, suite: str, endings: Sequence[EndingCount]) -> SuiteBreakdown:
    judged = pool_judged(endings)
    return SuiteBreakdown(
        suite=suite,
        n_total=sum(e.n for e in endings),
        n_ok=sum(e.n for e in endings if e.ending.answered),
        n_success=sum(e.n for e in endings if e.ending.succeeded),
        n_judged=judged.n,
        n_passed=judged.k,
        objective_pass_rate=judged.rate,
        ci95=judged.ci95,
        latency_ms=_latency(group.describe(_e2e_ms, lambda key: key.suite == suite)),
    )


def _failures(
    group: GroupAccumulator, endings: Sequence[EndingCount], provider_settings: Mapping[str, Any]
) -> list[FailureCount]:
    counts: Counter[tuple[str, str | None]] = Counter()
    for _, ending, n in endings:
        if not ending.succeeded:
            counts[ending.availability_status, ending.failure_type] += n
    return [
        FailureCount(
            availability_status=status,
            failure_type=failure_type or "unknown",
            n=n,
            example=group.example(status, failure_type),
            hint=find_hint(
                failure_type or "unknown",
                provider=group.target.provider,
                model=group.target.model,
                settings=provider_settings,
            ),
        )
        for (status, failure_type), n in counts.most_common()
    ]


def _latency(figures: Distribution) -> LatencyStats:
    return LatencyStats(p50=figures.p50, p95=figures.p95, p99=figures.p99, mean=figures.mean)


def _percentiles(figures: Distribution) -> Percentiles:
    return Percentiles(**figures._asdict())


def _known(total: Total) -> float | None:
    return total.value if total.n else None


def _whole(total: Total) -> int | None:
    return int(total.value) if total.n else None
