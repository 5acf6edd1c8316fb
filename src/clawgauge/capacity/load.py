"""Makes load and keeps it steady: a `Machine` makes the calls, here or on a node, and a `Crowd` says which.

The rule of the steady state: clients start spread over one cycle; the load is steady once every one of them has
finished a call that it began after the last had started; what ends from then on is measured, and nobody stops before.
From one number of clients to the next the load goes on: newcomers fall between those who are there, and whoever is too
many leaves after the answer under way."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from time import perf_counter_ns
from typing import NamedTuple, TypeAlias

import msgspec

from clawgauge.capacity.prompts import Ruler, make_prompt
from clawgauge.journal.folder import RunFolder
from clawgauge.records import CAPACITY, Prompt, Result
from clawgauge.runner.agenda import Cell
from clawgauge.runner.clock import ClientClock
from clawgauge.runner.context import RunContext
from clawgauge.runner.target import TargetRun
from clawgauge.stats.load import Sample, sample_of

# What a look at a server may answer: long enough to count by, and within any window.
BRIEF_TOKENS = 48
_AFTER_FAILURE_S = 1.0
_LOOK_S = 0.1  # looking at all that was seen holds the loop, and makes stamps late: so often is often enough
_LEAD_NS = 500_000_000  # before the first arrival: until every machine knows of it
# An agent's turns: how much of its context there is by then, and how many calls it makes at once. Between them its
# tools take so long in the mean, and at most.
_PLAIN, _AGENT = ((1.0, 1),), ((0.4, 1), (0.55, 1), (0.7, 3), (0.85, 1), (1.0, 1))
_TOOLS_S, _MAX_TOOLS_S = 2.0, 10.0

Heard: TypeAlias = Callable[[str, Sample], None]  # told of every call, by the name of its step
Left: TypeAlias = Callable[
    [int], None
]  # told of every client that has left, and of every arrival that was dropped
Late: TypeAlias = tuple[
    int, float, float
]  # calls its machine could not make, share of a core, its loop's p95 in ms
Opened: TypeAlias = Callable[[], Awaitable[object]]
Enough: TypeAlias = Callable[[list[Sample], float], bool]


class Over(Exception):
    """No time or money is left: what was measured stands."""


class Go(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is to be done from now on, under the name of a step, with prompts of so many tokens by that ruler.

    Of the clients that ask in turn those from `level` on leave after the answer under way, and `starts` come. Of
    `arrivals` each is one call, and is dropped where `at_most` are out; the next `Go` ends them. Both are
    (number, due), the latter in nanoseconds since the load began."""

    step: str = ""
    tokens: int = 0
    ruler: Ruler = Ruler()
    level: int = 0
    starts: list[tuple[int, int]] = []
    arrivals: list[tuple[int, int]] = []
    at_most: int = 0


class Held(NamedTuple):
    """When a load was steady, and the calls of that time and around it."""

    from_ns: int
    to_ns: int
    samples: list[Sample]
    n_dropped: int = 0


async def _until(due_ns: int) -> None:
    # A loop that counts in whole milliseconds may wake a little early.
    while (left_ns := due_ns - perf_counter_ns()) > 0:  # noqa: ASYNC110
        await asyncio.sleep(left_ns / 1e9)


class Callers:
    """Those who ask from one machine, in a task group of whoever tells them to."""

    def __init__(self, origin_ns: int, *, agents: bool = False) -> None:
        self.origin_ns, self._agents, self._now = origin_ns, agents, Go()
        self._playing: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    def enter(self, group: asyncio.TaskGroup, heard: Heard, left: Left) -> None:
        self._group, self._heard, self._left = group, heard, left

    async def ask(self, go: Go, client: int, due_ns: int, share: float, session: str) -> Sample:
        """Make a call of this client with so much of the context; calls of one session, if any, begin alike."""
        raise NotImplementedError

    def go(self, go: Go) -> None:
        self._now, self._ending, self._playing = go, self._playing, None
        for number, due_ns in go.starts:
            self._group.create_task(self._client(number, self.origin_ns + due_ns, go.step))
        if go.arrivals:
            self._playing = self._group.create_task(self._play(go))

    async def rest(self) -> None:
        """Until nothing is out of arrivals that were ended."""
        if self._ending is not None:
            await asyncio.wait([self._ending])

    async def _client(self, number: int, due_ns: int, born: str) -> None:
        draw, turns = random.Random(number), _AGENT if self._agents else _PLAIN
        await _until(due_ns)
        try:
            for session, (share, n_calls) in ((n, turn) for n in count() for turn in turns):
                if number >= self._now.level:
                    break
                names = [f"{number} {born} {session}.{n}" for n in range(n_calls)]
                samples = await asyncio.gather(
                    *(self._one(self._now, number, due_ns, share, name) for name in names)
                )
                # The next is due when the answer ended, not when this program got round to it.
                due_ns = self.origin_ns + round(max(one.ended_ms for one in samples) * 1e6)
                tools_s = min(draw.expovariate(1 / _TOOLS_S), _MAX_TOOLS_S) if self._agents else 0.0
                after_s = (
                    tools_s if all(one.ok for one in samples) else max(tools_s, _AFTER_FAILURE_S)
                )
                await _until(due_ns := due_ns + round(after_s * 1e9))
        finally:
            self._left(number)

    async def _play(self, go: Go) -> None:
        out: set[asyncio.Task[Sample]] = set()
        for number, due_ns in go.arrivals:
            await _until(self.origin_ns + due_ns)
            if self._now is not go:
                break
            if len(out) >= go.at_most:
                self._left(number)
                continue
            task = self._group.create_task(self._one(go, number, self.origin_ns + due_ns, 1.0, ""))
            out.add(task)
            task.add_done_callback(out.discard)
        if out:
            await asyncio.wait(out)

    async def _one(self, go: Go, number: int, due_ns: int, share: float, session: str) -> Sample:
        sample = await self.ask(go, number, due_ns, share, session if self._agents else "")
        self._heard(go.step, sample)
        return sample


class Records:
    """Puts records on disk behind the backs of those who ask: nobody's next call waits for it."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._writing = folder, deque[asyncio.Future[None]]()

    def put(self, result: Result) -> None:
        writing = asyncio.ensure_future(self._folder.append(result))
        writing.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._writing.append(writing)
        while self._writing[0].done() and len(self._writing) > 1:
            self._writing.popleft().result()

    async def flush(self) -> None:
        await asyncio.gather(*self._writing)


class Machine(Callers):
    """One target's callers here. Of several machines, `place` is (which, of how many): no two may share a cell."""

    def __init__(
        self,
        context: RunContext,
        run: TargetRun,
        clock: ClientClock,
        origin_ns: int,
        place: tuple[int, int] = (0, 1),
    ) -> None:
        if (options := context.plan.capacity) is None:
            raise TypeError("the plan is not one of a capacity run")
        super().__init__(origin_ns, agents=options.shape == "agent")
        self._run, self._clock, self._options, self._salt = run, clock, options, context.salt.hex()
        self.get_ready, self.records = run.get_ready, Records(context.folder)
        self._serial, self._numbers = (
            count(),
            defaultdict[str, Iterator[int]](lambda: count(*place)),
        )
        self._marked, self._n_ours = (Counter[int](), 0.0, perf_counter_ns()), 0

    async def _send(
        self, name: str, text: str, max_tokens: int, client: int, due_ns: int
    ) -> Result:
        """One call, recorded under the name of a step."""
        noop = {"type": "noop"}
        prompt = Prompt(
            id=name, name=name, prompt=text, validator=noop, suite=CAPACITY, max_tokens=max_tokens
        )
        result = await self._run.ask_under_load(
            Cell(prompt, next(self._numbers[name])), client, due_ns, self.origin_ns
        )
        if result is None:
            raise Over(
                "--max-cost is spent, or set aside for the calls under way: what was measured stands"
            )
        self.records.put(result)
        return result

    async def ask(self, go: Go, client: int, due_ns: int, share: float, session: str) -> Sample:
        key = f"{self._salt} {f'{go.tokens} {session}' if session else next(self._serial)}"
        shared_chars = round(self._options.shared_prefix * go.ruler.chars_per_token)
        made = make_prompt(go.ruler.chars(go.tokens * share), key, shared_chars)
        result = await self._send(go.step, made.text, self._options.output_tokens, client, due_ns)
        self._n_ours += result.failure_type == "client_limit"
        return sample_of(result)

    async def ask_briefly(self, name: str, n_chars: int, key: str) -> Result:
        """A call with nothing beside it."""
        return await self._send(
            name, make_prompt(n_chars, key).text, BRIEF_TOKENS, 0, perf_counter_ns()
        )

    async def mark(self) -> dict[str, Late]:
        """How late whoever makes the calls was since the last time, once all is answered that arrives no more."""
        await self.rest()
        (late, cpu_s, at_ns), n_ours, self._n_ours = self._marked, self._n_ours, 0
        self._marked = self._clock.late_counts(), time.process_time(), perf_counter_ns()
        share = (self._marked[1] - cpu_s) / max(0.001, (self._marked[2] - at_ns) / 1e9)
        return {"this program": (n_ours, share, self._clock.percentile_ns(0.95, late) / 1e6)}


class Crowd:
    """Has callers be so many, or come when they are due, wherever they are, and hears of every call."""

    def __init__(self, go: Callable[[Go], None], like: Go, origin_ns: int) -> None:
        self._go, self._like, self._origin_ns = go, like, origin_ns
        self._clients, self._due, self._step, self._n_dropped = set[int](), set[int](), "", 0
        # How long calls took of late, from due to end.
        self.recent_ms: deque[float] = deque(maxlen=64)
        self._samples, self._last_due_ns = list[Sample](), 0
        self._changed = asyncio.Event()

    @property
    def cycle_ms(self) -> float:
        return sum(self.recent_ms) / max(1, len(self.recent_ms))

    def heard(self, step: str, sample: Sample) -> None:
        self.recent_ms.append(sample.cycle_ms)
        self._last_due_ns = self._origin_ns + round(sample.due_ms * 1e6)
        if step == self._step:
            self._samples.append(sample)
            self._due.discard(sample.client)
        self._changed.set()

    def left(self, number: int) -> None:
        self._n_dropped += number in self._due
        self._due.discard(number)
        self._clients.discard(number)
        self._changed.set()

    async def hold(
        self,
        step: str,
        level: int,
        until_ns: int,
        opened: Opened,
        enough: Enough,
        apart_ms: float | None = None,
    ) -> Held | None:
        """Be so many, wait until the load is steady, call `opened`, and go on until what was seen is `enough`.

        None where it is not steady in time. Where it is, what has been seen by then is all there is. With `apart_ms`
        everyone leaves first and comes back so far apart: a server that is never idle keeps the gaps it once had."""
        if apart_ms is not None:
            await self.leave()
            self.recent_ms, self._last_due_ns = (
                deque([apart_ms * level], maxlen=64),
                perf_counter_ns(),
            )
        starts, settled_ns = self._missing(level)
        self._begin(step, level=level, starts=starts)
        self._clients |= {number for number, _ in starts}
        while any(number >= level for number in self._clients) and await self._wait(until_ns):
            settled_ns = perf_counter_ns()
        settled_ms = (settled_ns - self._origin_ns) / 1e6
        while len({one.client for one in self._samples if one.due_ms >= settled_ms}) < level:
            if not await self._wait(until_ns):
                return None
        await opened()
        from_ns, seen, n_read, in_time = perf_counter_ns(), list[Sample](), len(self._samples), True
        while in_time and not enough(seen, (perf_counter_ns() - from_ns) / 1e9):
            in_time = await self._wait(until_ns)
            fresh, n_read = self._samples[n_read:], len(self._samples)
            seen += [one for one in fresh if one.ended_ms > (from_ns - self._origin_ns) / 1e6]
        return Held(from_ns, perf_counter_ns(), seen)

    async def play(
        self,
        step: str,
        arrivals: Sequence[float],
        window_s: tuple[float, float],
        at_most: int,
        opened: Opened,
    ) -> Held:
        """Have everything sent when it is due, in seconds from now, whatever is still out.

        What is due after the window keeps the load up until all that was due in it is answered, or was dropped."""
        begin_ns = perf_counter_ns() - self._origin_ns + _LEAD_NS
        from_ns, to_ns = (begin_ns + round(at_s * 1e9) for at_s in window_s)
        due = [(number, begin_ns + round(at_s * 1e9)) for number, at_s in enumerate(arrivals)]
        self._due, self._n_dropped = (
            {number for number, due_ns in due if from_ns < due_ns <= to_ns},
            0,
        )
        self._begin(step, arrivals=due, at_most=at_most)
        await _until(self._origin_ns + from_ns)
        await opened()
        while self._due:
            await self._wait(None)
        self._go(msgspec.structs.replace(self._like, step=step))
        return Held(
            self._origin_ns + from_ns, self._origin_ns + to_ns, self._samples, self._n_dropped
        )

    async def leave(self) -> None:
        """Let everyone finish."""
        self._go(msgspec.structs.replace(self._like, step=self._step))
        while self._clients:
            await self._wait(None)

    def _begin(self, step: str, **what: object) -> None:
        self._step, self._samples = step, []
        self._go(msgspec.structs.replace(self._like, step=step, **what))

    def _missing(self, level: int) -> tuple[list[tuple[int, int]], int]:
        """Who is missing and when each is to start, spread over a cycle; and when the last of them is there."""
        missing, now_ns = (
            [number for number in range(level) if number not in self._clients],
            perf_counter_ns(),
        )
        cycle_ns = round(self.cycle_ms * 1e6)
        # Counted from somebody's start, so that those of a doubled crowd fall in the middle between two.
        base_ns = now_ns + (self._last_due_ns - now_ns) % cycle_ns if cycle_ns else now_ns
        apart_ns, begin_ns = cycle_ns / max(1, len(missing)), base_ns - self._origin_ns
        starts = [
            (number, begin_ns + round((place + 0.5) * apart_ns))
            for place, number in enumerate(missing)
        ]
        return starts, base_ns + cycle_ns if missing else now_ns

    async def _wait(self, until_ns: int | None) -> bool:
        """For the next things to happen; False where nothing does in time."""
        self._changed.clear()
        try:
            async with asyncio.timeout(
                None if until_ns is None else (until_ns - perf_counter_ns()) / 1e9
            ):
                await self._changed.wait()
                await asyncio.sleep(_LOOK_S)
                return True
        except TimeoutError:
            return False


def poisson_arrivals(rate: float, seconds: float, seed: str) -> list[float]:
    """When requests are due, in seconds, at so many a second: all drawn before the first is sent."""
    draw, at, found = random.Random(seed), 0.0, list[float]()
    while (at := at + draw.expovariate(rate)) < seconds:
        found.append(at)
    return found
