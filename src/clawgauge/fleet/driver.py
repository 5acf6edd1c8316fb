"""The driver of a run on other machines: it hands the work out, and alone writes the folder.

What a node sends is trusted no more than what a server sends: it may only add records of its own
targets, of cells that were planned and have none, and files and events by names that are known.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import asdict, replace

from clawgauge.config.providers import Tell
from clawgauge.errors import CallFailure
from clawgauge.fleet import limits
from clawgauge.fleet.connection import NodeConnection, ProbedNode, connect
from clawgauge.fleet.intake import EventIntake, FileIntake, refuse
from clawgauge.fleet.wire import (
    Assignment,
    DriverMessage,
    EarlierCalls,
    NodeLost,
    NodeMessage,
)
from clawgauge.journal import CellKey, cell_key, iter_results
from clawgauge.journal.folder import RunFolder
from clawgauge.outcomes import CallOutcome, CellOutcome
from clawgauge.plan import Plan
from clawgauge.providers.base import ProviderSettings
from clawgauge.records import (
    CellRow,
    Event,
    Price,
    Result,
    RunConfig,
    RunOptions,
    Target,
    plan_targets,
)
from clawgauge.run_data import Run
from clawgauge.runner.agenda import Cell, cost_budget
from clawgauge.runner.agendas import make_agenda
from clawgauge.runner.context import Observer
from clawgauge.runner.record import RAW_OUTPUT_CAP_BYTES, STRING_CAP_BYTES, Source, make_result
from clawgauge.suites.prompt import DEFAULT_MAX_TURNS

# After Ctrl-C: what is recorded on the node by then comes along.
_LEAVE_S = 10.0


@dataclass(frozen=True, slots=True)
class DriverContext:
    """What the drivers of all nodes of a run share."""

    plan: Plan
    options: RunOptions
    folder: RunFolder
    observer: Observer
    tell: Tell

    def event(self, name: str, target: Target | None, **detail: object) -> None:
        """Write an event of our own, of one target or of the whole run."""
        at_ms = time.time_ns() // 1_000_000
        label = None if target is None else target.label
        self.folder.event(Event(event=name, at_ms=at_ms, target=label, detail=detail))


DriveWork: TypeAlias = Callable[[Sequence[ProbedNode], DriverContext], Awaitable[None]]
"""Has nodes do the work of a run, and returns when all of it is recorded."""


@dataclass(frozen=True, slots=True)
class JoinedNodes:
    """The machines that ask a run's models."""

    nodes: Sequence[ProbedNode]
    providers: Mapping[str, ProviderSettings]
    """By the names that they have in the targets of the run."""
    tell: Tell

    async def drive(
        self,
        plan: Plan,
        folder: RunFolder,
        observer: Observer,
        load: DriveWork | None = None,
    ) -> None:
        """A stretch of a run: every node asks its targets, or they make a `load` together.

        Returns when all is recorded; cancelled, after a farewell.
        """
        options = plan.settings.recorded()
        context = DriverContext(plan, options, folder, observer, self.tell)
        stretch = plan.work.stretch
        outcome = "interrupted"
        context.event("stretch_started", None, stretch=stretch, options=asdict(options))
        try:
            if load is not None:
                await load(self.nodes, context)
            else:
                await _drive_nodes(self.nodes, context)
            outcome = "finished"
        finally:
            context.event("stretch_ended", None, stretch=stretch, outcome=outcome)


async def _drive_nodes(nodes: Sequence[ProbedNode], context: DriverContext) -> None:
    """Have every node ask its targets, side by side."""
    plan = context.plan
    cost = cost_budget(plan)
    drivers = []
    for node in nodes:
        prefix = f"{node.name}."
        targets = [target for target in plan.targets if target.provider.startswith(prefix)]
        drivers.append(NodeDriver(node, targets, context))
    async with asyncio.TaskGroup() as group:
        for driver in drivers:
            if any(make_agenda(plan, target, cost).n_open for target in driver.targets.values()):
                group.create_task(driver.drive())


class NodeDriver:
    """Drives one node: hands out its part of a run, and records what comes of it."""

    lost_consequence = "what it was still to ask is recorded as node_lost"
    """What becomes of the work of a node that is lost."""

    def __init__(self, node: ProbedNode, targets: Sequence[Target], context: DriverContext) -> None:
        plan = context.plan
        self.node = node
        self.context = context
        self.targets: dict[Target, Target] = {}
        """The run's targets by the node's own, which do not have its name before them."""
        for target in targets:
            provider_there = target.provider.removeprefix(f"{node.name}.")
            self.targets[replace(target, provider=provider_there)] = target
        self._agendas = {target: make_agenda(plan, target) for target in targets}
        self._prompts = {prompt.key: prompt for prompt in plan.asked}
        self._events = EventIntake(node, self.targets, plan, context.folder, context.observer)
        self._files = FileIntake(node, self.targets, context.folder)
        self._n_cells = len(self.targets) * len(plan.prompts) * plan.settings.repeats
        self._n_records = 0
        self._recorded: set[CellKey] = set(plan.work.done)

    async def drive(self) -> None:
        """Hand out the work and record what comes of it; a node that is lost is recorded too."""
        context = self.context
        try:
            async with connect(self.node.address, context.tell) as connection:
                self._record_joined(connection)
                for target, agenda in self._agendas.items():
                    context.observer.target_started(target, agenda.n_open)
                connection.begin_work(self.max_bytes(), self.max_idle_s())
                connection.send(DriverMessage(assignment=self.make_assignment()))
                try:
                    await self.receive_work(connection)
                except asyncio.CancelledError:
                    await self._stop(connection)
                    raise
        except NodeLost as lost:
            why = context.plan.redact(str(lost))
            context.event("node_lost", None, node=self.node.name, why=why)
            context.tell(f"{why}; {self.lost_consequence}")
            await self._give_up(CallFailure("skipped_unavailable", "node_lost", why))

    def _record_joined(self, connection: NodeConnection) -> None:
        hello = connection.hello
        assert hello is not None  # noqa: S101  # a connection begins with it
        self.context.event(
            "node_joined",
            None,
            node=self.node.name,
            version=hello.version,
            python=hello.python,
            host=hello.host,
            nice=hello.niceness,
            offset_ms=self.node.clock.offset_ms,
            error_ms=self.node.clock.error_ms,
        )

    async def _stop(self, connection: NodeConnection) -> None:
        """Have the node end its work, and take what it has recorded by then."""
        connection.send(DriverMessage(stop=True))
        with suppress(NodeLost, TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await self.receive_work(connection)

    def max_bytes(self) -> int:
        """How much may come of the work, beside what every node may send."""
        return limits.bytes_of_cells(self._n_cells) + self._events.bytes_left

    def max_idle_s(self) -> float:
        """How long the node may take for anything of its work: a task's turns are one record."""
        n_turns = 1
        for prompt in self.context.plan.asked:
            if prompt.world is not None:
                n_turns = max(n_turns, prompt.max_turns or DEFAULT_MAX_TURNS)
        options = self.context.options
        return limits.idle_s(options.timeout_s, n_turns, options.max_wait_s)

    def make_assignment(self) -> Assignment:
        """The node's part of the plan, with nothing of the other nodes."""
        plan = self.context.plan
        work = plan.work
        their_target = {ours: theirs for theirs, ours in self.targets.items()}
        prices: dict[str, Price | None] = {}
        for target, price in plan.prices.items():
            if target in their_target:
                prices[their_target[target].label] = price
        done = []
        for key in work.done:
            theirs = their_target.get(Target(key.provider, key.model, key.thinking_level))
            if theirs is not None:
                done.append(key._replace(provider=theirs.provider))
        earlier = []
        for ours, theirs in their_target.items():
            if ours in work.answers:
                answers = work.answers[ours]
                earlier.append(
                    EarlierCalls(target=theirs, n_calls=answers.n_calls, cost_usd=answers.cost_usd)
                )
        return Assignment(
            config=self._make_config(prices),
            asked=list(self._prompts),
            free=[their_target[target] for target in plan.free if target in their_target],
            done=done,
            earlier=earlier,
            beside_usd=work.beside_usd,
            stretch=work.stretch,
            present_files=self._files.find_present(),
        )

    def _make_config(self, prices: dict[str, Price | None]) -> RunConfig:
        config = Run.open(self.context.folder.path).config
        assert config is not None  # noqa: S101  # the run was begun with it
        return RunConfig(
            schema_version=config.schema_version,
            run_id=config.run_id,
            created_at_ms=config.created_at_ms,
            clawgauge_version=config.clawgauge_version,
            models=[],
            planned_targets=plan_targets(self.targets),
            suites=[],
            prompts=self.context.plan.prompts,
            prompts_sha256=config.prompts_sha256,
            options=self.context.options,
            prices=prices,
            capacity=self.context.plan.capacity,
        )

    async def receive_work(self, connection: NodeConnection) -> None:
        """Record what the node sends until it says that this was all.

        Then it is told whether it need keep its own records.
        """
        while True:
            message = await connection.receive()
            if message.is_end:
                break
            if await self.take(message):
                connection.note_progress()
        await self.flush()
        connection.send(DriverMessage(is_recorded=not self._has_lost_cells()))

    def _has_lost_cells(self) -> bool:
        """Whether cells of an earlier stretch count as lost.

        They may be answered there: that is fetched once the cell is open again.
        """
        if not self.context.plan.work.stretch:
            return False
        providers = {target.provider for target in self._agendas}
        for row in iter_results(self.context.folder.path, CellRow):
            if row.failure_type == "node_lost" and row.provider in providers:
                return True
        return False

    async def take(self, message: NodeMessage) -> bool:
        """Record what may be recorded. Returns whether it was anything new."""
        if message.result is not None:
            self.count_record()
            result = self.check(message.result)
            key = cell_key(result)
            if key in self._recorded:
                return False
            self._recorded.add(key)
            await self.record(result)
            return True
        if message.event is not None and message.event.event != "stretch_started":
            return self._events.take(message.event)
        if message.file is not None:
            self._files.take(message.file)
            return True
        return False

    def count_record(self) -> None:
        """Count a record that was sent, and refuse one too many."""
        self._n_records += 1
        most = limits.records_of_cells(self._n_cells)
        if self._n_records > most:
            refuse(self.node.name, f"more than the {most:,} records its work can have")

    def check(self, result: Result) -> Result:
        """The record as it is ours; one that the node may not send is refused."""
        prompt = self._prompts.get(result.prompt)
        if prompt is None or not 0 <= result.repeat < self.context.plan.settings.repeats:
            refuse(self.node.name, "a record of what is not its to ask")
        return self.adopt(result, prompt.name, prompt.expected_tools)

    def adopt(self, result: Result, prompt_name: str, expected_tools: list[str]) -> Result:
        """The record on our clock and under our names. Durations are as they were measured."""
        target = self.targets.get(result.target)
        if target is None:
            refuse(self.node.name, "a record of what is not its to ask")
        ahead_ms = round(self.node.clock.offset_ms)
        started_at_ms = result.started_at_ms - ahead_ms
        ended_at_ms = result.ended_at_ms - ahead_ms
        if abs(started_at_ms) + abs(ended_at_ms) > limits.MAX_COUNT:
            refuse(self.node.name, "a time that cannot be")
        if _is_too_long(result):
            refuse(self.node.name, "a record with more in it than any of ours has")
        return replace(
            result,
            prompt_name=prompt_name,
            expected_tools=expected_tools,
            run_id=self.context.folder.run_id,
            provider=target.provider,
            node=self.node.name,
            started_at_ms=started_at_ms,
            ended_at_ms=ended_at_ms,
        )

    async def record(self, result: Result) -> None:
        """Put a record that was checked into the folder."""
        agenda = self._agendas[result.target]
        if agenda.take(Cell(self._prompts[result.prompt], result.repeat)) is not None:
            agenda.learn(result)
        await self.context.folder.append(result)
        self.context.observer.recorded(result.target, result)

    async def flush(self) -> None:
        """Return once all that was taken is on disk."""

    async def _give_up(self, failure: CallFailure) -> None:
        """Record every open cell of the node as not asked."""
        await self.flush()
        plan = self.context.plan
        now_ms = time.time_ns() // 1_000_000
        not_asked = CellOutcome(call=CallOutcome.not_sent(failure, now_ms))
        for target, agenda in self._agendas.items():
            source = Source(
                self.context.folder.run_id, plan.work.stretch, target, plan.redact, None
            )
            while (cell := agenda.take()) is not None:
                result = replace(make_result(source, cell, not_asked), node=self.node.name)
                agenda.learn(result)
                await self.context.folder.append(result)
                self.context.observer.recorded(target, result)


def _is_too_long(result: Result) -> bool:
    """Whether the texts of a record are longer than any of ours."""
    strings = [
        result.error,
        result.failure_type,
        result.model_reported,
        result.finish_reason,
        result.tools_unseen,
        result.not_judged,
        *result.warnings,
    ]
    if _total_chars(strings) > 2 * STRING_CAP_BYTES:
        return True
    texts = [result.raw_output, result.reasoning_text, result.violation]
    return _total_chars(texts) > 3 * RAW_OUTPUT_CAP_BYTES


def _total_chars(texts: Sequence[str | None]) -> int:
    return sum(len(text) for text in texts if text)
