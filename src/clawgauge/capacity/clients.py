"""The load generator of one machine: clients that ask one call after the other, and arrivals."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from itertools import count
from time import perf_counter_ns
from typing import NamedTuple

from clawgauge.capacity.generator import (
    ALONE,
    PROBE_TOKENS,
    Due,
    Lateness,
    LoadCommand,
    LoadEnded,
    LoadListener,
    Place,
)
from clawgauge.capacity.prompts import make_prompt
from clawgauge.journal.folder import RunFolder
from clawgauge.records import CAPACITY, Prompt, Result
from clawgauge.runner.agenda import Cell
from clawgauge.runner.clock import ClientClock
from clawgauge.runner.context import RunContext
from clawgauge.runner.target import TargetRun
from clawgauge.stats.load import Sample, sample_of

THIS_PROGRAM = "this program"
_PAUSE_AFTER_FAILURE_S = 1.0
# How long an agent's tools take between two turns, in the mean and at most.
_TOOLS_MEAN_S = 2.0
_TOOLS_MAX_S = 10.0


class Turn(NamedTuple):
    """One turn of a client's session."""

    context_share: float
    """How much of its context there is by then."""
    n_calls: int
    """How many calls it makes at once."""


_PLAIN_SESSION = (Turn(1.0, 1),)
_AGENT_SESSION = (Turn(0.4, 1), Turn(0.55, 1), Turn(0.7, 3), Turn(0.85, 1), Turn(1.0, 1))


class DueCall(NamedTuple):
    """A call that a client makes, or an arrival."""

    client: int
    due_ns: int
    """By `perf_counter_ns`."""
    context_share: float = 1.0
    session: str = ""
    """Calls of one session begin alike; calls without one share nothing."""


async def wait_until(due_ns: int) -> None:
    """Wait until `perf_counter_ns` has come to this time."""
    # A loop that counts in whole milliseconds may wake a little early.
    while (left_ns := due_ns - perf_counter_ns()) > 0:  # noqa: ASYNC110
        await asyncio.sleep(left_ns / 1e9)


class ClientPool:
    """The clients and arrivals of one machine; who inherits from it makes the calls."""

    ends_with_task_group = True

    def __init__(self, origin_ns: int, *, are_agents: bool = False) -> None:
        self.origin_ns = origin_ns
        self._are_agents = are_agents
        self._command = LoadCommand()
        self._arrivals: asyncio.Task[None] | None = None
        # Those that the last command ended, and that may still have calls under way.
        self._ended_arrivals: asyncio.Task[None] | None = None

    def attach(self, group: asyncio.TaskGroup, listener: LoadListener) -> None:
        self._group = group
        self._listener = listener

    async def ask(self, command: LoadCommand, call: DueCall) -> Sample:
        """Make a call as the command has it, and return how it went."""
        raise NotImplementedError

    def apply(self, command: LoadCommand) -> None:
        self._command = command
        self._ended_arrivals = self._arrivals
        self._arrivals = None
        for start in command.starts:
            self._group.create_task(self._run_client(start, command.step))
        if command.arrivals:
            self._arrivals = self._group.create_task(self._play_arrivals(command))

    async def wait_for_ended_arrivals(self) -> None:
        """Return once nothing is under way of arrivals that were ended."""
        if self._ended_arrivals is not None:
            await asyncio.wait([self._ended_arrivals])

    async def _run_client(self, start: Due, first_step: str) -> None:
        """Ask session after session, until this client is one too many."""
        draw = random.Random(start.number)
        turns = _AGENT_SESSION if self._are_agents else _PLAIN_SESSION
        due_ns = self.origin_ns + start.due_ns
        await wait_until(due_ns)
        try:
            for n_session in count():
                session = f"{start.number} {first_step} {n_session}"
                for turn in turns:
                    if start.number >= self._command.n_clients:
                        return
                    samples = await self._ask_turn(start.number, due_ns, turn, session)
                    due_ns = self._next_due_ns(samples, draw)
                    await wait_until(due_ns)
        finally:
            self._listener.client_left(start.number)

    async def _ask_turn(self, client: int, due_ns: int, turn: Turn, session: str) -> list[Sample]:
        """Make the calls of one turn at once, and return once all of them have ended."""
        command = self._command
        calls = []
        for n_call in range(turn.n_calls):
            # Calls that are made at once are sessions of their own.
            call_session = f"{session}.{n_call}" if self._are_agents else ""
            call = DueCall(client, due_ns, turn.context_share, call_session)
            calls.append(self._ask_and_notify(command, call))
        return await asyncio.gather(*calls)

    def _next_due_ns(self, samples: list[Sample], draw: random.Random) -> int:
        """When the turn after these calls is due."""
        # It counts from when the answer ended, not from when this program got round to it.
        ended_ms = max(sample.ended_ms for sample in samples)
        pause_s = 0.0
        if self._are_agents:
            pause_s = min(draw.expovariate(1 / _TOOLS_MEAN_S), _TOOLS_MAX_S)
        if not all(sample.ok for sample in samples):
            pause_s = max(pause_s, _PAUSE_AFTER_FAILURE_S)
        return self.origin_ns + round(ended_ms * 1e6) + round(pause_s * 1e9)

    async def _play_arrivals(self, command: LoadCommand) -> None:
        """Send every arrival when it is due, and return once all that were sent have ended."""
        in_flight: set[asyncio.Task[Sample]] = set()
        for arrival in command.arrivals:
            due_ns = self.origin_ns + arrival.due_ns
            await wait_until(due_ns)
            if self._command is not command:
                break
            if len(in_flight) >= command.max_in_flight:
                self._listener.client_left(arrival.number)
                continue
            call = self._ask_and_notify(command, DueCall(arrival.number, due_ns))
            task = self._group.create_task(call)
            in_flight.add(task)
            task.add_done_callback(in_flight.discard)
        if in_flight:
            await asyncio.wait(in_flight)

    async def _ask_and_notify(self, command: LoadCommand, call: DueCall) -> Sample:
        sample = await self.ask(command, call)
        self._listener.call_ended(command.step, sample)
        return sample


class RecordWriter:
    """Puts records on disk in the background: nobody's next call waits for the disk."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._pending: deque[asyncio.Future[None]] = deque()

    def put(self, result: Result) -> None:
        """Have a record written. Raises what an earlier one could not be written for."""
        writing = asyncio.ensure_future(self._folder.append(result))
        writing.add_done_callback(_mark_seen)
        self._pending.append(writing)
        while len(self._pending) > 1 and self._pending[0].done():
            self._pending.popleft().result()

    async def flush(self) -> None:
        """Return once everything is on disk."""
        await asyncio.gather(*self._pending)


def _mark_seen(writing: asyncio.Future[None]) -> None:
    # It is raised by `put` or `flush`; the loop need not report it as well.
    if not writing.cancelled():
        writing.exception()


class _Reading(NamedTuple):
    """What lateness is measured from: the counters as they stood at one moment."""

    n_ticks_by_lateness: Counter[int]
    cpu_s: float
    at_ns: int


class LocalLoadGenerator(ClientPool):
    """Makes the calls of one target from this machine."""

    def __init__(
        self,
        context: RunContext,
        run: TargetRun,
        clock: ClientClock,
        origin_ns: int,
        place: Place = ALONE,
    ) -> None:
        options = context.plan.capacity
        if options is None:
            raise TypeError("the plan is not one of a capacity run")
        super().__init__(origin_ns, are_agents=options.shape == "agent")
        self.records = RecordWriter(context.folder)
        self._run = run
        self._clock = clock
        self._options = options
        self._salt = context.salt.hex()
        self._n_plain_prompts = count()

        def count_repeats() -> Iterator[int]:
            return count(place.number, place.n_machines)

        self._repeats_by_name = defaultdict[str, Iterator[int]](count_repeats)
        self._n_not_made = 0
        self._last_reading = _Reading(Counter(), 0.0, perf_counter_ns())

    async def get_ready(self) -> None:
        await self._run.get_ready()

    async def ask(self, command: LoadCommand, call: DueCall) -> Sample:
        key = self._make_key(command, call)
        n_chars = command.scale.to_chars(command.prompt_tokens * call.context_share)
        shared_chars = round(self._options.shared_prefix * command.scale.chars_per_token)
        prompt = make_prompt(n_chars, key, shared_chars)
        max_tokens = self._options.output_tokens
        result = await self._send(
            command.step, prompt.text, max_tokens, call.client, call.due_ns, command.visit or None
        )
        if result.failure_type == "client_limit":
            self._n_not_made += 1
        return sample_of(result)

    def _make_key(self, command: LoadCommand, call: DueCall) -> str:
        """What a prompt's text is drawn by: calls of one session and length have the same."""
        if call.session:
            return f"{self._salt} {command.prompt_tokens} {call.session}"
        return f"{self._salt} {next(self._n_plain_prompts)}"

    async def probe(self, name: str, n_chars: int, key: str) -> Result:
        prompt = make_prompt(n_chars, key)
        return await self._send(name, prompt.text, PROBE_TOKENS, 0, perf_counter_ns(), None)

    async def _send(
        self,
        name: str,
        text: str,
        max_tokens: int,
        client: int,
        due_ns: int,
        visit: int | None,
    ) -> Result:
        """Make one call and have it recorded as the next repeat of a prompt of this name."""
        prompt = Prompt(
            id=name,
            name=name,
            prompt=text,
            validator={"type": "noop"},
            suite=CAPACITY,
            max_tokens=max_tokens,
        )
        cell = Cell(prompt, next(self._repeats_by_name[name]))
        result = await self._run.ask_under_load(cell, client, due_ns, self.origin_ns, visit)
        if result is None:
            raise LoadEnded("--max-cost is spent, or set aside for the calls under way")
        self.records.put(result)
        return result

    async def read_lateness(self) -> dict[str, Lateness]:
        await self.wait_for_ended_arrivals()
        last = self._last_reading
        now = _Reading(self._clock.late_counts(), time.process_time(), perf_counter_ns())
        wall_s = max(0.001, (now.at_ns - last.at_ns) / 1e9)
        lateness = Lateness(
            n_not_made=self._n_not_made,
            cpu_share=(now.cpu_s - last.cpu_s) / wall_s,
            loop_p95_ms=self._clock.percentile_ns(0.95, last.n_ticks_by_lateness) / 1e6,
        )
        self._n_not_made = 0
        self._last_reading = now
        return {THIS_PROGRAM: lateness}
