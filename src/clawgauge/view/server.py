"""The HTTP server of `clawgauge view`: who is asking, for what, and when it ends.

It listens on this machine alone. The address it prints holds a token that works once, within ten
minutes, and redirects to `/s/SECRET/`, under which all pages are. A request by another name of the
host (a page that has its own name point here), from another origin, or without the secret is
refused."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote_to_bytes

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from clawgauge.errors import ClawgaugeError
from clawgauge.journal.disk import is_barren
from clawgauge.journal.locate import is_run_folder
from clawgauge.run_data.state import RunState, read_state
from clawgauge.view.access import TOKEN_LIFETIME_S, Access, Redemption
from clawgauge.view.browser import RedirectFile
from clawgauge.view.live import MAX_LISTENERS, Feeds
from clawgauge.view.pages import (
    STATIC,
    Pages,
    RunVersion,
    message_page,
    refusal_page,
    run_link,
    version_of,
)
from clawgauge.workers import Workers

HOST = "127.0.0.1"
_PAGE_THREADS = 4
_REPORT_THREADS = 2
_FEED_THREADS = 2
# A connection that nothing is sent on looks dead to whatever stands between.
_QUIET_S = 15.0
# A page that has read nothing for so long is taken for gone.
_WRITE_S = 60.0
# What is being sent when the server ends may take this long; streams end at once.
_GRACE_S = 0.5
_KEEPALIVE_S = 75.0
# Whose report is waited for on a page that says so, and after how long.
_LARGE_BYTES = 4 << 20
_SOON_S = 0.5
_TYPES = {"view.css": "text/css", "live.js": "text/javascript", "runs.js": "text/javascript"}
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
_NEWEST = "open the newest address that clawgauge view has printed in its terminal."
_REDEMPTION_MESSAGES = {
    Redemption.USED: f"This address has been used already, and each works once: {_NEWEST}",
    Redemption.EXPIRED: f"This address has expired: {_NEWEST}",
    Redemption.UNKNOWN: f"This address does not open the view: {_NEWEST}",
}


class _Refused(Exception):
    """A request that gets an error status and one sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class _NotFound(Exception):
    """There is no such page, or no such run."""


class _Target(NamedTuple):
    """What a request asks for: the parts of its path, decoded one by one, and its query."""

    parts: list[str]
    query: dict[str, str]


class Server:
    """`announce` is given every address that is to be printed: one, and one after each use."""

    def __init__(
        self,
        runs_dir: Path,
        announce: Callable[[str], None],
        access: Access | None = None,
    ) -> None:
        self._runs_dir = runs_dir
        self._announce = announce
        self._access = access or Access()
        self._pages = Pages(runs_dir)
        self._page_workers = Workers("page", _PAGE_THREADS)
        self._report_workers = Workers("report", _REPORT_THREADS)
        self._feeds = Feeds(Workers("feed", _FEED_THREADS))
        self._reports: dict[RunVersion, asyncio.Task[str]] = {}
        self._requests: set[asyncio.Task[Any]] = set()
        self._address = ""
        self._hosts: frozenset[str] = frozenset()
        self._printed_token = ""

    async def start(self, port: int) -> None:
        """Listen; `OSError` where the port is taken."""
        logger = logging.getLogger(__name__)
        logger.addFilter(_is_our_fault)
        self._server = web.Server(
            self._handle,
            handler_cancellation=True,
            access_log=None,
            logger=logger,
            keepalive_timeout=_KEEPALIVE_S,
        )
        self._runner = web.ServerRunner(self._server, shutdown_timeout=_GRACE_S)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, HOST, port)
        try:
            await self._site.start()
        except OSError:
            await self._runner.cleanup()
            raise
        bound_port = self._runner.addresses[0][1]
        self._address = f"http://{HOST}:{bound_port}"
        self._hosts = frozenset({f"{HOST}:{bound_port}", f"localhost:{bound_port}"})

    def print_address(self) -> None:
        """Announce a new address; once it is used, the next one."""
        self._printed_token = self._access.issue(on_use=self.print_address)
        self._announce(self._entry(self._printed_token))

    def make_redirect(self) -> RedirectFile:
        """A file for a browser of this user, with an address of its own, until that was used or has
        expired."""

        def remove() -> None:
            expiry.cancel()
            redirect.remove()

        redirect = RedirectFile(self._entry(self._access.issue(on_use=remove)))
        expiry = asyncio.get_running_loop().call_later(TOKEN_LIFETIME_S, redirect.remove)
        return redirect

    async def close(self) -> None:
        """End all streams and whatever else is being sent, to whoever does not read it too."""
        await self._site.stop()
        self._feeds.close()
        if self._requests:
            await asyncio.wait(self._requests, timeout=_GRACE_S)
        for connection in self._server.connections:
            if connection.transport is not None:
                # Not `close`, which sends what is buffered first: nobody may ever read it.
                connection.transport.abort()
        await self._runner.cleanup()

    def _entry(self, token: str) -> str:
        return f"{self._address}/?token={token}"

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        if task is not None:
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)
        try:
            return await self._answer(request)
        except _Refused as refusal:
            return _refuse(request, refusal)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        _require_readable_headers(request)
        self._require_own_site(request)
        target = _read_target(request)
        if target.parts == [""]:
            return self._enter(request, target)
        has_secret = len(target.parts) >= 2 and target.parts[0] == "s"
        if not has_secret or not self._access.knows_secret(target.parts[1]):
            raise _Refused(403, _REDEMPTION_MESSAGES[Redemption.UNKNOWN])
        if request.method not in ("GET", "HEAD"):
            raise _Refused(405, "The view only shows: nothing can be changed here.")
        parts = target.parts[2:]
        root = "../" * (len(parts) - 1) or "./"
        try:
            return await self._show(request, parts, target.query, root)
        except ClawgaugeError as error:
            return _html(message_page(str(error), root), status=404)
        except _NotFound:
            message = "There is no such page: go back to the list of runs."
            return _html(message_page(message, root), status=404)

    def _require_own_site(self, request: web.BaseRequest) -> None:
        if request.headers.get("Host") not in self._hosts:
            raise _Refused(403, f"This is not the address of the view: {_NEWEST}")
        origin = request.headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}" for host in self._hosts}:
            raise _Refused(403, f"This was asked from another site: {_NEWEST}")
        # Another site may lead here, as the file does that opens the browser, but load nothing.
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            mode = request.headers.get("Sec-Fetch-Mode")
            destination = request.headers.get("Sec-Fetch-Dest")
            if (mode, destination) != ("navigate", "document"):
                raise _Refused(403, f"This was asked from another site: {_NEWEST}")

    def _enter(self, request: web.BaseRequest, target: _Target) -> web.StreamResponse:
        """Exchange the token of a printed address for the address of the pages."""
        token = target.query.get("token", "")
        # Browsers of other makes and years have other names for it.
        purposes = [request.headers.get(name, "") for name in ("Sec-Purpose", "Purpose", "X-Moz")]
        if request.method != "GET" or any("prefetch" in purpose for purpose in purposes):
            # A browser that only looks ahead must not use the address up.
            raise _Refused(403, "This address works once: open it.")
        redemption = self._access.redeem(token)
        if redemption is Redemption.ACCEPTED:
            return self._redirect("")
        if redemption is not Redemption.UNKNOWN and not self._access.is_open(self._printed_token):
            # Whoever holds an old address is shown where to find a new one, so there must be one.
            self.print_address()
        raise _Refused(403, _REDEMPTION_MESSAGES[redemption])

    async def _show(
        self, request: web.BaseRequest, parts: list[str], query: dict[str, str], root: str
    ) -> web.StreamResponse:
        match parts:
            case []:
                return self._redirect("")
            case [""]:
                return _html(await self._page_workers.run(self._pages.runs))
            case ["history"]:
                return _html(await self._page_workers.run(self._pages.history))
            case ["compare"]:
                a = await self._find_run(query.get("a", ""))
                b = await self._find_run(query.get("b", ""))
                return _html(await self._page_workers.run(lambda: self._pages.comparison(a, b)))
            case ["static", name] if name in _TYPES:
                source = (STATIC / name).read_text("utf-8")
                return _with_headers(web.Response(text=source, content_type=_TYPES[name]))
            case ["runs", run]:
                return await self._report(await self._find_run(run), wants_report="report" in query)
            case ["runs", run, "live"]:
                path = await self._find_run(run)
                return _html(await self._page_workers.run(lambda: self._pages.live(path, root)))
            case ["runs", run, "rows"]:
                return await self._rows(request, await self._find_run(run))
            case _:
                raise _NotFound

    async def _find_run(self, name: str) -> Path:
        """Of the runs that there are, the one with this name. No other path can be asked for."""

        def find() -> Path:
            with suppress(OSError):
                for path in self._runs_dir.iterdir():
                    if path.name != name or name.startswith("."):
                        continue
                    if is_run_folder(path) and not is_barren(path):
                        return path
            raise _NotFound

        return await self._page_workers.run(find)

    async def _report(self, path: Path, *, wants_report: bool) -> web.StreamResponse:
        state = await self._page_workers.run(lambda: read_state(path))
        if state is RunState.RUNNING and not wants_report:
            return self._redirect(f"{run_link(path)}/live")
        version = await self._page_workers.run(lambda: version_of(path))
        making = self._reports.get(version)
        if making is None:
            rendering = self._report_workers.run(lambda: self._pages.report(version))
            making = asyncio.create_task(rendering)
            self._reports[version] = making
            making.add_done_callback(lambda done: self._forget_report(version, done))
        _, size_bytes, _ = version
        if size_bytes > _LARGE_BYTES:
            done, _ = await asyncio.wait([making], timeout=_SOON_S)
            if not done:
                message = f"The report of {path.name} is being made, and opens by itself."
                waiting = _html(message_page(message, "../"))
                waiting.headers["Refresh"] = "1"
                return waiting
        # Whoever leaves does not take it from those who still wait.
        report = await asyncio.shield(making)
        return _with_headers(web.Response(text=report, content_type="text/html"))

    def _forget_report(self, version: RunVersion, done: asyncio.Task[str]) -> None:
        self._reports.pop(version, None)
        if not done.cancelled():
            done.exception()  # seen, although nobody may be waiting any more

    async def _rows(self, request: web.BaseRequest, path: Path) -> web.StreamResponse:
        """Server-sent events: what is there, then what comes, until the run ends."""
        if self._feeds.is_full:
            message = f"{MAX_LISTENERS} live pages are open, and there can be no more"
            return _plain(f"{message}: close some of them.", status=503)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        _with_headers(stream)
        with self._feeds.listen(path) as listener:
            await stream.prepare(request)
            while request.method != "HEAD":
                try:
                    async with asyncio.timeout(_QUIET_S):
                        message_bytes = await listener.next()
                except TimeoutError:
                    message_bytes = b": still here\n\n"
                if message_bytes is None:
                    break
                try:
                    async with asyncio.timeout(_WRITE_S):
                        await stream.write(message_bytes)
                except TimeoutError:
                    if request.transport is not None:
                        request.transport.abort()
                    break
        return stream

    def _redirect(self, path: str) -> web.StreamResponse:
        """Of `path`, which is quoted already, under the secret."""
        location = f"/s/{self._access.secret}/{path}"
        return _with_headers(web.Response(status=303, headers={"Location": location}))


def _require_readable_headers(request: web.BaseRequest) -> None:
    for name, value in request.headers.items():
        if name.lower() == "cookie":
            # Another program's, which a browser sends to every port of this machine: not read here.
            continue
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Refused(400, f"The header {name} of this request is not UTF-8.") from None


def _read_target(request: web.BaseRequest) -> _Target:
    """From the request line as it came: a path must be split before its names are decoded."""
    path, _, raw_query = request.raw_path.partition("?")
    if not path.startswith("/") or not request.raw_path.isascii():
        raise _Refused(400, "The address of this request is no path.")
    # A folder may have any bytes in its name, and Python keeps those that are no text as they are.
    parts = [os.fsdecode(unquote_to_bytes(part)) for part in path[1:].split("/")]
    try:
        fields = parse_qs(
            raw_query, keep_blank_values=True, errors="surrogateescape", max_num_fields=100
        )
    except ValueError:
        raise _Refused(400, "The query of this address cannot be read.") from None
    return _Target(parts, {name: values[0] for name, values in fields.items()})


def _refuse(request: web.BaseRequest, refusal: _Refused) -> web.StreamResponse:
    if request.headers.get("Sec-Fetch-Dest") == "empty":
        # Asked by a script, which shows the sentence on its own page.
        return _plain(refusal.message, refusal.status)
    page, policy = refusal_page(refusal.message)
    return _html(page, status=refusal.status, policy=policy)


def _plain(message: str, status: int) -> web.StreamResponse:
    return _with_headers(web.Response(text=f"{message}\n", status=status))


def _html(html: str, status: int = 200, policy: str = _POLICY) -> web.StreamResponse:
    encodable = html.encode("utf-8", "replace").decode()
    page = web.Response(text=encodable, content_type="text/html", status=status)
    page.headers["Content-Security-Policy"] = policy
    return _with_headers(page)


def _with_headers(response: web.StreamResponse) -> web.StreamResponse:
    response.headers.update(_HEADERS)
    return response


def _is_our_fault(entry: logging.LogRecord) -> bool:
    """Whether the user needs to know. A client that sends no HTTP is told itself."""
    fault = entry.exc_info[1] if entry.exc_info else None
    return not isinstance(fault, HttpProcessingError | ConnectionError)


async def serve(
    runs_dir: Path,
    port: int,
    announce: Callable[[str], None],
    open_browser: Callable[[Path], None] | None = None,
) -> None:
    """Serve until cancelled. `open_browser` is given a file that leads to the view, and must return
    at once."""
    server = Server(runs_dir, announce)
    await server.start(port)
    redirect = None
    try:
        server.print_address()
        if open_browser is not None:
            with suppress(OSError):  # no room for the file: the printed address is there
                redirect = server.make_redirect()
                open_browser(redirect.path)
        await asyncio.Event().wait()
    finally:
        if redirect is not None:
            redirect.remove()
        await server.close()
