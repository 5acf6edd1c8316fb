"""The connections to one server: made when needed, kept while they are warm, given out one call each.

Owns: resolving, connecting, TLS, and when a connection may be used again. Refuses: proxies (`http` sends those calls
another way), and everything that is said over a connection (`http_wire`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import aiohappyeyeballs
from aiohappyeyeballs import AddrInfoType
from yarl import URL

from clawgauge.providers.http_desk import ReadingDesk
from clawgauge.providers.http_faults import CONNECT_TIMEOUT_S, connect_failure
from clawgauge.providers.http_wire import Wire

# llama.cpp and Ollama close an idle connection after five seconds; ours must be gone before.
KEEPALIVE_S = 4.0
_SECOND_ADDRESS_AFTER_S = 0.25
_RESOLVED_S = 10.0
_CLOSE_S = 1.0


class Taken(NamedTuple):
    """A connection for one call; `connect_ns` is None where it was used before."""

    wire: Wire
    connect_ns: int | None


class _Idle(NamedTuple):
    wire: Wire
    until_s: float


class ConnectionPool:
    """Connections to the host of one address."""

    def __init__(
        self, address: URL, *, tls: ssl.SSLContext | None, reuse: bool, keepalive_s: float = KEEPALIVE_S
    ) -> None:
        self._host = address.raw_host or ""
        self._port = address.port
        self._tls = tls
        self._reuse = reuse
        self._keepalive_s = keepalive_s
        self._idle: deque[_Idle] = deque()
        self._open: set[Wire] = set()
        self._desk: ReadingDesk | None = None
        self._resolving = asyncio.Lock()
        self._addresses: Sequence[AddrInfoType] = []
        self._resolved_until_s = 0.0
        self._sweeping: asyncio.TimerHandle | None = None

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
        began_ns = time.perf_counter_ns()
        wire = await self._connect()
        return Taken(wire, time.perf_counter_ns() - began_ns)

    def give_back(self, wire: Wire) -> None:
        """The call is over. What may not be used again is closed."""
        if not (self._reuse and wire.is_reusable):
            wire.abort()
            return
        self._idle.append(_Idle(wire, time.monotonic() + self._keepalive_s))
        if self._sweeping is None:
            self._sweep_after(self._keepalive_s)

    def stop_reusing(self) -> None:
        """From now on every call gets a connection of its own. Calls under way keep theirs."""
        self._reuse = False
        self._drop_idle()

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

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().wire.abort()

    def _sweep_after(self, wait_s: float) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(wait_s, self._sweep)

    def _sweep(self) -> None:
        """Close what has been idle too long: the server must not be the one who closes."""
        self._sweeping = None
        now_s = time.monotonic()
        while self._idle and self._idle[0].until_s <= now_s:
            self._idle.popleft().wire.abort()
        if self._idle:
            self._sweep_after(self._idle[0].until_s - now_s)

    async def _connect(self) -> Wire:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                wire = await self._open_wire()
        except (OSError, UnicodeError) as fault:
            raise connect_failure(fault, self._host, self._port) from fault
        self._open.add(wire)
        wire.closed.add_done_callback(lambda _: self._open.discard(wire))
        return wire

    async def _open_wire(self) -> Wire:
        loop = asyncio.get_running_loop()
        desk = self._desk = self._desk or ReadingDesk(loop)
        plain = await aiohappyeyeballs.start_connection(
            await self._resolve(loop), happy_eyeballs_delay=_SECOND_ADDRESS_AFTER_S, loop=loop
        )
        with contextlib.suppress(OSError):
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            _, wire = await loop.create_connection(lambda: Wire(loop, desk, plain), sock=plain)
        else:
            name = self._host.rstrip(".")
            _, wire = await loop.create_connection(
                lambda: Wire(loop, desk), sock=plain, ssl=self._tls, server_hostname=name
            )
        return wire

    async def _resolve(self, loop: asyncio.AbstractEventLoop) -> Sequence[AddrInfoType]:
        """The host's addresses. Hundreds of calls that begin together ask once."""
        async with self._resolving:
            now_s = time.monotonic()
            if now_s >= self._resolved_until_s:
                self._addresses = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
                self._resolved_until_s = now_s + _RESOLVED_S
        return self._addresses
