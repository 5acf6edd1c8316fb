"""The words of a history, the same in every format.

Owns: the cells of its three tables and the sentences under them. Refuses: layout and escaping; whoever prints a phrase
cleans it for its place.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from clawgauge.history import Coverage, History, Point, RunLine, Trend
from clawgauge.reports.wording import ABSENT, INDICATIVE, MIN_SAMPLES_P95, format_interval, plural

RUN_HEADINGS = ("run", "started", "answered", "passed", "suites", "targets")
TREND_HEADINGS = ("model", "prompts", "runs", "latest", "best", "tier", "p50", "p95")
_MAX_IDS = 8
_MAX_TARGETS = 3


def run_row(run: RunLine) -> tuple[str, ...]:
    """One run: when, how much was answered, how much of it passed."""
    names = run.targets[:_MAX_TARGETS]
    more = [f"and {len(run.targets) - _MAX_TARGETS} more"] if len(run.targets) > _MAX_TARGETS else []
    return (
        run.run_id,
        datetime.fromtimestamp(run.started_at_ms / 1000).strftime("%Y-%m-%d %H:%M"),
        f"{run.n_ok}/{run.n_scheduled}",
        f"{run.n_passed}/{run.n_judged}" if run.n_judged else ABSENT,
        ", ".join(run.suites) or ABSENT,
        ", ".join([*names, *more]) or ABSENT,
    )


def trend_rows(history: History) -> list[tuple[str, ...]]:
    """One row per target and set of prompts; two sets that look alike get their form's hash."""
    looks = Counter((trend.target, say_prompts(trend)) for trend in history.trends)
    return [_trend_row(trend, alike=looks[trend.target, say_prompts(trend)] > 1) for trend in history.trends]


def _trend_row(trend: Trend, *, alike: bool) -> tuple[str, ...]:
    latest = trend.latest
    mark = INDICATIVE if latest.n_timed < MIN_SAMPLES_P95 else ""
    return (
        trend.target,
        f"{say_prompts(trend)} #{trend.form}" if alike else say_prompts(trend),
        str(len(trend.points)),
        say_pass_rate(latest),
        f"{trend.best.pass_rate:.0%} ({trend.best.run_id})" if trend.best.pass_rate is not None else ABSENT,
        str(latest.tier) if latest.tier is not None else ABSENT,
        _milliseconds(latest.p50_ms),
        f"{_milliseconds(latest.p95_ms)}{mark if latest.p95_ms is not None else ''}",
    )


def say_prompts(trend: Trend) -> str:
    """`core (36)`: the suites and how many prompts."""
    return f"{'+'.join(trend.suites) or 'first harness'} ({trend.n_prompts})"


def say_pass_rate(point: Point) -> str:
    """The pass rate with its n and interval."""
    if point.pass_rate is None:
        return ABSENT
    interval = "" if point.stopped_early or point.pass_ci95 is None else f" {format_interval(point.pass_ci95)}"
    return f"{point.pass_rate:.0%} {point.n_passed}/{point.n_judged}{interval}"


def _milliseconds(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.0f} ms"


def coverage_sentence(part: Coverage) -> str:
    """`core 9/9 answered`, what is missing, and what was never asked."""
    words = [f"{part.suite or 'first harness'} {part.n_answered}/{part.n_prompts} answered"]
    if part.missing:
        more = f" and {len(part.missing) - _MAX_IDS} more" if len(part.missing) > _MAX_IDS else ""
        words.append(f"missing {', '.join(part.missing[:_MAX_IDS])}{more}")
    if part.n_outdated:
        words.append(f"{part.n_outdated} of them answered in an earlier content")
    if part.n_in_suite is not None and part.n_in_suite > part.n_prompts:
        words.append(f"{plural(part.n_in_suite - part.n_prompts, 'further prompt')} of the suite never asked of anyone")
    return "; ".join(words)


def drift_sentences(history: History) -> list[str]:
    """What changed over time, each with the command that looks closer."""
    return [
        f"{trend.target} on {say_prompts(trend)}: {sentence} "
        f"(clawgauge compare {trend.points[-2].run_id} {trend.latest.run_id})"
        for trend in history.trends
        for sentence in trend.drift
    ]


def series_rows(trend: Trend) -> list[tuple[str, ...]]:
    """A trend run by run."""
    return [
        (point.run_id, f"{point.n_ok}/{point.n_scheduled}", say_pass_rate(point), _milliseconds(point.p50_ms))
        for point in trend.points
    ]


def fill_lines(history: History) -> list[str]:
    """The commands that would fill what is missing, each with how many cells it fills."""
    if history.fill is None:
        return []
    lines = [f"{step.command}    # {plural(len(step.cells), 'cell')}" for step in history.fill]
    if not lines and not history.n_not_fillable:
        lines.append("# nothing is missing")
    if history.n_not_fillable:
        cells = plural(history.n_not_fillable, "cell")
        lines.append(f"# {cells} cannot be planned: the folders of an older harness do not hold their prompts")
    return lines


def closing_notes(history: History) -> list[str]:
    """What could not be read."""
    notes = [f"{run.path}: {run.reason}" for run in history.unreadable]
    notes += [
        f"{run.run_id}: {plural(run.n_unreadable_lines, 'line')} could not be read and counted in nothing"
        for run in history.runs
        if run.n_unreadable_lines
    ]
    return notes
