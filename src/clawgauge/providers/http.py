"""One HTTP client for every server that speaks HTTP: connect, send, stamp bytes as they arrive, map what went wrong.

Owns: the connection pool, the moment the clock starts, size caps, and the mapping of transport faults to failure types.
Refuses: knowing any vendor's payload (a `Reader` is given), retrying, following redirects, deadlines (the runner's).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, Self
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Sink
from clawgauge.providers.http_errors import classify_error_reply
from clawgauge.providers.sse import SseDecoder

REPLY_CAP_BYTES = 16 * 1024 * 1024
ERROR_BODY_CAP_BYTES = 64 * 1024
CONNECT_TIMEOUT_S = 10.0
# llama.cpp and Ollama close an idle connection after five seconds; ours must be gone before.
KEEPALIVE_S = 4.0
DRAIN_S = 0.2
_STALE_CONNECTIONS = 8
# Announces keep-alive, then closes after every stream: a reused connection would die under the next request.
_CLOSING_SERVERS = frozenset({"llama.cpp"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class _NeverSent(Exception):
    """The connection taken from the pool was already closed."""


class Reader(Protocol):
    """Turns one reply's payload into reports to a sink. Knows a wire format; knows no HTTP."""

    def event(self, at_ns: int, name: bytes, data: bytes) -> bool:
        """One server-sent event. Returns True when the stream said that it is over."""

    def body(self, at_ns: int, data: bytes) -> None:
        """A whole JSON reply."""

    def close(self) -> None:
        """The stream ended. Raises `CallFailure` if it ended before its end."""


class JsonReply(NamedTuple):
    """A small reply to a question about the server itself."""

    status: int
    data: bytes


class HttpClient:
    """A pooled client for one base address. Use as an async context manager."""

    def __init__(
        self, base_url: str, *, headers: Mapping[str, str], concurrency: int = 1, reuse_connections: bool = True
    ) -> None:
        parts = urlsplit(base_url)
        self.base_url = urlunsplit(parts._replace(query="", fragment="")).rstrip("/")
        self._query = f"?{parts.query}" if parts.query else ""
        self._headers = dict(headers)
        self._concurrency = concurrency
        self._reuse = reuse_connections
        self._sessions: list[aiohttp.ClientSession] = []

    async def __aenter__(self) -> Self:
        self._sessions.append(self._make_session())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        while self._sessions:
            await self._sessions.pop().close()

    def _make_session(self) -> aiohttp.ClientSession:
        parts = urlsplit(self.base_url)
        connector = aiohttp.TCPConnector(
            limit=max(self._concurrency, 1) + 2,
            ssl=ssl.create_default_context() if parts.scheme == "https" else True,
            **({"keepalive_timeout": KEEPALIVE_S} if self._reuse else {"force_close": True}),
        )
        return aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            auto_decompress=False,
            trust_env=parts.hostname not in _LOOPBACK,
            trace_configs=[_clock_trace()],
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    def _stop_reusing(self) -> None:
        """From now on every call gets a connection of its own. Calls under way keep theirs."""
        if self._reuse:
            self._reuse = False
            self._sessions.append(self._make_session())

    async def get_json(self, url: str, *, timeout_s: float = 5.0) -> JsonReply:
        """Ask the server about itself. Raises `CallFailure` where it cannot be reached."""
        return await self._small("GET", url, None, timeout_s)

    async def post_json(self, url: str, body: bytes, *, timeout_s: float = 30.0) -> JsonReply:
        """Tell the server something about itself (unload a model)."""
        return await self._small("POST", url, body, timeout_s)

    async def _small(self, method: str, url: str, body: bytes | None, timeout_s: float) -> JsonReply:
        headers = {"Content-Type": "application/json"} if body is not None else None
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=timeout_s)
        seen = SimpleNamespace(connect_began_ns=0, connect_ns=None, sent_ns=0)
        try:
            async with self._open().request(
                method, url, data=body, headers=headers, timeout=timeout, allow_redirects=False, trace_request_ctx=seen
            ) as reply:
                return JsonReply(reply.status, await _read_capped(reply, REPLY_CAP_BYTES))
        except (aiohttp.ClientError, OSError, ValueError) as fault:
            raise map_transport_fault(fault, url, started=False) from fault

    async def exchange(
        self, path: str, payload: bytes, *, headers: Mapping[str, str], sink: Sink, reader: Reader
    ) -> None:
        """Send one request and feed its reply to `reader`, reporting the clock to `sink`."""
        # Lets the loop notice pooled connections that the server has closed meanwhile.
        await asyncio.sleep(0)
        for _ in range(_STALE_CONNECTIONS):
            try:
                return await self._exchange_once(path, payload, headers=headers, sink=sink, reader=reader)
            except _NeverSent:
                continue
        raise CallFailure("error", "connection_reset", "every pooled connection was closed", retryable=True)

    async def _exchange_once(
        self, path: str, payload: bytes, *, headers: Mapping[str, str], sink: Sink, reader: Reader
    ) -> None:
        url = self.base_url + path + self._query
        seen = SimpleNamespace(connect_began_ns=0, connect_ns=None, sent_ns=0)
        try:
            async with self._open().post(
                url, data=payload, headers=headers, allow_redirects=False, trace_request_ctx=seen
            ) as reply:
                sink.start(seen.sent_ns or time.perf_counter_ns())
                sink.connected(seen.connect_ns)
                if reply.headers.get("Server") in _CLOSING_SERVERS:
                    self._stop_reusing()
                await _receive(reply, sink, reader)
        except (aiohttp.ClientError, OSError, ValueError) as fault:
            if isinstance(fault.__cause__, aiohttp.ClientConnectionResetError):
                # The pooled connection closed before a byte of the request left: nothing was asked yet.
                raise _NeverSent from fault
            if isinstance(fault, aiohttp.ServerDisconnectedError) and seen.connect_ns is None:
                # This server drops connections it has finished with: pool none of the next.
                self._stop_reusing()
            if seen.sent_ns:
                sink.start(seen.sent_ns)
            sink.end(time.perf_counter_ns())
            raise map_transport_fault(fault, url, started=seen.sent_ns > 0) from fault
        except BaseException:
            # A deadline or Ctrl-C while the reply was awaited: the clock still says when it began.
            if seen.sent_ns:
                sink.start(seen.sent_ns)
            raise

    def _open(self) -> aiohttp.ClientSession:
        if not self._sessions:
            raise RuntimeError("HttpClient used outside its context")
        return self._sessions[-1]


async def _receive(reply: aiohttp.ClientResponse, sink: Sink, reader: Reader) -> None:
    if 300 <= reply.status < 400:
        sink.end(time.perf_counter_ns())
        raise CallFailure(
            "error",
            "redirect_refused",
            f"the server answered {reply.status} with a redirect; set the final address instead",
            http_status=reply.status,
        )
    if reply.status >= 400:
        body = await _read_capped(reply, ERROR_BODY_CAP_BYTES, keep_head=True)
        sink.end(time.perf_counter_ns())
        raise classify_error_reply(reply.status, reply.headers, body, now_s=time.time())
    try:
        await _feed(reply, sink, reader)
    except aiohttp.ClientPayloadError as fault:
        sink.end(time.perf_counter_ns())
        raise CallFailure("error", "stream_interrupted", f"the reply broke off: {fault}") from fault


async def _feed(reply: aiohttp.ClientResponse, sink: Sink, reader: Reader) -> None:
    """Pass the payload on, as events or as one body, whichever it turns out to be."""
    decoder: SseDecoder | None = None
    held = bytearray()
    declared_sse = reply.content_type == "text/event-stream"
    at_ns = time.perf_counter_ns()
    async for at_ns, chunk in _stamped_chunks(reply):
        if decoder is None:
            held += chunk
            kind = "sse" if declared_sse else _sniff(held)
            if kind != "sse":
                continue
            decoder = SseDecoder()
            chunk = bytes(held)
        for name, data in decoder.feed(chunk):
            if reader.event(at_ns, name, data):
                sink.end(at_ns)
                await _drain(reply)
                return
    sink.end(at_ns)
    if decoder is None:
        reader.body(at_ns, bytes(held))
        return
    for name, data in decoder.flush():
        if reader.event(at_ns, name, data):
            return
    reader.close()


async def _drain(reply: aiohttp.ClientResponse) -> None:
    """Read past the stream's own end, so that the connection can be used again; a server that dawdles loses it."""
    with contextlib.suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(DRAIN_S):
            while not reply.content.at_eof() and await reply.content.readany():
                pass


def _sniff(head: bytearray) -> str | None:
    """Some servers stream events under another content type: the first word tells."""
    start = bytes(head[:64]).removeprefix(b"\xef\xbb\xbf").lstrip()
    return "sse" if start.startswith((b"data:", b"event:", b": ", b":\n", b"id:")) else None


async def _stamped_chunks(reply: aiohttp.ClientResponse) -> AsyncIterator[tuple[int, bytes]]:
    """Every chunk with the time it arrived, decompressed if the server compressed unasked, capped in total."""
    inflate = _inflater(reply.headers.get("Content-Encoding", ""))
    total = 0
    read = reply.content.readany
    while True:
        chunk = await read()
        at_ns = time.perf_counter_ns()
        if not chunk:
            return
        if inflate is not None:
            chunk = _inflate(inflate, chunk, REPLY_CAP_BYTES - total)
        total += len(chunk)
        if total > REPLY_CAP_BYTES:
            reply.close()
            raise CallFailure("error", "response_too_large", f"the reply exceeds {REPLY_CAP_BYTES} bytes")
        yield at_ns, chunk


def _inflater(encoding: str) -> Any:
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(zlib.MAX_WBITS | 32 if name != "deflate" else zlib.MAX_WBITS)
    raise CallFailure("error", "invalid_response", f"the server used a content encoding that was not asked for: {name}")


def _inflate(inflate: Any, chunk: bytes, room: int) -> bytes:
    try:
        out: bytes = inflate.decompress(chunk, max(room, 0) + 1)
    except zlib.error as fault:
        raise CallFailure("error", "invalid_response", f"the compressed reply cannot be read: {fault}") from fault
    if inflate.unconsumed_tail:
        raise CallFailure("error", "response_too_large", f"the reply exceeds {REPLY_CAP_BYTES} bytes when decompressed")
    return out


async def _read_capped(reply: aiohttp.ClientResponse, cap: int, *, keep_head: bool = False) -> bytes:
    held = bytearray()
    async for _, chunk in _stamped_chunks(reply):
        held += chunk
        if len(held) >= cap and keep_head:
            break
    return bytes(held[:cap])


def map_transport_fault(fault: Exception, url: str, *, started: bool) -> CallFailure:
    """What aiohttp, the socket or the TLS layer said, as a status of ours."""
    where = f"{urlsplit(url).hostname}:{urlsplit(url).port or ''}".rstrip(":")
    skipped = "skipped_unavailable"
    if isinstance(fault, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError | ssl.SSLError):
        return CallFailure("error", "tls_error", f"TLS with {where} failed: {fault}")
    if isinstance(fault, aiohttp.ClientConnectorDNSError):
        return CallFailure(skipped, "dns_error", f"the name {where} does not resolve")
    if isinstance(fault, aiohttp.ConnectionTimeoutError):
        return CallFailure(skipped, "connect_timeout", f"no connection to {where} within {CONNECT_TIMEOUT_S:g} s")
    if isinstance(fault, aiohttp.ClientConnectorError | ConnectionRefusedError):
        return CallFailure(skipped, "connection_refused", f"nothing answers at {where}: {_reason(fault)}")
    if isinstance(fault, aiohttp.ClientResponseError | aiohttp.InvalidURL):
        return CallFailure("error", "invalid_response", f"{where} does not speak HTTP as expected: {fault}")
    if isinstance(fault, TimeoutError):
        return CallFailure(skipped, "connect_timeout", f"{where} did not answer in time")
    if isinstance(fault, aiohttp.ClientConnectionError | OSError):
        return CallFailure(
            "error", "connection_reset", f"{where} closed the connection: {_reason(fault)}", retryable=True
        )
    kind = "invalid_response" if started else "exception"
    return CallFailure("error", kind, f"{type(fault).__name__}: {fault}")


def _reason(fault: Exception) -> str:
    error = getattr(fault, "os_error", fault)
    return getattr(error, "strerror", None) or str(fault) or type(fault).__name__


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
