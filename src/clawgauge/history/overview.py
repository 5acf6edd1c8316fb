"""A folder of runs in one look.

Owns: which runs and targets count, and the table of runs. Refuses: figures of its own; they are the summaries'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from clawgauge.history.coverage import describe_coverage, make_grid
from clawgauge.history.entries import RunEntry, read_entries, target_of
from clawgauge.history.filling import FillStep, plan_filling
from clawgauge.history.findings import History, RunLine
from clawgauge.history.trends import find_trends
from clawgauge.records import SCHEMA_VERSION, Target


def read_history(
    runs_dir: Path, *, models: Sequence[str] = (), suite: str | None = None
) -> tuple[History, list[FillStep]]:
    """The history of `runs_dir`, and the steps that would fill what is missing.

    `models` are patterns (`*llama*`) for a target's label or its model's name; `suite` leaves all other suites out.
    """
    entries, unreadable = read_entries(runs_dir)

    def wanted(target: Target) -> bool:
        return not models or any(fnmatchcase(target.label, p) or fnmatchcase(target.model, p) for p in models)

    entries = [entry for entry in entries if _concerns(entry, wanted, suite)]
    grid = make_grid(entries, wanted, suite)
    steps, n_not_fillable = plan_filling(entries, grid)
    history = History(
        schema_version=SCHEMA_VERSION,
        runs_dir=str(runs_dir),
        runs=[_line(entry, wanted) for entry in entries],
        unreadable=unreadable,
        trends=find_trends(entries, wanted, suite),
        coverage=describe_coverage(grid),
        n_not_fillable=n_not_fillable,
    )
    return history, steps


def _concerns(entry: RunEntry, wanted: Callable[[Target], bool], suite: str | None) -> bool:
    groups = [group for group in entry.summary.models if wanted(target_of(group))]
    # A run that recorded nothing yet has no group; it belongs in the table all the same.
    if not entry.summary.models:
        return suite is None
    return any(suite is None or any(part.suite == suite for part in group.suites) for group in groups)


def _line(entry: RunEntry, wanted: Callable[[Target], bool]) -> RunLine:
    groups = [group for group in entry.summary.models if wanted(target_of(group))]
    return RunLine(
        run_id=entry.run_id,
        path=str(entry.path),
        started_at_ms=entry.started_at_ms,
        targets=[target_of(group).label for group in groups],
        suites=list(dict.fromkeys(part.suite for group in groups for part in group.suites if part.suite)),
        n_ok=sum(group.n_ok for group in groups),
        n_scheduled=sum(group.n_scheduled for group in groups),
        n_passed=sum(group.n_passed for group in groups),
        n_judged=sum(group.n_judged for group in groups),
        n_unreadable_lines=entry.summary.n_unreadable_lines,
        source=entry.summary.source,
    )
