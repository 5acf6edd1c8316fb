"""The pages of `clawgauge view`, and who may see them.

It listens on this machine alone. The address it prints holds a token, which becomes a cookie at the first request; a
request by another name of the host (a page that has its own name point here), from another origin, or without the
token is refused. Nothing can be changed through it.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path

import msgspec
from aiohttp import web

from clawgauge.errors import ClawgaugeError
from clawgauge.journal import list_runs
from clawgauge.view.follow import Follower, is_running
from clawgauge.view.pages import Pages, message_page

HOST = "127.0.0.1"
_COOKIE = "clawgauge_view"
_POLL_S = 0.25
# A connection that nothing is sent on looks dead to whatever stands between.
_QUIET_S = 15.0
_STATIC = files("clawgauge.view") / "static"
_TYPES = {"view.css": "text/css", "live.js": "text/javascript"}
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
# A report brings its own, closer one: what is in it is known by its hash.
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Server:
    def __init__(self, runs_dir: Path) -> None:
        self.token = secrets.token_urlsafe(24)
        self.hosts: frozenset[str] = frozenset()
        self._runs_dir = runs_dir
        self._pages = Pages(runs_dir)
        self.app = web.Application(middlewares=[self._guard])
        self.app.router.add_get("/", self._list)
        self.app.router.add_get("/history", self._history)
        self.app.router.add_get("/compare", self._compare)
        self.app.router.add_get("/static/{name}", self._file)
        self.app.router.add_get("/runs/{run}", self._report)
        self.app.router.add_get("/runs/{run}/live", self._live)
        self.app.router.add_get("/runs/{run}/rows", self._rows)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = self._refusal(request)
        if refusal is not None:
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
        origin = request.headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}" for host in self.hosts}:
            return "asked from another site"
        if (
            request.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}
            and "token" not in request.query
        ):
            return "asked from another site"
        given = request.query.get("token") or request.cookies.get(_COOKIE, "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return "open the whole address that clawgauge view printed: it holds a token"
        return None

    def _path(self, run: str) -> Path:
        """Of the runs that there are, by its name: whatever else is asked for is not there."""
        for path in list_runs(self._runs_dir):
            if path.name == run:
                return path
        raise web.HTTPNotFound

    async def _list(self, request: web.Request) -> web.StreamResponse:
        return _page(await asyncio.to_thread(self._pages.runs))

    async def _history(self, request: web.Request) -> web.StreamResponse:
        return _page(await asyncio.to_thread(self._pages.history))

    async def _compare(self, request: web.Request) -> web.StreamResponse:
        a, b = await asyncio.to_thread(lambda: [self._path(request.query.get(side, "")) for side in "ab"])
        return _page(await asyncio.to_thread(self._pages.comparison, a, b))

    async def _report(self, request: web.Request) -> web.StreamResponse:
        path = await asyncio.to_thread(self._path, request.match_info["run"])
        if "report" not in request.query and await asyncio.to_thread(is_running, path):
            return _closed(web.Response(status=303, headers={"Location": f"{request.rel_url.path}/live"}))
        page = await asyncio.to_thread(self._pages.report, path)
        return _closed(web.Response(text=page, content_type="text/html"))

    async def _live(self, request: web.Request) -> web.StreamResponse:
        path = await asyncio.to_thread(self._path, request.match_info["run"])
        return _page(self._pages.live(path))

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in _TYPES:
            raise web.HTTPNotFound
        return _closed(web.Response(text=(_STATIC / name).read_text("utf-8"), content_type=_TYPES[name]))

    async def _rows(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: what is there, then what comes, until the run ends or the reader leaves."""
        path = await asyncio.to_thread(self._path, request.match_info["run"])
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
    page = web.Response(text=html, content_type="text/html", status=status)
    page.headers["Content-Security-Policy"] = _POLICY
    return _closed(page)


async def serve(runs_dir: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve until cancelled. `ready` is told the address, token and all, once it can be asked."""
    server = _Server(runs_dir)
    runner = web.AppRunner(server.app, access_log=None, handle_signals=False)
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
