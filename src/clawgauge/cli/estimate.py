"""What a plan will take: calls, and the time they took here before. A guess is never made up: unknown is said."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from clawgauge.errors import RunFolderError
from clawgauge.journal import read_summary
from clawgauge.plan import Plan
from clawgauge.records import Target
from clawgauge.reports.clean import one_row
from clawgauge.runner.agenda import make_agenda
from clawgauge.runner.budgets import Foresight, cost_budget, foresee, tier_pool
from clawgauge.words import format_duration, format_percent, plural

_RUNS_LOOKED_AT = 20


class PastCalls(NamedTuple):
    """What earlier runs in the same folder know of a target."""

    n_calls: int
    total_ms: float

    @property
    def mean_ms(self) -> float:
        return self.total_ms / self.n_calls


def plan_facts(plan: Plan) -> dict[str, Any]:
    """The plan as a script reads it."""
    calls = _expected_calls(plan)
    n_prompts = len(tier_pool(plan.prompts))
    return {
        "suites": [suite.name for suite in plan.suites],
        "prompts": len(plan.asked),
        "repeats": plan.settings.repeats,
        "concurrency": plan.settings.concurrency,
        "calls": sum(each.n for each in calls),
        "targets": [{"target": each.label, "calls": each.n, "estimated_s": each.seconds} for each in calls],
        "tier": {
            "prompts": n_prompts,
            "until_decided": plan.settings.until_decided,
            "likely": [seen._asdict() for seen in foresee(n_prompts)] if n_prompts else [],
        },
    }


def plan_lines(plan: Plan) -> list[str]:
    """The plan as a person reads it."""
    settings, calls = plan.settings, _expected_calls(plan)
    n_asked = Counter(prompt.suite for prompt in plan.asked)
    suites = ", ".join(f"{suite.name} ({plural(n_asked[suite.name], 'prompt')})" for suite in plan.suites)
    lines = [f"suites: {suites}; repeats: {settings.repeats}; concurrency: {settings.concurrency}"]
    for each in calls:
        known = "time unknown (not measured here yet)"
        if each.past is not None and each.seconds is not None:
            basis = f"as measured here before, {plural(each.past.n_calls, 'call')}"
            known = f"about {format_duration(each.seconds * 1000)} ({basis})"
        left_out = f"; {each.n_skipped} left out: longer than the model's window" if each.n_skipped else ""
        lines.append(f"  {each.label}: {plural(each.n, 'call')}, {known}{left_out}")
    estimates = [each.seconds for each in calls if each.seconds is not None]
    at_most = "at most " if settings.until_decided else ""
    ending = f", about {format_duration(sum(estimates) * 1000)}" if estimates else ""
    if 0 < len(estimates) < len(calls):
        ending += f", and {len(calls) - len(estimates)} of unknown speed"
    n_calls = sum(each.n for each in calls)
    lines.append(f"in all: {plural(len(calls), 'target')}, {at_most}{plural(n_calls, 'call')}{ending}")
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


class ExpectedCalls(NamedTuple):
    """The `n` calls to a target, and the time they will take if they are as those of before."""

    label: str
    n: int
    past: PastCalls | None
    seconds: float | None
    n_skipped: int = 0


def _expected_calls(plan: Plan) -> list[ExpectedCalls]:
    known, cost = past_calls(plan.runs_dir), cost_budget(plan)
    expected = []
    for target in plan.targets:
        agenda, past = make_agenda(plan, target, cost), known.get(target)
        n = agenda.n_open
        seconds = None if past is None else round(past.mean_ms * n / 1000 / plan.settings.concurrency, 1)
        expected.append(ExpectedCalls(target.label, n, past, seconds, agenda.n_skipped))
    return expected


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
            target = group.target
            if group.latency_ms.mean is not None:
                before = known.get(target, PastCalls(0, 0.0))
                total_ms = before.total_ms + group.latency_ms.mean * group.n_success
                known[target] = PastCalls(before.n_calls + group.n_success, total_ms)
    return known
