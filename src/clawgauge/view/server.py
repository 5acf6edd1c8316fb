"""The pages of `clawgauge view`, and who may see them. Everything is made anew from the folders; nothing touches a run.

It listens on this machine alone. The address it prints holds a token, which becomes a cookie at the first request; a
request by another name of the host (a page that has its own name point here), from another origin, or without the
token is refused."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import secrets
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from functools import lru_cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from clawgauge import __version__
from clawgauge.compare.comparison import IncomparableRuns, Wishes, compare_runs
from clawgauge.errors import ClawgaugeError, RunFolderError
from clawgauge.history.findings import Trend
from clawgauge.history.trends import judge_newest, read_history
from clawgauge.journal import list_runs, stat_file
from clawgauge.journal.disk import EVENTS, LINE_CAP_BYTES, LOCK, RESULTS, open_file
from clawgauge.journal.reader import line_decoder
from clawgauge.records import RunSummary
from clawgauge.reports.answer import choose, describe_jobs
from clawgauge.reports.compare import describe_comparison, say_difference
from clawgauge.reports.history import BY_NEWEST, describe_history
from clawgauge.reports.html import Survey, read_runs, render_report
from clawgauge.reports.html.calls import OUTCOMES, classify
from clawgauge.reports.html.sections import as_html, text
from clawgauge.reports.words import describe_run
from clawgauge.run_data import Row, Run
from clawgauge.summary import summarize_folder
from clawgauge.words import format_date, format_percent

HOST, _COOKIE, _POLL_S = "127.0.0.1", "clawgauge_view", 0.25
# A connection that nothing is sent on looks dead to whatever stands between.
_QUIET_S = 15.0
_STATIC = files("clawgauge.view") / "static"
_TYPES = {"view.css": "text/css", "live.js": "text/javascript"}
_HEADERS = {
    "Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin", "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"
}  # fmt: skip
# A report brings its own, closer one: what is in it is known by its hash.
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_MAX_REPORTS, _MAX_SUMMARISED = 4, 200
_LARGE_BYTES, _SOON_S = 4 << 20, 0.5  # whose report is waited for on a page that says so, and after how long
_CHART = (640, 120)
MAX_ROWS, _MAX_WHY = 500, 160


class Pages:
    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir
        # A run is known by how far it has been written: another one once a line has been added.
        self._report_of = lru_cache(maxsize=_MAX_REPORTS)(_report)
        self._summary_of = lru_cache(maxsize=_MAX_SUMMARISED)(_summary)

    def runs(self) -> str:
        """Which model for which job, and all runs, the newest first, each with its own answer."""
        paths = list_runs(self._runs_dir)
        if not paths:
            return message_page(f"there is no run in {self._runs_dir}: make one with clawgauge run")
        found = {path: self._summary_of(*_version(path)) for path in paths}
        told = [(one, Run.open(path).config) for path, one in found.items() if isinstance(one, RunSummary)]
        answer = describe_jobs(judge_newest([one for one in told if not one[0].capacity]), by=BY_NEWEST)
        rows = "".join(_run_row(path, one) for path, one in found.items())
        return _shell("runs", _filled("runs.html", rows=rows, answer=as_html([answer])))

    def report(self, path: Path) -> str:
        """The report of one run, as `clawgauge report` writes it."""
        return self._report_of(*_version(path))

    def live(self, path: Path) -> str:
        return _shell(path.name, _filled("live.html", name=text(path.name), link=_link(path)))

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
        history, _ = read_history(self._runs_dir)
        charts = "".join(_chart(trend) for trend in history.trends if len(trend.points) > 1)
        first, *rest = describe_history(history)
        figures = f'<section class="charts">{charts}</section>'
        return _shell("history", f"<h1>History</h1>{as_html([first, rest[0]])}{figures}{as_html(rest[1:])}")


def _run_row(path: Path, found: RunSummary | str) -> str:
    link, value, started = _link(path), escape(path.name, quote=True), format_date(Run.open(path).started_at_ms)
    state = f'<a class="running" href="{link}/live">running: watch it</a>' if is_running(path) else ""
    told = {"value": value, "name": text(path.name), "link": link, "started": started, "state": state}
    if isinstance(found, str):
        return _filled("run.html", **told, answer=f"<p>{text(found)}</p>")
    jobs = [(text(one.job), escape(one.why, quote=True), text(one.use)) for one in choose(found.jobs)]
    answers = "".join(f'<dt>{job}</dt><dd title="{why}">{use}</dd>' for job, why, use in jobs)
    return _filled("run.html", **told, answer=f"<p>{text(describe_run(found))}</p><dl>{answers}</dl>")


def _link(path: Path) -> str:
    return f"/runs/{quote(path.name, errors='replace')}"


def _version(path: Path) -> tuple[Path, int, int]:
    found = stat_file(path, RESULTS)
    return (path, found.st_size, found.st_mtime_ns) if found else (path, 0, 0)


def _summary(path: Path, _size: int, _mtime_ns: int) -> RunSummary | str:
    try:
        return summarize_folder(path)
    except ClawgaugeError as wrong:
        return str(wrong)


def _report(path: Path, _size: int, _mtime_ns: int) -> str:
    survey = Survey()
    return render_report(read_runs([path], survey), survey)


def _chart(trend: Trend) -> str:
    """The pass rate and its interval through the runs, as a picture; the table below it has the figures."""
    width, height = _CHART
    known = [(point.n_passed / point.n_asked, point) for point in trend.points if point.n_asked]
    if len(known) < 2:
        return ""

    def y(rate: float) -> float:
        return round(height * (1 - rate), 1)

    places = [(round(number * width / (len(known) - 1), 1), *one) for number, one in enumerate(known)]
    ends = [(x, *point.asked_ci95) for x, _, point in places if point.asked_ci95]
    bars = "".join(f'<line class="interval" x1="{x}" x2="{x}" y1="{y(low)}" y2="{y(high)}"/>' for x, low, high in ends)
    line = " ".join(f"{x},{y(rate)}" for x, rate, _ in places)
    dots = "".join(f'<circle cx="{x}" cy="{y(rate)}" r="4"/>' for x, rate, _ in places)
    (_, first), (rate, last) = known[0], known[-1]
    title = text(f"{trend.target}: passed, {first.run_id} to {last.run_id}")
    frame = f'viewBox="-52 -20 {width + 120} {height + 32}" role="img" aria-label="{escape(title, quote=True)}"'
    rules = "".join(
        f'<line class="rule" x1="0" x2="{width}" y1="{y(at)}" y2="{y(at)}"/>'
        f'<text x="-8" y="{y(at) + 5}" text-anchor="end">{format_percent(at)}</text>'
        for at in (0.0, 0.5, 1.0)
    )
    value = f'<text class="last" x="{width + 10}" y="{y(rate) + 5}">{format_percent(rate)}</text>'
    picture = f'<svg {frame}>{rules}{bars}<polyline points="{line}"/>{dots}{value}</svg>'
    return f"<figure><figcaption>{title}</figcaption>{picture}</figure>"


def message_page(words: str) -> str:
    return _shell("clawgauge", f"<h1>clawgauge</h1><p>{text(words)}</p>")


def _shell(title: str, body: str) -> str:
    return _filled("page.html", title=text(title), version=escape(__version__), body=body)


def _filled(template: str, **values: str) -> str:
    return Template((_STATIC / template).read_text("utf-8")).substitute(values)


def is_running(path: Path) -> bool:
    """Whether somebody is writing the run: it holds the lock, and its last stretch has not ended."""
    try:
        if stat_file(path, LOCK) is None:
            return False
        events = stat_file(path, EVENTS)
        return not _has_ended(path, events.st_size, events.st_mtime_ns) if events else True
    except (OSError, RunFolderError):
        return False


@lru_cache(maxsize=256)
def _has_ended(path: Path, size: int, mtime_ns: int) -> bool:
    """As its events say; read again only once there are more of them, for a run is asked about four times a second."""
    ends = [event.event for event in Run.open(path).events if event.event.startswith("stretch_")]
    return bool(ends) and ends[-1] != "stretch_started"


class Follower:
    """The lines of results.jsonl from the first on. `counts` has how many calls of each target ended how."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0
        self._decode = line_decoder(Row)
        self.counts: dict[str, Counter[str]] = {}
        config = Run.open(path).config
        n_each = len(config.prompts) * config.options.repeats if config else 0
        self.planned = {target.label: n_each for target in config.targets} if config else {}

    def news(self) -> list[dict[str, Any]]:
        """The rows that came since, the last `MAX_ROWS` of them; all are counted."""
        rows: deque[dict[str, Any]] = deque(maxlen=MAX_ROWS)
        for line in self._lines():
            if (row := self._decode(line)) is not None:
                outcome = OUTCOMES[classify(row)]
                self.counts.setdefault(row.target.label, Counter())[outcome] += 1
                rows.append(_as_json(row, outcome))
        return list(rows)

    def _lines(self) -> Iterator[bytes]:
        try:
            with open_file(self._path, RESULTS) as file:
                if os.fstat(file.fileno()).st_size < self._offset:
                    # Written anew, as by a retry of what failed.
                    self._offset, self.counts = 0, {}
                file.seek(self._offset)
                # A line that has no end yet is still being written.
                while (line := file.readline(LINE_CAP_BYTES)).endswith(b"\n"):
                    self._offset += len(line)
                    yield line
        except (OSError, RunFolderError):
            return


def _as_json(row: Row, outcome: str) -> dict[str, Any]:
    why = row.violation if row.success else row.failure_type
    named = {"target": row.target.label, "prompt": f"{row.suite}/{row.prompt_id}", "name": row.prompt_name}
    told = {"outcome": outcome, "why": (why or "")[:_MAX_WHY], "e2e_ms": row.e2e_ms, "ttft_ms": row.ttft_ms}
    return named | told


class _Server:
    def __init__(self, runs_dir: Path) -> None:
        self.token = secrets.token_urlsafe(24)
        self.hosts: frozenset[str] = frozenset()
        self._runs_dir, self._pages = runs_dir, Pages(runs_dir)
        self._making: dict[tuple[Path, int, int], asyncio.Task[str]] = {}
        self.app = web.Application(middlewares=[self._guard])
        for path, handler in {
            "/": self._list, "/history": self._list, "/compare": self._compare, "/static/{name}": self._file,
            "/runs/{run}": self._report, "/runs/{run}/live": self._live, "/runs/{run}/rows": self._rows,
        }.items():  # fmt: skip
            self.app.router.add_get(path, handler)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if (refusal := self._refusal(request)) is not None:
            return _closed(web.Response(status=403, text=f"{refusal}\n"))
        if "token" in request.query:
            # Out of the address bar, the history and whatever is sent on from there.
            bare = request.rel_url.without_query_params("token")
            moved = web.Response(status=303, headers={"Location": str(bare)})
            moved.set_cookie(_COOKIE, self.token, httponly=True, samesite="Strict", path="/")
            return _closed(moved)
        try:
            return await handler(request)
        except web.HTTPException as wrong:
            return _closed(web.Response(status=wrong.status, text=f"{wrong.reason}\n"))
        except ClawgaugeError as wrong:
            return _page(message_page(str(wrong)), status=404)

    def _refusal(self, request: web.Request) -> str | None:
        if request.host not in self.hosts:
            return "this is not the address that clawgauge view printed"
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
        strange = site not in {"none", "same-origin"} and "token" not in request.query
        if strange or (origin is not None and origin not in {f"http://{host}" for host in self.hosts}):
            return "asked from another site"
        given = request.query.get("token") or request.cookies.get(_COOKIE, "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return "open the whole address that clawgauge view printed: it holds a token"
        return None

    async def _path(self, run: str) -> Path:
        """Of the runs that there are, by its name: whatever else is asked for is not there."""
        for path in await asyncio.to_thread(list_runs, self._runs_dir):
            if path.name == run:
                return path
        raise web.HTTPNotFound

    async def _list(self, request: web.Request) -> web.StreamResponse:
        wanted = self._pages.history if request.path == "/history" else self._pages.runs
        return _page(await asyncio.to_thread(wanted))

    async def _compare(self, request: web.Request) -> web.StreamResponse:
        a, b = [await self._path(request.query.get(side, "")) for side in "ab"]
        return _page(await asyncio.to_thread(self._pages.comparison, a, b))

    async def _report(self, request: web.Request) -> web.StreamResponse:
        path = await self._path(request.match_info["run"])
        if "report" not in request.query and await asyncio.to_thread(is_running, path):
            return _closed(web.Response(status=303, headers={"Location": f"{request.rel_url.path}/live"}))
        version = await asyncio.to_thread(_version, path)
        if (making := self._making.get(version)) is None:
            making = self._making[version] = asyncio.create_task(asyncio.to_thread(self._pages.report, path))
            making.add_done_callback(lambda done: self._making.pop(version, None) and done.exception())
        if version[1] > _LARGE_BYTES and not (await asyncio.wait([making], timeout=_SOON_S))[0]:
            waiting = _page(message_page(f"the report of {path.name} is being made, and opens by itself"))
            waiting.headers["Refresh"] = "1"
            return waiting
        # Whoever leaves does not take it from those who still wait.
        return _closed(web.Response(text=await asyncio.shield(making), content_type="text/html"))

    async def _live(self, request: web.Request) -> web.StreamResponse:
        return _page(self._pages.live(await self._path(request.match_info["run"])))

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in _TYPES:
            raise web.HTTPNotFound
        return _closed(web.Response(text=(_STATIC / name).read_text("utf-8"), content_type=_TYPES[name]))

    async def _rows(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: what is there, then what comes, until the run ends or the reader leaves."""
        path = await self._path(request.match_info["run"])
        stream = _closed(web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"}))
        await stream.prepare(request)
        follower = await asyncio.to_thread(Follower, path)
        quiet_s, first = 0.0, True
        while True:
            # Asked before the rows are read: what was written before the end is then among them.
            running = await asyncio.to_thread(is_running, path)
            rows = await asyncio.to_thread(follower.news)
            quiet_s += _POLL_S
            if rows or first or not running:
                news = {"rows": rows, "counts": follower.counts, "planned": follower.planned, "running": running}
                await stream.write(b"data: " + msgspec.json.encode(news) + b"\n\n")
                quiet_s, first = 0.0, False
            elif quiet_s >= _QUIET_S:
                await stream.write(b": still here\n\n")
                quiet_s = 0.0
            if not running:
                return stream
            await asyncio.sleep(_POLL_S)


def _closed(response: web.StreamResponse) -> web.StreamResponse:
    response.headers.update(_HEADERS)
    return response


def _page(html: str, status: int = 200) -> web.StreamResponse:
    page = web.Response(text=html.encode("utf-8", "replace").decode(), content_type="text/html", status=status)
    page.headers["Content-Security-Policy"] = _POLICY
    return _closed(page)


def _is_ours(entry: logging.LogRecord) -> bool:
    """Whether a fault is for whoever serves to know: what a client sent that is no HTTP, it is told itself."""
    fault = entry.exc_info[1] if entry.exc_info else None
    return not isinstance(fault, HttpProcessingError | ConnectionError)


async def serve(runs_dir: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve until cancelled. `ready` is told the address, token and all, once it can be asked."""
    server = _Server(runs_dir)
    logger = logging.getLogger(__name__)
    logger.addFilter(_is_ours)
    runner = web.AppRunner(server.app, access_log=None, handle_signals=False, logger=logger)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port)
        await site.start()
        bound = runner.addresses[0][1]
        server.hosts = frozenset(f"{name}:{bound}" for name in (HOST, "localhost"))
        ready(f"http://{HOST}:{bound}/?token={server.token}")
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
