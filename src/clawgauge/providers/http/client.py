"""One HTTP client for every server: connections kept while warm, proxies, and calls whose bytes are stamped."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import math
import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, getproxies_environment, proxy_bypass

import aiohappyeyeballs
from aiohappyeyeballs import AddrInfoType
from yarl import URL

from clawgauge.client_limits import require_descriptors
from clawgauge.errors import CallFailure, ConfigError
from clawgauge.providers.base import Sink
from clawgauge.providers.http.connection import FRAMING_CAP_BYTES, ReadingDesk, ReplyFrames, ServerDisconnected, Wire
from clawgauge.providers.http.errors import CONNECT_TIMEOUT_S, connect_failure, exchange_failure
from clawgauge.providers.http.reply import Clock, Reader
from clawgauge.proxies import find_proxy, is_loopback

# llama.cpp and Ollama close an idle connection after five seconds; ours must be gone before.
KEEPALIVE_S = 4.0
_SECOND_ADDRESS_AFTER_S = 0.25
_RESOLVED_S = 10.0
_CLOSE_S = 1.0
# A name may have two addresses, tried side by side.
_DESCRIPTORS = 2
_STALE_CONNECTIONS = 8
_BEFORE_DEADLINE_S = 0.1
_ASKING_S = 5.0
_TELLING_S = 30.0
# Announces keep-alive, then closes after every stream: a reused connection would die under the next request.
_CLOSING_SERVERS = frozenset({"llama.cpp"})
_JSON_TYPE = {"Content-Type": "application/json"}


class Taken(NamedTuple):
    """A connection for one call; `connect_ns` is None where it was used before."""

    wire: Wire
    connect_ns: int | None


class ConnectionPool:
    """Connections to the host of one address, through a proxy where one is given."""

    def __init__(
        self,
        address: URL,
        *,
        tls: ssl.SSLContext | None,
        reuse: bool,
        keepalive_s: float = KEEPALIVE_S,
        proxy: Proxy | None = None,
    ) -> None:
        self._tls = tls
        self._proxy = proxy
        self._host, self._port = address.raw_host or "", address.port
        first_hop = address if proxy is None else proxy.address
        self._first_host, self._first_port = first_hop.raw_host or "", first_hop.port
        self._reuse = reuse
        self._keepalive_s = keepalive_s
        # With the time until which each may be used, those given back last at the end.
        self._idle: deque[tuple[Wire, float]] = deque()
        self._open: set[Wire] = set()
        self._desk: ReadingDesk | None = None
        self._resolving = asyncio.Lock()
        self._addresses: Sequence[AddrInfoType] = []
        self._resolved_until_s = 0.0
        self._sweeping: asyncio.TimerHandle | None = None
        self._connected_before = False

    async def take(self) -> Taken:
        """The connection used last, or a new one. Raises `CallFailure` where none can be made."""
        if self._tls is not None and self._idle:
            # Under TLS only the loop can notice that the server has closed a connection meanwhile.
            await asyncio.sleep(0)
        now_s = time.monotonic()
        while self._idle:
            wire, until_s = self._idle.pop()
            if until_s > now_s and wire.is_silent():
                return Taken(wire, None)
            wire.abort()
        for _ in range(2):
            began_ns = time.perf_counter_ns()
            wire = await self._connect()
            if not wire.speaks_first():
                return Taken(wire, time.perf_counter_ns() - began_ns)
            wire.abort()
        words = f"{self._where} sends before it is asked, so that nothing it sends is an answer"
        raise CallFailure("error", "invalid_response", words)

    def give_back(self, wire: Wire) -> None:
        """The call is over. What may not be used again is closed."""
        if not (self._reuse and wire.is_reusable):
            wire.abort()
            return
        self._idle.append((wire, time.monotonic() + self._keepalive_s))
        if self._sweeping is None:
            self._sweep()

    def stop_reusing(self) -> None:
        """From now on every call gets a connection of its own. Calls under way keep theirs."""
        self._reuse = False
        while self._idle:
            self._idle.pop()[0].abort()

    async def close(self) -> None:
        """Close every connection and wait until the loop has."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._reuse = False
        self._idle.clear()
        closing = [wire.closed for wire in self._open]
        for wire in list(self._open):
            wire.abort()
        if closing:
            await asyncio.wait(closing, timeout=_CLOSE_S)

    @property
    def _where(self) -> str:
        """Whom a connection is made to."""
        first = f"{self._first_host}:{self._first_port}"
        return first if self._proxy is None else f"the proxy {first}"

    def _sweep(self) -> None:
        """Close what has been idle too long, now and later: the server must not be the one who closes."""
        self._sweeping = None
        now_s = time.monotonic()
        while self._idle and self._idle[0][1] <= now_s:
            self._idle.popleft()[0].abort()
        if self._idle:
            self._sweeping = asyncio.get_running_loop().call_later(self._idle[0][1] - now_s, self._sweep)

    async def _connect(self) -> Wire:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                wire = await self._open_wire()
        except (OSError, UnicodeError, MemoryError) as fault:
            failure = connect_failure(fault, self._where)
            # Waiting for what this machine is short of helps where calls of ours hold it.
            failure.retryable = failure.retryable and self._connected_before
            raise failure from fault
        self._connected_before = True
        self._open.add(wire)
        wire.closed.add_done_callback(lambda _: self._open.discard(wire))
        return wire

    async def _open_wire(self) -> Wire:
        loop = asyncio.get_running_loop()
        desk = self._desk = self._desk or ReadingDesk(loop)
        addresses = await self._resolve(loop)
        require_descriptors(_DESCRIPTORS)
        plain = await aiohappyeyeballs.start_connection(
            addresses, happy_eyeballs_delay=_SECOND_ADDRESS_AFTER_S, loop=loop
        )
        with contextlib.suppress(OSError):
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = self._tls if self._proxy is None else self._proxy.tls
        if self._proxy is not None and self._tls is not None:
            transport = await self._proxy.open_tunnel(loop, plain, self._host, self._port)
            wire = Wire(loop, desk)
            tunnel = await loop.start_tls(transport, wire, self._tls, server_hostname=self._host.rstrip("."))
            if tunnel is None:
                raise ConnectionResetError("the proxy closed the connection")
            wire.connection_made(tunnel)
        elif tls is None:
            _, wire = await loop.create_connection(lambda: Wire(loop, desk, plain), sock=plain)
        else:
            _, wire = await loop.create_connection(
                lambda: Wire(loop, desk), sock=plain, ssl=tls, server_hostname=self._first_host.rstrip(".")
            )
        if self._tls is not None or tls is not None:
            # What came with the end of the handshake is noticed in the loop's next turn, or, by asyncio, the one after.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return wire

    async def _resolve(self, loop: asyncio.AbstractEventLoop) -> Sequence[AddrInfoType]:
        """The addresses of the first hop. Hundreds of calls that begin together ask once."""
        async with self._resolving:
            now_s = time.monotonic()
            if now_s >= self._resolved_until_s:
                self._addresses = await loop.getaddrinfo(self._first_host, self._first_port, type=socket.SOCK_STREAM)
                self._resolved_until_s = now_s + _RESOLVED_S
        return self._addresses


class Proxy:
    """One proxy. Raises `ValueError` for an address that is not one of an HTTP proxy."""

    def __init__(self, url: str) -> None:
        given = URL(url if "://" in url else f"http://{url}")
        if given.scheme not in ("http", "https") or not given.raw_host:
            raise ValueError("the proxy of the environment is not an HTTP proxy: its address begins with http://")
        self.address = given.with_user(None)
        self.tls = _trust() if given.scheme == "https" else None
        self.headers: dict[str, str] = {}
        if given.user is not None:
            login = base64.b64encode(f"{given.user}:{given.password or ''}".encode()).decode()
            self.headers["Proxy-Authorization"] = f"Basic {login}"

    async def open_tunnel(
        self, loop: asyncio.AbstractEventLoop, plain: socket.socket, host: str, port: int | None
    ) -> asyncio.Transport:
        """A way to the server over a socket that is connected to the proxy. Raises `CallFailure` if refused."""
        name = f"[{host}]" if ":" in host else host
        place = f"{name}:{port}"
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}", *(f"{k}: {v}" for k, v in self.headers.items())]
        request = "\r\n".join([*lines, "", ""]).encode()
        server_hostname = (self.address.raw_host or "").rstrip(".") if self.tls else None
        transport, opening = await loop.create_connection(
            lambda: _Opening(loop, request), sock=plain, ssl=self.tls, server_hostname=server_hostname
        )
        try:
            await opening.reply
        except BaseException:
            transport.abort()
            raise
        return transport


class _Opening(asyncio.Protocol):
    """Asks for the tunnel and hears the proxy's answer, up to the end of its head."""

    def __init__(self, loop: asyncio.AbstractEventLoop, request: bytes) -> None:
        self.reply: asyncio.Future[None] = loop.create_future()
        self._request = request
        self._frames = ReplyFrames()
        self._n_received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        if self.reply.done():
            return
        frames = self._frames
        self._n_received += len(data)
        fault = frames.feed(data)
        if frames.has_head and not 200 <= frames.status < 300:
            code = frames.status
            words = f"the proxy answered CONNECT {code}"
            refusal = CallFailure("error", f"http_{code}", words, http_status=code, retryable=code >= 500)
            self.reply.set_exception(refusal)
        elif fault is not None or self._n_received > FRAMING_CAP_BYTES:
            self.reply.set_exception(_no_tunnel("with something that is not HTTP"))
        elif frames.take():
            self.reply.set_exception(_no_tunnel("with bytes from a server that was not asked yet"))
        elif frames.has_head:
            self.reply.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.reply.done():
            self.reply.set_exception(exc or ConnectionResetError("the proxy closed the connection"))


def _no_tunnel(how: str) -> CallFailure:
    return CallFailure("error", "invalid_response", f"the proxy answered CONNECT {how}")


class HttpClient:
    """A pooled client for one base address. Whoever makes it calls `aclose`."""

    def __init__(self, base_url: str, *, headers: Mapping[str, str]) -> None:
        parts = urlsplit(base_url)
        host = parts.netloc.rpartition("@")[2]
        self.base_url = urlunsplit(parts._replace(netloc=host, query="", fragment="")).rstrip("/")
        self._query = f"?{parts.query}" if parts.query else ""
        self._headers = dict(headers)
        if parts.username and "Authorization" not in self._headers:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        proxy = _find_proxy(self.base_url)
        try:
            self._proxy = Proxy(proxy) if proxy is not None else None
        except ValueError as fault:
            raise ConfigError(str(fault)) from fault
        self._tls = _trust() if parts.scheme == "https" else None
        self._pool: ConnectionPool | None = None
        self._heads: dict[str, bytes] = {}

    async def aclose(self) -> None:
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    async def exchange(
        self, path: str, payload: bytes, *, sink: Sink, reader: Reader, timeout_s: float = math.inf
    ) -> None:
        """Send one request and feed its reply to `reader`, reporting the clock to `sink`.

        The caller stops waiting after `timeout_s`; a refusal whose words are late is told shortly before.
        """
        words_until_s = asyncio.get_running_loop().time() + timeout_s - _BEFORE_DEADLINE_S
        head = self._heads.get(path)
        if head is None:
            head = self._heads[path] = self._head("POST", self.base_url + path + self._query)
        request = b"%b%d\r\n\r\n%b" % (head, len(payload), payload)
        if self._pool is None:
            self._pool = self._new_pool(reuse=True)
        await self._exchange(self._pool, request, sink, reader, words_until_s)

    async def ask(self, url: str, body: bytes | None = None) -> bytes:
        """Ask the server about itself, or with a `body`, tell it something (unload a model).

        Over a connection of its own, which no call finds warm. Raises `CallFailure` for anything but an answer.
        """
        method, timeout_s = ("GET", _ASKING_S) if body is None else ("POST", _TELLING_S)
        request = b"%b%d\r\n\r\n%b" % (self._head(method, url + self._query), len(body or b""), body or b"")
        pool, reply = self._new_pool(reuse=False), _Whole()
        try:
            async with asyncio.timeout(timeout_s):
                await self._exchange(pool, request, reply, reply, math.inf)
        except CallFailure as failure:
            if (status := failure.http_status) is None:
                raise
            kind = "auth_error" if status in (401, 403) else "error"
            place = url.removeprefix(self.base_url).removeprefix(self.base_url.removesuffix("/v1"))
            words = f"the server answered {status} to {place}"
            raise CallFailure(kind, f"http_{status}", words, http_status=status) from failure
        except TimeoutError as fault:
            words = f"{self._where} did not answer in time"
            raise CallFailure("skipped_unavailable", "connect_timeout", words) from fault
        finally:
            await pool.close()
        return reply.data

    async def _exchange(
        self, pool: ConnectionPool, request: bytes, sink: Clock, reader: Reader, words_until_s: float
    ) -> None:
        (wire, connect_ns), done = await self._send(pool, request, sink, reader, words_until_s)
        try:
            await done
        except OSError as fault:
            if isinstance(fault, ServerDisconnected) and connect_ns is None:
                # This server drops connections it has finished with: pool none of the next.
                pool.stop_reusing()
            raise exchange_failure(fault, self._where) from fault
        finally:
            if wire.server in _CLOSING_SERVERS:
                pool.stop_reusing()
            pool.give_back(wire)

    async def _send(
        self, pool: ConnectionPool, request: bytes, sink: Clock, reader: Reader, words_until_s: float
    ) -> tuple[Taken, asyncio.Future[None]]:
        """Ask over the first connection that takes the request: a pooled one may have been closed by the server."""
        for _ in range(_STALE_CONNECTIONS):
            taken = await pool.take()
            try:
                done = taken.wire.ask(request, sink, reader, words_until_s)
            except OSError as fault:
                taken.wire.abort()
                failure = exchange_failure(fault, self._where)
                if taken.connect_ns is not None or failure.failure_type == "client_limit":
                    raise failure from fault
            else:
                sink.connected(taken.connect_ns)
                return taken, done
        raise CallFailure("error", "connection_reset", "every pooled connection was closed", retryable=True)

    def _head(self, method: str, url: str) -> bytes:
        """A request up to the number of its `Content-Length`. Raises `CallFailure` for what cannot be one."""
        try:
            address = URL(url)
        except ValueError as fault:
            raise CallFailure("error", "exception", str(fault)) from fault
        if address.scheme not in ("http", "https") or not address.raw_host:
            raise CallFailure("error", "invalid_response", f"{url} is not an address of an HTTP server")
        headers = {"Host": address.host_port_subcomponent or "", "Accept": "*/*", **self._headers, **_JSON_TYPE}
        place = address.raw_path_qs
        if self._proxy is not None and address.scheme == "http":
            place = str(address)
            headers |= self._proxy.headers
        lines = [f"{method} {place} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if any(character in line for line in lines for character in "\r\n\0"):
            raise CallFailure("error", "exception", "a header may not hold a line break or a NUL")
        return "\r\n".join([*lines, "Content-Length: "]).encode()

    def _new_pool(self, *, reuse: bool) -> ConnectionPool:
        return ConnectionPool(URL(self.base_url), tls=self._tls, reuse=reuse, proxy=self._proxy)

    @property
    def _where(self) -> str:
        return urlsplit(self.base_url).netloc


class _Whole:
    """The reply to a question: nobody times it, and a stream is none."""

    model = ""
    data = b""

    def event(self, at_ns: int, name: bytes, data: bytes) -> bool:
        return True

    def body(self, at_ns: int, data: bytes) -> None:
        self.data = data

    def _ignore(self, *args: Any, **options: Any) -> None:
        return

    start = connected = end = close = _ignore


def _trust() -> ssl.SSLContext:
    """Whom TLS trusts: the system's certificates, or those that the usual variables name."""
    return _load_trust(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _load_trust(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    """Takes long: once, unless the variables name others."""
    return ssl.create_default_context()


def _find_proxy(base_url: str) -> str | None:
    """The usual variables, else the system's own settings where it has some."""
    try:
        # Read by whom the connection is made by: two readers might see two hosts in one address.
        address = URL(base_url)
        scheme, host, port = address.scheme, address.raw_host or "", address.port
    except ValueError:  # the first call says so
        return None
    if getproxies_environment() or is_loopback(host):
        return find_proxy(scheme, host, port, os.environ)
    return None if proxy_bypass(host) else getproxies().get(scheme)
