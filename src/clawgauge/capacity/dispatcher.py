"""Keeps a load steady: has clients come and go or arrivals made, and hears of every call.

The rule of the steady state: clients start spread over one cycle; the load is steady once every one
of them has ended a call that was due after the last of them had started; what ends from then on is
measured, and nobody stops before. From one number of clients to the next the load goes on:
newcomers fall between those who are there, and whoever is one too many leaves after the answer
under way.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter_ns
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from clawgauge.capacity.clients import wait_until
from clawgauge.capacity.generator import Due, LoadCommand
from clawgauge.stats.load import Sample

# Looking at all that was seen holds the loop, and makes stamps late: so often is often enough.
_LOOK_INTERVAL_S = 0.1
# Before the first arrival: until every machine knows of it.
_LEAD_NS = 500_000_000
_N_RECENT_CALLS = 64

OnSteady: TypeAlias = Callable[[], Awaitable[object]]
"""Is called and waited for once a load is steady, before anything is measured."""
IsEnough: TypeAlias = Callable[[list[Sample], float], bool]
"""Whether the calls of a steady load, and how long it was steady in seconds, tell enough."""


class SteadyWindow(NamedTuple):
    """When a load was steady, and the calls of that time and around it."""

    from_ns: int
    to_ns: int
    samples: list[Sample]
    n_dropped: int = 0


class _StepLog:
    """What has come of one step so far."""

    def __init__(self, name: str, visit: int) -> None:
        self.name = name
        self.visit = visit
        self.samples: list[Sample] = []
        self.awaited_arrivals: set[int] = set()
        """Arrivals of the window that are neither answered nor dropped yet."""
        self.n_dropped = 0


class Dispatcher:
    """Commands a load generator, and listens to it (a `LoadListener`).

    Every command that is sent is `template` with the rest filled in.
    """

    def __init__(
        self, send: Callable[[LoadCommand], None], template: LoadCommand, origin_ns: int
    ) -> None:
        self._send = send
        self._template = template
        self._origin_ns = origin_ns
        self._clients: set[int] = set()
        self._step = _StepLog("", 0)
        # From when a call was due until it ended.
        self._recent_cycles_ms: deque[float] = deque(maxlen=_N_RECENT_CALLS)
        self._last_due_ns = 0
        self._changed = asyncio.Event()

    @property
    def cycle_ms(self) -> float:
        """How long calls took of late, in the mean, from when they were due."""
        return sum(self._recent_cycles_ms) / max(1, len(self._recent_cycles_ms))

    def note_cycle(self, cycle_ms: float) -> None:
        """Count a call that was made elsewhere among the recent ones."""
        self._recent_cycles_ms.append(cycle_ms)

    def call_ended(self, step: str, sample: Sample) -> None:
        self._recent_cycles_ms.append(sample.cycle_ms)
        self._last_due_ns = self._origin_ns + round(sample.due_ms * 1e6)
        if step == self._step.name:
            self._step.samples.append(sample)
            self._step.awaited_arrivals.discard(sample.client)
        self._changed.set()

    def client_left(self, number: int) -> None:
        if number in self._step.awaited_arrivals:
            self._step.awaited_arrivals.discard(number)
            self._step.n_dropped += 1
        self._clients.discard(number)
        self._changed.set()

    async def hold_clients(
        self,
        step_name: str,
        n_clients: int,
        deadline_ns: int,
        on_steady: OnSteady,
        is_enough: IsEnough,
        restart_spacing_ms: float | None = None,
        *,
        visit: int = 1,
    ) -> SteadyWindow | None:
        """Have so many clients ask until the load was steady for long enough.

        `visit` says which visit of so many clients it is; their calls are recorded with it.
        Returns None where it is not steady in time. Once it is, what has been seen by the deadline
        is all there is. With `restart_spacing_ms` every client leaves first and they come back so
        far apart: a server that is never idle keeps the gaps between its clients that it once had.
        """
        if restart_spacing_ms is not None:
            await self.stop_clients()
            self._recent_cycles_ms.clear()
            self._recent_cycles_ms.append(restart_spacing_ms * n_clients)
            self._last_due_ns = perf_counter_ns()
        starts, started_ns = self._schedule_starts(n_clients)
        step = self._begin_step(step_name, visit)
        self._command(n_clients=n_clients, starts=starts)
        for start in starts:
            self._clients.add(start.number)
        while any(number >= n_clients for number in self._clients):
            if not await self._wait_for_change(deadline_ns):
                break
            started_ns = perf_counter_ns()
        if not await self._wait_until_steady(step, n_clients, started_ns, deadline_ns):
            return None
        await on_steady()
        from_ns = perf_counter_ns()
        samples = await self._collect(step, from_ns, deadline_ns, is_enough)
        return SteadyWindow(from_ns, perf_counter_ns(), samples)

    async def play_arrivals(
        self,
        step_name: str,
        arrivals_s: Sequence[float],
        window_s: tuple[float, float],
        max_in_flight: int,
        on_steady: OnSteady,
    ) -> SteadyWindow:
        """Have every arrival sent when it is due, in seconds from now, whatever is under way.

        What is due after the window keeps the load up until all that was due in it is answered, or
        was dropped.
        """
        begin_ns = perf_counter_ns() - self._origin_ns + _LEAD_NS
        from_ns = begin_ns + round(window_s[0] * 1e9)
        to_ns = begin_ns + round(window_s[1] * 1e9)
        step = self._begin_step(step_name)
        arrivals = []
        for number, arrival_s in enumerate(arrivals_s):
            due_ns = begin_ns + round(arrival_s * 1e9)
            arrivals.append(Due(number, due_ns))
            if from_ns < due_ns <= to_ns:
                step.awaited_arrivals.add(number)
        self._command(arrivals=arrivals, max_in_flight=max_in_flight)
        await wait_until(self._origin_ns + from_ns)
        await on_steady()
        while step.awaited_arrivals:
            await self._wait_for_change(None)
        self._command()
        return SteadyWindow(
            from_ns=self._origin_ns + from_ns,
            to_ns=self._origin_ns + to_ns,
            samples=step.samples,
            n_dropped=step.n_dropped,
        )

    async def stop_clients(self) -> None:
        """Let every client end the call under way, and return once all have left."""
        self._command()
        while self._clients:
            await self._wait_for_change(None)

    def _begin_step(self, name: str, visit: int = 0) -> _StepLog:
        """What ends from now on under this name is of the new step, and nothing of the last."""
        self._step = _StepLog(name, visit)
        return self._step

    def _command(
        self,
        *,
        n_clients: int = 0,
        starts: Sequence[Due] = (),
        arrivals: Sequence[Due] = (),
        max_in_flight: int = 0,
    ) -> None:
        """Send a command of the current step; without arguments everybody leaves."""
        command = replace(
            self._template,
            step=self._step.name,
            visit=self._step.visit,
            n_clients=n_clients,
            starts=list(starts),
            arrivals=list(arrivals),
            max_in_flight=max_in_flight,
        )
        self._send(command)

    def _schedule_starts(self, n_clients: int) -> tuple[list[Due], int]:
        """When each client that is missing is to start, and by when all of them will have.

        They are spread over one cycle; the second time is by `perf_counter_ns`.
        """
        now_ns = perf_counter_ns()
        missing = [number for number in range(n_clients) if number not in self._clients]
        if not missing:
            return [], now_ns
        cycle_ns = round(self.cycle_ms * 1e6)
        spread_from_ns = now_ns
        if cycle_ns:
            # Counted from somebody's start, so that those of a doubled number fall in the middle
            # between two.
            spread_from_ns += (self._last_due_ns - now_ns) % cycle_ns
        begin_ns = spread_from_ns - self._origin_ns
        spacing_ns = cycle_ns / len(missing)
        starts = []
        for index, number in enumerate(missing):
            starts.append(Due(number, begin_ns + round((index + 0.5) * spacing_ns)))
        return starts, spread_from_ns + cycle_ns

    async def _wait_until_steady(
        self, step: _StepLog, n_clients: int, started_ns: int, deadline_ns: int
    ) -> bool:
        """Wait for a call of every client that was due once all had started.

        Returns False where that does not come in time.
        """
        started_ms = (started_ns - self._origin_ns) / 1e6
        while True:
            heard_clients = set()
            for sample in step.samples:
                if sample.due_ms >= started_ms:
                    heard_clients.add(sample.client)
            if len(heard_clients) >= n_clients:
                return True
            if not await self._wait_for_change(deadline_ns):
                return False

    async def _collect(
        self, step: _StepLog, from_ns: int, deadline_ns: int, is_enough: IsEnough
    ) -> list[Sample]:
        """The calls that end from now on, until they are enough or the time is over."""
        from_ms = (from_ns - self._origin_ns) / 1e6
        collected: list[Sample] = []
        n_read = len(step.samples)
        in_time = True
        while in_time and not is_enough(collected, (perf_counter_ns() - from_ns) / 1e9):
            in_time = await self._wait_for_change(deadline_ns)
            for sample in step.samples[n_read:]:
                if sample.ended_ms > from_ms:
                    collected.append(sample)
            n_read = len(step.samples)
        return collected

    async def _wait_for_change(self, deadline_ns: int | None) -> bool:
        """Wait for the next things to happen; returns False where nothing does in time."""
        timeout_s = None
        if deadline_ns is not None:
            timeout_s = (deadline_ns - perf_counter_ns()) / 1e9
        self._changed.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
                await asyncio.sleep(_LOOK_INTERVAL_S)
        except TimeoutError:
            return False
        return True


def poisson_arrivals(rate: float, seconds: float, seed: str) -> list[float]:
    """When requests are due, in seconds, at so many a second: drawn before the first is sent."""
    draw = random.Random(seed)
    arrivals_s = []
    arrival_s = draw.expovariate(rate)
    while arrival_s < seconds:
        arrivals_s.append(arrival_s)
        arrival_s += draw.expovariate(rate)
    return arrivals_s
