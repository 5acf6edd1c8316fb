"""One HTTP client for every server that speaks HTTP: the calls that are timed, and the questions that are not.

Owns: the address, the headers, which way a call takes, and when a server's connections are no longer reused. Refuses:
looking into a reply (`http_reply` does), retrying, following redirects, deadlines (the runner's).
"""

from __future__ import annotations

import asyncio
import base64
import math
import os
import ssl
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple, Self
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, getproxies_environment, proxy_bypass

import aiohttp
from yarl import URL

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Sink
from clawgauge.providers.http_faults import exchange_failure
from clawgauge.providers.http_pool import ConnectionPool
from clawgauge.providers.http_proxy import Proxy
from clawgauge.providers.http_reply import Clock, Reader
from clawgauge.proxies import find_proxy, is_loopback

_STALE_CONNECTIONS = 8
_BEFORE_DEADLINE_S = 0.1
# Announces keep-alive, then closes after every stream: a reused connection would die under the next request.
_CLOSING_SERVERS = frozenset({"llama.cpp"})
_JSON_TYPE = {"Content-Type": "application/json"}


class JsonReply(NamedTuple):
    """A small reply to a question about the server itself; no data where it is a refusal."""

    status: int
    data: bytes


class HttpClient:
    """A pooled client for one base address. Use as an async context manager."""

    def __init__(self, base_url: str, *, headers: Mapping[str, str], reuse_connections: bool = True) -> None:
        parts = urlsplit(base_url)
        host = parts.netloc.rpartition("@")[2]
        self.base_url = urlunsplit(parts._replace(netloc=host, query="", fragment="")).rstrip("/")
        self._query = f"?{parts.query}" if parts.query else ""
        self._headers = dict(headers)
        if parts.username and "Authorization" not in self._headers:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        self._proxy = _find_proxy(self.base_url)
        self._reuse = reuse_connections
        self._tls = _trust(*_trust_variables()) if parts.scheme == "https" else None
        self._pool: ConnectionPool | None = None
        self._heads: dict[str, bytes] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    async def get_json(self, url: str, *, timeout_s: float = 5.0) -> JsonReply:
        """Ask the server about itself. Raises `CallFailure` where it cannot be reached."""
        return await self._question("GET", url, b"", timeout_s)

    async def post_json(self, url: str, body: bytes, *, timeout_s: float = 30.0) -> JsonReply:
        """Tell the server something about itself (unload a model)."""
        return await self._question("POST", url, body, timeout_s)

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
            self._pool = self._new_pool(reuse=self._reuse)
        await self._exchange(self._pool, request, sink, reader, words_until_s)

    async def _question(self, method: str, url: str, body: bytes, timeout_s: float) -> JsonReply:
        """One exchange over a connection of its own, which no call finds warm."""
        request = b"%b%d\r\n\r\n%b" % (self._head(method, url + self._query), len(body), body)
        pool, reply = self._new_pool(reuse=False), _Whole()
        try:
            async with asyncio.timeout(timeout_s):
                await self._exchange(pool, request, reply, reply, math.inf)
        except CallFailure as failure:
            if failure.http_status is None:
                raise
            return JsonReply(failure.http_status, b"")
        except TimeoutError as fault:
            words = f"{self._where} did not answer in time"
            raise CallFailure("skipped_unavailable", "connect_timeout", words) from fault
        finally:
            await pool.close()
        return JsonReply(200, reply.data)

    async def _exchange(
        self, pool: ConnectionPool, request: bytes, sink: Clock, reader: Reader, words_until_s: float
    ) -> None:
        for _ in range(_STALE_CONNECTIONS):
            if await self._exchange_once(pool, request, sink, reader, words_until_s):
                return
        raise CallFailure("error", "connection_reset", "every pooled connection was closed", retryable=True)

    async def _exchange_once(
        self, pool: ConnectionPool, request: bytes, sink: Clock, reader: Reader, words_until_s: float
    ) -> bool:
        """Returns False where the pooled connection was closed already and nothing has been asked."""
        wire, connect_ns = await pool.take()
        try:
            done = wire.ask(request, sink, reader, words_until_s)
        except OSError as fault:
            wire.abort()
            failure = exchange_failure(fault, self._where)
            if connect_ns is None and failure.failure_type != "client_limit":
                return False
            raise failure from fault
        sink.connected(connect_ns)
        try:
            await done
        except (aiohttp.ClientError, OSError) as fault:
            if isinstance(fault, aiohttp.ServerDisconnectedError) and connect_ns is None:
                # This server drops connections it has finished with: pool none of the next.
                pool.stop_reusing()
            raise exchange_failure(fault, self._where) from fault
        finally:
            if wire.server in _CLOSING_SERVERS:
                pool.stop_reusing()
            pool.give_back(wire)
        return True

    def _head(self, method: str, url: str) -> bytes:
        """A request up to the number of its `Content-Length`. Raises `CallFailure` for what cannot be one."""
        try:
            address = URL(url)
            via = None if self._proxy is None else Proxy(self._proxy, None)
        except ValueError as fault:
            raise CallFailure("error", "exception", str(fault)) from fault
        if address.scheme not in ("http", "https") or not address.raw_host:
            raise CallFailure("error", "invalid_response", f"{url} is not an address of an HTTP server")
        headers = {"Host": address.host_port_subcomponent or "", "Accept": "*/*", **self._headers, **_JSON_TYPE}
        place = address.raw_path_qs
        if via is not None and address.scheme == "http":
            place = str(address)
            headers |= via.headers
        lines = [f"{method} {place} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if any(character in line for line in lines for character in "\r\n\0"):
            raise CallFailure("error", "exception", "a header may not hold a line break or a NUL")
        return "\r\n".join([*lines, "Content-Length: "]).encode()

    def _new_pool(self, *, reuse: bool) -> ConnectionPool:
        proxy = None
        if self._proxy is not None:
            secure = self._proxy.startswith("https:")
            proxy = Proxy(self._proxy, _trust(*_trust_variables()) if secure else None)
        return ConnectionPool(URL(self.base_url), tls=self._tls, reuse=reuse, proxy=proxy)

    @property
    def _where(self) -> str:
        return urlsplit(self.base_url).netloc


class _Whole:
    """The reply to a question: nobody times it, and a stream is none."""

    model = ""
    data = b""

    def start(self, at_ns: int) -> None:
        return

    def connected(self, took_ns: int | None) -> None:
        return

    def end(self, at_ns: int) -> None:
        return

    def event(self, at_ns: int, name: bytes, data: bytes) -> bool:
        return True

    def body(self, at_ns: int, data: bytes) -> None:
        self.data = data

    def close(self) -> None:
        return


def _trust_variables() -> tuple[str | None, str | None]:
    return os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")


@cache
def _trust(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    """Whom TLS trusts. Reading the system's certificates takes long: once, unless these variables name others."""
    return ssl.create_default_context()


def _find_proxy(base_url: str) -> str | None:
    """The usual variables, else the system's own settings where it has some.

    Not aiohttp's `trust_env`: that would send ~/.netrc logins.
    """
    try:
        # Read by whom the connection is made by: two readers might see two hosts in one address.
        address = URL(base_url)
        scheme, host, port = address.scheme, address.raw_host or "", address.port
    except ValueError:  # the first call says so
        return None
    if getproxies_environment() or is_loopback(host):
        return find_proxy(scheme, host, port, os.environ)
    return None if proxy_bypass(host) else getproxies().get(scheme)
