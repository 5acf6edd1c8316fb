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

from clawgauge.capacity.load import Crowd, Go, Heard, Left
from clawgauge.capacity.measure import TargetLoad
from clawgauge.fleet import load, node
from clawgauge.fleet.load import Fleet
from clawgauge.fleet.wire import Item, Member, NodeLost, Order
from clawgauge.records import Load, Prompt, Result, RunOptions
from clawgauge.stats.load import Sample
from support.sample_runs import make_result
from support.waiting import PATIENCE_S
from unit.capacity.test_crowd import Server, noting, seen
from unit.capacity.test_measure import TARGET, Box, made


class Share:
    """A machine that hears its orders at once."""

    def __init__(self, server: Server, group: asyncio.TaskGroup, crowd: Crowd) -> None:
        self.server, self.orders = server, list[Go]()
        server.enter(group, crowd.heard, crowd.left)

    def say(self, order: Order) -> None:
        assert order.go is not None
        self.orders.append(order.go)
        self.server.go(order.go)


def test_every_client_and_every_arrival_is_one_machines_and_all_are_heard_of() -> None:
    async def work() -> None:
        servers, fleet = [Server(4), Server(4), Server(4)], Fleet()
        for server in servers:
            server.origin_ns = fleet.origin_ns
        crowd = Crowd(fleet.go, Go(), fleet.origin_ns)
        async with asyncio.TaskGroup() as group:
            shares = [Share(server, group, crowd) for server in servers]
            fleet.shares = cast(Any, shares)
            held = await crowd.hold("a", 7, perf_counter_ns() + 200 * 10**9, noting(), seen(40))
            await crowd.leave()
            clients = [{one.client for one in server.answered} for server in servers]
            assert clients == [{0, 3, 6}, {1, 4}, {2, 5}]
            assert held and {one.client for one in held.samples} == set(range(7))
            for server in servers:
                server.answered.clear()
            played = await crowd.play(
                "b", [n / 500 for n in range(60)], (0.02, 0.08), 100, noting()
            )
            asked = [{one.client for one in server.answered} for server in servers]
            assert asked[1] and all(
                one % 3 == place for place, mine in enumerate(asked) for one in mine
            )
            assert {one.client for one in played.samples} >= set(
                range(11, 41)
            ) and played.n_dropped == 0
            assert [share.orders[-2].at_most for share in shares] == [34, 33, 33]
        assert not any(server.out for server in servers)

    asyncio.run(work())


def test_the_clients_of_one_length_have_left_before_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the first is over with its clients asking; no task group of ours ends them elsewhere."""
    n_out, most = Counter[int](), Counter[int]()

    class Node(Server):
        async def ask(self, go: Go, client: int, *how: Any) -> Sample:
            n_out[client] += 1
            most[client] = max(most[client], n_out[client])
            try:
                return await super().ask(go, client, *how)
            finally:
                n_out[client] -= 1

    class Nodes(Fleet):
        def enter(self, group: asyncio.TaskGroup, heard: Heard, left: Left) -> None:
            for server in servers:
                server.enter(elsewhere, heard, left)

        async def get_ready(self) -> None:
            pass

        async def mark(self) -> dict[str, Any]:
            return {}

    servers, elsewhere = [Node(4), Node(4)], cast(asyncio.TaskGroup, None)

    async def nothing(*_: object) -> bool:
        return True

    async def work() -> None:
        nonlocal elsewhere
        fleet, told = Nodes(), list[Any]()
        context = made(tmp_path, Box(""), contexts=[1000, 2000], max_time_s=0.5)
        search = TargetLoad(
            lambda _, tokens, what: told.append((tokens, what)),
            {},
            context.plan,
            lambda *_, **__: None,
            TARGET,
            fleet,
        )
        async with asyncio.TaskGroup() as elsewhere:
            for server in servers:
                server.origin_ns = fleet.origin_ns
            fleet.shares = [
                cast(Any, Share(server, elsewhere, cast(Any, fleet))) for server in servers
            ]
            with context.folder:
                await search.measure()
            fleet.go(Go())
        assert {tokens for tokens, _ in told} == {1000, 2000} and most[0] == 1, (told, most)

    monkeypatch.setattr(TargetLoad, "_calibrate", nothing)
    monkeypatch.setattr(TargetLoad, "_arrives_whole", nothing)
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

        async def drive(self: load.Share, options: RunOptions) -> None:
            await searching.wait()
            if self.name == "slow":
                await asyncio.Event().wait()
            elif self.name == "there":
                self.begun.set()
                await ended.wait()
            # The third is lost.

        monkeypatch.setattr(load, "search", search)
        monkeypatch.setattr(load.Share, "drive", drive)
        context = made(tmp_path, Box(""))
        members = [Member(name, []) for name in ("slow", "there", "lost")]
        run = (cast(Any, None), context.plan, context.folder, context.observer, print)
        with context.folder:
            await asyncio.wait_for(
                load.load_together(lambda *_: None, {}, members, *run), PATIENCE_S
            )

    asyncio.run(work())


def test_what_an_earlier_stretch_left_on_a_node_is_taken_in_whatever_place_it_has_now(
    tmp_path: Path,
) -> None:
    """And no cell comes twice; of this stretch each has its own."""
    context, records = made(tmp_path, Box("")), list[Result]()
    plan = replace(context.plan, work=replace(context.plan.work, stretch=1))
    prompt = Prompt(id="1000/c2", name="", prompt="", validator={"type": "noop"}, suite="capacity")
    due = Load(client=1, due_us=0, queued_us=0)

    class Kept(load.Share):
        async def record(self, result: Result) -> None:
            records.append(result)

    async def work() -> None:
        fleet = Fleet()
        run = (TARGET, plan, context.folder, context.observer, print)
        fleet.shares = [
            Kept(fleet, n, Member(name, []), *run) for n, name in enumerate(("ana", "bob"))
        ]
        for repeat, stretch in ((1, 0), (2, 0), (0, 1)):
            result = make_result(TARGET, prompt, repeat=repeat, stretch=stretch, load=due)
            await fleet.shares[0].keep(Item(result=result))
        await fleet.shares[1].keep(Item(result=make_result(TARGET, prompt, repeat=2, load=due)))
        for repeat, stretch in ((1, 1), (0, 2), (1, -1)):
            with pytest.raises(NodeLost, match="not its to ask"):
                await fleet.shares[0].keep(
                    Item(
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

        async def mark(self) -> dict[str, Any]:
            return {"": (0, 0.0, 0.0)}

        async def flush(self) -> None:
            flushed.append(True)

    async def obey(last: Order | None) -> None:
        one: Any = object.__new__(node.Node)
        one._orders = asyncio.Queue()
        one._send = len
        one._orders.put_nowait(Order(mark=True))
        one._orders.put_nowait(last)
        work = SimpleNamespace(origin_ns=0, place=(0, 1))
        await asyncio.wait_for(one._follow(work, None, {TARGET: None}, None), PATIENCE_S)

    flushed = list[bool]()
    monkeypatch.setattr(node, "Machine", Loading)
    asyncio.run(obey(Order()))
    asyncio.run(obey(None))
    assert flushed == [True, True]
