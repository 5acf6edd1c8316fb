"""An HTTP proxy between us and a server: its address, its login, and the tunnel it opens for TLS."""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import ssl
from typing import cast

from yarl import URL

from clawgauge.errors import CallFailure

_REPLY_CAP_BYTES = 1 << 16
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: [^\r\n]*)?\r?\n")


class Proxy:
    """One proxy. Raises `ValueError` for an address that is not one of an HTTP proxy."""

    def __init__(self, url: str, tls: ssl.SSLContext | None) -> None:
        given = URL(url if "://" in url else f"http://{url}")
        if given.scheme not in ("http", "https") or not given.raw_host:
            raise ValueError("the proxy of the environment is not an HTTP proxy: its address begins with http://")
        self.address = given.with_user(None)
        self.tls = tls if given.scheme == "https" else None
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
        self._head = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        if self.reply.done():
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        status = _STATUS.match(self._head)
        if status is None and (b"\n" in self._head or len(self._head) > _REPLY_CAP_BYTES):
            self.reply.set_exception(_no_tunnel("with something that is not HTTP"))
        elif status is not None and not status[1].startswith(b"2"):
            code = int(status[1])
            self.reply.set_exception(_no_tunnel(str(code), code))
        elif end >= 0 and len(self._head) > end + 4:
            self.reply.set_exception(_no_tunnel("with bytes from a server that was not asked yet"))
        elif end >= 0:
            self.reply.set_result(None)
        elif len(self._head) > _REPLY_CAP_BYTES:
            self.reply.set_exception(_no_tunnel("without end"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.reply.done():
            self.reply.set_exception(exc or ConnectionResetError("the proxy closed the connection"))


def _no_tunnel(how: str, status: int | None = None) -> CallFailure:
    words = f"the proxy answered CONNECT {how}"
    if status is None:
        return CallFailure("error", "invalid_response", words)
    return CallFailure("error", f"http_{status}", words, http_status=status, retryable=status >= 500)
