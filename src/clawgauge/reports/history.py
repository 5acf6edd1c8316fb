"""A folder's history: its runs, its models, how they moved, what is missing."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from clawgauge.history.findings import Coverage, History, Point, Trend
from clawgauge.reports.clean import one_line
from clawgauge.reports.document import Column, Commands, Points, Section, Table
from clawgauge.reports.words import INDICATIVE, LEGEND, MIN_SAMPLES_P95, word_unreadable
from clawgauge.words import ABSENT, format_date, format_ms, format_percent, format_rate, list_names, plural

_MAX_IDS = 8
_MAX_TARGETS = 3
_MAX_NAME = 60
_MAX_SERIES = 20
# In a narrow terminal names give way. A run's id never does: it is there to be typed.
_RUN_COLUMNS = (
    Column("run"), Column("started"), Column("answered", "right"), Column("passed", "right"),
    Column("suites", narrow="cut"), Column("targets", narrow="cut"),
)  # fmt: skip
_TREND_COLUMNS = (
    Column("model"), Column("prompts", narrow="cut"), Column("runs", "right"), Column("latest"), Column("best"),
    Column("tier"), Column("p50", "right"), Column("p95", "right"),
)  # fmt: skip
_SERIES_COLUMNS = (
    Column("model"), Column("run"), Column("answered", "right"), Column("passed"), Column("p50", "right")
)  # fmt: skip


def describe_history(history: History) -> list[Section]:
    """Runs, models, how they moved, coverage, and what could not be read."""
    runs = [
        (
            run.run_id,
            format_date(run.started_at_ms),
            f"{run.n_ok}/{run.n_scheduled}",
            f"{run.n_passed}/{run.n_judged}" if run.n_judged else ABSENT,
            one_line(", ".join(run.suites), _MAX_NAME) or ABSENT,
            one_line(list_names(run.targets, _MAX_TARGETS), _MAX_NAME) or ABSENT,
        )
        for run in history.runs
    ]
    # One row per target and set of prompts; two sets that look alike get their form's hash.
    looks = Counter((trend.target, _prompts(trend)) for trend in history.trends)
    trends = [_trend_row(trend, alike=looks[trend.target, _prompts(trend)] > 1) for trend in history.trends]
    models = Table(_TREND_COLUMNS, trends, ("p95", "runs", "tier", "prompts", "p50", "latest"), grouped=True)
    thin = any(INDICATIVE in cell for row in trends for cell in row)
    series = [row for trend in history.trends for row in _series_rows(trend)]
    drift = [f"{trend.target} on {_prompts(trend)}: {sentence}" for trend in history.trends for sentence in trend.drift]
    coverage: dict[str, list[str]] = {}
    for part in history.coverage:
        coverage.setdefault(part.target, [part.target]).append(f"  {_coverage(part)}")
    unread = [f"{run.path}: {run.reason}" for run in history.unreadable]
    spoilt = [run for run in history.runs if run.n_unreadable_lines]
    unread += [word_unreadable(run.n_unreadable_lines, run.run_id) for run in spoilt]
    return [
        Section(
            f"{plural(len(history.runs), 'run')} in {history.runs_dir}",
            [Table(_RUN_COLUMNS, runs, ("targets", "suites", "passed", "answered", "started"))],
        ),
        Section("models", [models, Points([LEGEND] if thin else [])]),
        Section("run by run", [Table(_SERIES_COLUMNS, series, ("p50", "answered"), grouped=True)]),
        Section("drift", [Points(drift)]),
        Section("coverage", [Points([line for lines in coverage.values() for line in lines])]),
        Section("could not be read", [Points(unread)]),
        Section("to fill what is missing", [Commands(_fill(history))]),
    ]


def _trend_row(trend: Trend, *, alike: bool) -> tuple[str, ...]:
    latest, best = trend.latest, trend.best
    thin = latest.p95_ms is not None and latest.n_timed < MIN_SAMPLES_P95 and "p95" not in latest.beyond
    mark = INDICATIVE if thin else ""
    return (
        trend.target,
        f"{_prompts(trend)} #{trend.form}" if alike else _prompts(trend),
        str(len(trend.points)),
        _pass_rate(latest),
        f"{format_percent(best.pass_rate)} ({best.run_id})" if best.pass_rate is not None else ABSENT,
        str(latest.tier) if latest.tier is not None else ABSENT,
        _time(latest, "p50"),
        f"{_time(latest, 'p95')}{mark}",
    )


def _prompts(trend: Trend) -> str:
    """`core (36)`: the suites and how many prompts."""
    return f"{'+'.join(trend.suites) or 'first harness'} ({trend.n_prompts})"


def _time(point: Point, name: Literal["p50", "p95"]) -> str:
    return ("> " if name in point.beyond else "") + format_ms(point.p50_ms if name == "p50" else point.p95_ms)


def _pass_rate(point: Point) -> str:
    return format_rate(point.n_passed, point.n_judged, point.pass_ci95)


def _series_rows(trend: Trend) -> list[tuple[str, ...]]:
    """A trend run by run. Only what has moved through more than one run is a series."""
    if len(trend.points) < 2:
        return []
    earlier = len(trend.points) - _MAX_SERIES
    title = f"{trend.target} on {_prompts(trend)}" + (f", without {earlier} earlier" if earlier > 0 else "")
    return [
        (title, point.run_id, f"{point.n_ok}/{point.n_scheduled}", _pass_rate(point), _time(point, "p50"))
        for point in trend.points[-_MAX_SERIES:]
    ]


def _coverage(part: Coverage) -> str:
    """`core 9/9 answered`, what is missing, and what was never asked."""
    words = [f"{part.suite or 'first harness'} {part.n_answered}/{part.n_prompts} answered"]
    if part.missing:
        words.append(f"missing {list_names(part.missing, _MAX_IDS)}")
    if part.n_outdated:
        words.append(f"{part.n_outdated} of them answered in an earlier content")
    if part.n_in_suite is not None and part.n_in_suite > part.n_prompts:
        words.append(f"{plural(part.n_in_suite - part.n_prompts, 'further prompt')} of the suite never asked of anyone")
    return "; ".join(words)


def _fill(history: History) -> list[str]:
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
