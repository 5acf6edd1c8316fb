"""One HTTP client for every server that speaks HTTP: connect, send, hand the reply on, map what went wrong.

Owns: the connection pool, the moment the clock starts, and the mapping of transport faults to failure types. Refuses:
looking into a reply (`http_reply` does), retrying, following redirects, deadlines (the runner's).
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import NamedTuple, Self
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Sink
from clawgauge.providers.http_reply import Reader, read_whole, receive

CONNECT_TIMEOUT_S = 10.0
# llama.cpp and Ollama close an idle connection after five seconds; ours must be gone before.
KEEPALIVE_S = 4.0
_STALE_CONNECTIONS = 8
# Announces keep-alive, then closes after every stream: a reused connection would die under the next request.
_CLOSING_SERVERS = frozenset({"llama.cpp"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class _NeverSent(Exception):
    """The connection taken from the pool was already closed."""


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
        host = parts.netloc.rpartition("@")[2]
        self.base_url = urlunsplit(parts._replace(netloc=host, query="", fragment="")).rstrip("/")
        self._query = f"?{parts.query}" if parts.query else ""
        self._headers = dict(headers)
        if parts.username and "Authorization" not in self._headers:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        self._proxy = _find_proxy(parts.scheme, parts.hostname or "")
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
                method,
                url + self._query,
                proxy=self._proxy,
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                trace_request_ctx=seen,
            ) as reply:
                return JsonReply(reply.status, await read_whole(reply))
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
                url, proxy=self._proxy, data=payload, headers=headers, allow_redirects=False, trace_request_ctx=seen
            ) as reply:
                sink.start(seen.sent_ns or time.perf_counter_ns())
                sink.connected(seen.connect_ns)
                if reply.headers.get("Server") in _CLOSING_SERVERS:
                    self._stop_reusing()
                await receive(reply, sink, reader)
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


def _find_proxy(scheme: str, host: str) -> str | None:
    """The usual variables, but for this machine itself. Not aiohttp's `trust_env`: that would send ~/.netrc logins."""
    if host in _LOOPBACK or proxy_bypass(host):
        return None
    return getproxies().get(scheme)


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
