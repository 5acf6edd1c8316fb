"""A folder's history: its runs, its models, how they moved, what is missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from clawgauge.figures import INDICATIVE, Percentile, Rate, Style, format_cell
from clawgauge.history.drift import TOLD_BEYOND
from clawgauge.history.findings import Coverage, History, Point, RunLine, Trend
from clawgauge.reports.answer import describe_jobs, word_tier_mark
from clawgauge.reports.clean import one_line
from clawgauge.reports.document import (
    Column,
    Commands,
    Part,
    Points,
    Prose,
    Section,
    Table,
)
from clawgauge.reports.words import LEGEND, UNTIL_DECIDED, name_models, word_unreadable
from clawgauge.words import ABSENT, format_date, format_percent, list_names, plural

BY_NEWEST = ", each model by its newest run that can tell"
_MAX_IDS = 8
_MAX_TARGETS = 3
_MAX_NAME_CHARS = 60
_MAX_PASSES_CHARS = 120
_MAX_SUITES_NAMED = 2
_MAX_SERIES_RUNS = 20
# In a narrow terminal names give way. A run's id never does: it is there to be typed.
_RUN_COLUMNS = (
    Column("run"),
    Column("started"),
    Column("answered", "right"),
    Column("suites"),
    Column("passed, by model", narrow="wrapped"),
)
_RUN_COLUMNS_YIELDING = ("suites", "answered", "passed, by model", "started")
_LOAD_COLUMNS = (Column("run"), Column("started"), Column("what it carries", narrow="wrapped"))
_TREND_COLUMNS = (
    Column("model"),
    Column("prompts"),
    Column("runs", "right"),
    Column("latest"),
    Column("best"),
    Column("tier"),
    Column("p50", "right"),
    Column("p95", "right"),
)
_TREND_COLUMNS_YIELDING = ("p95", "runs", "tier", "p50", "prompts", "latest")
_SERIES_COLUMNS = (
    Column("model"),
    Column("run"),
    Column("answered", "right"),
    Column("passed"),
    Column("p50", "right"),
)


def describe_history(history: History) -> list[Section]:
    return [
        Section(
            f"{plural(len(history.runs), 'run')} in {history.runs_dir}",
            [_run_table(history.runs)],
        ),
        describe_jobs(history.jobs, by=BY_NEWEST),
        Section("models", [_trend_table(history.trends), Points(_word_compared(history.trends))]),
        Section("run by run", [_series_table(history.trends)]),
        Section("drift", [Points(_list_drift(history.trends))]),
        Section("capacity runs", [_load_table(history.runs)]),
        Section("what has an answer in any run", [Points(_word_coverage(history.coverage))]),
        Section("could not be read", [Points(list_unreadable(history))]),
        Section("to fill what is missing", _describe_filling(history)),
    ]


def list_unreadable(history: History) -> list[str]:
    """The folders that could not be read, then the runs with lines that are no record."""
    lines = [f"{run.path}: {run.reason}" for run in history.unreadable]
    for run in history.runs:
        if run.n_unreadable_lines:
            lines.append(word_unreadable(run.n_unreadable_lines, run.run_id))
    return lines


def _run_table(runs: Sequence[RunLine]) -> Table:
    rows = []
    for run in runs:
        if not run.load:
            rows.append(
                (
                    run.run_id,
                    format_date(run.started_at_ms),
                    _answered(run),
                    _suites(run.suites) or ABSENT,
                    _passes(run) or ABSENT,
                )
            )
    return Table(_RUN_COLUMNS, rows, _RUN_COLUMNS_YIELDING)


def _passes(run: RunLine) -> str:
    """`qwen3:8b 33/33, llama3.2:3b 19/33 and 3 more`."""
    names = name_models(run.passes)
    parts = []
    for target, (n_passed, n_asked) in run.passes.items():
        rate = f"{n_passed}/{n_asked}" if n_asked else ABSENT
        parts.append(f"{names[target]} {rate}")
    return one_line(list_names(parts, _MAX_TARGETS), _MAX_PASSES_CHARS)


def _load_table(runs: Sequence[RunLine]) -> Table:
    rows = []
    for run in runs:
        if run.load:
            rows.append((run.run_id, format_date(run.started_at_ms), " ".join(run.load)))
    return Table(_LOAD_COLUMNS, rows, ("started",))


def _trend_table(trends: Sequence[Trend]) -> Table:
    """One row per target and set of prompts; two sets that look alike get their form's hash."""
    n_by_look = Counter((trend.target, _prompts(trend)) for trend in trends)
    rows = []
    for trend in trends:
        has_twin = n_by_look[trend.target, _prompts(trend)] > 1
        rows.append(_trend_row(trend, has_twin=has_twin))
    legend = {INDICATIVE: LEGEND}
    if any(trend.latest.tier is not None and not trend.latest.decided for trend in trends):
        legend["tier"] = "a tier with ? is not decided yet"
    return Table(_TREND_COLUMNS, rows, _TREND_COLUMNS_YIELDING, grouped=True, legend=legend)


def _trend_row(trend: Trend, *, has_twin: bool) -> tuple[str, ...]:
    latest = trend.latest
    best = trend.best
    best_rate = ABSENT
    if best.n_asked:
        best_rate = f"{best.n_passed}/{best.n_asked} ({best.run_id})"
    return (
        trend.target,
        f"{_prompts(trend)} #{trend.form}" if has_twin else _prompts(trend),
        str(len(trend.points)),
        _pass_rate(latest),
        best_rate,
        word_tier_mark(latest.tier, decided=latest.decided),
        _time(latest, "p50"),
        _time(latest, "p95"),
    )


def _prompts(trend: Trend) -> str:
    """`core (36)`: the suites and how many prompts; of none that were named, until when."""
    if trend.decides_jobs:
        return UNTIL_DECIDED
    return f"{_suites(trend.suites) or 'first harness'} ({trend.n_prompts})"


def _suites(names: Sequence[str]) -> str:
    if len(names) > _MAX_SUITES_NAMED:
        return f"{len(names)} suites"
    return one_line(" + ".join(names), _MAX_NAME_CHARS)


def _time(point: Point, name: Literal["p50", "p95"]) -> str:
    percentile = Percentile(
        value=point.p50_ms if name == "p50" else point.p95_ms,
        n=point.n_timed,
        is_beyond=name in point.beyond,
        is_indicative=name in point.indicative,
    )
    return format_cell(percentile, "ms", Style.WITH_UNIT)


def _answered(part: RunLine | Point) -> str:
    """`10/11 of 69`: answered and asked, and the plan where not all of it was asked."""
    answered = f"{part.n_ok}/{part.n_attempted}"
    if part.n_attempted < part.n_scheduled:
        return f"{answered} of {part.n_scheduled}"
    return answered


def _pass_rate(point: Point) -> str:
    rate = Rate(point.n_passed, point.n_asked, point.asked_ci95)
    return format_cell(rate, "rate", Style.FULL)


def _series_table(trends: Sequence[Trend]) -> Table:
    rows = []
    for trend in trends:
        # Only what has moved through more than one run is a series.
        if len(trend.points) > 1:
            rows += _series_rows(trend)
    return Table(_SERIES_COLUMNS, rows, ("p50", "answered"), grouped=True)


def _series_rows(trend: Trend) -> list[tuple[str, ...]]:
    """A trend run by run, without what is long ago."""
    title = f"{trend.target} on {_prompts(trend)}"
    n_earlier = len(trend.points) - _MAX_SERIES_RUNS
    if n_earlier > 0:
        title += f", without {n_earlier} earlier"
    rows: list[tuple[str, ...]] = []
    for point in trend.points[-_MAX_SERIES_RUNS:]:
        rows.append((title, point.run_id, _answered(point), _pass_rate(point), _time(point, "p50")))
    return rows


def _list_drift(trends: Sequence[Trend]) -> list[str]:
    lines = []
    for trend in trends:
        title = f"{trend.target} on {_prompts(trend)}"
        for sentence in trend.drift:
            lines.append(f"{title}: {sentence}")
        if trend.pace_spread is not None:
            lines.append(f"{title}: {_word_pace_spread(trend.pace_spread)}")
    return lines


def _word_pace_spread(spread: float) -> str:
    """How much runs differ, where that hides every smaller change."""
    usual = format_percent(math.expm1(spread))
    least = format_percent(math.expm1(TOLD_BEYOND * spread))
    return (
        f"runs differ by about {usual} in how long calls take, so a change of less than {least} "
        f"cannot be told here; on a quieter machine, or with run --interleave, it can"
    )


def _word_compared(trends: Sequence[Trend]) -> list[str]:
    """Over how many prompts runs stand beside each other that asked different ones."""
    lines = []
    for trend in trends:
        if trend.n_compared is not None:
            prompts = plural(trend.n_compared, "prompt")
            runs = plural(len(trend.points), "run")
            lines.append(
                f"{trend.target} on {_prompts(trend)}: the {runs} are compared over the {prompts} "
                f"that they have all asked"
            )
    return lines


def _word_coverage(coverage: Sequence[Coverage]) -> list[str]:
    """Who answered all there is, what the others lack, and what nobody was ever asked: each said
    once."""
    lacking_by_target: dict[str, list[str]] = {}
    n_never_asked: dict[str, int] = {}
    for part in coverage:
        lacking = lacking_by_target.setdefault(part.target, [])
        if part.missing:
            lacking.append(_word_lacking(part))
        if part.n_in_suite is not None and part.n_in_suite > part.n_prompts:
            n_never_asked[part.suite] = part.n_in_suite - part.n_prompts
    lines = []
    complete = [target for target, lacking in lacking_by_target.items() if not lacking]
    if complete:
        lines.append(f"all prompts: {list_names(complete, len(complete))}")
    for target, lacking in lacking_by_target.items():
        if lacking:
            lines.append(target)
            lines += [f"  {text}" for text in lacking]
    if n_never_asked:
        suites = [f"{n} of {suite}" for suite, n in n_never_asked.items()]
        lines.append(f"never asked of anyone: {list_names(suites, len(suites))}")
    return lines


def _word_lacking(part: Coverage) -> str:
    """`core 3/4 answered; missing P1`. Where nothing was answered, all is missing."""
    parts = [f"{part.suite or 'first harness'} {part.n_answered}/{part.n_prompts} answered"]
    if part.n_answered:
        parts.append(f"missing {list_names(part.missing, _MAX_IDS)}")
    if part.n_outdated:
        parts.append(f"{part.n_outdated} of them answered in an earlier content")
    return "; ".join(parts)


def _describe_filling(history: History) -> list[Part]:
    """The commands that would ask what is missing, each under how many prompts it asks; and what
    none of them can."""
    if history.fill is None:
        return []
    parts: list[Part] = []
    for step in history.fill:
        targets = list(dict.fromkeys(target for target, _, _ in step.cells))
        n_prompts = plural(len(step.cells), "prompt")
        parts.append(Prose([f"{n_prompts} of {list_names(targets, _MAX_TARGETS)}:"]))
        parts.append(Commands([step.command]))
    left_out = []
    for target, (key, n) in history.no_key.items():
        left_out.append(f"left out: {plural(n, 'prompt')} of {target}, {key} is not set")
    if history.n_not_fillable:
        prompts = plural(history.n_not_fillable, "prompt")
        left_out.append(
            f"{prompts} cannot be planned: the folders of an older harness do not hold their "
            f"prompts"
        )
    if not parts and not left_out:
        left_out.append("nothing is missing")
    return [*parts, Prose(left_out)]
