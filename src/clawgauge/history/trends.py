"""One target over time: the figures of its runs, the latest, the best, and whether it drifted."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from statistics import median
from typing import NamedTuple, TypeAlias

import msgspec

from clawgauge.figures import passed, passed_of_asked, timed
from clawgauge.history.coverage import IsWanted
from clawgauge.history.drift import Pace, find_pace, find_rate_drift, word_pace_change
from clawgauge.history.entries import RunEntry
from clawgauge.history.findings import Point, Trend
from clawgauge.records import GroupSummary, PromptKey, Target
from clawgauge.records.summary import SuiteBreakdown
from clawgauge.verdict.jobs import best_first

_FORM_CHARS = 8
# What was long ago is not looked at for drift.
_MAX_RUNS = 100
# A run that asked less than this share of what is usual was broken off.
_WHOLE_SHARE = 0.5
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


class TrendRun(NamedTuple):
    """One run of a trend: the model, and the part of it that figures are of."""

    entry: RunEntry
    group: GroupSummary
    part: Part


def find_trends(entries: Sequence[RunEntry], is_wanted: IsWanted, suite: str | None) -> list[Trend]:
    """Every target's runs lined up, oldest first; with `suite` the figures of that suite alone.
    `entries` are the newest first."""
    rows: dict[tuple[Target, Form], list[TrendRun]] = {}
    for entry in reversed(entries):
        for group, part in find_parts(entry, is_wanted, suite):
            form = _find_form(entry, group, suite)
            row = rows.setdefault((group.target, form), [])
            row.append(TrendRun(entry=entry, group=group, part=part))
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


def _make_trend(target: Target, form: Form, row: Sequence[TrendRun], suite: str | None) -> Trend:
    compared = _find_compared(target, row, suite)
    if compared is not None:
        row = [_narrow(target, run, compared) for run in row]
    points = [_make_point(run.entry, run.group, run.part) for run in row]
    recent = list(zip(points, row, strict=True))[-_MAX_RUNS:]
    drift = []
    pace = Pace()
    if len(recent) > 1:
        rate_drift = _find_rate_drift(target, recent, suite, compared)
        if rate_drift is not None:
            drift.append(rate_drift)
        timed_points, times_by_run = _collect_times(target, recent, suite, compared)
        pace = find_pace(times_by_run)
        if pace.change is not None:
            drift.append(word_pace_change(pace.change, timed_points))
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
        n_compared=None if compared is None else len(compared),
        pace_spread=pace.spread,
        decides_jobs=any(run.entry.decides_jobs for run in row),
    )


def _find_compared(
    target: Target, row: Sequence[TrendRun], suite: str | None
) -> set[PromptKey] | None:
    """The prompts that all runs of a row have asked, where answers decided what was asked; None
    where all runs asked one list, or there is but one.

    A run that was broken off early does not take the others' prompts away."""
    if len(row) < 2 or not any(run.entry.is_decision for run in row):
        return None
    asked_by_run = [run.entry.asked_prompts(target, suite) for run in row]
    usual_size = median(len(prompt_keys) for prompt_keys in asked_by_run)
    whole_runs = []
    for prompt_keys in asked_by_run:
        if len(prompt_keys) >= _WHOLE_SHARE * usual_size:
            whole_runs.append(prompt_keys)
    return set.intersection(*whole_runs)


def _narrow(target: Target, run: TrendRun, prompts: Collection[PromptKey]) -> TrendRun:
    """The same run with its figures over these prompts; what it is fit for stays its own."""
    return run._replace(part=run.entry.summarize_only(target, prompts))


def _find_rate_drift(
    target: Target,
    recent: Sequence[tuple[Point, TrendRun]],
    suite: str | None,
    compared: Collection[PromptKey] | None,
) -> str | None:
    points = []
    rates_by_run = []
    for point, run in recent:
        rates = _keep(run.entry.prompt_rates(target, suite), compared)
        # One that was broken off early has other prompts.
        if compared is None or len(rates) >= _WHOLE_SHARE * len(compared):
            points.append(point)
            rates_by_run.append(rates)
    return find_rate_drift(points, rates_by_run)


def _collect_times(
    target: Target,
    recent: Sequence[tuple[Point, TrendRun]],
    suite: str | None,
    compared: Collection[PromptKey] | None,
) -> tuple[list[Point], list[dict[PromptKey, float]]]:
    """The runs that have a time, and how long each prompt took in them."""
    points = []
    times_by_run = []
    for point, run in recent:
        medians_ms = _keep(run.entry.prompt_medians_ms(target, suite), compared)
        if medians_ms:
            points.append(point)
            times_by_run.append(medians_ms)
    return points, times_by_run


def _keep(
    values: dict[PromptKey, float], prompts: Collection[PromptKey] | None
) -> dict[PromptKey, float]:
    """The values of these prompts; all of them without any."""
    if prompts is None:
        return values
    return {key: value for key, value in values.items() if key in prompts}


def _shown_for_sure(point: Point) -> float:
    """The lower end of the pass rate: two of two, the rest unanswered, are less than 29 of 30."""
    interval = point.asked_ci95
    return -1.0 if interval is None else interval[0]
