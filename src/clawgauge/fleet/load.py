"""A load that nodes make together: one search here, and on each node its share of the clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter_ns

from msgspec.structs import replace

from clawgauge.capacity.clients import RecordWriter
from clawgauge.capacity.generator import Due, Lateness, LoadCommand, LoadListener, Place
from clawgauge.capacity.measure import search_targets
from clawgauge.capacity.scope import CapacityObserver, FinishedSteps, SearchScope, word_end
from clawgauge.capacity.search import TargetSearch
from clawgauge.fleet import limits
from clawgauge.fleet.connection import NodeConnection, ProbedNode
from clawgauge.fleet.driver import DriverContext, NodeDriver
from clawgauge.fleet.intake import refuse
from clawgauge.fleet.wire import (
    END_OF_LOAD,
    Assignment,
    DriverMessage,
    NodeMessage,
    ProbeRequest,
)
from clawgauge.journal import CellKey
from clawgauge.records import CAPACITY, Result, Target
from clawgauge.stats.load import Sample, sample_of

# A node that sends more records makes them up: no machine is so quick.
_MAX_CALLS_PER_S = 10_000
_MAX_CALLS_AT_FIRST = 100_000
_MAX_BYTES_PER_S = 20 << 20  # of records: some hundred a second, of long answers
_MAX_NAME_CHARS = 100


async def load_together(
    observer: CapacityObserver,
    finished_steps: FinishedSteps,
    nodes: Sequence[ProbedNode],
    context: DriverContext,
) -> None:
    """Load one target after another, from the node that it names or from all."""
    for target in context.plan.targets:
        # A target may name its node, as `attic.ollama:MODEL`.
        loading_nodes = [node for node in nodes if target.provider.startswith(f"{node.name}.")]
        generator = FleetLoadGenerator(context.plan.work.done)
        for number, node in enumerate(loading_nodes or nodes):
            generator.shares.append(LoadShare(generator, number, node, target, context))
        scope = SearchScope(
            plan=context.plan,
            target=target,
            generator=generator,
            record_event=context.event,
            observer=observer,
            finished_steps=finished_steps,
        )
        await _load_from(generator.shares, TargetSearch(scope))


async def _load_from(shares: Sequence[LoadShare], search: TargetSearch) -> None:
    """Search until the search ends or a node does, then end the load on the other nodes.

    The search is no task of the group: it is ended before the nodes are, which then have their
    time to end the load.
    """
    searching = asyncio.ensure_future(search_targets([search]))
    try:
        async with asyncio.TaskGroup() as group:
            driving = [group.create_task(share.drive()) for share in shares]
            try:
                await asyncio.wait([searching, *driving], return_when=asyncio.FIRST_COMPLETED)
                if not searching.done():
                    reason = "the load has ended with its node"
                    search.scope.observer.notice(word_end(reason, search.n_measured))
            finally:
                searching.cancel()
            for share, drive in zip(shares, driving, strict=True):
                if share.has_begun.is_set():
                    share.send(END_OF_LOAD)
                else:
                    drive.cancel()  # who is not there yet need not come
    finally:
        await asyncio.wait([searching])
    if not searching.cancelled():
        searching.result()


class FleetLoadGenerator:
    """The nodes of one load as one load generator."""

    ends_with_task_group = False  # clients on other machines do not

    def __init__(self, done: Iterable[CellKey] = ()) -> None:
        """`done` are the cells that have a record already."""
        self.origin_ns = perf_counter_ns()
        self.shares: list[LoadShare] = []
        self.recorded = set(done)
        self._listener: LoadListener | None = None
        self._open_probes: dict[str, asyncio.Future[Result]] = {}

    def attach(self, group: asyncio.TaskGroup, listener: LoadListener) -> None:
        self._listener = listener

    def apply(self, command: LoadCommand) -> None:
        n_shares = len(self.shares)
        for number, share in enumerate(self.shares):
            # Together they have as many calls under way as are allowed, and not one more.
            max_in_flight = (command.max_in_flight + n_shares - 1 - number) // n_shares
            part = replace(
                command,
                starts=_take_share(command.starts, number, n_shares),
                arrivals=_take_share(command.arrivals, number, n_shares),
                max_in_flight=max_in_flight,
            )
            share.send(DriverMessage(command=part))

    async def get_ready(self) -> None:
        """Wait until every node has sent something of its own accord, and is ready for calls."""
        for share in self.shares:
            await share.has_begun.wait()
        await self.read_lateness()

    async def probe(self, name: str, n_chars: int, key: str) -> Result:
        answer = asyncio.Future[Result]()
        self._open_probes[name] = answer
        self.shares[0].send(DriverMessage(probe=ProbeRequest(name, n_chars, key)))
        return await answer

    async def read_lateness(self) -> Mapping[str, Lateness]:
        for share in self.shares:
            share.send(DriverMessage(read_lateness=True))
        lateness_by_node = {}
        for share in self.shares:
            lateness_by_node[f"node {share.node.name}"] = await share.lateness.get()
        return lateness_by_node

    def take_result(self, result: Result) -> None:
        """A node's call has ended: it answers the probe of its name, or is one of the load."""
        probe = self._open_probes.pop(result.prompt_id, None)
        if probe is None:
            self.call_ended(result.prompt_id, sample_of(result))
        elif not probe.done():
            probe.set_result(result)

    def call_ended(self, step: str, sample: Sample) -> None:
        if self._listener is not None:
            self._listener.call_ended(step, sample)

    def client_left(self, number: int) -> None:
        if self._listener is not None:
            self._listener.client_left(number)


def _take_share(due_times: Sequence[Due], share_number: int, n_shares: int) -> list[Due]:
    """Of clients or arrivals every n-th, from the one of this number on."""
    return [due for due in due_times if due.number % n_shares == share_number]


class LoadShare(NodeDriver):
    """Drives one node's share of a load."""

    lost_consequence = "the load ends there"

    def __init__(
        self,
        generator: FleetLoadGenerator,
        number: int,
        node: ProbedNode,
        target: Target,
        context: DriverContext,
    ) -> None:
        super().__init__(node, [target], context)
        self.has_begun = asyncio.Event()
        """The work was handed out."""
        self.lateness: asyncio.Queue[Lateness] = asyncio.Queue()
        self._generator = generator
        self._number = number
        self._records = RecordWriter(context.folder)
        self._recorded = generator.recorded  # by all shares: no cell comes twice
        self._connection: NodeConnection | None = None
        self._n_unanswered = 0  # of the requests for its lateness
        self._n_taken = 0

    def send(self, message: DriverMessage) -> None:
        """Send a message of the load, if the work was handed out."""
        if self._connection is None:
            return
        if message.read_lateness:
            self._n_unanswered += 1
        self._connection.send(message)

    @property
    def _max_time_s(self) -> float:
        capacity = self.context.plan.capacity
        return 0.0 if capacity is None else capacity.max_time_s

    def max_bytes(self) -> int:
        return round(_MAX_BYTES_PER_S * self._max_time_s)

    def max_idle_s(self) -> float:
        """A load has calls under way for as long as it may take, or is told to wait."""
        options = self.context.options
        return limits.idle_s(options.timeout_s + self._max_time_s, 1, options.max_wait_s)

    def count_record(self) -> None:
        """Bounded by the time there was to make calls: see `check`."""

    def make_assignment(self) -> Assignment:
        # When the load began, by the clock of the node.
        elapsed_ns = perf_counter_ns() - self._generator.origin_ns
        ahead_ns = round(self.node.clock.offset_ms * 1e6)
        return replace(
            super().make_assignment(),
            place=Place(self._number, len(self._generator.shares)),
            origin_ns=time.time_ns() - elapsed_ns + ahead_ns,
        )

    async def receive_work(self, connection: NodeConnection) -> None:
        self._connection = connection
        self.has_begun.set()
        await super().receive_work(connection)

    async def take(self, message: NodeMessage) -> bool:
        """As of any node; while its lateness is waited for, nothing but that is progress."""
        if message.lateness is not None:
            self._n_unanswered -= 1
            if self.lateness.empty():
                self.lateness.put_nowait(message.lateness)
            return True
        if message.client_left is not None:
            self._generator.client_left(message.client_left)
            return False
        is_new = await super().take(message)
        return is_new and self._n_unanswered == 0

    def check(self, result: Result) -> Result:
        self._n_taken += 1
        is_of_load = result.load is not None and result.suite == CAPACITY
        if (
            not is_of_load
            or not self._is_own_cell(result)
            or len(result.prompt_id) > _MAX_NAME_CHARS
        ):
            refuse(self.node.name, "a record of what is not its to ask")
        elapsed_s = (perf_counter_ns() - self._generator.origin_ns) / 1e9
        max_taken = _MAX_CALLS_AT_FIRST + _MAX_CALLS_PER_S * elapsed_s
        if self._n_taken > max_taken or _has_impossible_figure(result):
            refuse(
                self.node.name, "more records than calls can be made, or a figure that cannot be"
            )
        return self.adopt(result, prompt_name=result.prompt_id, expected_tools=[])

    def _is_own_cell(self, result: Result) -> bool:
        """Whether the node may have made this call."""
        stretch = self.context.plan.work.stretch
        if result.stretch == stretch:
            return result.repeat % len(self._generator.shares) == self._number
        # In a stretch before this one its place may have been another.
        return 0 <= result.stretch < stretch

    async def record(self, result: Result) -> None:
        self._records.put(result)
        self._generator.take_result(result)

    async def flush(self) -> None:
        await self._records.flush()


def _has_impossible_figure(result: Result) -> bool:
    """Whether a figure of a call under load is one that no reader of JSON can hold."""
    load = result.load
    figures: list[float | None] = [
        result.timings_us.e2e,
        result.timings_us.ttft,
        result.input_tokens,
        result.output_tokens,
        result.cached_tokens,
        result.reasoning_tokens,
    ]
    if load is not None:
        figures += [load.due_us, load.queued_us, load.first_share, *load.gaps_us]
    figures += (result.server_us or {}).values()
    return any(abs(figure or 0) > limits.MAX_COUNT for figure in figures)
