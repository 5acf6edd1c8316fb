"""Every figure of a run: from what was accumulated of its rows to summary.json."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.prices import settings_of
from clawgauge.records import (
    RULE,
    SCHEMA_VERSION,
    SERVER_PARTS,
    AgreementRate,
    Event,
    GroupSummary,
    Job,
    JobVerdict,
    PromptKey,
    RunConfig,
    RunSummary,
    Status,
)
from clawgauge.records.summary import (
    CapacitySummary,
    CostSummary,
    FailureCount,
    InContext,
    Percentiles,
    RateWithInterval,
    SuiteBreakdown,
    TaskSummary,
)
from clawgauge.run_data import RowsRead, Run, Schedule, read_schedule
from clawgauge.run_data.evidence import Evidence, EvidencePools, find_pools
from clawgauge.run_data.schedule import (
    Coverage,
    Stop,
    read_asking_end,
    read_decided,
    read_no_tools,
    read_stop,
)
from clawgauge.summary.agents import read_agents
from clawgauge.summary.agreement import measure_agreement
from clawgauge.summary.capacity import read_capacity
from clawgauge.summary.families import measure_families
from clawgauge.summary.groups import Ending, Group, Strata, wall_clock_ms
from clawgauge.summary.rates import (
    PooledRate,
    cluster,
    judge_repeatability,
    measure_context,
    pool_rate,
    to_censored,
)
from clawgauge.summary.tool_use import balance_calls, judge_tool_use, pool_arguments
from clawgauge.summary.trust import (
    count_truncated,
    count_unjudged,
    find_hint,
    group_warnings,
    judge_clock,
    read_machine,
)
from clawgauge.verdict import BUILT_IN, judge_jobs, judge_load
from clawgauge.verdict.best import (
    BestOfJob,
    compare_fit_models,
    find_weighed_pools,
    read_told_apart,
)
from clawgauge.verdict.ranking import Fitness
from clawgauge.version import __version__

_PRIVATE = (
    "it was asked out of your own history: the folder is for your eyes alone, "
    "and so is every report of it"
)


def summarize_folder(path: Path, *, generated_at: datetime | None = None) -> RunSummary:
    """Every figure of the run in folder `path`, which alone suffices."""
    run = Run.open(path)
    strata = Strata()
    rows_read = run.feed(strata)
    return summarize(run, strata, rows_read, generated_at=generated_at)


def summarize(
    run: Run, strata: Strata, rows_read: RowsRead, *, generated_at: datetime | None = None
) -> RunSummary:
    """Every figure of a run whose rows the strata took in, in the pass that `rows_read` tells
    of."""
    config = run.config
    groups = strata.groups(config.targets if config else ()).values()
    with_verdict = {ending.prompt for group in groups for ending in group.endings if ending.judged}
    schedule = read_schedule(config, with_verdict)
    job_definitions = BUILT_IN | (config.jobs if config else {})
    pools = _find_pools(config, job_definitions)
    models = []
    for group in groups:
        settings = config.providers.get(group.target.provider, {}) if config else {}
        evidence = None
        if pools is not None:
            evidence = Evidence(pools, strata.observations.of(group.target))
        models.append(summarize_group(group, schedule, run.events, settings, evidence))
    capacity: list[CapacitySummary] = []
    if config is not None and config.capacity:
        capacity = read_capacity(run, config.capacity, strata.loads)
        jobs = judge_load(capacity)
    else:
        find_settings = partial(settings_of, config)
        jobs = judge_jobs(models, job_definitions, find_settings, schedule.asked_in_full)
        if pools is not None and config is not None and _goes_on_for_best(config):
            best = _find_best(run, config, job_definitions, jobs, strata, pools)
            models = _add_behind(models, best)
            jobs = judge_jobs(models, job_definitions, find_settings, schedule.asked_in_full)
            jobs = _add_pairs(jobs, best)
    return RunSummary(
        schema_version=SCHEMA_VERSION,
        run_id=run.run_id,
        generated_at=(generated_at or datetime.now(UTC)).isoformat(timespec="seconds"),
        run_wall_clock_ms=wall_clock_ms(groups),
        models=models,
        n_unreadable_lines=rows_read.n_unreadable_lines,
        source="first_harness" if run.first_harness else "clawgauge",
        jobs=jobs,
        capacity=capacity,
        context=config.context if config else None,
        clawgauge_version=__version__,
        asked="decision" if config is not None and config.decision is not None else "list",
        rule=RULE if pools is not None else 1,
        agents=read_agents(run, schedule),
    )


def _find_pools(config: RunConfig | None, jobs: Mapping[str, Job]) -> EvidencePools | None:
    """The prompts that tell of each need; None where needs are not decided by the evidence."""
    if config is None or config.rule < RULE or config.capacity is not None:
        return None
    return find_pools(config.prompts, jobs)


def _goes_on_for_best(config: RunConfig) -> bool:
    return config.decision is not None and config.decision.best


def _find_best(
    run: Run,
    config: RunConfig,
    job_definitions: Mapping[str, Job],
    verdicts: Sequence[JobVerdict],
    strata: Strata,
    pools: EvidencePools,
) -> dict[str, BestOfJob]:
    """How the fit models stand in each job that the run was to find the best for."""
    told_apart = read_told_apart(run.events)
    names = config.decision.jobs if config.decision is not None else []
    best: dict[str, BestOfJob] = {}
    for verdict in verdicts:
        job = job_definitions[verdict.job]
        if verdict.job not in names or not find_weighed_pools(verdict.job, job):
            continue
        fit_labels = {fit.target for fit in verdict.ranking if fit.fit == Fitness.YES}
        evidence = {}
        # As they were planned: of equal models the order decides nothing.
        for target in config.targets:
            if target.label in fit_labels:
                evidence[target.label] = Evidence(pools, strata.observations.of(target))
        best[verdict.job] = compare_fit_models(verdict.job, job, evidence, told_apart)
    return best


def _add_behind(
    models: Sequence[GroupSummary], best: Mapping[str, BestOfJob]
) -> list[GroupSummary]:
    with_behind = []
    for group in models:
        behind = {name: of_job.behind_p.get(group.target.label) for name, of_job in best.items()}
        with_behind.append(msgspec.structs.replace(group, behind_by_prompts=behind))
    return with_behind


def _add_pairs(verdicts: Sequence[JobVerdict], best: Mapping[str, BestOfJob]) -> list[JobVerdict]:
    with_pairs = []
    for verdict in verdicts:
        of_job = best.get(verdict.job)
        pairs = [] if of_job is None else of_job.pairs
        with_pairs.append(msgspec.structs.replace(verdict, head_to_head=pairs))
    return with_pairs


def summarize_group(
    group: Group,
    schedule: Schedule,
    events: Sequence[Event],
    provider_settings: Mapping[str, Any],
    evidence: Evidence | None = None,
) -> GroupSummary:
    """The figures of one target. Where its prompts were asked in a context too, the bare ones
    judge it. `evidence` is there where needs are decided by it."""
    target = group.target
    bare = group
    inside = None
    if schedule.bare_of:
        bare, inside = group.split({suite for suite, _ in schedule.bare_of})
    schedule = schedule.without_skipped(events, target)
    records = _count_by_prompt(group.endings)
    stop = read_stop(events, target.label, schedule.missing(target, records.recorded))
    counts = _count(group.endings)
    judged = _pool_judged(group.endings, schedule, searched=stop.searched)
    covered = schedule.cover(target, records.recorded, records.asked, stop.n_not_needed)
    coverage = _without_unjudged(covered, schedule, group.endings)
    beside = _pool_beside(bare, schedule, searched=stop.searched)
    decided = read_decided(events, target.label)
    tool_use = judge_tool_use(
        bare,
        schedule,
        stop,
        beside.arguments,
        beside.restraint,
        beside.tasks,
        evidence,
        decided,
        is_told_without=read_no_tools(events, target.label) == "provider",
    )
    warnings = group_warnings(group, coverage.n_scheduled, stop, tool_use)
    agreement = _measure_agreement(bare, schedule)
    if agreement is not None:
        warnings.append(_PRIVATE)
    in_context: list[InContext] = []
    if inside is not None:
        in_context = measure_context(bare, inside, schedule)
    by_family = None
    if evidence is not None:
        by_family = measure_families(bare, schedule, evidence.pools)
    costs = group.costs_usd()
    machine = read_machine(events, target.label)
    server_ms = {}
    for part in SERVER_PARTS:
        times = bare.describe(part)
        if times.n:
            server_ms[part] = times
    return GroupSummary(
        provider=target.provider,
        model=target.model,
        thinking_level=target.thinking_level,
        n_total=counts.n_total,
        n_ok=counts.n_ok,
        n_success=counts.n_success,
        n_skipped_unavailable=counts.n_skipped_unavailable,
        n_rate_limited=counts.n_rate_limited,
        n_error=counts.n_error,
        success_rate_ok=counts.n_success / counts.n_ok if counts.n_ok else None,
        objective_pass_rate=judged.rate,
        wall_clock_ms=wall_clock_ms([group]),
        latency_ms=group.latency(),
        resources_before=machine.resources_before,
        resources_after=machine.resources_after,
        n_auth_error=counts.n_auth_error,
        n_judged=judged.n,
        n_passed=judged.k,
        objective_pass_ci95=judged.ci95,
        n_scheduled=coverage.n_scheduled,
        pass_rate_scheduled=_share_of_scheduled(judged, coverage),
        n_scheduled_judged=coverage.n_scheduled_judged,
        tool_use=tool_use,
        restraint=_rate(beside.restraint),
        tasks=_summarize_tasks(bare, beside.tasks),
        ttft_ms=bare.describe("ttft_ms", schedule.family),
        ttfa_ms=bare.describe("ttfa_ms", schedule.family),
        output_tps=bare.describe_rates(schedule.family),
        latency_warm_ms=bare.describe("e2e_ms", schedule.family, cold=False),
        latency_cold_ms=bare.describe("e2e_ms", schedule.family, cold=True),
        n_timeouts=counts.n_timeouts,
        input_tokens=group.total("input_tokens").known,
        output_tokens=group.total("output_tokens").known,
        cost_usd=math.fsum(costs) if costs else None,
        peak_memory_bytes=machine.peak_memory_bytes,
        peak_vram_bytes=machine.peak_vram_bytes,
        n_truncated_by_max_tokens=count_truncated(group.endings),
        suites=_summarize_suites(group, schedule, records, stop, tool_use.suites),
        failures=_count_failures(group, provider_settings),
        latency_all_ms=bare.describe("e2e_ms", schedule.family),
        latency_censored_ms=_censored(bare, schedule),
        argument_accuracy=_rate_if_any(beside.arguments),
        call_balance=balance_calls(bare.offered, schedule),
        repeatability=judge_repeatability(bare.endings, schedule.repeats, schedule.family),
        clock=judge_clock(group, events),
        stopped_early=stop.early,
        n_not_needed=stop.n_not_needed,
        cached_tokens=group.total("cached_tokens").known,
        cost=_summarize_costs(costs, judged.k),
        energy_j=machine.energy_j,
        window_tokens=machine.window_tokens,
        warnings=warnings,
        server_ms=server_ms,
        in_context=in_context,
        agreement=agreement,
        n_asked_judged=coverage.n_asked_judged,
        n_attempted=counts.n_attempted,
        n_not_asked=counts.n_not_asked,
        tps_rule=bare.tps_rule,
        n_unjudged=count_unjudged(group.endings),
        evidence=evidence.count_all() if evidence is not None else None,
        decided=decided,
        asking_ended=read_asking_end(events, target.label),
        by_family=by_family,
    )


@dataclass(frozen=True, slots=True)
class _RecordsByPrompt:
    """How many records each prompt has, and how many of these are of a cell that was asked."""

    recorded: Counter[PromptKey]
    asked: Counter[PromptKey]


def _count_by_prompt(endings: Iterable[Ending]) -> _RecordsByPrompt:
    recorded: Counter[PromptKey] = Counter()
    asked: Counter[PromptKey] = Counter()
    for ending in endings:
        recorded[ending.prompt] += ending.n
        if ending.was_asked:
            asked[ending.prompt] += ending.n
    return _RecordsByPrompt(recorded, asked)


@dataclass(slots=True)
class _Counts:
    """How many cells ended in each way; the names are those of a summary."""

    n_total: int = 0
    n_attempted: int = 0
    n_not_asked: int = 0
    n_ok: int = 0
    n_success: int = 0
    n_skipped_unavailable: int = 0
    n_rate_limited: int = 0
    n_error: int = 0
    n_auth_error: int = 0
    n_timeouts: int = 0


def _count(endings: Iterable[Ending]) -> _Counts:
    counts = _Counts()
    n_by_status: Counter[Status] = Counter()
    for ending in endings:
        counts.n_total += ending.n
        if ending.was_asked:
            counts.n_attempted += ending.n
        else:
            counts.n_not_asked += ending.n
        if ending.succeeded:
            counts.n_success += ending.n
        if ending.failure_type == "timeout":
            counts.n_timeouts += ending.n
        n_by_status[ending.availability_status] += ending.n
    counts.n_ok = n_by_status["ok"]
    counts.n_skipped_unavailable = n_by_status["skipped_unavailable"]
    counts.n_rate_limited = n_by_status["rate_limited"]
    counts.n_error = n_by_status["error"]
    counts.n_auth_error = n_by_status["auth_error"]
    return counts


def _pool_judged(endings: Iterable[Ending], schedule: Schedule, *, searched: bool) -> PooledRate:
    outcomes = []
    for ending in endings:
        if ending.judged:
            outcomes.append((schedule.family(ending.prompt), ending.passed, ending.n))
    return pool_rate(outcomes, searched=searched)


@dataclass(frozen=True, slots=True)
class _Beside:
    """The rates beside the tier, each over its own prompts."""

    arguments: PooledRate
    restraint: PooledRate
    tasks: PooledRate


def _pool_beside(group: Group, schedule: Schedule, *, searched: bool) -> _Beside:
    """An empty answer is an answer, and no pass. A refusal in the protocol's own words called
    nothing and said no: it counts neither for nor against restraint."""
    restraint = []
    tasks = []
    for ending in group.endings:
        if not ending.is_evidence:
            continue
        outcome = (schedule.family(ending.prompt), ending.passed, ending.n)
        if ending.prompt in schedule.restraint and ending.failure_type != "refusal":
            restraint.append(outcome)
        if ending.prompt in schedule.tasks:
            tasks.append(outcome)
    return _Beside(
        arguments=pool_arguments(group.endings, schedule, searched=searched),
        restraint=pool_rate(restraint),
        tasks=pool_rate(tasks),
    )


def _measure_agreement(group: Group, schedule: Schedule) -> AgreementRate | None:
    """None where no turn of the user's history was answered."""
    outcomes = []
    for ending in group.endings:
        if ending.is_evidence and ending.prompt in schedule.own_work:
            outcomes.append((schedule.session(ending.prompt), ending.passed, ending.n))
    if not outcomes:
        return None
    if schedule.sessions:
        return measure_agreement(list(cluster(outcomes).values()))
    # By the rule of earlier versions.
    rate = _rate(pool_rate(outcomes))
    return AgreementRate(n=rate.n, k=rate.k, rate=rate.rate, ci95=rate.ci95, n_eff=rate.n_eff)


def _without_unjudged(
    coverage: Coverage, schedule: Schedule, endings: Iterable[Ending]
) -> Coverage:
    """The same without the answers whose check broke: they are neither passed nor failed."""
    n_unjudged = count_unjudged(ending for ending in endings if ending.prompt in schedule.judged)
    return coverage._replace(
        n_scheduled_judged=coverage.n_scheduled_judged - n_unjudged,
        n_asked_judged=coverage.n_asked_judged - n_unjudged,
    )


def _share_of_scheduled(judged: PooledRate, coverage: Coverage) -> float | None:
    if not coverage.n_scheduled_judged:
        return None
    return judged.k / coverage.n_scheduled_judged


def _censored(group: Group, schedule: Schedule, suite: str | None = None) -> Percentiles:
    whole, deadline_ms = group.describe_censored(schedule.family, suite)
    return to_censored(whole, deadline_ms)


def _summarize_tasks(group: Group, done: PooledRate) -> TaskSummary:
    rate = _rate(done)
    return TaskSummary(
        n=rate.n,
        k=rate.k,
        rate=rate.rate,
        ci95=rate.ci95,
        mean_turns=group.total("turns").mean,
        mean_tokens=group.total("task_tokens").mean,
        n_harm=group.total("harm").value,
        n_eff=rate.n_eff,
    )


def _summarize_costs(costs: Sequence[float], n_passed: int) -> CostSummary | None:
    """None where no call has a cost, which is not the same as zero."""
    if not costs:
        return None
    usd = math.fsum(costs)
    return CostSummary(
        n_priced=len(costs),
        usd=usd,
        per_call_usd=usd / len(costs),
        per_pass_usd=usd / n_passed if n_passed else None,
    )


def _rate(pooled: PooledRate) -> RateWithInterval:
    worth = pooled.effective or pooled.by_family
    return RateWithInterval(
        n=pooled.n, k=pooled.k, rate=pooled.rate, ci95=pooled.ci95, n_eff=worth.trials
    )


def _rate_if_any(pooled: PooledRate) -> RateWithInterval | None:
    return _rate(pooled) if pooled.n else None


def _summarize_suites(
    group: Group,
    schedule: Schedule,
    records: _RecordsByPrompt,
    stop: Stop,
    tier_suites: Sequence[str],
) -> list[SuiteBreakdown]:
    """Every suite with a record, in the order of the plan. What was left out on purpose is taken
    from `tier_suites`, one after the other."""
    n_left_out = stop.n_not_needed
    breakdown = []
    for suite in dict.fromkeys([*schedule.suites, *group.suites]):
        if suite not in group.suites:
            continue
        is_of_tier = suite in tier_suites
        searched = is_of_tier and stop.searched
        endings = [ending for ending in group.endings if ending.suite == suite]
        covered = schedule.cover(
            group.target, records.recorded, records.asked, n_left_out if is_of_tier else 0, suite
        )
        coverage = _without_unjudged(covered, schedule, endings)
        n_left_out -= coverage.n_not_needed
        counts = _count(endings)
        judged = _pool_judged(endings, schedule, searched=searched)
        costs = group.costs_usd(suite)
        censored = _censored(group, schedule, suite) if counts.n_timeouts else None
        summary = SuiteBreakdown(
            suite=suite,
            n_total=counts.n_total,
            n_ok=counts.n_ok,
            n_success=counts.n_success,
            n_judged=judged.n,
            n_passed=judged.k,
            objective_pass_rate=judged.rate,
            ci95=judged.ci95,
            latency_ms=group.latency(suite),
            n_scheduled=coverage.n_scheduled,
            n_scheduled_judged=coverage.n_scheduled_judged,
            pass_rate_scheduled=_share_of_scheduled(judged, coverage),
            n_timeouts=counts.n_timeouts,
            cost_usd=math.fsum(costs) if costs else None,
            by_category=_rate_categories(endings, schedule, searched=searched),
            latency_censored_ms=censored,
            n_eff=_rate(judged).n_eff,
            n_asked_judged=coverage.n_asked_judged,
            n_attempted=counts.n_attempted,
            n_not_asked=counts.n_not_asked,
        )
        breakdown.append(summary)
    return breakdown


def _rate_categories(
    endings: Sequence[Ending], schedule: Schedule, *, searched: bool
) -> dict[str, RateWithInterval]:
    """The pass rate of each category that has a verdict, in the order of the suite."""
    endings_by_category: dict[str, list[Ending]] = {}
    for category in schedule.categories.values():
        endings_by_category[category] = []
    for ending in endings:
        if ending.judged and ending.prompt in schedule.categories:
            endings_by_category[schedule.categories[ending.prompt]].append(ending)
    rates = {}
    for category, of_category in endings_by_category.items():
        if of_category:
            rates[category] = _rate(_pool_judged(of_category, schedule, searched=searched))
    return rates


def _count_failures(group: Group, provider_settings: Mapping[str, Any]) -> list[FailureCount]:
    """The ways in which calls failed, the commonest first."""
    counts: Counter[tuple[Status, str | None]] = Counter()
    not_asked: Counter[tuple[Status, str | None]] = Counter()
    for ending in group.endings:
        if ending.succeeded:
            continue
        counts[ending.availability_status, ending.failure_type] += ending.n
        if not ending.was_asked:
            not_asked[ending.availability_status, ending.failure_type] += ending.n
    failures = []
    for (status, kind), n in counts.most_common():
        failure_type = kind or "unknown"
        failure = FailureCount(
            availability_status=status,
            failure_type=failure_type,
            n=n,
            example=group.example(status, kind),
            hint=find_hint(failure_type, group.target, provider_settings),
            n_not_asked=not_asked[status, kind],
        )
        failures.append(failure)
    return failures
