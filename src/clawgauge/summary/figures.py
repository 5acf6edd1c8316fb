"""Every figure of a run: from what was accumulated of its rows to summary.json."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clawgauge.records import (
    SCHEMA_VERSION,
    TOOLS_DROPPED,
    CostSummary,
    Event,
    FailureCount,
    GroupSummary,
    PromptKey,
    RateWithInterval,
    RunSummary,
    SuiteBreakdown,
    TaskSummary,
)
from clawgauge.run_data import Run, Schedule, read_schedule
from clawgauge.run_data.schedule import Coverage, Stop, cover, read_stop
from clawgauge.summary.groups import Ending, GroupAccumulator, Strata, wall_clock_ms
from clawgauge.summary.rates import (
    PooledRate,
    judge_repeatability,
    pool_rate,
    to_censored,
    to_latency_stats,
    to_percentiles,
)
from clawgauge.summary.recommendation import with_recommendation
from clawgauge.summary.tool_use import balance_calls, judge_tool_use, pool_arguments, word_caution
from clawgauge.summary.trust import count_truncated, find_hint, group_warnings, judge_clock, read_machine
from clawgauge.verdict import built_in, judge_jobs


@dataclass(frozen=True, slots=True)
class _Counts:
    """The cells of a group, by status and by prompt."""

    statuses: Counter[str]
    recorded: Counter[PromptKey]
    n_success: int
    n_timeouts: int


def summarize_folder(path: Path, *, generated_at: datetime | None = None) -> RunSummary:
    """Every figure of the run in folder `path`, which alone suffices."""
    strata = Strata()
    return summarize(Run.open(path).feed(strata), strata, generated_at=generated_at)


def summarize(run: Run, strata: Strata, *, generated_at: datetime | None = None) -> RunSummary:
    """Every figure of a run whose rows the strata took in."""
    config = run.config
    recorded = strata.groups(config.targets if config else ())
    with_verdict = {e.prompt for group in recorded.values() for e in group.endings() if e.judged}
    schedule = read_schedule(config, with_verdict)
    settings = config.providers if config else {}
    groups = recorded.values()
    models = [summarize_group(group, schedule, run.events, settings.get(group.target.provider, {})) for group in groups]
    jobs = built_in() | (config.jobs if config else {})
    return RunSummary(
        schema_version=SCHEMA_VERSION,
        run_id=run.run_id,
        generated_at=(generated_at or datetime.now(UTC)).isoformat(timespec="seconds"),
        run_wall_clock_ms=wall_clock_ms(span for group in groups for span in group.spans()),
        models=models,
        n_unreadable_lines=run.n_unreadable_lines,
        source="first_harness" if run.first_harness else "clawgauge",
        jobs=judge_jobs(models, jobs, settings, schedule.asked_in_full),
    )


def summarize_group(
    group: GroupAccumulator, schedule: Schedule, events: Sequence[Event], provider_settings: Mapping[str, Any]
) -> GroupSummary:
    """Every figure of one target."""
    schedule = schedule.without_skipped(events, group.target)
    endings, offered = group.endings(), group.offered()
    counts = _count(endings)
    n_ok, n_success = counts.statuses["ok"], counts.n_success
    stop = read_stop(events, group.target.label, schedule.missing(group.target, counts.recorded))
    judged = pool_judged(endings, schedule, searched=stop.searched)
    coverage = cover(schedule, group.target, counts.recorded, stop.n_not_needed)
    arguments = pool_arguments(endings, schedule, searched=stop.searched)
    restraint, tasks = _pool_restraint(endings, schedule), _pool_answered(endings, schedule.tasks, schedule)
    tool_use = judge_tool_use(
        endings,
        group.tool_signs(),
        offered,
        schedule,
        stop=stop,
        caution=word_caution(endings, offered, schedule, arguments),
    )
    n_harm = group.total("harm").value
    tool_use = with_recommendation(
        tool_use,
        group.target,
        arguments,
        restraint,
        tasks,
        n_harm,
        asked_in_full=schedule.asked_in_full,
        saw_tools=not any(warning.startswith(TOOLS_DROPPED) for warning in group.warnings()),
    )
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
        n_auth_error=counts.statuses["auth_error"],
        success_rate_ok=n_success / n_ok if n_ok else None,
        objective_pass_rate=judged.rate,
        n_judged=judged.n,
        n_passed=judged.k,
        objective_pass_ci95=judged.ci95,
        n_scheduled=coverage.n_scheduled,
        pass_rate_scheduled=coverage.pass_rate(judged.k),
        n_scheduled_judged=coverage.n_scheduled_judged,
        stopped_early=stop.early,
        n_not_needed=stop.n_not_needed,
        tool_use=tool_use,
        argument_accuracy=_rate(arguments) if arguments.n else None,
        call_balance=balance_calls(offered, schedule),
        restraint=_rate(restraint),
        tasks=_tasks(group, tasks, n_harm),
        repeatability=judge_repeatability(endings, schedule.repeats, schedule.family),
        n_timeouts=counts.n_timeouts,
        n_truncated_by_max_tokens=count_truncated(endings),
        suites=_suites(group, endings, schedule, counts.recorded, stop, tool_use.suites),
        failures=_failures(group, endings, provider_settings),
        clock=judge_clock(group, events),
        warnings=group_warnings(group, endings, coverage.n_scheduled, stop, tool_use),
        **_timings(group, schedule.family),
        input_tokens=group.total("input_tokens").known,
        output_tokens=group.total("output_tokens").known,
        cached_tokens=group.total("cached_tokens").known,
        **read_machine(events, group.target.label),
        **_costs(group, judged.k),
    )


def _timings(group: GroupAccumulator, family: Callable[[PromptKey], PromptKey]) -> dict[str, Any]:
    """The fields that say how long it took, under their names in the summary."""
    latency = group.describe("e2e_ms", family=family)
    return {
        "wall_clock_ms": wall_clock_ms(group.spans()),
        "latency_ms": to_latency_stats(latency),
        "latency_all_ms": to_percentiles(latency),
        "latency_censored_ms": to_censored(*group.describe_censored(family)),
        "latency_warm_ms": to_percentiles(group.describe("e2e_ms", lambda key: key.cold_start is False, family)),
        "latency_cold_ms": to_percentiles(group.describe("e2e_ms", lambda key: key.cold_start is True, family)),
        **{name: to_percentiles(group.describe(name, family=family)) for name in ("ttft_ms", "ttfa_ms", "output_tps")},
    }


def _costs(group: GroupAccumulator, n_passed: int) -> dict[str, Any]:
    """What was paid; nothing where no call has a cost, which is not the same as zero."""
    costs = group.costs_usd()
    if not costs:
        return {"cost_usd": None, "cost": None}
    usd = math.fsum(costs)
    per_pass = usd / n_passed if n_passed else None
    cost = CostSummary(n_priced=len(costs), usd=usd, per_call_usd=usd / len(costs), per_pass_usd=per_pass)
    return {"cost_usd": usd, "cost": cost}


def _count(endings: Sequence[Ending]) -> _Counts:
    statuses: Counter[str] = Counter()
    recorded: Counter[PromptKey] = Counter()
    for ending in endings:
        statuses[ending.availability_status] += ending.n
        recorded[ending.prompt] += ending.n
    return _Counts(
        statuses=statuses,
        recorded=recorded,
        n_success=sum(e.n for e in endings if e.succeeded),
        n_timeouts=sum(e.n for e in endings if e.failure_type == "timeout"),
    )


def pool_judged(endings: Sequence[Ending], schedule: Schedule, *, searched: bool = False) -> PooledRate:
    """Passes among the successful calls that have a verdict."""
    return pool_rate(((schedule.family(e.prompt), e.passed, e.n) for e in endings if e.judged), searched=searched)


def _pool_answered(endings: Sequence[Ending], prompts: frozenset[PromptKey], schedule: Schedule) -> PooledRate:
    """Passes among the answered cells of some prompts; an empty answer is an answer, and no pass."""
    return pool_rate((schedule.family(e.prompt), e.passed, e.n) for e in endings if e.answered and e.prompt in prompts)


def _pool_restraint(endings: Sequence[Ending], schedule: Schedule) -> PooledRate:
    """A refusal in the protocol's own words called nothing and said no: it counts neither for nor against."""
    said = [e for e in endings if e.failure_type != "refusal"]
    return _pool_answered(said, schedule.restraint, schedule)


def _rate(pooled: PooledRate) -> RateWithInterval:
    worth = pooled.effective or pooled.by_family
    return RateWithInterval(n=pooled.n, k=pooled.k, rate=pooled.rate, ci95=pooled.ci95, n_eff=worth.trials)


def _tasks(group: GroupAccumulator, pooled: PooledRate, n_harm: int) -> TaskSummary:
    return TaskSummary(
        n=pooled.n,
        k=pooled.k,
        rate=pooled.rate,
        ci95=pooled.ci95,
        mean_turns=group.total("turns").mean,
        mean_tokens=group.total("task_tokens").mean,
        n_harm=n_harm,
    )


def _suites(
    group: GroupAccumulator,
    endings: Sequence[Ending],
    schedule: Schedule,
    recorded: Mapping[PromptKey, int],
    stop: Stop,
    tier_suites: Sequence[str],
) -> list[SuiteBreakdown]:
    present = group.suites()
    in_order = [suite for suite in schedule.suites if suite in present]
    in_order += [suite for suite in present if suite not in schedule.suites]
    left_out = stop.n_not_needed
    breakdown = []
    for suite in in_order:
        is_tiers = suite in tier_suites
        coverage = cover(schedule, group.target, recorded, left_out if is_tiers else 0, suites=(suite,))
        left_out -= coverage.n_not_needed
        mine = [e for e in endings if e.suite == suite]
        breakdown.append(_suite(group, schedule, suite, mine, coverage, searched=is_tiers and stop.searched))
    return breakdown


def _suite(
    group: GroupAccumulator,
    schedule: Schedule,
    suite: str,
    endings: Sequence[Ending],
    coverage: Coverage,
    *,
    searched: bool,
) -> SuiteBreakdown:
    judged, costs = pool_judged(endings, schedule, searched=searched), group.costs_usd(suite)
    n_timeouts = sum(e.n for e in endings if e.failure_type == "timeout")
    return SuiteBreakdown(
        suite=suite,
        n_total=sum(e.n for e in endings),
        n_ok=sum(e.n for e in endings if e.answered),
        n_success=sum(e.n for e in endings if e.succeeded),
        n_judged=judged.n,
        n_passed=judged.k,
        objective_pass_rate=judged.rate,
        ci95=judged.ci95,
        latency_ms=to_latency_stats(group.describe("e2e_ms", lambda key: key.suite == suite)),
        n_scheduled=coverage.n_scheduled,
        n_scheduled_judged=coverage.n_scheduled_judged,
        pass_rate_scheduled=coverage.pass_rate(judged.k),
        n_timeouts=n_timeouts,
        cost_usd=math.fsum(costs) if costs else None,
        by_category=_by_category(endings, schedule, searched=searched),
        latency_censored_ms=to_censored(*group.describe_censored(schedule.family, suite)) if n_timeouts else None,
    )


def _by_category(endings: Sequence[Ending], schedule: Schedule, *, searched: bool) -> dict[str, RateWithInterval]:
    """Passes of each category of prompts, in the order of the plan."""
    mine: dict[str, list[Ending]] = {category: [] for category in schedule.categories.values()}
    for ending in endings:
        if ending.judged and ending.prompt in schedule.categories:
            mine[schedule.categories[ending.prompt]].append(ending)
    return {category: _rate(pool_judged(own, schedule, searched=searched)) for category, own in mine.items() if own}


def _failures(
    group: GroupAccumulator, endings: Sequence[Ending], provider_settings: Mapping[str, Any]
) -> list[FailureCount]:
    counts: Counter[tuple[str, str | None]] = Counter()
    for ending in endings:
        if not ending.succeeded:
            counts[ending.availability_status, ending.failure_type] += ending.n
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
