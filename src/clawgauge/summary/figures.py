"""Every figure of a run: from what was accumulated of its rows to summary.json."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.prices import settings_of
from clawgauge.records import SCHEMA_VERSION, SERVER_PARTS, Event, GroupSummary, PromptKey, RunSummary, Status
from clawgauge.records.summary import CostSummary, FailureCount, RateWithInterval, SuiteBreakdown, TaskSummary
from clawgauge.run_data import RowsRead, Run, Schedule, read_schedule
from clawgauge.run_data.schedule import Coverage, Stop, read_stop
from clawgauge.summary.capacity import read_capacity
from clawgauge.summary.groups import Ending, Family, Group, Strata, wall_clock_ms
from clawgauge.summary.rates import PooledRate, judge_repeatability, measure_context, pool_rate, to_censored
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
from clawgauge.version import __version__

_PRIVATE = "it was asked out of your own history: the folder is for your eyes alone, and so is every report of it"


def summarize_folder(path: Path, *, generated_at: datetime | None = None) -> RunSummary:
    """Every figure of the run in folder `path`, which alone suffices."""
    run = Run.open(path)
    strata = Strata()
    rows_read = run.feed(strata)
    return summarize(run, strata, rows_read, generated_at=generated_at)


def summarize(
    run: Run, strata: Strata, rows_read: RowsRead, *, generated_at: datetime | None = None
) -> RunSummary:
    """Every figure of a run whose rows the strata took in, in the pass that `rows_read` tells of."""
    config = run.config
    recorded = strata.groups(config.targets if config else ())
    with_verdict = {e.prompt for group in recorded.values() for e in group.endings if e.judged}
    schedule = read_schedule(config, with_verdict)
    settings = config.providers if config else {}
    groups = recorded.values()
    models = [summarize_group(group, schedule, run.events, settings.get(group.target.provider, {})) for group in groups]
    known = BUILT_IN | (config.jobs if config else {})
    loaded = config.capacity if config else None
    capacity = read_capacity(run, loaded, strata.loads) if loaded else []
    jobs = None if loaded else judge_jobs(models, known, partial(settings_of, config), schedule.asked_in_full)
    return RunSummary(
        schema_version=SCHEMA_VERSION, run_id=run.run_id,
        generated_at=(generated_at or datetime.now(UTC)).isoformat(timespec="seconds"),
        run_wall_clock_ms=wall_clock_ms(groups), models=models, n_unreadable_lines=rows_read.n_unreadable_lines,
        source="first_harness" if run.first_harness else "clawgauge",
        jobs=judge_load(capacity) if jobs is None else jobs, capacity=capacity,
        context=config.context if config else None, clawgauge_version=__version__,
    )  # fmt: skip


def summarize_group(
    group: Group, schedule: Schedule, events: Sequence[Event], provider_settings: Mapping[str, Any]
) -> GroupSummary:
    target, endings = group.target, group.endings
    # Whatever the context does to a model: it is judged by the bare prompts.
    own, inside = group.split({suite for suite, _ in schedule.bare_of}) if schedule.bare_of else (group, None)
    schedule = schedule.without_skipped(events, target)
    recorded: Counter[PromptKey] = Counter()
    asked: Counter[PromptKey] = Counter()
    for ending in endings:
        recorded[ending.prompt] += ending.n
        if ending.was_asked:
            asked[ending.prompt] += ending.n
    stop = read_stop(events, target.label, schedule.missing(target, recorded))
    covered = schedule.cover(target, recorded, asked, stop.n_not_needed)
    coverage = _without_unjudged(covered, schedule, endings)
    judged = _pool(endings, schedule, searched=stop.searched)
    arguments = pool_arguments(own.endings, schedule, searched=stop.searched)
    # An empty answer is an answer, and no pass. A refusal in the protocol's own words called nothing and said no: it
    # counts neither for nor against restraint.
    answered = [e for e in own.endings if e.is_evidence]
    held_back = [e for e in answered if e.prompt in schedule.restraint and e.failure_type != "refusal"]
    restraint = pool_rate((schedule.family(e.prompt), e.passed, e.n) for e in held_back)
    tasks = pool_rate((schedule.family(e.prompt), e.passed, e.n) for e in answered if e.prompt in schedule.tasks)
    own_work = pool_rate((schedule.family(e.prompt), e.passed, e.n) for e in answered if e.prompt in schedule.own_work)
    tool_use = judge_tool_use(own, schedule, stop, arguments, restraint, tasks)
    counts, private = _count(endings), [_PRIVATE] if own_work.n else []
    done = TaskSummary(
        **msgspec.structs.asdict(_rate(tasks)), mean_turns=own.total("turns").mean,
        mean_tokens=own.total("task_tokens").mean, n_harm=own.total("harm").value,
    )  # fmt: skip
    return GroupSummary(
        **msgspec.structs.asdict(target), **counts,
        success_rate_ok=counts["n_success"] / counts["n_ok"] if counts["n_ok"] else None,
        n_truncated_by_max_tokens=count_truncated(endings), n_unjudged=count_unjudged(endings),
        **_passes(judged, coverage), objective_pass_ci95=judged.ci95,
        stopped_early=stop.early, n_not_needed=stop.n_not_needed,
        tool_use=tool_use, argument_accuracy=_rate(arguments) if arguments.n else None,
        call_balance=balance_calls(own.offered, schedule), restraint=_rate(restraint), tasks=done,
        agreement=_rate(own_work) if own_work.n else None,
        repeatability=judge_repeatability(own.endings, schedule.repeats, schedule.family),
        suites=_suites(group, schedule, recorded, asked, stop, tool_use.suites),
        failures=_failures(group, provider_settings), clock=judge_clock(group, events),
        warnings=[*group_warnings(group, coverage.n_scheduled, stop, tool_use), *private],
        **_timings(group, own, schedule.family), **read_machine(events, target.label), **_costs(group, judged.k),
        in_context=measure_context(own, inside, schedule) if inside else [],
    )  # fmt: skip


def _count(endings: Iterable[Ending]) -> dict[str, Any]:
    ways = ("skipped_unavailable", "rate_limited", "error", "auth_error")
    counts = {f"n_{name}": 0 for name in ("total", "success", "timeouts", "ok", *ways)}
    counts["n_attempted"] = 0
    counts["n_not_asked"] = 0
    for ending in endings:
        counts["n_total"] += ending.n
        counts["n_attempted" if ending.was_asked else "n_not_asked"] += ending.n
        counts[f"n_{ending.availability_status}"] += ending.n
        counts["n_success"] += ending.n if ending.succeeded else 0
        counts["n_timeouts"] += ending.n if ending.failure_type == "timeout" else 0
    return counts


def _pool(endings: Iterable[Ending], schedule: Schedule, *, searched: bool) -> PooledRate:
    return pool_rate(((schedule.family(e.prompt), e.passed, e.n) for e in endings if e.judged), searched=searched)


def _without_unjudged(coverage: Coverage, schedule: Schedule, endings: Iterable[Ending]) -> Coverage:
    """The same without the answers whose check broke: they are neither passed nor failed."""
    n_unjudged = count_unjudged(e for e in endings if e.prompt in schedule.judged)
    return coverage._replace(
        n_scheduled_judged=coverage.n_scheduled_judged - n_unjudged,
        n_asked_judged=coverage.n_asked_judged - n_unjudged,
    )


def _passes(judged: PooledRate, coverage: Coverage) -> dict[str, Any]:
    """What passed, of what was judged and of what was scheduled, under their names in the summary."""
    counted = ("n_scheduled", "n_scheduled_judged", "n_asked_judged")
    passes = {"n_judged": judged.n, "n_passed": judged.k, "objective_pass_rate": judged.rate}
    of_all = judged.k / n if (n := coverage.n_scheduled_judged) else None
    return {**passes, **{name: getattr(coverage, name) for name in counted}, "pass_rate_scheduled": of_all}


def _timings(group: Group, own: Group, family: Family) -> dict[str, Any]:
    """The fields that say how long it took, under their names in the summary; `own` is what the model is judged by."""
    return {
        "wall_clock_ms": wall_clock_ms([group]),
        "latency_ms": group.latency(),
        "latency_all_ms": own.describe("e2e_ms", family),
        "latency_censored_ms": to_censored(*own.describe_censored(family)),
        "latency_warm_ms": own.describe("e2e_ms", family, cold=False),
        "latency_cold_ms": own.describe("e2e_ms", family, cold=True),
        **{name: own.describe(name, family) for name in ("ttft_ms", "ttfa_ms", "output_tps")},
        "tps_rule": own.tps_rule,
        "server_ms": {part: times for part in SERVER_PARTS if (times := own.describe(part)).n},
    }


def _costs(group: Group, n_passed: int) -> dict[str, Any]:
    """Tokens and what was paid; nothing where no call has a cost, which is not the same as zero."""
    tokens = {name: group.total(name).known for name in ("input_tokens", "output_tokens", "cached_tokens")}
    costs = group.costs_usd()
    if not costs:
        return {**tokens, "cost_usd": None, "cost": None}
    usd, n = math.fsum(costs), len(costs)
    cost = CostSummary(n_priced=n, usd=usd, per_call_usd=usd / n, per_pass_usd=usd / n_passed if n_passed else None)
    return {**tokens, "cost_usd": usd, "cost": cost}


def _rate(pooled: PooledRate) -> RateWithInterval:
    worth = pooled.effective or pooled.by_family
    return RateWithInterval(n=pooled.n, k=pooled.k, rate=pooled.rate, ci95=pooled.ci95, n_eff=worth.trials)


def _suites(
    group: Group,
    schedule: Schedule,
    recorded: Mapping[PromptKey, int],
    asked: Mapping[PromptKey, int],
    stop: Stop,
    tier_suites: Sequence[str],
) -> list[SuiteBreakdown]:
    left_out = stop.n_not_needed
    breakdown = []
    for suite in dict.fromkeys([*schedule.suites, *group.suites]):
        if suite not in group.suites:
            continue
        is_tiers = suite in tier_suites
        searched = is_tiers and stop.searched
        n_spared = left_out if is_tiers else 0
        endings = [e for e in group.endings if e.suite == suite]
        covered = schedule.cover(group.target, recorded, asked, n_spared, suite)
        coverage = _without_unjudged(covered, schedule, endings)
        left_out -= coverage.n_not_needed
        counts, judged, costs = _count(endings), _pool(endings, schedule, searched=searched), group.costs_usd(suite)
        censored = to_censored(*group.describe_censored(schedule.family, suite)) if counts["n_timeouts"] else None
        breakdown.append(SuiteBreakdown(
            suite=suite, n_total=counts["n_total"], n_ok=counts["n_ok"], n_success=counts["n_success"],
            n_timeouts=counts["n_timeouts"], n_attempted=counts["n_attempted"], n_not_asked=counts["n_not_asked"],
            **_passes(judged, coverage), ci95=judged.ci95, n_eff=_rate(judged).n_eff,
            latency_ms=group.latency(suite), latency_censored_ms=censored,
            cost_usd=math.fsum(costs) if costs else None,
            by_category=_by_category(endings, schedule, searched=searched),
        ))  # fmt: skip
    return breakdown


def _by_category(endings: Sequence[Ending], schedule: Schedule, *, searched: bool) -> dict[str, RateWithInterval]:
    mine: dict[str, list[Ending]] = {category: [] for category in schedule.categories.values()}
    for ending in endings:
        if ending.judged and ending.prompt in schedule.categories:
            mine[schedule.categories[ending.prompt]].append(ending)
    return {category: _rate(_pool(own, schedule, searched=searched)) for category, own in mine.items() if own}


def _failures(group: Group, provider_settings: Mapping[str, Any]) -> list[FailureCount]:
    counts: Counter[tuple[Status, str | None]] = Counter()
    not_asked: Counter[tuple[Status, str | None]] = Counter()
    for ending in group.endings:
        if not ending.succeeded:
            counts[ending.availability_status, ending.failure_type] += ending.n
            if not ending.was_asked:
                not_asked[ending.availability_status, ending.failure_type] += ending.n
    found = []
    for (status, kind), n in counts.most_common():
        failure = FailureCount(
            availability_status=status,
            failure_type=kind or "unknown",
            n=n,
            example=group.example(status, kind),
            hint=find_hint(kind or "unknown", group.target, provider_settings),
            n_not_asked=not_asked[status, kind],
        )
        found.append(failure)
    return found
