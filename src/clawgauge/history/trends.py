"""One target over time: latest, best, and whether it drifted; and all of them in one look."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import msgspec

from clawgauge.history.coverage import FillStep, describe_coverage, make_grid, plan_filling
from clawgauge.history.findings import History, Point, RunEntry, RunLine, Trend, read_entries
from clawgauge.records import SCHEMA_VERSION, GroupSummary, SuiteBreakdown, Target
from clawgauge.stats import newcombe_interval, percentile
from clawgauge.words import format_ms, format_rate, plural, rounded

_FORM_CHARS = 8


class _Form(NamedTuple):
    """What was asked, and how."""

    digest: str
    suites: tuple[str, ...]
    n_prompts: int


def find_trends(entries: Sequence[RunEntry], wanted: Callable[[Target], bool], suite: str | None) -> list[Trend]:
    """Every target's runs lined up, oldest first; with `suite` the figures of that suite alone."""
    points: dict[tuple[Target, _Form], list[Point]] = {}
    for entry in reversed(entries):
        for group in entry.summary.models:
            target = group.target
            form = _form(entry, group, suite)
            if wanted(target) and form is not None:
                points.setdefault((target, form), []).append(_point(entry, group, suite))
    trends = [_trend(target, form, line) for (target, form), line in points.items()]
    return sorted(trends, key=lambda trend: (trend.target, -trend.latest.started_at_ms))


def _form(entry: RunEntry, group: GroupSummary, suite: str | None) -> _Form | None:
    """The prompts and sampling of a run, as far as its folder says; None where `suite` was not asked."""
    if suite is not None and not any(part.suite == suite for part in group.suites):
        return None
    config = entry.config
    if config is None:
        # The first harness kept no prompts: their number is all there is to go by.
        return _Form(f"first{group.n_total}"[:_FORM_CHARS], (), group.n_total)
    asked = sorted((*key, fingerprint) for key, fingerprint in entry.fingerprints.items() if suite in (None, key[0]))
    sampling = config.sampling.get(group.target.label)
    digest = hashlib.sha256(msgspec.json.encode((asked, sampling), order="sorted")).hexdigest()
    return _Form(digest[:_FORM_CHARS], tuple(dict.fromkeys(name for name, _, _ in asked)), len(asked))


def _point(entry: RunEntry, group: GroupSummary, suite: str | None) -> Point:
    part: GroupSummary | SuiteBreakdown = group
    if suite is not None:
        part = next(part for part in group.suites if part.suite == suite)
    is_whole = isinstance(part, GroupSummary)
    return Point(
        run_id=entry.run_id,
        started_at_ms=entry.started_at_ms,
        n_ok=part.n_ok,
        # A summary of an earlier version does not say how many cells a suite was to have.
        n_scheduled=part.n_scheduled or part.n_total,
        n_passed=part.n_passed,
        n_judged=part.n_judged,
        pass_rate=part.objective_pass_rate,
        pass_ci95=group.objective_pass_ci95 if isinstance(part, GroupSummary) else part.ci95,
        p50_ms=part.latency_ms.p50,
        p50_ci95=group.latency_all_ms.p50_ci95 if is_whole and group.latency_all_ms else None,
        p95_ms=part.latency_ms.p95,
        n_timed=part.n_success,
        tier=group.tool_use.tier,
        tier_label=group.tool_use.label,
        stopped_early=group.stopped_early,
    )


def _trend(target: Target, form: _Form, points: list[Point]) -> Trend:
    latest = points[-1]
    # Of equals the newest is the best.
    best = max(reversed(points), key=lambda point: -1.0 if point.pass_rate is None else point.pass_rate)
    return Trend(
        target=target.label,
        suites=list(form.suites),
        n_prompts=form.n_prompts,
        form=form.digest,
        points=points,
        latest=latest,
        best=best,
        drift=_drift(points[:-1], latest),
    )


def _drift(earlier: Sequence[Point], latest: Point) -> list[str]:
    """A sentence for each figure of the latest run that its interval does not reconcile with the earlier runs."""
    return [sentence for sentence in (_rate_drift(earlier, latest), _pace_drift(earlier, latest)) if sentence]


def _rate_drift(earlier: Sequence[Point], latest: Point) -> str | None:
    # A run that its own results stopped has no interval to go by.
    usable = [point for point in earlier if not point.stopped_early]
    passed, judged = sum(point.n_passed for point in usable), sum(point.n_judged for point in usable)
    interval = latest.pass_ci95
    if not judged or interval is None or latest.pass_rate is None or latest.stopped_early:
        return None
    before = passed / judged
    # Luck may have made either side; and repeats, which only the latest run's own interval accounts for, are no proof.
    change = newcombe_interval(latest.n_passed, latest.n_judged, passed, judged)
    if change is None or change[0] <= 0 <= change[1] or interval[0] <= before <= interval[1]:
        return None
    word = "fell" if latest.pass_rate < before else "rose"
    return (
        f"pass rate {word} from {format_rate(passed, judged)} in {plural(len(usable), 'earlier run')} "
        f"to {format_rate(latest.n_passed, latest.n_judged, interval)} in {latest.run_id}"
    )


def _pace_drift(earlier: Sequence[Point], latest: Point) -> str | None:
    medians = sorted(point.p50_ms for point in earlier if point.p50_ms is not None)
    before = percentile(medians, 0.5)
    interval = latest.p50_ci95
    if before is None or interval is None or latest.p50_ms is None or interval[0] <= before <= interval[1]:
        return None
    word = "rose" if latest.p50_ms > before else "fell"
    return (
        f"p50 {word} from {format_ms(before)} (median of {plural(len(earlier), 'earlier run')}) "
        f"to {format_ms(latest.p50_ms)} (95% {rounded(interval[0])}–{format_ms(interval[1])}, "
        f"{plural(latest.n_timed, 'call')}) in {latest.run_id}"
    )


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
    groups = [group for group in entry.summary.models if wanted(group.target)]
    # A run that recorded nothing yet has no group; it belongs in the table all the same.
    if not entry.summary.models:
        return suite is None
    return any(suite is None or any(part.suite == suite for part in group.suites) for group in groups)


def _line(entry: RunEntry, wanted: Callable[[Target], bool]) -> RunLine:
    groups = [group for group in entry.summary.models if wanted(group.target)]
    return RunLine(
        run_id=entry.run_id,
        path=str(entry.path),
        started_at_ms=entry.started_at_ms,
        targets=[group.target.label for group in groups],
        suites=list(dict.fromkeys(part.suite for group in groups for part in group.suites if part.suite)),
        n_ok=sum(group.n_ok for group in groups),
        n_scheduled=sum(group.n_scheduled for group in groups),
        n_passed=sum(group.n_passed for group in groups),
        n_judged=sum(group.n_judged for group in groups),
        n_unreadable_lines=entry.summary.n_unreadable_lines,
        source=entry.summary.source,
    )
