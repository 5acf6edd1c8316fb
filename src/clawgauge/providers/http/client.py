"""A client for one server: warm connections, a proxy where one is set, TLS as the system trusts."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import math
import os
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, cast
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, getproxies_environment, proxy_bypass
from weakref import WeakSet

import aiohappyeyeballs
from aiohappyeyeballs import AddrInfoType
from yarl import URL

from clawgauge.client_limits import require_descriptors
from clawgauge.errors import CallFailure, ConfigError, Status
from clawgauge.providers.base import Sink
from clawgauge.providers.http.connection import HttpConnection, ReadQueue, Tap
from clawgauge.providers.http.errors import CONNECT_TIMEOUT_S, transport_failure
from clawgauge.providers.http.reply import HttpReply, Reader
from clawgauge.proxies import find_proxy, is_loopback

# llama.cpp and Ollama close an idle connection after five seconds; ours must be gone before.
KEEPALIVE_S = 4.0
# Announces keep-alive, then closes after every stream: a reused connection would die under the
# next request.
_CLOSING_SERVERS = frozenset({"llama.cpp"})
# How long the first address of a name is tried alone.
_NEXT_ADDRESS_S = 0.25
_DNS_CACHE_S = 10.0
_CLOSE_TIMEOUT_S = 1.0
# A name may have two addresses, tried side by side.
_DESCRIPTORS_TO_CONNECT = 2
# How long before a call's deadline its refusal is reported without the words that are missing.
_BEFORE_DEADLINE_S = 0.1
_QUERY_TIMEOUT_S = 5.0
_COMMAND_TIMEOUT_S = 30.0


class _Connected(NamedTuple):
    """A connection for a call, and how long connecting took; None for one used before."""

    connection: HttpConnection
    connect_ns: int | None


class HttpClient:
    """A client for one base address, through a proxy where one is set.

    Whoever makes it calls `aclose`. Raises `ConfigError` where the proxy's address is none.
    """

    base_url: str
    """The address without user, password, query and fragment."""

    def __init__(self, base_url: str, *, headers: Mapping[str, str]) -> None:
        parts = urlsplit(base_url)
        self._host_and_port = parts.netloc.rpartition("@")[2]
        bare_parts = parts._replace(netloc=self._host_and_port, query="", fragment="")
        self.base_url = urlunsplit(bare_parts).rstrip("/")
        self._query = f"?{parts.query}" if parts.query else ""
        self._headers = dict(headers)
        if parts.username and "Authorization" not in self._headers:
            authorization = _basic(unquote(parts.username), unquote(parts.password or ""))
            self._headers["Authorization"] = authorization
        try:
            # Read by whom the connection is made by: two readers might see two hosts in one
            # address.
            self._address = URL(self.base_url)
        except ValueError:
            # The first call says so.
            self._address = URL()
        self._tls = _tls_context() if parts.scheme == "https" else None

        # The proxy, or the server itself where there is none.
        system_proxies = getproxies()
        self._proxy = _find_proxy(self._address, system_proxies) if system_proxies else None
        try:
            self._first_hop = URL(self._proxy) if self._proxy else self._address
        except ValueError as fault:
            raise ConfigError(str(fault)) from fault
        self._first_hop_tls = _tls_context() if self._first_hop.scheme == "https" else None
        self._proxy_headers: dict[str, str] = {}
        if self._proxy is not None and self._first_hop.user is not None:
            authorization = _basic(self._first_hop.user, self._first_hop.password or "")
            self._proxy_headers["Proxy-Authorization"] = authorization

        # The heads of requests by method and address: they are the same for every call.
        self._heads: dict[tuple[str, str], bytes] = {}
        self._read_queue = ReadQueue()
        self._reuses_connections = True
        self._has_connected = False
        # Idle connections, each with the timer that closes it: the server must not be the one who
        # closes. Those given back last are at the end.
        self._idle: dict[HttpConnection, asyncio.TimerHandle] = {}
        # Whatever is not closed is known to the loop.
        self._open: WeakSet[HttpConnection] = WeakSet()
        self._resolving = asyncio.Lock()
        self._addresses: Sequence[AddrInfoType] = []
        self._resolved_until_s = 0.0

    async def aclose(self) -> None:
        """Close every connection and wait until the loop has."""
        for timer in self._idle.values():
            timer.cancel()
        self._reuses_connections = False
        connections = list(self._open)
        for connection in connections:
            connection.abort()
        if connections:
            closed = [connection.closed for connection in connections]
            await asyncio.wait(closed, timeout=_CLOSE_TIMEOUT_S)

    async def query(self, url: str, body: bytes | None = None) -> bytes:
        """Ask the server about itself, or with a `body` give it a command; returns its reply.

        That goes over a connection that no call shares. Raises `CallFailure`.
        """
        reader = _BodyReader()
        timeout_s = _QUERY_TIMEOUT_S if body is None else _COMMAND_TIMEOUT_S
        try:
            async with asyncio.timeout(timeout_s):
                await self.exchange(url, body, reader, alone=True)
        except CallFailure as failure:
            status = failure.http_status
            if status is None:
                raise
            availability: Status = "auth_error" if failure.status == "auth_error" else "error"
            path = url.removeprefix(self.base_url).removeprefix(self.base_url.removesuffix("/v1"))
            message = f"the server answered {status} to {path}"
            raise CallFailure(
                availability, f"http_{status}", message, http_status=status
            ) from failure
        except TimeoutError as fault:
            message = f"{self._host_and_port} did not answer in time"
            raise CallFailure("skipped_unavailable", "connect_timeout", message) from fault
        return reader.data

    async def exchange(
        self,
        url: str,
        payload: bytes | None,
        reader: Reader,
        *,
        timeout_s: float = math.inf,
        alone: bool = False,
    ) -> None:
        """Send one request, a POST where it has a payload, and feed its reply to `reader`.

        The caller stops waiting after `timeout_s`; a refusal whose words are late is raised shortly
        before. With `alone` it goes over a connection of its own. Raises `CallFailure`.
        """
        method = "GET" if payload is None else "POST"
        head = self._heads.get((method, url))
        if head is None:
            headers = self._headers | {"Content-Type": "application/json"}
            head = self._make_head(method, url, headers)
            self._heads[method, url] = head
        await self._exchange(head, payload or b"", reader, timeout_s, alone, None)

    async def forward(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        reader: Reader,
        tap: Tap,
    ) -> None:
        """Send a request of somebody else's as it is, but with our key, and show the reply to both.

        `reader` is fed the reply as that of a call of ours; `tap` is given its bytes. Each request
        has a connection of its own. Raises `CallFailure`.
        """
        own_names = {name.lower() for name in self._headers} - {"user-agent"}
        sent_headers = {name: self._headers[name] for name in self._headers if name != "User-Agent"}
        for name, value in headers.items():
            if name.lower() not in own_names:
                sent_headers[name] = value
        head = self._make_head(method, url, sent_headers)
        await self._exchange(head, body, reader, math.inf, True, tap)

    async def _exchange(
        self,
        head: bytes,
        body: bytes,
        reader: Reader,
        timeout_s: float,
        alone: bool,
        tap: Tap | None,
    ) -> None:
        """Send a request and feed its reply to `reader`. Raises `CallFailure`."""
        loop = asyncio.get_running_loop()
        error_until_s = loop.time() + timeout_s - _BEFORE_DEADLINE_S
        request = b"%b%d\r\n\r\n%b" % (head, len(body), body)

        # Over the first connection that takes the request: a pooled one may have been closed by
        # the server.
        while True:
            connection, connect_ns = await self._connect(alone)
            try:
                done = connection.send(request, reader, error_until_s, tap)
                break
            except OSError as fault:
                connection.abort()
                failure = transport_failure(fault, self._host_and_port, connecting=False)
                if connect_ns is not None or failure.failure_type == "client_limit":
                    raise failure from fault
        reader.sink.connected(connect_ns)
        try:
            await done
        except OSError as fault:
            if connection.was_dropped and connect_ns is None:
                # This server drops connections it has finished with: pool none of the next.
                self._stop_reusing()
            raise transport_failure(fault, self._host_and_port, connecting=False) from fault
        finally:
            if connection.server in _CLOSING_SERVERS:
                self._stop_reusing()
            if self._reuses_connections and not alone and connection.is_reusable:
                timer = loop.call_later(KEEPALIVE_S, self._expire, connection)
                self._idle[connection] = timer
            else:
                connection.abort()

    def _make_head(self, method: str, url: str, own_headers: Mapping[str, str]) -> bytes:
        """A request up to the number of its `Content-Length`.

        Raises `CallFailure` for what cannot be one.
        """
        # The server's address may have a query of its own.
        joint = "&" if "?" in url and self._query else "?"
        url += self._query.replace("?", joint, 1)
        try:
            address = URL(url)
        except ValueError as fault:
            raise CallFailure("error", "exception", str(fault)) from fault
        if address.scheme not in ("http", "https") or not address.raw_host:
            message = f"{url} is not an address of an HTTP server"
            raise CallFailure("error", "invalid_response", message)
        headers = {"Host": address.host_port_subcomponent or "", "Accept": "*/*"}
        headers |= own_headers
        request_target = address.raw_path_qs
        if self._proxy is not None and address.scheme == "http":
            request_target = str(address)
            headers |= self._proxy_headers
        lines = [f"{method} {request_target} HTTP/1.1"]
        for name, value in headers.items():
            lines.append(f"{name}: {value}")
        for line in lines:
            if not {"\r", "\n", "\0"}.isdisjoint(line):
                message = "a header may not hold a line break or a NUL"
                raise CallFailure("error", "exception", message)
        lines.append("Content-Length: ")
        return "\r\n".join(lines).encode()

    async def _connect(self, alone: bool) -> _Connected:
        """The idle connection used last, or a new one. Raises `CallFailure`."""
        if self._tls is not None and self._idle:
            # Under TLS only the loop can notice that the server has closed a connection meanwhile.
            await asyncio.sleep(0)
        now_s = asyncio.get_running_loop().time()
        while self._idle and not alone:
            connection, timer = self._idle.popitem()
            timer.cancel()
            # A program that stood still may be here before the timer is.
            is_fresh = timer.when() > now_s
            if is_fresh and connection.unasked() is None:
                return _Connected(connection, None)
            connection.abort()

        hop = f"{self._first_hop.raw_host}:{self._first_hop.port}"
        if self._proxy:
            hop = f"the proxy {hop}"
        for _ in range(2):
            began_ns = time.perf_counter_ns()
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    connection = await self._open_connection()
            except (OSError, UnicodeError, MemoryError) as fault:
                failure = transport_failure(fault, hop, connecting=True)
                # Waiting for what this machine is short of helps where calls of ours hold it.
                failure.retryable = failure.retryable and self._has_connected
                raise failure from fault
            self._has_connected = True
            # One that the server has closed already is found out when it is used.
            if not connection.unasked():
                return _Connected(connection, time.perf_counter_ns() - began_ns)
            connection.abort()
        message = f"{hop} sends before it is asked, so that nothing it sends is an answer"
        raise CallFailure("error", "invalid_response", message)

    async def _open_connection(self) -> HttpConnection:
        """A new connection to the server, through the proxy where there is one."""
        loop = asyncio.get_running_loop()
        has_tls = self._tls is not None or self._first_hop_tls is not None
        plain = await self._open_socket()
        if self._proxy is not None and self._tls is not None:
            connection = await self._open_tunnel(plain, self._tls)
        else:
            own_socket = None if has_tls else plain
            _, connection = await loop.create_connection(
                partial(HttpConnection, loop, self._read_queue, own_socket),
                sock=plain,
                ssl=self._first_hop_tls,
                server_hostname=self._first_hop_name(),
            )
        if has_tls:
            # What came with the end of the handshake is noticed in the loop's next turn, or, by
            # asyncio, the one after.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        self._open.add(connection)
        return connection

    async def _open_socket(self) -> socket.socket:
        """A socket connected to the first hop."""
        loop = asyncio.get_running_loop()
        async with self._resolving:
            # Hundreds of calls that begin together ask once.
            now_s = time.monotonic()
            if now_s >= self._resolved_until_s:
                self._addresses = await loop.getaddrinfo(
                    self._first_hop.raw_host or "", self._first_hop.port, type=socket.SOCK_STREAM
                )
                self._resolved_until_s = now_s + _DNS_CACHE_S
        require_descriptors(_DESCRIPTORS_TO_CONNECT)
        plain = await aiohappyeyeballs.start_connection(
            self._addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S, loop=loop
        )
        with contextlib.suppress(OSError):
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain

    async def _open_tunnel(self, plain: socket.socket, tls: ssl.SSLContext) -> HttpConnection:
        """Have the proxy connect to the server, and start TLS with the server behind it."""
        loop = asyncio.get_running_loop()
        transport, tunnel = await loop.create_connection(
            partial(_TunnelRequest, loop, self._address, self._proxy_headers),
            sock=plain,
            ssl=self._first_hop_tls,
            server_hostname=self._first_hop_name(),
        )
        try:
            await tunnel.opened
        except BaseException:
            transport.abort()
            raise
        connection = HttpConnection(loop, self._read_queue, None)
        server_name = (self._address.raw_host or "").rstrip(".")
        tls_transport = await loop.start_tls(
            transport, connection, tls, server_hostname=server_name
        )
        if tls_transport is None:
            raise ConnectionResetError("the proxy closed the connection")
        connection.connection_made(tls_transport)
        return connection

    def _first_hop_name(self) -> str | None:
        """The name that the certificate of the first hop must have; None where it has no TLS."""
        if self._first_hop_tls is None:
            return None
        return (self._first_hop.raw_host or "").rstrip(".")

    def _stop_reusing(self) -> None:
        """Give every call a connection of its own from now on. Calls under way keep theirs."""
        self._reuses_connections = False
        while self._idle:
            connection, timer = self._idle.popitem()
            timer.cancel()
            connection.abort()

    def _expire(self, connection: HttpConnection) -> None:
        del self._idle[connection]
        connection.abort()


class _TunnelRequest(asyncio.Protocol):
    """Asks a proxy to connect to a server (CONNECT), and reads the head of its answer."""

    opened: asyncio.Future[None]
    """Done when the proxy has connected; has the failure where it has not."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, server: URL, headers: Mapping[str, str]
    ) -> None:
        host = server.raw_host or ""
        if ":" in host:
            host = f"[{host}]"
        authority = f"{host}:{server.port}"
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
        for name, value in headers.items():
            lines.append(f"{name}: {value}")
        self._request = "\r\n".join([*lines, "", ""]).encode()
        self._reply = HttpReply(_BodyReader())
        self.opened = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        if self.opened.done():
            return
        is_http = True
        try:
            self._reply.feed(time.perf_counter_ns(), data)
        except CallFailure:
            # Its words are those of a call's answer, which this is not.
            is_http = False
        status = self._reply.status
        if status >= 300:
            failure = CallFailure(
                "error",
                f"http_{status}",
                f"the proxy answered CONNECT {status}",
                http_status=status,
                retryable=status >= 500,
            )
            self.opened.set_exception(failure)
        elif not is_http:
            self._refuse("something that is not HTTP")
        elif self._reply.n_payload:
            self._refuse("bytes from a server that was not asked yet")
        elif status >= 200:
            self.opened.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.opened.done():
            fault = exc or ConnectionResetError("the proxy closed the connection")
            self.opened.set_exception(fault)

    def _refuse(self, what_came: str) -> None:
        message = f"the proxy answered CONNECT with {what_came}"
        self.opened.set_exception(CallFailure("error", "invalid_response", message))


def _ignore(*args: Any) -> None:
    """A report that nobody needs."""


class _BodyReader:
    """Keeps the body of a reply that is no call's: nobody times it, and a stream is none."""

    by_line: ClassVar[bool] = False
    model: str = ""

    def __init__(self) -> None:
        self.data = b""
        self.sink = cast(Sink, SimpleNamespace(start=_ignore, connected=_ignore, end=_ignore))

    def event(self, at_ns: int, name: bytes, data: bytes) -> bool:
        return True

    def body(self, at_ns: int, data: bytes) -> None:
        self.data = data

    def close(self) -> None:
        pass


def _basic(user: str, password: str) -> str:
    credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
    return f"Basic {credentials}"


_tls_contexts: dict[tuple[str | None, str | None], ssl.SSLContext] = {}


def _tls_context() -> ssl.SSLContext:
    """Trust in the system's certificates, or in those that the usual variables name.

    Making it takes long, so there is one for each value of the variables.
    """
    certificates = (os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    if certificates not in _tls_contexts:
        _tls_contexts[certificates] = ssl.create_default_context()
    return _tls_contexts[certificates]


def _find_proxy(address: URL, system_proxies: Mapping[str, str]) -> str | None:
    """The proxy that the usual variables name, else that of the system's own settings."""
    host = address.raw_host or ""
    if is_loopback(host):
        return None
    environ = dict(os.environ)
    if not getproxies_environment() and not proxy_bypass(host):
        environ = {f"{scheme}_proxy": url for scheme, url in system_proxies.items()}
    return find_proxy(address.scheme, host, address.port, environ)
