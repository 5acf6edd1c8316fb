"""Every figure of a run: from what was accumulated of its rows to summary.json."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.records import (
    SCHEMA_VERSION,
    CostSummary,
    Event,
    FailureCount,
    GroupSummary,
    PromptKey,
    RateWithInterval,
    RunSummary,
    Status,
    SuiteBreakdown,
    TaskSummary,
)
from clawgauge.run_data import Run, Schedule, read_schedule
from clawgauge.run_data.schedule import Coverage, Stop, cover, read_stop
from clawgauge.summary.groups import Ending, Group, Strata, wall_clock_ms
from clawgauge.summary.rates import PooledRate, judge_repeatability, pool_rate, to_censored, to_latency_stats
from clawgauge.summary.tool_use import balance_calls, judge_tool_use, pool_arguments
from clawgauge.summary.trust import count_truncated, find_hint, group_warnings, judge_clock, read_machine
from clawgauge.verdict import BUILT_IN, judge_jobs


def summarize_folder(path: Path, *, generated_at: datetime | None = None) -> RunSummary:
    """Every figure of the run in folder `path`, which alone suffices."""
    strata = Strata()
    return summarize(Run.open(path).feed(strata), strata, generated_at=generated_at)


def summarize(run: Run, strata: Strata, *, generated_at: datetime | None = None) -> RunSummary:
    """Every figure of a run whose rows the strata took in."""
    config = run.config
    recorded = strata.groups(config.targets if config else ())
    with_verdict = {e.prompt for group in recorded.values() for e in group.endings if e.judged}
    schedule = read_schedule(config, with_verdict)
    settings = config.providers if config else {}
    groups = recorded.values()
    models = [summarize_group(group, schedule, run.events, settings.get(group.target.provider, {})) for group in groups]
    jobs = BUILT_IN | (config.jobs if config else {})
    return RunSummary(
        schema_version=SCHEMA_VERSION,
        run_id=run.run_id,
        generated_at=(generated_at or datetime.now(UTC)).isoformat(timespec="seconds"),
        run_wall_clock_ms=wall_clock_ms(groups),
        models=models,
        n_unreadable_lines=run.n_unreadable_lines,
        source="first_harness" if run.first_harness else "clawgauge",
        jobs=judge_jobs(models, jobs, settings, schedule.asked_in_full),
    )


def summarize_group(
    group: Group, schedule: Schedule, events: Sequence[Event], provider_settings: Mapping[str, Any]
) -> GroupSummary:
    target, endings = group.target, group.endings
    schedule = schedule.without_skipped(events, target)
    recorded: Counter[PromptKey] = Counter()
    for ending in endings:
        recorded[ending.prompt] += ending.n
    stop = read_stop(events, target.label, schedule.missing(target, recorded))
    coverage = cover(schedule, target, recorded, stop.n_not_needed)
    judged = _pool(endings, schedule, searched=stop.searched)
    arguments = pool_arguments(endings, schedule, searched=stop.searched)
    # An empty answer is an answer, and no pass. A refusal in the protocol's own words called nothing and said no: it
    # counts neither for nor against restraint.
    answered = [e for e in endings if e.answered]
    held_back = [e for e in answered if e.prompt in schedule.restraint and e.failure_type != "refusal"]
    restraint = pool_rate((schedule.family(e.prompt), e.passed, e.n) for e in held_back)
    tasks = pool_rate((schedule.family(e.prompt), e.passed, e.n) for e in answered if e.prompt in schedule.tasks)
    tool_use = judge_tool_use(group, schedule, stop, arguments, restraint, tasks)
    counts = _count(endings)
    return GroupSummary(
        provider=target.provider,
        model=target.model,
        thinking_level=target.thinking_level,
        **counts,
        success_rate_ok=counts["n_success"] / counts["n_ok"] if counts["n_ok"] else None,
        n_truncated_by_max_tokens=count_truncated(endings),
        **_passes(judged, coverage),
        objective_pass_ci95=judged.ci95,
        stopped_early=stop.early,
        n_not_needed=stop.n_not_needed,
        tool_use=tool_use,
        argument_accuracy=_rate(arguments) if arguments.n else None,
        call_balance=balance_calls(group.offered, schedule),
        restraint=_rate(restraint),
        tasks=TaskSummary(
            **msgspec.structs.asdict(_rate(tasks)),
            mean_turns=group.total("turns").mean,
            mean_tokens=group.total("task_tokens").mean,
            n_harm=group.total("harm").value,
        ),
        repeatability=judge_repeatability(endings, schedule.repeats, schedule.family),
        suites=_suites(group, schedule, recorded, stop, tool_use.suites),
        failures=_failures(group, provider_settings),
        clock=judge_clock(group, events),
        warnings=group_warnings(group, coverage.n_scheduled, stop, tool_use),
        **_timings(group, schedule.family),
        input_tokens=group.total("input_tokens").known,
        output_tokens=group.total("output_tokens").known,
        cached_tokens=group.total("cached_tokens").known,
        **read_machine(events, target.label),
        **_costs(group, judged.k),
    )


def _count(endings: Iterable[Ending]) -> dict[str, Any]:
    """How many cells ended how, under their names in the summary."""
    counts = dict.fromkeys(("n_total", "n_success", "n_timeouts", "n_ok"), 0)
    counts |= dict.fromkeys(("n_skipped_unavailable", "n_rate_limited", "n_error", "n_auth_error"), 0)
    for ending in endings:
        counts["n_total"] += ending.n
        counts[f"n_{ending.availability_status}"] += ending.n
        counts["n_success"] += ending.n if ending.succeeded else 0
        counts["n_timeouts"] += ending.n if ending.failure_type == "timeout" else 0
    return counts


def _pool(endings: Iterable[Ending], schedule: Schedule, *, searched: bool) -> PooledRate:
    """Passes among the successful calls that have a verdict."""
    return pool_rate(((schedule.family(e.prompt), e.passed, e.n) for e in endings if e.judged), searched=searched)


def _passes(judged: PooledRate, coverage: Coverage) -> dict[str, Any]:
    """What passed, of what was judged and of what was scheduled, under their names in the summary."""
    return {
        "n_judged": judged.n,
        "n_passed": judged.k,
        "objective_pass_rate": judged.rate,
        "n_scheduled": coverage.n_scheduled,
        "n_scheduled_judged": coverage.n_scheduled_judged,
        "pass_rate_scheduled": coverage.pass_rate(judged.k),
    }


def _timings(group: Group, family: Callable[[PromptKey], PromptKey]) -> dict[str, Any]:
    """The fields that say how long it took, under their names in the summary."""
    latency = group.describe("e2e_ms", family)
    return {
        "wall_clock_ms": wall_clock_ms([group]),
        "latency_ms": to_latency_stats(latency),
        "latency_all_ms": latency,
        "latency_censored_ms": to_censored(*group.describe_censored(family)),
        "latency_warm_ms": group.describe("e2e_ms", family, cold=False),
        "latency_cold_ms": group.describe("e2e_ms", family, cold=True),
        **{name: group.describe(name, family) for name in ("ttft_ms", "ttfa_ms", "output_tps")},
    }


def _costs(group: Group, n_passed: int) -> dict[str, Any]:
    """What was paid; nothing where no call has a cost, which is not the same as zero."""
    costs = group.costs_usd()
    if not costs:
        return {"cost_usd": None, "cost": None}
    usd = math.fsum(costs)
    per_pass = usd / n_passed if n_passed else None
    cost = CostSummary(n_priced=len(costs), usd=usd, per_call_usd=usd / len(costs), per_pass_usd=per_pass)
    return {"cost_usd": usd, "cost": cost}


def _rate(pooled: PooledRate) -> RateWithInterval:
    worth = pooled.effective or pooled.by_family
    return RateWithInterval(n=pooled.n, k=pooled.k, rate=pooled.rate, ci95=pooled.ci95, n_eff=worth.trials)


def _suites(
    group: Group, schedule: Schedule, recorded: Mapping[PromptKey, int], stop: Stop, tier_suites: Sequence[str]
) -> list[SuiteBreakdown]:
    """The suites in the order of the plan, then others as they came."""
    left_out = stop.n_not_needed
    breakdown = []
    for suite in dict.fromkeys([*schedule.suites, *group.suites]):
        if suite not in group.suites:
            continue
        is_tiers = suite in tier_suites
        searched = is_tiers and stop.searched
        coverage = cover(schedule, group.target, recorded, left_out if is_tiers else 0, suites=(suite,))
        left_out -= coverage.n_not_needed
        endings = [e for e in group.endings if e.suite == suite]
        counts, judged, costs = _count(endings), _pool(endings, schedule, searched=searched), group.costs_usd(suite)
        breakdown.append(
            SuiteBreakdown(
                suite=suite,
                **{name: counts[name] for name in ("n_total", "n_ok", "n_success", "n_timeouts")},
                **_passes(judged, coverage),
                ci95=judged.ci95,
                n_eff=_rate(judged).n_eff,
                latency_ms=to_latency_stats(group.describe("e2e_ms", suite=suite)),
                cost_usd=math.fsum(costs) if costs else None,
                by_category=_by_category(endings, schedule, searched=searched),
                latency_censored_ms=to_censored(*group.describe_censored(schedule.family, suite))
                if counts["n_timeouts"]
                else None,
            )
        )
    return breakdown


def _by_category(endings: Sequence[Ending], schedule: Schedule, *, searched: bool) -> dict[str, RateWithInterval]:
    """Passes of each category of prompts, in the order of the plan."""
    mine: dict[str, list[Ending]] = {category: [] for category in schedule.categories.values()}
    for ending in endings:
        if ending.judged and ending.prompt in schedule.categories:
            mine[schedule.categories[ending.prompt]].append(ending)
    return {category: _rate(_pool(own, schedule, searched=searched)) for category, own in mine.items() if own}


def _failures(group: Group, provider_settings: Mapping[str, Any]) -> list[FailureCount]:
    counts: Counter[tuple[Status, str | None]] = Counter()
    for ending in group.endings:
        if not ending.succeeded:
            counts[ending.availability_status, ending.failure_type] += ending.n
    return [
        FailureCount(
            availability_status=status,
            failure_type=failure_type or "unknown",
            n=n,
            example=group.example(status, failure_type),
            hint=find_hint(failure_type or "unknown", group.target, provider_settings),
        )
        for (status, failure_type), n in counts.most_common()
    ]
