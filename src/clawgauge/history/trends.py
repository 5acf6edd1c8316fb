"""One target over time: latest, best, and whether it drifted; and all of them in one look."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

import msgspec

from clawgauge.history.coverage import FillStep, describe_coverage, make_grid, plan_filling
from clawgauge.history.findings import History, Point, RunEntry, RunLine, Trend, read_entries
from clawgauge.records import SCHEMA_VERSION, GroupSummary, PromptKey, SuiteBreakdown, Target
from clawgauge.stats.paired import find_change
from clawgauge.words import format_percent, format_rate, plural

_FORM_CHARS = 8
# What was long ago is not looked at for drift.
_MAX_RUNS = 100
# With so many, `compare` can tell a change of times from a machine's mood.
_RUNS_A_SIDE = 3
# How much a machine's pace commonly shifts from one run to the next.
_USUAL_SHIFT = 0.03
# Luck with n prompts is known well: it counts as so many runs would.
_N_USUAL_RATE = 10
_SUMMED = ("n_ok", "n_scheduled", "n_passed", "n_judged")


class _Form(NamedTuple):
    """What was asked, and how."""

    digest: str
    suites: tuple[str, ...]
    n_prompts: int


def find_trends(entries: Sequence[RunEntry], wanted: Callable[[Target], bool], suite: str | None) -> list[Trend]:
    """Every target's runs lined up, oldest first; with `suite` the figures of that suite alone."""
    rows: dict[tuple[Target, _Form], list[tuple[Point, RunEntry]]] = {}
    for entry in reversed(entries):
        for group in entry.summary.models:
            target = group.target
            form = _form(entry, group, suite)
            if wanted(target) and form is not None:
                rows.setdefault((target, form), []).append((_point(entry, group, suite), entry))
    trends = [_trend(target, form, row, suite) for (target, form), row in rows.items()]
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
        p50_ms=part.timed_ms.p50,
        p50_ci95=part.timed_ms.p50_ci95,
        p95_ms=part.timed_ms.p95,
        beyond=part.timed_ms.beyond,
        n_timed=part.n_success,
        tier=group.tool_use.tier,
        tier_label=group.tool_use.label,
        stopped_early=group.stopped_early,
    )


def _trend(target: Target, form: _Form, row: list[tuple[Point, RunEntry]], suite: str | None) -> Trend:
    points = [point for point, _ in row]
    # Of equals the newest is the best.
    best = max(reversed(points), key=lambda point: -1.0 if point.pass_rate is None else point.pass_rate)
    recent = row[-_MAX_RUNS:]
    drift = (_rate_drift([point for point, _ in recent]), _pace_drift(target, recent, suite))
    return Trend(
        target=target.label,
        suites=list(form.suites),
        n_prompts=form.n_prompts,
        form=form.digest,
        points=points,
        latest=points[-1],
        best=best,
        drift=[sentence for sentence in drift if sentence],
    )


def _rate_drift(points: Sequence[Point]) -> str | None:
    """Where the pass rate changed its level, by more than it does from run to run and than luck with n prompts does."""
    # A run that its own results stopped asked other prompts.
    usable = [point for point in points if point.pass_rate is not None and not point.stopped_early]
    if len(usable) < 2:
        return None
    n, k = sum(point.n_judged for point in usable), sum(point.n_passed for point in usable)
    common = (k + 1) / (n + 2)
    usual_sd = math.sqrt(common * (1 - common) * len(usable) / n)
    since = find_change([point.pass_rate or 0.0 for point in usable], usual_sd, _N_USUAL_RATE)
    if since is None:
        return None
    k_before, n_before = sum(p.n_passed for p in usable[:since]), sum(p.n_judged for p in usable[:since])
    k_after, n_after = k - k_before, n - n_before
    word = "fell" if k_after * n_before < k_before * n_after else "rose"
    change = f"from {format_rate(k_before, n_before)} to {format_rate(k_after, n_after)}"
    return f"pass rate {word} {change} {_word_since(usable, since)}"


def _pace_drift(target: Target, row: Sequence[tuple[Point, RunEntry]], suite: str | None) -> str | None:
    if len(row) < 2:
        return None
    timed = [(point, medians) for point, entry in row if (medians := entry.prompt_medians_ms(target, suite))]
    found = find_pace_change([medians for _, medians in timed])
    if found is None:
        return None
    since, change = found
    word = f"{format_percent(abs(change))} {'longer' if change > 0 else 'less'}"
    return f"calls take {word} {_word_since([point for point, _ in timed], since)}"


def find_pace_change(runs_ms: Sequence[Mapping[PromptKey, float]]) -> tuple[int, float] | None:
    """The run with which calls began to take longer or less long, and by what share.

    Each prompt is held against its own median over the runs, so that long ones say no more than short ones; a run is as
    slow as its prompts are in the middle.
    """
    logs: dict[PromptKey, list[float]] = {}
    for run in runs_ms:
        for key, value in run.items():
            logs.setdefault(key, []).append(math.log(max(1.0, value)))
    own = {key: median(values) for key, values in logs.items()}
    levels = [median(math.log(max(1.0, value)) - own[key] for key, value in run.items()) for run in runs_ms]
    since = find_change(levels, _USUAL_SHIFT)
    return None if since is None else (since, math.exp(mean(levels[since:]) - mean(levels[:since])) - 1)


def _word_since(points: Sequence[Point], since: int) -> str:
    ids = [point.run_id for point in points]
    runs = f"{plural(since, 'run')} before, {len(points) - since} since"
    n = _RUNS_A_SIDE if min(since, len(points) - since) >= _RUNS_A_SIDE else 1
    sides = f"{','.join(ids[since - n : since])} {','.join(ids[since : since + n])}"
    return f"since {ids[since]} ({runs}; clawgauge compare {sides})"


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
    # A run that recorded nothing yet has no group; it belongs in the table all the same.
    if not entry.summary.models:
        return suite is None
    groups = [group for group in entry.summary.models if wanted(group.target)]
    return any(suite is None or any(part.suite == suite for part in group.suites) for group in groups)


def _line(entry: RunEntry, wanted: Callable[[Target], bool]) -> RunLine:
    groups = [group for group in entry.summary.models if wanted(group.target)]
    return RunLine(
        run_id=entry.run_id,
        path=str(entry.path),
        started_at_ms=entry.started_at_ms,
        targets=[group.target.label for group in groups],
        suites=list(dict.fromkeys(part.suite for group in groups for part in group.suites if part.suite)),
        **{name: sum(getattr(group, name) for group in groups) for name in _SUMMED},
        n_unreadable_lines=entry.summary.n_unreadable_lines,
        source=entry.summary.source,
    )
