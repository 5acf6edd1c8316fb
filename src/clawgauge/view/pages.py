"""What the pages show. Everything is made anew from the run folders; a report is kept until its run has grown."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from urllib.parse import quote

from clawgauge import __version__
from clawgauge.compare.comparison import IncomparableRuns, Wishes, compare_runs
from clawgauge.errors import ClawgaugeError
from clawgauge.history.findings import Trend
from clawgauge.history.trends import read_history
from clawgauge.journal import list_runs, stat_file
from clawgauge.journal.disk import RESULTS
from clawgauge.records import RunSummary
from clawgauge.reports.answer import choose
from clawgauge.reports.compare import describe_comparison, say_difference
from clawgauge.reports.history import describe_history
from clawgauge.reports.html import Survey, read_runs, render_report
from clawgauge.reports.html.sections import as_html, text
from clawgauge.reports.words import describe_run
from clawgauge.run_data import Run
from clawgauge.summary import summarize_folder
from clawgauge.view.follow import is_running
from clawgauge.words import format_date

_STATIC = files("clawgauge.view") / "static"
_MAX_REPORTS = 4
_MAX_SUMMARISED = 200
_CHART = (640, 120)


class Pages:
    """The pages of one folder of runs."""

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir
        self._reports: dict[tuple[Path, int, int], str] = {}
        self._summaries: dict[tuple[Path, int, int], RunSummary | str] = {}

    def runs(self) -> str:
        """All runs, the newest first, each with its answer for every job."""
        rows = [self._run_row(path) for path in list_runs(self._runs_dir)]
        if not rows:
            return message_page(f"there is no run in {self._runs_dir}: make one with clawgauge run")
        return _shell("runs", _filled("runs.html", rows="".join(rows)))

    def _run_row(self, path: Path) -> str:
        link = f"/runs/{quote(path.name)}"
        return _filled(
            "run.html",
            value=escape(path.name, quote=True),
            name=text(path.name),
            link=link,
            started=format_date(Run.open(path).started_at_ms),
            state=f'<a class="running" href="{link}/live">running: watch it</a>' if is_running(path) else "",
            answer=self._answer(path),
        )

    def _answer(self, path: Path) -> str:
        found = self._summary(path)
        if isinstance(found, str):
            return f"<p>{text(found)}</p>"
        jobs = [
            f'<dt>{text(one.job)}</dt><dd title="{escape(one.why, quote=True)}">{text(one.use)}</dd>'
            for one in choose(found)
        ]
        return f"<p>{text(describe_run(found))}</p><dl>{''.join(jobs)}</dl>"

    def _summary(self, path: Path) -> RunSummary | str:
        key = _version(path)
        if key not in self._summaries:
            try:
                self._summaries[key] = summarize_folder(path)
            except ClawgaugeError as wrong:
                self._summaries[key] = str(wrong)
            while len(self._summaries) > _MAX_SUMMARISED:
                del self._summaries[next(iter(self._summaries))]
        return self._summaries[key]

    def report(self, path: Path) -> str:
        """The report of one run, as `clawgauge report` writes it."""
        key = _version(path)
        if key not in self._reports:
            survey = Survey()
            self._reports[key] = render_report(read_runs([path], survey), survey)
            while len(self._reports) > _MAX_REPORTS:
                del self._reports[next(iter(self._reports))]
        return self._reports[key]

    def live(self, path: Path) -> str:
        """A page that follows a run."""
        link = f"/runs/{quote(path.name)}"
        return _shell(path.name, _filled("live.html", name=text(path.name), link=link))

    def comparison(self, a: Path, b: Path) -> str:
        """Two runs beside each other, with both answers of every prompt that changed sides."""
        if a == b:
            return message_page("choose two different runs")
        try:
            comparison = compare_runs([a], [b], Wishes(answers=True))
        except IncomparableRuns as wrong:
            differing = "".join(f"<li>{text(say_difference(one))}</li>" for one in wrong.differences)
            return _shell("compare", f"<h1>These cannot be compared</h1><p>{text(str(wrong))}</p><ul>{differing}</ul>")
        title = f"{a.name} → {b.name}"
        return _shell(title, f"<h1>{text(title)}</h1>{as_html(describe_comparison(comparison))}")

    def history(self) -> str:
        """How every model moved through the runs."""
        history, _ = read_history(self._runs_dir)
        charts = "".join(_chart(trend) for trend in history.trends if len(trend.points) > 1)
        return _shell("history", f"<h1>History</h1>{charts}{as_html(describe_history(history))}")


def _version(path: Path) -> tuple[Path, int, int]:
    """A run as it is now: another one once a line has been added."""
    found = stat_file(path, RESULTS)
    return (path, found.st_size, found.st_mtime_ns) if found else (path, 0, 0)


def _chart(trend: Trend) -> str:
    """The pass rate and its interval through the runs, as a picture; the table below it has the figures."""
    width, height = _CHART
    known = [point for point in trend.points if point.pass_rate is not None]
    if len(known) < 2:
        return ""
    step = width / (len(known) - 1)

    def y(rate: float) -> float:
        return round(height * (1 - rate), 1)

    places = [(round(number * step, 1), point) for number, point in enumerate(known)]
    bars = "".join(
        f'<line class="interval" x1="{x}" x2="{x}" y1="{y(point.pass_ci95[0])}" y2="{y(point.pass_ci95[1])}"/>'
        for x, point in places
        if point.pass_ci95
    )
    line = " ".join(f"{x},{y(point.pass_rate or 0.0)}" for x, point in places)
    dots = "".join(f'<circle cx="{x}" cy="{y(point.pass_rate or 0.0)}" r="4"/>' for x, point in places)
    title = text(f"{trend.target}: passed, {known[0].run_id} to {known[-1].run_id}")
    picture = f'<svg viewBox="-8 -8 {width + 16} {height + 16}" role="img" aria-label="{escape(title, quote=True)}">'
    return f'<figure><figcaption>{title}</figcaption>{picture}{bars}<polyline points="{line}"/>{dots}</svg></figure>'


def message_page(words: str) -> str:
    """A page that says one thing."""
    return _shell("clawgauge", f"<h1>clawgauge</h1><p>{text(words)}</p>")


def _shell(title: str, body: str) -> str:
    return _filled("page.html", title=text(title), version=escape(__version__), body=body)


def _filled(template: str, **values: str) -> str:
    return Template((_STATIC / template).read_text("utf-8")).substitute(values)
