"""What a plan will take: calls, and the time they took here before. A guess is never made up: unknown is said."""

from __future__ import annotations

from pathlib import Path

from clawgauge.cli.planning import Plan
from clawgauge.errors import RunFolderError
from clawgauge.journal import read_summary
from clawgauge.records import Target

_RUNS_LOOKED_AT = 20


def plan_lines(plan: Plan) -> list[str]:
    """The plan as a person reads it."""
    per_target = len(plan.prompts) * plan.options.repeats
    known = past_latencies(plan.runs_dir)
    suites = ", ".join(f"{suite.name} ({len(suite.prompts)})" for suite in plan.suites)
    lines = [f"suites: {suites}; {len(plan.prompts)} prompts × {plan.options.repeats} repeats"]
    total_s = 0.0
    for target in plan.targets:
        mean_ms = known.get(target)
        if mean_ms is None:
            lines.append(f"  {target.label}: {per_target} calls, time unknown (not measured here yet)")
            continue
        seconds = mean_ms * per_target / 1000 / plan.options.concurrency
        total_s += seconds
        lines.append(f"  {target.label}: {per_target} calls, about {spoken(seconds)} (as measured here before)")
    unknown = sum(1 for target in plan.targets if target not in known)
    ending = f", about {spoken(total_s)}" if not unknown else f", plus {unknown} targets of unknown speed"
    n_targets = len(plan.targets)
    lines.append(f"in all: {n_targets} targets × {per_target} = {plan.n_calls} calls{ending}")
    return lines


def past_latencies(runs_dir: Path) -> dict[Target, float]:
    """Mean call time per target in the newest runs of this folder, newest first."""
    known: dict[Target, float] = {}
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
                known.setdefault(target, group.latency_ms.mean)
    return known


def spoken(seconds: float) -> str:
    """A duration in words a person uses."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
