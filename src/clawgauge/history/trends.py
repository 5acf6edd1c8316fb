"""One target over time: the figures of its runs, the latest, the best, and whether it drifted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from clawgauge.figures import passed, passed_of_asked, timed
from clawgauge.history.coverage import IsWanted
from clawgauge.history.drift import find_pace_drift, find_rate_drift
from clawgauge.history.entries import RunEntry
from clawgauge.history.findings import Point, Trend
from clawgauge.records import GroupSummary, Target
from clawgauge.records.summary import SuiteBreakdown
from clawgauge.verdict.jobs import best_first

_FORM_CHARS = 8
# What was long ago is not looked at for drift.
_MAX_RUNS = 100
Part: TypeAlias = GroupSummary | SuiteBreakdown


class Form(NamedTuple):
    """What the runs of one trend have in common: prompts by content, and sampling."""

    digest: str
    suites: tuple[str, ...]
    n_prompts: int


class Counts(NamedTuple):
    """What is shown of a part of a run."""

    n_ok: int
    n_scheduled: int
    n_asked: int
    n_attempted: int
    n_passed: int
    n_judged: int


def find_parts(
    entry: RunEntry, is_wanted: IsWanted, suite: str | None
) -> Iterator[tuple[GroupSummary, Part]]:
    """The wanted models of a run, the best first, each with its figures: of `suite` alone where
    there is one."""
    for group in best_first(entry.summary.models, entry.summary.jobs):
        part = group if suite is None else _find_suite(group, suite)
        if part is not None and is_wanted(group.target):
            yield group, part


def _find_suite(group: GroupSummary, suite: str) -> SuiteBreakdown | None:
    for part in group.suites:
        if part.suite == suite:
            return part
    return None


def count_part(part: Part) -> Counts:
    """What an earlier version's summary does not say of a suite, its records do."""
    of_asked = passed_of_asked(part)
    n_judged = passed(part).n
    n_asked = of_asked.n or n_judged
    return Counts(
        n_ok=part.n_ok,
        n_scheduled=part.n_scheduled or part.n_total,
        n_asked=n_asked,
        n_attempted=part.attempted,
        n_passed=of_asked.k,
        n_judged=min(n_judged, n_asked),
    )


def find_trends(entries: Sequence[RunEntry], is_wanted: IsWanted, suite: str | None) -> list[Trend]:
    """Every target's runs lined up, oldest first; with `suite` the figures of that suite alone.
    `entries` are the newest first."""
    rows: dict[tuple[Target, Form], list[tuple[Point, RunEntry]]] = {}
    for entry in reversed(entries):
        for group, part in find_parts(entry, is_wanted, suite):
            form = _find_form(entry, group, suite)
            row = rows.setdefault((group.target, form), [])
            row.append((_make_point(entry, group, part), entry))
    trends = []
    for (target, form), row in rows.items():
        trends.append(_make_trend(target, form, row, suite))
    return trends


def _find_form(entry: RunEntry, group: GroupSummary, suite: str | None) -> Form:
    """The prompts and sampling of a run, as far as its folder says."""
    config = entry.config
    if config is None:
        # The first harness kept no prompts: their number is all there is to go by.
        digest = f"first{group.n_total}"[:_FORM_CHARS]
        return Form(digest=digest, suites=(), n_prompts=group.n_total)
    prompts = []
    for (prompt_suite, prompt_id), fingerprint in entry.fingerprints.items():
        if suite in (None, prompt_suite):
            prompts.append((prompt_suite, prompt_id, fingerprint))
    prompts.sort()
    sampling = config.sampling.get(group.target.label)
    content = msgspec.json.encode((prompts, sampling), order="sorted")
    return Form(
        digest=hashlib.sha256(content).hexdigest()[:_FORM_CHARS],
        suites=tuple(dict.fromkeys(prompt_suite for prompt_suite, _, _ in prompts)),
        n_prompts=len(prompts),
    )


def _make_point(entry: RunEntry, group: GroupSummary, part: Part) -> Point:
    counts = count_part(part)
    times = timed(part)
    of_answers = passed(part)
    return Point(
        run_id=entry.run_id,
        started_at_ms=entry.started_at_ms,
        n_ok=counts.n_ok,
        n_scheduled=counts.n_scheduled,
        n_passed=counts.n_passed,
        n_judged=counts.n_judged,
        n_asked=counts.n_asked,
        n_attempted=counts.n_attempted,
        n_timed=part.n_success,
        pass_rate=of_answers.value,
        pass_ci95=of_answers.ci95,
        p50_ms=times.p50,
        p50_ci95=times.p50_ci95,
        p95_ms=times.p95,
        beyond=times.beyond,
        indicative=times.indicative,
        tier=group.tool_use.tier,
        tier_label=group.tool_use.label,
        decided=group.tool_use.decided,
        stopped_early=group.stopped_early,
    )


def _make_trend(
    target: Target, form: Form, row: Sequence[tuple[Point, RunEntry]], suite: str | None
) -> Trend:
    points = [point for point, _ in row]
    drift = []
    rate_drift = find_rate_drift(points[-_MAX_RUNS:])
    if rate_drift is not None:
        drift.append(rate_drift)
    pace_drift = find_pace_drift(target, row[-_MAX_RUNS:], suite)
    if pace_drift is not None:
        drift.append(pace_drift)
    return Trend(
        target=target.label,
        suites=list(form.suites),
        n_prompts=form.n_prompts,
        form=form.digest,
        points=points,
        latest=points[-1],
        # Of equals, the newest.
        best=max(reversed(points), key=_shown_for_sure),
        drift=drift,
    )


def _shown_for_sure(point: Point) -> float:
    """The lower end of the pass rate: two of two, the rest unanswered, are less than 29 of 30."""
    interval = point.asked_ci95
    return -1.0 if interval is None else interval[0]
