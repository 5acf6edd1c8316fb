"""The pages of `clawgauge view` as HTML, made from the run folders. Nothing here touches a run.

Links are relative, so that no page holds the secret of its own address. `root` leads from a page to
the list of runs."""

from __future__ import annotations

import os
from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from urllib.parse import quote

from clawgauge import __version__
from clawgauge.compare.comparison import ComparisonOptions, IncomparableRuns, compare_runs
from clawgauge.errors import ClawgaugeError
from clawgauge.history.findings import Trend
from clawgauge.history.jobs import judge_newest
from clawgauge.history.overview import read_history
from clawgauge.journal import list_runs, stat_file
from clawgauge.journal.disk import RESULTS
from clawgauge.records import RunConfig, RunSummary
from clawgauge.reports.answer import describe_jobs
from clawgauge.reports.compare import describe_comparison, say_difference
from clawgauge.reports.history import BY_NEWEST, describe_history
from clawgauge.reports.html import Survey, read_runs, render_report
from clawgauge.reports.html.sections import as_html, text
from clawgauge.reports.overview import describe_in_one_line
from clawgauge.run_data import Run
from clawgauge.run_data.resume import resume_command
from clawgauge.run_data.state import RunState, read_state
from clawgauge.summary import summarize_folder
from clawgauge.words import format_date, format_percent

STATIC = files("clawgauge.view") / "static"
AT_ROOT = "./"
_REPORT_TO_ROOT = "../"
_MAX_REPORTS = 4
_MAX_SUMMARIES = 200
_CHART_WIDTH = 640
_CHART_HEIGHT = 120

RunVersion = tuple[Path, int, int]
"""A run and how far it has been written: another one once a line has been added."""


class Pages:
    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir
        self._cached_report = lru_cache(maxsize=_MAX_REPORTS)(_render_report)
        self._cached_summary = lru_cache(maxsize=_MAX_SUMMARIES)(_summarize)

    def runs(self) -> str:
        """Which model for which job, and all runs, the newest first, each with its own answer."""
        paths = list_runs(self._runs_dir)
        if not paths:
            message = f"There is no run in {self._runs_dir}: make one with clawgauge run."
            return message_page(message)
        rows = []
        summaries = []
        for path in paths:
            summary = self._cached_summary(*version_of(path))
            rows.append(_run_row(path, summary))
            if isinstance(summary, RunSummary) and not summary.capacity:
                summaries.append((summary, Run.open(path).config))
        answer = describe_jobs(judge_newest(summaries), by=BY_NEWEST)
        body = _fill("runs.html", rows="".join(rows), answer=as_html([answer]))
        return _page("runs", body, AT_ROOT)

    def report(self, version: RunVersion) -> str:
        """The report as `clawgauge report` writes it, with a link to the list of runs."""
        return self._cached_report(*version)

    def live(self, path: Path, root: str) -> str:
        body = _fill(
            "live.html",
            name=text(path.name),
            link=f"{root}{run_link(path)}",
            resume=escape(resume_command(path), quote=True),
        )
        return _page(path.name, body, root)

    def comparison(self, a: Path, b: Path) -> str:
        """Two runs beside each other, with both answers of every prompt that changed sides."""
        if a == b:
            message = "These are one and the same run: go back and choose two different runs."
            return message_page(message)
        try:
            comparison = compare_runs([a], [b], ComparisonOptions(answers=True))
        except IncomparableRuns as error:
            items = []
            for difference in error.differences:
                items.append(f"<li>{text(say_difference(difference))}</li>")
            heading = "<h1>These cannot be compared</h1>"
            body = f"{heading}<p>{text(str(error))}</p><ul>{''.join(items)}</ul>"
            return _page("compare", body, AT_ROOT)
        title = f"{a.name} → {b.name}"
        links = []
        for path in (a, b):
            links.append(f'<a href="{AT_ROOT}{run_link(path)}">{text(path.name)}</a>')
        body = f"<h1>{' → '.join(links)}</h1>{as_html(describe_comparison(comparison))}"
        return _page(title, body, AT_ROOT)

    def history(self) -> str:
        history, _ = read_history(self._runs_dir)
        charts = [_chart(trend) for trend in history.trends if len(trend.points) > 1]
        sections = describe_history(history)
        before = as_html(sections[:2])
        figures = f'<section class="charts">{"".join(charts)}</section>'
        after = as_html(sections[2:])
        return _page("history", f"<h1>History</h1>{before}{figures}{after}", AT_ROOT)


def message_page(message: str, root: str = AT_ROOT) -> str:
    return _page("clawgauge", f"<h1>clawgauge</h1><p>{text(message)}</p>", root)


def refusal_page(message: str) -> tuple[str, str]:
    """A page for whoever may see no other, and its content security policy. It loads nothing."""
    style = (STATIC / "refused.css").read_text("utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    nothing_else = "base-uri 'none'; frame-ancestors 'none'"
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; {nothing_else}"
    return _fill("refused.html", style=style, message=text(message)), policy


def version_of(path: Path) -> RunVersion:
    status = stat_file(path, RESULTS)
    if status is None:
        return (path, 0, 0)
    return (path, status.st_size, status.st_mtime_ns)


def run_link(path: Path) -> str:
    """Where a run is, from the root. Any bytes can stand in the name of a folder."""
    return f"runs/{quote(os.fsencode(path.name), safe='')}"


def _run_row(path: Path, summary: RunSummary | str) -> str:
    run = Run.open(path)
    return _fill(
        "run.html",
        value=escape(path.name, quote=True),
        name=text(path.name),
        link=run_link(path),
        started=format_date(run.started_at_ms),
        started_at=str(run.started_at_ms or 0),
        state=_describe_state(path),
        cells=_summary_cells(summary, run.config),
    )


def _summary_cells(summary: RunSummary | str, config: RunConfig | None) -> str:
    """The cells of a row that say what came of the run; one over all where it cannot be read."""
    if isinstance(summary, str):
        return f'<td class="unread" colspan="5">{text(summary)}</td>'
    overview = describe_in_one_line(summary, config)
    names = [model.name for model in overview.models]
    if overview.n_more_models:
        names.append(f"and {overview.n_more_models} more")
    passed = [model.passed for model in overview.models]
    tiers = [model.tier for model in overview.models]
    rate = "" if overview.best_pass_rate is None else f"{overview.best_pass_rate:.6f}"
    cells = [
        _list_cell("models", names, names[0] if names else ""),
        _list_cell("asked", [overview.suites], overview.suites),
        _list_cell("passed", passed, rate),
        _list_cell("tier", tiers, tiers[0] if tiers else ""),
        _list_cell("answer", overview.answers, ""),
    ]
    return "".join(cells)


def _list_cell(heading: str, lines: list[str], sort_by: str) -> str:
    """A cell with its lines below one another; `sort_by` is what rows are put in order by."""
    items = "".join(f'<div title="{escape(line, quote=True)}">{text(line)}</div>' for line in lines)
    key = escape(sort_by, quote=True)
    return f'<td class="{heading}" data-label="{heading}" data-sort="{key}">{items}</td>'


def _describe_state(path: Path) -> str:
    state = read_state(path)
    if state is RunState.RUNNING:
        return f'<a class="running" href="{run_link(path)}/live">running: watch it</a>'
    if state is RunState.INTERRUPTED:
        command = text(resume_command(path))
        return f'<span class="interrupted">interrupted: go on with <code>{command}</code></span>'
    return ""


def _summarize(path: Path, _size: int, _mtime_ns: int) -> RunSummary | str:
    try:
        return summarize_folder(path)
    except ClawgaugeError as error:
        return str(error)


def _render_report(path: Path, _size: int, _mtime_ns: int) -> str:
    survey = Survey()
    return render_report(read_runs([path], survey), survey, all_runs_href=_REPORT_TO_ROOT)


def _chart(trend: Trend) -> str:
    """The pass rate and its interval through the runs; the table below has the figures."""
    points = [point for point in trend.points if point.n_asked]
    if len(points) < 2:
        return ""

    def y_of(rate: float) -> float:
        return round(_CHART_HEIGHT * (1 - rate), 1)

    intervals = []
    corners = []
    dots = []
    last_y = 0.0
    for number, point in enumerate(points):
        x = round(number * _CHART_WIDTH / (len(points) - 1), 1)
        last_y = y_of(point.n_passed / point.n_asked)
        if point.asked_ci95:
            low, high = point.asked_ci95
            ends = f'x1="{x}" x2="{x}" y1="{y_of(low)}" y2="{y_of(high)}"'
            intervals.append(f'<line class="interval" {ends}/>')
        corners.append(f"{x},{last_y}")
        dots.append(f'<circle cx="{x}" cy="{last_y}" r="4"/>')
    rules = []
    for rate in (0.0, 0.5, 1.0):
        y = y_of(rate)
        rules.append(f'<line class="rule" x1="0" x2="{_CHART_WIDTH}" y1="{y}" y2="{y}"/>')
        rules.append(f'<text x="-8" y="{y + 5}" text-anchor="end">{format_percent(rate)}</text>')
    first = points[0]
    last = points[-1]
    last_rate = format_percent(last.n_passed / last.n_asked)
    last_label = f'<text class="last" x="{_CHART_WIDTH + 10}" y="{last_y + 5}">{last_rate}</text>'
    title = text(f"{trend.target}: passed, {first.run_id} to {last.run_id}")
    view_box = f"-52 -20 {_CHART_WIDTH + 120} {_CHART_HEIGHT + 32}"
    return (
        f'<figure><figcaption>{title}</figcaption><svg viewBox="{view_box}" role="img" '
        f'aria-label="{escape(title, quote=True)}">{"".join(rules)}{"".join(intervals)}'
        f'<polyline points="{" ".join(corners)}"/>{"".join(dots)}{last_label}</svg></figure>'
    )


def _page(title: str, body: str, root: str) -> str:
    return _fill("page.html", title=text(title), version=escape(__version__), body=body, root=root)


def _fill(template: str, **values: str) -> str:
    return Template((STATIC / template).read_text("utf-8")).substitute(values)
