"""A load that several machines make together: who of them does what, and who hears of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any, cast

import pytest

from clawgauge.capacity.clients import THIS_PROGRAM, DueCall
from clawgauge.capacity.dispatcher import Dispatcher
from clawgauge.capacity.generator import ALONE, Lateness, LoadCommand, LoadListener
from clawgauge.capacity.probes import Calibration, LengthCheck, Prober
from clawgauge.capacity.prompts import TokenScale
from clawgauge.capacity.scope import SearchScope
from clawgauge.capacity.search import TargetSearch
from clawgauge.fleet import load, node
from clawgauge.fleet.connection import ClockOffset, NodeAddress, ProbedNode
from clawgauge.fleet.driver import DriverContext
from clawgauge.fleet.load import FleetLoadGenerator
from clawgauge.fleet.wire import DriverMessage, Hello, NodeLost, NodeMessage
from clawgauge.records import Load, Prompt, Result
from clawgauge.runner.context import RunContext
from clawgauge.stats.load import Sample
from support.sample_runs import make_result
from support.waiting import PATIENCE_S
from unit.capacity.test_dispatcher import Server, noting, seen
from unit.capacity.test_measure import TARGET, Box, Told, made


class Share:
    """A machine that hears its orders at once."""

    def __init__(self, server: Server, group: asyncio.TaskGroup, listener: LoadListener) -> None:
        self.server = server
        self.commands: list[LoadCommand] = []
        server.attach(group, listener)

    def send(self, message: DriverMessage) -> None:
        assert message.command is not None
        self.commands.append(message.command)
        self.server.apply(message.command)


def probed(name: str) -> ProbedNode:
    return ProbedNode(NodeAddress(name, []), Hello("", "", "", 0), [], ClockOffset())


def shared(context: RunContext) -> DriverContext:
    """What the drivers of the nodes of this run have."""
    plan = context.plan
    return DriverContext(plan, plan.settings.recorded(), context.folder, context.observer, print)


def test_every_client_and_every_arrival_is_one_machines_and_all_are_heard_of() -> None:
    async def work() -> None:
        servers, fleet = [Server(4), Server(4), Server(4)], FleetLoadGenerator()
        for server in servers:
            server.origin_ns = fleet.origin_ns
        dispatcher = Dispatcher(fleet.apply, LoadCommand(), fleet.origin_ns)
        async with asyncio.TaskGroup() as group:
            shares = [Share(server, group, dispatcher) for server in servers]
            fleet.shares = cast(Any, shares)
            held = await dispatcher.hold_clients(
                "a", 7, perf_counter_ns() + 200 * 10**9, noting(), seen(40)
            )
            await dispatcher.stop_clients()
            clients = [{one.client for one in server.answered} for server in servers]
            assert clients == [{0, 3, 6}, {1, 4}, {2, 5}]
            assert held and {one.client for one in held.samples} == set(range(7))
            for server in servers:
                server.answered.clear()
            played = await dispatcher.play_arrivals(
                "b", [n / 500 for n in range(60)], (0.02, 0.08), 100, noting()
            )
            asked = [{one.client for one in server.answered} for server in servers]
            assert asked[1] and all(
                one % 3 == place for place, mine in enumerate(asked) for one in mine
            )
            assert {one.client for one in played.samples} >= set(
                range(11, 41)
            ) and played.n_dropped == 0
            assert [share.commands[-2].max_in_flight for share in shares] == [34, 33, 33]
        assert not any(server.out for server in servers)

    asyncio.run(work())


def test_the_clients_of_one_length_have_left_before_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the first is over with its clients asking; no task group of ours ends them elsewhere."""
    n_out, most = Counter[int](), Counter[int]()

    class Node(Server):
        async def ask(self, command: LoadCommand, call: DueCall) -> Sample:
            n_out[call.client] += 1
            most[call.client] = max(most[call.client], n_out[call.client])
            try:
                return await super().ask(command, call)
            finally:
                n_out[call.client] -= 1

    class Nodes(FleetLoadGenerator):
        def attach(self, group: asyncio.TaskGroup, listener: LoadListener) -> None:
            for server in servers:
                server.attach(elsewhere, listener)

        async def get_ready(self) -> None:
            pass

        async def read_lateness(self) -> dict[str, Lateness]:
            return {}

    servers, elsewhere = [Node(4), Node(4)], cast(asyncio.TaskGroup, None)

    async def calibrate(self: Prober) -> Calibration:
        return Calibration(TokenScale(), repeats_codes=False, largest_count=0)

    async def check_length(*_: object) -> LengthCheck:
        return LengthCheck(arrives_whole=True, call_ms=0.0)

    async def work() -> None:
        nonlocal elsewhere
        fleet, told, loaded = Nodes(), Told(), set[str]()
        context = made(tmp_path, Box(""), contexts=[1000, 2000], max_time_s=0.5)

        def apply(command: LoadCommand) -> None:
            loaded.add(command.step.partition("/")[0])
            FleetLoadGenerator.apply(fleet, command)

        fleet.apply = apply  # type: ignore[method-assign]
        search = TargetSearch(
            SearchScope(context.plan, TARGET, fleet, lambda *_, **__: None, told, {})
        )
        async with asyncio.TaskGroup() as elsewhere:
            for server in servers:
                server.origin_ns = fleet.origin_ns
            fleet.shares = [
                cast(Any, Share(server, elsewhere, cast(Any, fleet))) for server in servers
            ]
            with context.folder:
                await search.measure()
            fleet.apply(LoadCommand())
        assert loaded >= {"1000", "2000"} and most[0] == 1, (told.all, most)

    monkeypatch.setattr(Prober, "calibrate", calibrate)
    monkeypatch.setattr(Prober, "check_length", check_length)
    asyncio.run(work())


def test_a_lost_node_ends_the_search_before_the_others_have_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nobody waits for a node that is not there yet."""

    async def work() -> None:
        searching, ended = asyncio.Event(), asyncio.Event()

        async def search(_: object) -> None:
            searching.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async def drive(self: load.LoadShare) -> None:
            await searching.wait()
            if self.node.name == "slow":
                await asyncio.Event().wait()
            elif self.node.name == "there":
                self.has_begun.set()
                await ended.wait()
            # The third is lost.

        monkeypatch.setattr(load, "search_targets", search)
        monkeypatch.setattr(load.LoadShare, "drive", drive)
        context = made(tmp_path, Box(""))
        nodes = [probed(name) for name in ("slow", "there", "lost")]
        with context.folder:
            loading = load.load_together(Told(), {}, nodes, shared(context))
            await asyncio.wait_for(loading, PATIENCE_S)

    asyncio.run(work())


def test_what_an_earlier_stretch_left_on_a_node_is_taken_in_whatever_place_it_has_now(
    tmp_path: Path,
) -> None:
    """And no cell comes twice; of this stretch each has its own."""
    context, records = made(tmp_path, Box("")), list[Result]()
    plan = replace(context.plan, work=replace(context.plan.work, stretch=1))
    prompt = Prompt(id="1000/c2", name="", prompt="", validator={"type": "noop"}, suite="capacity")
    due = Load(client=1, due_us=0, queued_us=0)

    class Kept(load.LoadShare):
        async def record(self, result: Result) -> None:
            records.append(result)

    async def work() -> None:
        fleet = FleetLoadGenerator()
        run = shared(replace(context, plan=plan))
        fleet.shares = [
            Kept(fleet, n, probed(name), TARGET, run) for n, name in enumerate(("ana", "bob"))
        ]
        for repeat, stretch in ((1, 0), (2, 0), (0, 1)):
            result = make_result(TARGET, prompt, repeat=repeat, stretch=stretch, load=due)
            await fleet.shares[0].take(NodeMessage(result=result))
        await fleet.shares[1].take(
            NodeMessage(result=make_result(TARGET, prompt, repeat=2, load=due))
        )
        for repeat, stretch in ((1, 1), (0, 2), (1, -1)):
            with pytest.raises(NodeLost, match="not its to ask"):
                await fleet.shares[0].take(
                    NodeMessage(
                        result=make_result(TARGET, prompt, repeat=repeat, stretch=stretch, load=due)
                    )
                )
        assert [(one.repeat, one.node) for one in records] == [(1, "ana"), (2, "ana"), (0, "ana")]

    with context.folder:
        asyncio.run(work())


def test_a_node_that_is_still_getting_ready_hears_that_the_load_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or that its driver is gone."""

    class Loading(Server):
        def __init__(self, *_: object) -> None:
            super().__init__(1)
            self.records = self

        async def get_ready(self) -> None:
            await asyncio.Event().wait()

        async def read_lateness(self) -> dict[str, Lateness]:
            return {THIS_PROGRAM: Lateness(0, 0.0, 0.0)}

        async def flush(self) -> None:
            flushed.append(True)

    async def obey(last: DriverMessage | None) -> None:
        program: Any = object.__new__(node.NodeProgram)
        program._messages = asyncio.Queue()
        program._send = len
        program._messages.put_nowait(DriverMessage(read_lateness=True))
        program._messages.put_nowait(last)
        assignment = SimpleNamespace(origin_ns=0, place=ALONE)
        loading = program._make_load(assignment, None, {TARGET: None}, None)
        await asyncio.wait_for(loading, PATIENCE_S)

    flushed = list[bool]()
    monkeypatch.setattr(node, "LocalLoadGenerator", Loading)
    asyncio.run(obey(DriverMessage()))
    asyncio.run(obey(None))
    assert flushed == [True, True]
