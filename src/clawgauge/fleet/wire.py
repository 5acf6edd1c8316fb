"""What a driver and a node say to each other, one JSON object a line: nothing is pickled, and no key is among it.

Names of providers are the node's own; the driver puts its name for the node before them."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import msgspec

from clawgauge import __version__
from clawgauge.capacity.load import Go, Late
from clawgauge.child_processes.child import Child, ChildCommand, running
from clawgauge.config.providers import Tell
from clawgauge.environment import ssh_environment, without_secrets
from clawgauge.errors import CallFailure, RequestError
from clawgauge.fleet import limits
from clawgauge.journal import CellKey, encode_line
from clawgauge.plan import Evidence
from clawgauge.records import Event, PromptKey, ProviderProbe, Result, RunConfig, Target

ORDER_CAP_BYTES = 512 << 20
BEAT_S = 5.0
_N_PINGS = 20
_FAREWELL_S = 5.0
_WORDS_CHARS = 500  # of what a node says, on a screen
_YEAR_NS = 366 * 86_400 * 10**9


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A plan's part for one node: config.json, with nothing of the others, and what `Plan` and `OpenWork` add.

    `has` are the files that need not be sent. Of a load, `place` is (which node, of how many), and `origin_ns` when it
    began by the node's wall clock."""

    config: RunConfig
    asked: list[PromptKey]
    free: list[Target]
    done: list[CellKey]
    evidence: list[tuple[Target, Evidence]]
    beside_usd: float
    stretch: int
    has: list[str]
    place: tuple[int, int] = (0, 1)
    origin_ns: int = 0


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing a driver says. `look`: what is there? `kept`: all that was sent of the work is on disk here.

    Of a load: `go`; `brief`, a call with nothing beside it by name, length and key; `mark`: how late were you? An order
    of nothing at all ends it."""

    ping: int | None = None
    look: bool = False
    work: Work | None = None
    stop: bool = False
    kept: bool = False
    go: Go | None = None
    brief: tuple[str, int, str] | None = None
    mark: bool = False


class Facts(msgspec.Struct, frozen=True):
    """What a plan must know of a provider that is elsewhere, by the names of `Provider`."""

    probe: ProviderProbe
    unusable: str | None = None
    described: dict[str, Any] = {}
    local: bool = False
    takes: frozenset[str] = frozenset()
    takes_thinking: bool = False
    default_max_tokens: int = 0
    context_tokens: int | None = None
    cannot_send: frozenset[str] = frozenset()


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing a node says. `hello` tells version, Python, host and niceness, `pong` a ping's number and the wall
    clock there; `end`: nothing more comes of the work. Of a load: `left`, a client or an arrival that will not be heard
    of again, and the answer to `mark`."""

    hello: tuple[str, str, str, int] | None = None
    pong: tuple[int, int] | None = None
    seen: list[Facts] | None = None
    refused: str | None = None
    said: str | None = None
    result: Result | None = None
    event: Event | None = None
    file: tuple[str, str] | None = None
    end: bool = False
    left: int | None = None
    late: Late | None = None


_ITEM_FIELDS = msgspec.structs.fields(Item)


class NodeLost(RequestError):
    """A node cannot be reached, left without its farewell, or said what none may. Before a run: nothing was sent."""


@dataclass
class Member:
    """A node: the command that reaches it, and what is known once it was looked at.

    `offset_ms` is how far its clock is ahead of ours, give or take `error_ms`, half the shortest round trip."""

    name: str
    command: Sequence[str]
    address: str | None = None
    hello: tuple[str, str, str, int] | None = None
    seen: list[Facts] = field(default_factory=list)
    offset_ms: float = 0.0
    error_ms: float = 0.0

    def describe(self) -> str:
        version, python, host, nice = self.hello or ("", "", "", 0)
        slow = f"; it runs at nice {nice} and is measured so" if nice > 0 else ""
        clock = f"clock {self.offset_ms:+.2f} ms ± {self.error_ms:.2f}"
        return f"node {self.name}: {host}, clawgauge {version}, Python {python}; {clock}{slow}"


class Talk:
    """One conversation with a node, through the streams of a program that reaches it. It ends at `until_s`."""

    def __init__(self, member: Member, tell: Tell, child: Child) -> None:
        self._member = member
        self._tell = tell
        self._child = child
        self._clock = asyncio.get_running_loop().time
        self._bounds = limits.Bounds()
        self.until_s = self._clock() + limits.READY_S
        self._late = f"it was not ready in {limits.READY_S:g} s"
        self._max_idle_s = math.inf
        self._idle_until_s = math.inf
        member.hello = None

    def lose(self, why: str) -> NoReturn:
        raise NodeLost(f"node {self._member.name}: {why}") from None

    def say(self, order: Order) -> None:
        """Never waits; what cannot be sent any more is lost with the node."""
        self._child.send(encode_line(order), last=False)
        if order.ping is not None:
            self._bounds.ask("pong")
        if order.look:
            self._bounds.ask("seen")
        if order.mark:
            self._bounds.ask("late")
        if order == Order():
            self.until_s = self._clock() + limits.LEAVE_S
            self._late = f"it did not end its load in {limits.LEAVE_S:g} s"

    def begin_work(self, max_bytes: int, max_idle_s: float) -> None:
        """From now on the node may send so much more, and has to get on with its work."""
        self.until_s = math.inf
        self._bounds.allow(max_bytes)
        self._max_idle_s = max_idle_s
        self.note_progress()

    def note_progress(self) -> None:
        """The node sent something that its work needs."""
        self._idle_until_s = self._clock() + self._max_idle_s

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            self.say(Order(ping=0))

    async def hear(self) -> Item:
        """The next thing of any weight. Raises `NodeLost` where none comes, or none that can be read or may be sent."""
        while True:
            line = await self._next_line()
            item = self._read(line)
            if item is None:
                continue
            if item.refused is not None:
                self.lose(item.refused[:_WORDS_CHARS])
            if item.said is not None:
                self._tell(f"{self._member.name}: {item.said[:_WORDS_CHARS]}")
            elif item.pong is None or item.pong[0]:
                return item

    async def _next_line(self) -> bytes:
        ends_at_s = min(self.until_s, self._idle_until_s, self._clock() + limits.SILENCE_S)
        try:
            async with asyncio.timeout_at(ends_at_s):
                stamped = await self._child.next_line()
        except TimeoutError:
            self._lose_late()
        except CallFailure as too_large:
            self.lose(too_large.message)
        # Whoever always has a line ready lets nobody see that its time is over.
        if self._clock() >= min(self.until_s, self._idle_until_s):
            self._lose_late()
        if stamped is None:
            await self._child.wait_exit(_FAREWELL_S)
            words = self._child.stderr_tail.strip().splitlines() or ["without a word"]
            self.lose(f"the connection ended ({words[-1].strip()})")
        return stamped[1]

    def _lose_late(self) -> NoReturn:
        now_s = self._clock()
        if now_s >= self.until_s:
            self.lose(self._late)
        if now_s >= self._idle_until_s:
            self.lose(f"it answers, but nothing came of its work for {self._max_idle_s:g} s")
        self.lose(f"not a word from it for {limits.SILENCE_S:g} s")

    def _read(self, line: bytes) -> Item | None:
        """What a line says, within what a node may say; None where it is nothing yet."""
        broken = self._bounds.measure(line)
        item = None
        if broken is None:
            try:
                item = msgspec.json.decode(line, type=Item)
                msgspec.msgpack.encode(item)  # which no number of over 64 bits survives
            except (
                msgspec.DecodeError,
                UnicodeDecodeError,
                RecursionError,
                OverflowError,
            ) as fault:
                item = None
                broken = f"it sent what cannot be read ({fault})"
        if item is not None:
            kinds = [
                field.name for field in _ITEM_FIELDS if getattr(item, field.name) != field.default
            ]
            broken = self._bounds.count(kinds, line)
        # A line is no shorter than the texts in it: most need no second look.
        most = limits.MAX_TEXT_CHARS
        is_long = broken is None and item is not None and len(line) > most
        if is_long and item is not None and limits.has_long_text([item.result, item.seen]):
            broken = f"it sent a text of more than {most:,} characters in one message ({kinds[0]})"
        if broken is None:
            implausible = limits.find_implausible(
                [item.result, item.seen, item.late, item.left] if item else None
            )
            broken = (
                None if implausible is None else f"it sent a figure that cannot be ({implausible})"
            )
        if broken is None:
            return item
        if self._member.hello is None and (item is None or item.hello is None):
            return None  # a login shell may have something to say first
        self.lose(broken)

    async def greet(self) -> None:
        version, python, host, nice = (await self.hear()).hello or ("no version", "", "", 0)
        hello = self._member.hello = (
            version[:_WORDS_CHARS],
            python[:_WORDS_CHARS],
            host[:_WORDS_CHARS],
            nice,
        )
        if hello[0] != __version__:
            self.lose(
                f"it has clawgauge {hello[0]}, and here is {__version__}: install the same on both"
            )

    async def read_clock(self) -> None:
        """Of twenty pings the one that was back soonest tells most."""
        found = []
        for n in range(1, _N_PINGS + 1):
            sent_ns, sent_wall_ns = time.perf_counter_ns(), time.time_ns()
            self.say(Order(ping=n))
            while (pong := (await self.hear()).pong) is None or pong[0] != n:
                pass
            round_ns = time.perf_counter_ns() - sent_ns
            if abs(pong[1] - sent_wall_ns) > _YEAR_NS:
                self.lose("its clock is off by more than a year: set it")
            found.append((round_ns / 2e6, (pong[1] - sent_wall_ns - round_ns / 2) / 1e6))
        self._member.error_ms, self._member.offset_ms = min(found)


def bridge_environment() -> dict[str, str]:
    """What the bridge to a Ray cluster is given: all but secrets, and what is Ray's own."""
    return without_secrets(os.environ, allowed_prefixes=("RAY_",))


@asynccontextmanager
async def talking(member: Member, tell: Tell) -> AsyncIterator[Talk]:
    """A conversation from the node's greeting on; after the block nothing of the program here is left."""
    argv = (shutil.which(member.command[0]) or member.command[0], *member.command[1:])
    is_ray = member.command[0] == sys.executable
    env = bridge_environment() if is_ray else ssh_environment(os.environ)
    command = ChildCommand(
        argv, env, stdin=None, max_line_bytes=limits.MAX_LINE_BYTES, max_output_bytes=math.inf
    )
    try:
        async with running(command) as child:
            talk = Talk(member, tell, child)
            beating = asyncio.ensure_future(talk.beat())
            try:
                await talk.greet()
                yield talk
            finally:
                beating.cancel()
                child.send(b"")
                await child.wait_exit(_FAREWELL_S)
    except OSError as fault:
        raise NodeLost(
            f"node {member.name}: {argv[0]} cannot be started ({fault.strerror})"
        ) from fault
