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
from typing import Self
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, getproxies_environment, proxy_bypass

import aiohttp
from yarl import URL

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Sink
from clawgauge.providers.http_faults import map_transport_fault
from clawgauge.providers.http_pool import ConnectionPool
from clawgauge.providers.http_reply import Reader
from clawgauge.providers.http_session import HttpSession, JsonReply
from clawgauge.proxies import find_proxy, is_loopback

_STALE_CONNECTIONS = 8
_BEFORE_DEADLINE_S = 0.1
# Announces keep-alive, then closes after every stream: a reused connection would die under the next request.
_CLOSING_SERVERS = frozenset({"llama.cpp"})
_JSON_TYPE = {"Content-Type": "application/json"}


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
        self._proxy = _find_proxy(self.base_url)
        self._reuse = reuse_connections
        self._tls = (
            _trust(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")) if parts.scheme == "https" else None
        )
        self._session = HttpSession(self._headers, tls=self._tls, proxy=self._proxy, concurrency=concurrency)
        self._pool: ConnectionPool | None = None
        self._heads: dict[str, bytes] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._session.close()
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    async def get_json(self, url: str, *, timeout_s: float = 5.0) -> JsonReply:
        """Ask the server about itself. Raises `CallFailure` where it cannot be reached."""
        return await self._session.ask("GET", url + self._query, None, timeout_s)

    async def post_json(self, url: str, body: bytes, *, timeout_s: float = 30.0) -> JsonReply:
        """Tell the server something about itself (unload a model)."""
        return await self._session.ask("POST", url + self._query, body, timeout_s)

    async def exchange(
        self, path: str, payload: bytes, *, sink: Sink, reader: Reader, timeout_s: float = math.inf
    ) -> None:
        """Send one request and feed its reply to `reader`, reporting the clock to `sink`.

        The caller stops waiting after `timeout_s`; a refusal whose words are late is told shortly before.
        """
        url = self.base_url + path + self._query
        words_until_s = asyncio.get_running_loop().time() + timeout_s - _BEFORE_DEADLINE_S
        if self._proxy is not None:
            await self._session.exchange(url, payload, sink, reader, words_until_s)
            return
        try:
            head = self._heads.get(path) or self._prepare(path, url)
        except ValueError as fault:
            raise map_transport_fault(fault, self.base_url, started=False) from fault
        request = b"%b%d\r\n\r\n%b" % (head, len(payload), payload)
        for _ in range(_STALE_CONNECTIONS):
            if await self._exchange_once(self._opened(), request, sink, reader, words_until_s):
                return
        raise CallFailure("error", "connection_reset", "every pooled connection was closed", retryable=True)

    async def _exchange_once(
        self, pool: ConnectionPool, request: bytes, sink: Sink, reader: Reader, words_until_s: float
    ) -> bool:
        """Returns False where the pooled connection was closed already and nothing has been asked."""
        wire, connect_ns = await pool.take()
        try:
            done = wire.ask(request, sink, reader, words_until_s)
        except OSError as fault:
            wire.abort()
            if connect_ns is None:
                return False
            raise map_transport_fault(fault, self.base_url, started=False) from fault
        sink.connected(connect_ns)
        try:
            await done
        except (aiohttp.ClientError, OSError) as fault:
            if isinstance(fault, aiohttp.ServerDisconnectedError) and connect_ns is None:
                # This server drops connections it has finished with: pool none of the next.
                pool.stop_reusing()
            raise map_transport_fault(fault, self.base_url, started=True) from fault
        finally:
            if wire.server in _CLOSING_SERVERS:
                pool.stop_reusing()
            pool.give_back(wire)
        return True

    def _prepare(self, path: str, url: str) -> bytes:
        """A request to this path, up to the number of its `Content-Length`. Raises `ValueError` for what is no URL."""
        address = URL(url)
        if address.scheme not in ("http", "https") or not address.raw_host:
            raise aiohttp.InvalidURL(url)
        headers = {"Host": address.host_port_subcomponent or "", "Accept": "*/*", **self._headers, **_JSON_TYPE}
        lines = [f"POST {address.raw_path_qs} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if any(character in line for line in lines for character in "\r\n\0"):
            raise ValueError("a header may not hold a line break or a NUL")
        head = "\r\n".join([*lines, "Content-Length: "]).encode()
        self._heads[path] = head
        return head

    def _opened(self) -> ConnectionPool:
        if self._pool is None:
            self._pool = ConnectionPool(URL(self.base_url), tls=self._tls, reuse=self._reuse)
        return self._pool


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
