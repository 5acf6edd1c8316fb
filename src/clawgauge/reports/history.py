"""A folder's history: its runs, its models, how they moved, what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from clawgauge.figures import INDICATIVE, Percentile, Rate, Style, format_cell
from clawgauge.history.findings import Coverage, History, Point, RunLine, Trend
from clawgauge.reports.answer import describe_jobs, word_tier_mark
from clawgauge.reports.clean import one_line
from clawgauge.reports.document import Column, Commands, Points, Section, Table
from clawgauge.reports.words import LEGEND, name_models, word_unreadable
from clawgauge.words import ABSENT, format_date, list_names, plural

BY_NEWEST = ", each model by its newest run that can tell"
_MAX_IDS, _MAX_TARGETS, _MAX_NAME, _MAX_PASSES, _MAX_SERIES = 8, 3, 60, 120, 20
# In a narrow terminal names give way. A run's id never does: it is there to be typed.
_RUN_COLUMNS = (
    Column("run"), Column("started"), Column("answered", "right"), Column("suites"),
    Column("passed, by model", narrow="wrapped"),
)  # fmt: skip
_LOAD_COLUMNS = (Column("run"), Column("started"), Column("what it carries", narrow="wrapped"))
_TREND_COLUMNS = (
    Column("model"), Column("prompts"), Column("runs", "right"), Column("latest"), Column("best"), Column("tier"),
    Column("p50", "right"), Column("p95", "right"),
)  # fmt: skip
_SERIES_COLUMNS = (
    Column("model"), Column("run"), Column("answered", "right"), Column("passed"), Column("p50", "right")
)  # fmt: skip


def describe_history(history: History) -> list[Section]:
    runs, loads = [], []
    for run in history.runs:
        at, names = (run.run_id, format_date(run.started_at_ms)), name_models(run.passes)
        told = [
            f"{names[target]} {f'{k}/{n}' if n else ABSENT}"
            for target, (k, n) in run.passes.items()
        ]
        passed = one_line(list_names(told, _MAX_TARGETS), _MAX_PASSES) or ABSENT
        if run.load:
            loads.append((*at, " ".join(run.load)))
        else:
            runs.append((*at, _answered(run), _suites(run.suites) or ABSENT, passed))
    # One row per target and set of prompts; two sets that look alike get their form's hash.
    looks = Counter((trend.target, _prompts(trend)) for trend in history.trends)
    trends = [
        _trend_row(trend, alike=looks[trend.target, _prompts(trend)] > 1)
        for trend in history.trends
    ]
    unsure = any(
        trend.latest.tier is not None and not trend.latest.decided for trend in history.trends
    )
    legend = {INDICATIVE: LEGEND} | ({"tier": "a tier with ? is not decided yet"} if unsure else {})
    yielding = ("p95", "runs", "tier", "p50", "prompts", "latest")
    models = Table(_TREND_COLUMNS, trends, yielding, grouped=True, legend=legend)
    series = [row for trend in history.trends for row in _series_rows(trend)]
    drift = [
        f"{trend.target} on {_prompts(trend)}: {sentence}"
        for trend in history.trends
        for sentence in trend.drift
    ]
    table = Table(_RUN_COLUMNS, runs, ("suites", "answered", "passed, by model", "started"))
    return [
        Section(f"{plural(len(history.runs), 'run')} in {history.runs_dir}", [table]),
        describe_jobs(history.jobs, by=BY_NEWEST),
        Section("models", [models]),
        Section("run by run", [Table(_SERIES_COLUMNS, series, ("p50", "answered"), grouped=True)]),
        Section("drift", [Points(drift)]),
        Section("capacity runs", [Table(_LOAD_COLUMNS, loads, ("started",))]),
        Section("what has an answer in any run", [Points(_word_coverage(history.coverage))]),
        Section("could not be read", [Points(list_unreadable(history))]),
        Section("to fill what is missing", [Commands(_fill(history))]),
    ]


def list_unreadable(history: History) -> list[str]:
    spoilt = [
        word_unreadable(n, run.run_id) for run in history.runs if (n := run.n_unreadable_lines)
    ]
    return [*(f"{run.path}: {run.reason}" for run in history.unreadable), *spoilt]


def _trend_row(trend: Trend, *, alike: bool) -> tuple[str, ...]:
    latest, best = trend.latest, trend.best
    return (
        trend.target,
        f"{_prompts(trend)} #{trend.form}" if alike else _prompts(trend),
        str(len(trend.points)),
        _pass_rate(latest),
        f"{best.n_passed}/{best.n_asked} ({best.run_id})" if best.n_asked else ABSENT,
        word_tier_mark(latest.tier, decided=latest.decided),
        _time(latest, "p50"),
        _time(latest, "p95"),
    )


def _prompts(trend: Trend) -> str:
    """`core (36)`: the suites and how many prompts."""
    return f"{_suites(trend.suites) or 'first harness'} ({trend.n_prompts})"


def _suites(names: Sequence[str]) -> str:
    return one_line(" + ".join(names), _MAX_NAME) if len(names) < 3 else f"{len(names)} suites"


def _time(point: Point, name: Literal["p50", "p95"]) -> str:
    value_ms = point.p50_ms if name == "p50" else point.p95_ms
    percentile = Percentile(
        value=value_ms,
        n=point.n_timed,
        is_beyond=name in point.beyond,
        is_indicative=name in point.indicative,
    )
    return format_cell(percentile, "ms", Style.WITH_UNIT)


def _answered(part: RunLine | Point) -> str:
    """`10/11 of 69`: answered and asked, and the plan where not all of it was asked."""
    answered = f"{part.n_ok}/{part.n_attempted}"
    return f"{answered} of {part.n_scheduled}" if part.n_attempted < part.n_scheduled else answered


def _pass_rate(point: Point) -> str:
    rate = Rate(point.n_passed, point.n_asked, point.asked_ci95)
    return format_cell(rate, "rate", Style.FULL)


def _series_rows(trend: Trend) -> list[tuple[str, ...]]:
    """A trend run by run. Only what has moved through more than one run is a series."""
    if len(trend.points) < 2:
        return []
    earlier = len(trend.points) - _MAX_SERIES
    title = f"{trend.target} on {_prompts(trend)}" + (
        f", without {earlier} earlier" if earlier > 0 else ""
    )
    return [
        (title, point.run_id, _answered(point), _pass_rate(point), _time(point, "p50"))
        for point in trend.points[-_MAX_SERIES:]
    ]


def _word_coverage(coverage: Sequence[Coverage]) -> list[str]:
    """Who answered all there is, what the others lack, and what nobody was ever asked: each said once."""
    lacking: dict[str, list[str]] = {part.target: [] for part in coverage}
    for part in (part for part in coverage if part.missing):
        words = [f"{part.suite or 'first harness'} {part.n_answered}/{part.n_prompts} answered"]
        words += [f"missing {list_names(part.missing, _MAX_IDS)}"] if part.n_answered else []
        words += (
            [f"{part.n_outdated} of them answered in an earlier content"] if part.n_outdated else []
        )
        lacking[part.target].append("; ".join(words))
    whole = [target for target, lacks in lacking.items() if not lacks]
    lines = [f"all prompts: {list_names(whole, len(whole))}"] if whole else []
    for target, lacks in lacking.items():
        lines += [target, *(f"  {words}" for words in lacks)] if lacks else []
    never = {
        part.suite: n for part in coverage if (n := (part.n_in_suite or 0) - part.n_prompts) > 0
    }
    named = list_names([f"{n} of {suite}" for suite, n in never.items()], len(never))
    return [*lines, *([f"never asked of anyone: {named}"] if never else [])]


def _fill(history: History) -> list[str]:
    """The commands that would ask what is missing, each with how many prompts it asks; and what none of them can."""
    if history.fill is None:
        return []
    lines = [f"{step.command}    # {plural(len(step.cells), 'prompt')}" for step in history.fill]
    for target, (key, n) in history.no_key.items():
        lines.append(f"# left out: {plural(n, 'prompt')} of {target}, {key} is not set")
    if history.n_not_fillable:
        prompts = plural(history.n_not_fillable, "prompt")
        lines.append(
            f"# {prompts} cannot be planned: the folders of an older harness do not hold their prompts"
        )
    return lines or ["# nothing is missing"]
