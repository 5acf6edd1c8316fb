"""A driver's connection to a node, through the streams of a program that reaches it."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NoReturn

import msgspec

from clawgauge import __version__
from clawgauge.child_processes.child import Child, ChildCommand, running
from clawgauge.config.providers import Tell
from clawgauge.environment import ssh_environment, without_secrets
from clawgauge.errors import CallFailure
from clawgauge.fleet import limits
from clawgauge.fleet.wire import (
    END_OF_LOAD,
    DriverMessage,
    Hello,
    NodeLost,
    NodeMessage,
    Pong,
    ProviderFacts,
    kinds_of,
)
from clawgauge.journal import encode_line

PING_INTERVAL_S = 5.0
_KEEP_ALIVE_PING = 0  # its answer says that the node is there, and nothing else
_N_CLOCK_PINGS = 20
_FAREWELL_S = 5.0
_MAX_SHOWN_CHARS = 500  # of what a node says, on a screen
_YEAR_NS = 366 * 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """A node's name, and the command that reaches it."""

    name: str
    command: list[str]
    public_host: str | None = None
    """Where others reach the servers of its machine, as far as the user told."""


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """How far a node's clock is ahead of ours."""

    offset_ms: float = 0.0
    error_ms: float = 0.0
    """Half the shortest round trip: the offset is off by that much at most."""


@dataclass(frozen=True, slots=True)
class ProbedNode:
    """A node that has told what it is and what it has."""

    address: NodeAddress
    hello: Hello
    providers: list[ProviderFacts]
    clock: ClockOffset

    @property
    def name(self) -> str:
        return self.address.name

    def describe(self) -> str:
        """A line for a person."""
        hello = self.hello
        clock = f"clock {self.clock.offset_ms:+.2f} ms ± {self.clock.error_ms:.2f}"
        slow = ""
        if hello.niceness > 0:
            slow = f"; it runs at nice {hello.niceness} and is measured so"
        return (
            f"node {self.name}: {hello.host}, clawgauge {hello.version}, "
            f"Python {hello.python}; {clock}{slow}"
        )


class NodeConnection:
    """One conversation with a node. Its methods raise `NodeLost` where the node is."""

    def __init__(self, address: NodeAddress, tell: Tell, child: Child) -> None:
        self._address = address
        self._tell = tell
        self._child = child
        self._now_s = asyncio.get_running_loop().time
        self._bounds = limits.Bounds()
        self.hello: Hello | None = None
        self.ends_at_s = self._now_s() + limits.READY_S
        self._too_late = f"it was not ready in {limits.READY_S:g} s"
        self._max_idle_s = math.inf
        self._idle_until_s = math.inf

    def lose(self, why: str) -> NoReturn:
        raise NodeLost(f"node {self._address.name}: {why}") from None

    def send(self, message: DriverMessage) -> None:
        """Never waits; what cannot be sent any more is lost with the node."""
        self._child.send(encode_line(message), last=False)
        if message.ping is not None:
            self._bounds.expect("pong")
        if message.describe:
            self._bounds.expect("seen")
        if message.read_lateness:
            self._bounds.expect("late")
        if message == END_OF_LOAD:
            self.ends_at_s = self._now_s() + limits.LEAVE_S
            self._too_late = f"it did not end its load in {limits.LEAVE_S:g} s"

    def begin_work(self, max_bytes: int, max_idle_s: float) -> None:
        """From now on the node may send so much more, and has to get on with its work."""
        self.ends_at_s = math.inf
        self._bounds.allow(max_bytes)
        self._max_idle_s = max_idle_s
        self.note_progress()

    def note_progress(self) -> None:
        """The node sent something that its work needs."""
        self._idle_until_s = self._now_s() + self._max_idle_s

    async def keep_alive(self) -> None:
        """Ping the node for ever."""
        while True:
            await asyncio.sleep(PING_INTERVAL_S)
            self.send(DriverMessage(ping=_KEEP_ALIVE_PING))

    async def receive(self) -> NodeMessage:
        """The next message that is for the caller.

        Notices are passed on to the person, answers to keep-alive pings passed over.
        """
        while True:
            message = self._decode(await self._next_line())
            if message is None:
                continue
            if message.refused is not None:
                self.lose(message.refused[:_MAX_SHOWN_CHARS])
            if message.notice is not None:
                self._tell(f"{self._address.name}: {message.notice[:_MAX_SHOWN_CHARS]}")
                continue
            if message.pong is not None and message.pong.number == _KEEP_ALIVE_PING:
                continue
            return message

    async def _next_line(self) -> bytes:
        silent_at_s = self._now_s() + limits.SILENCE_S
        ends_at_s = min(self.ends_at_s, self._idle_until_s, silent_at_s)
        try:
            async with asyncio.timeout_at(ends_at_s):
                stamped = await self._child.next_line()
        except TimeoutError:
            self._lose_too_late()
        except CallFailure as too_large:
            self.lose(too_large.message)
        # A node that always has a line ready lets nobody see that its time is over.
        if self._now_s() >= min(self.ends_at_s, self._idle_until_s):
            self._lose_too_late()
        if stamped is None:
            await self._child.wait_exit(_FAREWELL_S)
            error_lines = self._child.stderr_tail.strip().splitlines() or ["without a word"]
            self.lose(f"the connection ended ({error_lines[-1].strip()})")
        return stamped[1]

    def _lose_too_late(self) -> NoReturn:
        now_s = self._now_s()
        if now_s >= self.ends_at_s:
            self.lose(self._too_late)
        if now_s >= self._idle_until_s:
            self.lose(f"it answers, but nothing came of its work for {self._max_idle_s:g} s")
        self.lose(f"not a word from it for {limits.SILENCE_S:g} s")

    def _decode(self, line: bytes) -> NodeMessage | None:
        """What a line says; None where a login shell says something before the greeting."""
        try:
            message = self._decode_within_bounds(line)
        except _BoundBroken as broken:
            if self.hello is None and (broken.message is None or broken.message.hello is None):
                return None
            self.lose(str(broken))
        return message

    def _decode_within_bounds(self, line: bytes) -> NodeMessage:
        """What a line says. Raises `_BoundBroken` for one that no node may send."""
        problem = self._bounds.measure(line)
        if problem is not None:
            raise _BoundBroken(problem)
        try:
            message = msgspec.json.decode(line, type=NodeMessage)
            msgspec.msgpack.encode(message)  # which no number of over 64 bits survives
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as fault:
            raise _BoundBroken(f"it sent what cannot be read ({fault})") from None
        kinds = kinds_of(message)
        problem = self._bounds.count(kinds, line)
        if problem is not None:
            raise _BoundBroken(problem, message)
        # A line is no shorter than the texts in it: most need no second look.
        max_chars = limits.MAX_TEXT_CHARS
        if len(line) > max_chars and limits.has_long_text([message.result, message.providers]):
            raise _BoundBroken(
                f"it sent a text of more than {max_chars:,} characters in one message ({kinds[0]})",
                message,
            )
        figures = [message.result, message.providers, message.lateness, message.client_left]
        implausible = limits.find_implausible(figures)
        if implausible is not None:
            raise _BoundBroken(f"it sent a figure that cannot be ({implausible})", message)
        return message

    async def greet(self) -> None:
        """Wait for the node's greeting, and refuse another version than ours."""
        message = await self.receive()
        hello = message.hello or Hello("no version", "", "", 0)
        self.hello = Hello(
            version=hello.version[:_MAX_SHOWN_CHARS],
            python=hello.python[:_MAX_SHOWN_CHARS],
            host=hello.host[:_MAX_SHOWN_CHARS],
            niceness=hello.niceness,
        )
        if self.hello.version != __version__:
            self.lose(
                f"it has clawgauge {self.hello.version}, and here is {__version__}: "
                "install the same on both"
            )

    async def probe(self) -> ProbedNode:
        """Ask the node what it has, and read its clock."""
        self.send(DriverMessage(describe=True))
        message = await self.receive()
        return ProbedNode(
            address=self._address,
            hello=self.hello or Hello("", "", "", 0),
            providers=message.providers or [],
            clock=await self._read_clock(),
        )

    async def _read_clock(self) -> ClockOffset:
        """Of many pings the one that was back soonest tells most."""
        readings = []
        for number in range(1, _N_CLOCK_PINGS + 1):
            sent_ns = time.perf_counter_ns()
            sent_wall_ns = time.time_ns()
            self.send(DriverMessage(ping=number))
            pong = await self._receive_pong(number)
            round_trip_ns = time.perf_counter_ns() - sent_ns
            ahead_ns = pong.wall_ns - sent_wall_ns
            if abs(ahead_ns) > _YEAR_NS:
                self.lose("its clock is off by more than a year: set it")
            readings.append((round_trip_ns / 2e6, (ahead_ns - round_trip_ns / 2) / 1e6))
        error_ms, offset_ms = min(readings)
        return ClockOffset(offset_ms, error_ms)

    async def _receive_pong(self, number: int) -> Pong:
        while True:
            message = await self.receive()
            if message.pong is not None and message.pong.number == number:
                return message.pong


class _BoundBroken(Exception):
    """A line that no node may send; `message` is what it says, where it can be read."""

    def __init__(self, problem: str, message: NodeMessage | None = None) -> None:
        super().__init__(problem)
        self.message = message


def bridge_environment() -> dict[str, str]:
    """The environment of the bridge to a Ray cluster: all but secrets, and what is Ray's own."""
    return without_secrets(os.environ, allowed_prefixes=("RAY_",))


@asynccontextmanager
async def connect(address: NodeAddress, tell: Tell) -> AsyncIterator[NodeConnection]:
    """A connection from the node's greeting on.

    After the block nothing of the program that reaches it is left. Raises `NodeLost`.
    """
    program, *arguments = address.command
    argv = (shutil.which(program) or program, *arguments)
    environment = ssh_environment(os.environ)
    if program == sys.executable:
        environment = bridge_environment()
    command = ChildCommand(
        argv,
        environment,
        stdin=None,
        max_line_bytes=limits.MAX_LINE_BYTES,
        max_output_bytes=math.inf,
    )
    try:
        async with running(command) as child:
            connection = NodeConnection(address, tell, child)
            keeping_alive = asyncio.ensure_future(connection.keep_alive())
            try:
                await connection.greet()
                yield connection
            finally:
                keeping_alive.cancel()
                child.send(b"")
                await child.wait_exit(_FAREWELL_S)
    except OSError as fault:
        raise NodeLost(
            f"node {address.name}: {argv[0]} cannot be started ({fault.strerror})"
        ) from fault
