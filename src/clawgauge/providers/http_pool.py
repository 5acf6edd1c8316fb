"""The connections to one server: made when needed, kept while they are warm, given out one call each.

Owns: resolving, connecting, the way through a proxy, TLS, and when a connection may be used. Refuses: everything that
is said over a connection (`http_wire`).
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

from clawgauge.client_limits import require_descriptors
from clawgauge.errors import CallFailure
from clawgauge.providers.http_desk import ReadingDesk
from clawgauge.providers.http_faults import CONNECT_TIMEOUT_S, connect_failure
from clawgauge.providers.http_proxy import Proxy
from clawgauge.providers.http_wire import Wire

# llama.cpp and Ollama close an idle connection after five seconds; ours must be gone before.
KEEPALIVE_S = 4.0
_SECOND_ADDRESS_AFTER_S = 0.25
_RESOLVED_S = 10.0
_CLOSE_S = 1.0
# A name may have two addresses, tried side by side.
_DESCRIPTORS = 2


class Taken(NamedTuple):
    """A connection for one call; `connect_ns` is None where it was used before."""

    wire: Wire
    connect_ns: int | None


class _Idle(NamedTuple):
    wire: Wire
    until_s: float


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
        self._idle: deque[_Idle] = deque()
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

    @property
    def _where(self) -> str:
        """Whom a connection is made to."""
        first = f"{self._first_host}:{self._first_port}"
        return first if self._proxy is None else f"the proxy {first}"

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
