"""What goes through aiohttp's own client: questions about a server, and calls through a proxy.

Owns: sessions, and the clock of a proxied call, which starts on a connected socket as it does everywhere. Its stamps
are taken when the reading task has its turn; a proxy adds more than that. Refuses: calls that go straight to a server.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import NamedTuple

import aiohttp

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Sink
from clawgauge.providers.http_faults import CONNECT_TIMEOUT_S, map_transport_fault
from clawgauge.providers.http_pool import KEEPALIVE_S
from clawgauge.providers.http_reply import CappedBody, Intake, Reader
from clawgauge.providers.http_wire import DRAIN_S, WORDS_S

_WATCH_S = 0.1
# The deadline of a call is the runner's.
_CONNECT_ONLY = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)


class JsonReply(NamedTuple):
    """A small reply to a question about the server itself."""

    status: int
    data: bytes


class HttpSession:
    """One aiohttp session with our clock, our caps and our names for what goes wrong."""

    def __init__(
        self, headers: Mapping[str, str], *, tls: ssl.SSLContext | None, proxy: str | None, concurrency: int
    ) -> None:
        self._headers = headers
        self._tls = tls
        self._proxy = proxy
        self._concurrency = concurrency
        self._opened: aiohttp.ClientSession | None = None

    def _session(self) -> aiohttp.ClientSession:
        """Opened with the first question: most runs of a known server ask none."""
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=max(self._concurrency, 1) + 2, ssl=self._tls or True, keepalive_timeout=KEEPALIVE_S
                ),
                headers=self._headers,
                auto_decompress=False,
                trace_configs=[_clock_trace()],
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._opened

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def ask(self, method: str, url: str, body: bytes | None, timeout_s: float) -> JsonReply:
        """A question about the server. Raises `CallFailure` where it cannot be reached."""
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=timeout_s)
        try:
            async with self._request(method, url, body, _Seen(), timeout=timeout) as reply:
                held = bytearray()
                capped = CappedBody(reply.headers.get("Content-Encoding", ""))
                async for _, chunk in _stamped_chunks(reply):
                    for part in capped.parts(chunk):
                        held += part
                return JsonReply(reply.status, bytes(held))
        except (aiohttp.ClientError, OSError, ValueError) as fault:
            raise map_transport_fault(fault, url, started=False) from fault

    async def exchange(self, url: str, payload: bytes, sink: Sink, reader: Reader, words_until_s: float) -> None:
        """One call through the proxy. Words of a refusal are waited for until then, by the loop's time, at most."""
        # Lets the loop notice pooled connections that were closed meanwhile.
        await asyncio.sleep(0)
        seen = _Seen()
        try:
            async with self._request("POST", url, payload, seen) as reply:
                sink.start(seen.sent_ns or time.perf_counter_ns())
                sink.connected(seen.connect_ns)
                await _receive(reply, sink, reader, words_until_s)
        except (aiohttp.ClientError, OSError, ValueError) as fault:
            if seen.sent_ns:
                sink.start(seen.sent_ns)
            sink.end(time.perf_counter_ns())
            raise map_transport_fault(fault, url, started=seen.sent_ns > 0) from fault
        except BaseException:
            # A deadline or Ctrl-C while the reply was awaited: the clock still says when it began.
            if seen.sent_ns:
                sink.start(seen.sent_ns)
            raise

    def _request(
        self, method: str, url: str, body: bytes | None, seen: _Seen, timeout: aiohttp.ClientTimeout = _CONNECT_ONLY
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._session().request(
            method,
            url,
            proxy=self._proxy,
            data=body,
            headers={"Content-Type": "application/json"} if body is not None else None,
            allow_redirects=False,
            trace_request_ctx=seen,
            timeout=timeout,
        )


async def _receive(reply: aiohttp.ClientResponse, sink: Sink, reader: Reader, words_until_s: float) -> None:
    try:
        intake = Intake(sink, reader, time.perf_counter_ns(), reply.status, reply.headers)
        until_s = min(asyncio.get_running_loop().time() + WORDS_S, words_until_s) if intake.is_error else None
        async with asyncio.timeout_at(until_s):
            async for at_ns, chunk in _stamped_chunks(reply):
                if intake.feed(at_ns, chunk):
                    await _drain(reply)
                    return
    except CallFailure:
        sink.end(time.perf_counter_ns())
        raise
    except (TimeoutError, aiohttp.ClientPayloadError) as fault:
        sink.end(time.perf_counter_ns())
        raise intake.broken_off(str(fault)) from fault
    intake.finish()


async def _stamped_chunks(reply: aiohttp.ClientResponse) -> AsyncIterator[tuple[int, bytes]]:
    with _FramingWatch(reply):
        while chunk := await reply.content.readany():
            yield time.perf_counter_ns(), chunk


async def _drain(reply: aiohttp.ClientResponse) -> None:
    """Read past the stream's own end, so that the connection can be used again; a server that dawdles loses it."""
    with contextlib.suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(DRAIN_S):
            while not reply.content.at_eof() and await reply.content.readany():
                pass


class _FramingWatch:
    """Notices a reply whose framing breaks while it is read.

    aiohttp then closes the connection and tells its protocol, but not the reader of the body, who would wait for more
    until the deadline. Looking ten times a second costs a good reply nothing: most are over before the first look.
    """

    def __init__(self, reply: aiohttp.ClientResponse) -> None:
        self._reply = reply
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._look_later()

    def __exit__(self, *exc_info: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_WATCH_S, self._look)

    def _look(self) -> None:
        connection, content = self._reply.connection, self._reply.content
        protocol = connection.protocol if connection is not None else None
        fault = protocol.exception() if protocol is not None else None
        if fault is None or content.is_eof() or content.exception() is not None:
            self._look_later()
            return
        words = " ".join(str(fault).split())
        content.set_exception(CallFailure("error", "invalid_response", f"the reply is not HTTP: {words}"))


class _Seen(SimpleNamespace):
    """What the trace saw of one request."""

    connect_began_ns: int = 0
    connect_ns: int | None = None
    sent_ns: int = 0


def _clock_trace() -> aiohttp.TraceConfig:
    """Stamps connecting and sending, so that the clock starts on a connected socket, not before."""
    trace = aiohttp.TraceConfig()

    async def connect_began(session: object, context: SimpleNamespace, params: object) -> None:
        context.trace_request_ctx.connect_began_ns = time.perf_counter_ns()

    async def connect_ended(session: object, context: SimpleNamespace, params: object) -> None:
        seen = context.trace_request_ctx
        seen.connect_ns = time.perf_counter_ns() - seen.connect_began_ns

    async def chunk_sent(session: object, context: SimpleNamespace, params: object) -> None:
        # Called just before the bytes go to the transport; headers and body leave together.
        seen = context.trace_request_ctx
        if not seen.sent_ns:
            seen.sent_ns = time.perf_counter_ns()

    trace.on_connection_create_start.append(connect_began)
    trace.on_connection_create_end.append(connect_ended)
    trace.on_request_chunk_sent.append(chunk_sent)
    return trace
