"""What a plan will take: calls, and the time they took here before. A guess is never made up: unknown is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from clawgauge.cli.planning import OpenWork, Plan
from clawgauge.errors import RunFolderError
from clawgauge.journal import read_summary
from clawgauge.records import Target
from clawgauge.reports.clean import one_row
from clawgauge.runner.budgets import Foresight, foresee, tier_pool
from clawgauge.words import format_duration, format_percent, plural

_RUNS_LOOKED_AT = 20


class PastCalls(NamedTuple):
    """What earlier runs in the same folder know of a target."""

    n_calls: int
    total_ms: float

    @property
    def mean_ms(self) -> float:
        return self.total_ms / self.n_calls


def plan_lines(plan: Plan, work: OpenWork) -> list[str]:
    """The plan as a person reads it."""
    known = past_calls(plan.runs_dir)
    suites = ", ".join(f"{suite.name} ({plural(_n_asked(plan, suite.name), 'prompt')})" for suite in plan.suites)
    lines = [f"suites: {suites}; repeats: {plan.options.repeats}; concurrency: {plan.options.concurrency}"]
    calls = _open_calls(plan, work)
    lines += [_target_line(plan, target, n, known.get(target)) for target, n in calls.items()]
    at_most = "at most " if plan.options.until_decided else ""
    ending = _total_time(plan, calls, known)
    lines.append(
        f"in all: {plural(len(plan.targets), 'target')}, {at_most}{plural(sum(calls.values()), 'call')}{ending}"
    )
    return [one_row(line).rstrip("\n") for line in lines]


def tier_lines(plan: Plan) -> list[str]:
    """Whether the plan is likely to settle the tier, as a person reads it; nothing for a plan without tool prompts."""
    n_prompts = len(tier_pool(plan.prompts))
    if not n_prompts:
        return []
    first, *others = foresee(n_prompts)
    p_decided, rate = format_percent(first.p_decided), format_percent(first.rate)
    settled = f"settle it for {p_decided} of models right {rate} of the time"
    rest = "".join(
        f", {format_percent(seen.p_decided)} at {format_percent(seen.rate)} ({_half(seen)})" for seen in others
    )
    return [f"tier: {plural(n_prompts, 'tool prompt')}, which {settled} (half of these within {_half(first)}){rest}"]


def _half(seen: Foresight) -> str:
    return "over 200" if seen.median is None else str(seen.median)


def plan_facts(plan: Plan, work: OpenWork) -> dict[str, Any]:
    """The plan as a script reads it."""
    known = past_calls(plan.runs_dir)
    calls = _open_calls(plan, work)
    n_prompts = len(tier_pool(plan.prompts))
    return {
        "suites": [suite.name for suite in plan.suites],
        "prompts": len(plan.asked),
        "repeats": plan.options.repeats,
        "concurrency": plan.options.concurrency,
        "calls": sum(calls.values()),
        "targets": [
            {"target": target.label, "calls": n, "estimated_s": _estimate_s(plan, n, known.get(target))}
            for target, n in calls.items()
        ],
        "tier": {
            "prompts": n_prompts,
            "until_decided": plan.options.until_decided,
            "likely": [seen._asdict() for seen in foresee(n_prompts)] if n_prompts else [],
        },
    }


def past_calls(runs_dir: Path) -> dict[Target, PastCalls]:
    """Successful calls per target in the newest runs of this folder, taken together."""
    known: dict[Target, PastCalls] = {}
    if not runs_dir.is_dir():
        return known
    folders = sorted((path for path in runs_dir.iterdir() if (path / "summary.json").is_file()), reverse=True)
    for folder in folders[:_RUNS_LOOKED_AT]:
        try:
            summary = read_summary(folder)
        except RunFolderError:
            continue
        for group in summary.models if summary else ():
            target = Target(group.provider, group.model, group.thinking_level)
            if group.latency_ms.mean is not None:
                before = known.get(target, PastCalls(0, 0.0))
                total_ms = before.total_ms + group.latency_ms.mean * group.n_success
                known[target] = PastCalls(before.n_calls + group.n_success, total_ms)
    return known


def _open_calls(plan: Plan, work: OpenWork) -> dict[Target, int]:
    return {target: plan.agenda(target, work).n_open for target in plan.targets}


def _n_asked(plan: Plan, suite: str) -> int:
    return sum(1 for prompt in plan.asked if prompt.suite == suite)


def _estimate_s(plan: Plan, n_calls: int, past: PastCalls | None) -> float | None:
    return None if past is None else round(past.mean_ms * n_calls / 1000 / plan.options.concurrency, 1)


def _target_line(plan: Plan, target: Target, n_calls: int, past: PastCalls | None) -> str:
    seconds = _estimate_s(plan, n_calls, past)
    if past is None or seconds is None:
        return f"  {target.label}: {plural(n_calls, 'call')}, time unknown (not measured here yet)"
    basis = f"as measured here before, {plural(past.n_calls, 'call')}"
    return f"  {target.label}: {plural(n_calls, 'call')}, about {format_duration(seconds * 1000)} ({basis})"


def _total_time(plan: Plan, calls: dict[Target, int], known: dict[Target, PastCalls]) -> str:
    estimates = [_estimate_s(plan, n, known.get(target)) for target, n in calls.items()]
    told = [seconds for seconds in estimates if seconds is not None]
    if not told:
        return ""
    rest = "" if len(told) == len(estimates) else f", and {len(estimates) - len(told)} of unknown speed"
    return f", about {format_duration(sum(told) * 1000)}{rest}"
