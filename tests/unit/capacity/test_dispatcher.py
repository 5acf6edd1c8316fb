"""The load itself, against a server made of arithmetic: who starts when, who goes on, and who is counted."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from itertools import pairwise
from time import perf_counter_ns
from typing import Any

import pytest

from clawgauge.capacity.clients import ClientPool, DueCall
from clawgauge.capacity.dispatcher import Dispatcher, poisson_arrivals
from clawgauge.capacity.generator import LoadCommand
from clawgauge.stats.load import Sample

SERVICE_S = 0.02


class Server(ClientPool):
    """So many slots of one service time, in virtual time; keeps how many were out at once, and what was answered."""

    def __init__(self, slots: int, *, agents: bool = False) -> None:
        super().__init__(perf_counter_ns(), are_agents=agents)
        self.free = [0.0] * slots
        self.out = self.most = 0
        self.answered: list[Sample] = []
        self.sessions: list[tuple[int, float, str]] = []

    def dispatcher(self, group: asyncio.TaskGroup) -> Dispatcher:
        dispatcher = Dispatcher(self.apply, LoadCommand(), self.origin_ns)
        self.attach(group, dispatcher)
        return dispatcher

    async def ask(self, command: LoadCommand, call: DueCall) -> Sample:
        now_s = (perf_counter_ns() - self.origin_ns) / 1e9
        self.out += 1
        self.most = max(self.most, self.out)
        self.sessions.append((call.client, call.context_share, call.session))
        ends_s = max(now_s, heapq.heappop(self.free)) + SERVICE_S
        heapq.heappush(self.free, ends_s)
        await asyncio.sleep(ends_s - now_s)
        self.out -= 1
        due_ms = (call.due_ns - self.origin_ns) / 1e6
        queued_ms = now_s * 1000 - due_ms
        e2e_ms = (perf_counter_ns() - self.origin_ns) / 1e6 - due_ms - queued_ms
        self.answered.append(
            Sample(call.client, due_ms, queued_ms, e2e_ms, e2e_ms, True, None, None, None, ())
        )
        return self.answered[-1]


def noting(*what: list[int], server: Server | None = None) -> Callable[[], Awaitable[None]]:
    async def opened() -> None:
        for one in what:
            one.append(server.out if server else 0)

    return opened


def seen(n: int) -> Callable[[list[Sample], float], bool]:
    return lambda samples, seconds: len(samples) >= n


def test_from_one_level_to_the_next_the_load_goes_on_and_only_what_is_steady_counts() -> None:
    async def grow() -> None:
        server, opened = Server(4), list[int]()
        until_ns = perf_counter_ns() + 200 * 10**9
        async with asyncio.TaskGroup() as group:
            dispatcher, note = server.dispatcher(group), noting(opened, server=server)
            await dispatcher.hold_clients("a", 1, until_ns, note, seen(3))
            held = await dispatcher.hold_clients("b", 4, until_ns, note, seen(20))
            more = await dispatcher.hold_clients("c", 12, until_ns, note, seen(36))
            assert server.most == 12
            fewer = await dispatcher.hold_clients("d", 2, until_ns, note, seen(4))
            await dispatcher.stop_clients()
        assert held and more and fewer
        assert {one.client for one in more.samples} == set(range(12)), "a client was not heard"
        assert {one.client for one in fewer.samples} == {0, 1}, "who was too many did not leave"
        for part, level in ((held, 4), (more, 12)):
            from_ms, to_ms = ((at - server.origin_ns) / 1e6 for at in (part.from_ns, part.to_ns))
            assert all(from_ms < one.ended_ms <= to_ms + 1 for one in part.samples)
            # At once means at once: nobody had stopped before the window ended.
            assert len(part.samples) >= level
        # Whoever stays asks again in the instant it was answered, from the first level to the last.
        mine = sorted(one for one in server.answered if one.client == 0)
        assert all(
            later.due_ms == pytest.approx(sooner.ended_ms, abs=0.01)
            for sooner, later in pairwise(mine)
        )
        assert server.out == 0 and len(mine) > 10

    asyncio.run(grow())


def test_what_was_seen_is_looked_at_now_and_then_not_at_every_answer() -> None:
    """Looking holds the loop on which the stamps are taken."""

    async def look() -> None:
        server, looks = Server(64), list[int]()

        def enough(samples: list[Sample], seconds: float) -> bool:
            looks.append(len(samples))
            return len(samples) >= 400

        async with asyncio.TaskGroup() as group:
            dispatcher = server.dispatcher(group)
            held = await dispatcher.hold_clients(
                "a", 64, perf_counter_ns() + 200 * 10**9, noting(), enough
            )
            await dispatcher.stop_clients()
        assert held is not None and len(held.samples) == looks[-1] and len(looks) < looks[-1] / 8

    asyncio.run(look())


def test_a_load_that_is_never_steady_is_no_step() -> None:
    class Hanging(Server):
        async def ask(self, *_: object) -> Sample:
            await asyncio.sleep(3600)
            raise AssertionError

    async def wait() -> None:
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.TaskGroup() as group:
                dispatcher = Hanging(1).dispatcher(group)
                assert (
                    await dispatcher.hold_clients(
                        "a", 2, perf_counter_ns() + 10**7, noting(), seen(1)
                    )
                    is None
                )
                raise asyncio.CancelledError

    asyncio.run(wait())


def test_who_may_ask_no_more_ends_the_load() -> None:
    class Spent(Exception): ...

    class Dear(Server):
        async def ask(self, *call: Any) -> Sample:
            if len(self.answered) >= 5:
                raise Spent
            return await super().ask(*call)

    async def work() -> None:
        with pytest.raises(ExceptionGroup) as ended:
            async with asyncio.TaskGroup() as group:
                dispatcher = Dear(2).dispatcher(group)
                try:
                    await dispatcher.hold_clients(
                        "a", 2, perf_counter_ns() + 200 * 10**9, noting(), seen(1000)
                    )
                finally:
                    await dispatcher.stop_clients()
        assert ended.group_contains(Spent)

    asyncio.run(work())


def test_arrivals_are_drawn_beforehand_and_a_full_house_is_counted() -> None:
    arrivals = poisson_arrivals(200.0, 10.0, "seed")
    assert arrivals == poisson_arrivals(200.0, 10.0, "seed") and arrivals == sorted(arrivals)
    assert 1850 < len(arrivals) < 2150, "not the rate that was asked for"

    async def crowded() -> None:
        server = Server(1)
        due = [n / 1000 for n in range(1, 60)]
        async with asyncio.TaskGroup() as group:
            held = await server.dispatcher(group).play_arrivals("a", due, (0.01, 0.05), 3, noting())
            await server.wait_for_ended_arrivals()
        # All due in the window are there: answered, or counted as dropped.
        inside = [
            one
            for one in held.samples
            if held.from_ns < server.origin_ns + one.due_ms * 1e6 <= held.to_ns + 1e3
        ]
        assert held.n_dropped > 0 and server.most <= 3
        assert len(inside) + held.n_dropped in (39, 40, 41)

    asyncio.run(crowded())


def test_an_agent_grows_its_context_and_fans_out() -> None:
    async def work() -> list[tuple[int, float, str]]:
        server = Server(8, agents=True)
        async with asyncio.TaskGroup() as group:
            dispatcher = server.dispatcher(group)
            await dispatcher.hold_clients(
                "a", 1, perf_counter_ns() + 200 * 10**9, noting(), seen(8)
            )
            await dispatcher.hold_clients(
                "b", 1, perf_counter_ns() + 200 * 10**9, noting(), seen(2), restart_spacing_ms=1.0
            )
            await dispatcher.stop_clients()
        return server.sessions

    # The pauses for tools are real; shorter ones will do.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clawgauge.capacity.clients._TOOLS_MEAN_S", 0.001)
        sessions = asyncio.run(work())
    shares = [share for _, share, name in sessions if name.startswith(sessions[0][2][:-1])]
    assert shares == sorted(shares) and shares.count(0.7) == 3
    # Who leaves and comes back says nothing that the server has read before.
    begun = [name for _, share, name in sessions if share == 0.4]
    assert len(set(begun)) == len(begun) > 1
