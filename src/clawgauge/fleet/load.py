"""A load that nodes make together: one search, here, and on each node the clients and arrivals that are its share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

from msgspec.structs import replace as change

from clawgauge.capacity.load import Go, Heard, Late, Left, Records
from clawgauge.capacity.measure import Done, TargetLoad, Told, search
from clawgauge.fleet import limits, wire
from clawgauge.fleet.driver import Part, note
from clawgauge.fleet.wire import Item, Member, Order, Talk
from clawgauge.journal import CellKey
from clawgauge.journal.folder import RunFolder
from clawgauge.plan import Plan
from clawgauge.records import CAPACITY, Result, RunOptions, Target
from clawgauge.stats.load import sample_of

_CALLS_PER_S, _AT_FIRST = (
    10_000,
    100_000,
)  # whoever tells of more makes them up: no machine is so quick
_BYTES_PER_S = 20 << 20  # of records: some hundred a second, of long answers


async def load_together(
    told: Told,
    done: Done,
    members: Sequence[Member],
    options: RunOptions,
    plan: Plan,
    folder: RunFolder,
    *others: Any,
) -> None:
    """Load one target after another from the node it names, or from all."""
    for target in plan.targets:
        own = [
            member for member in members if target.provider.startswith(f"{member.name}.")
        ] or members
        fleet = Fleet(plan.work.done)
        fleet.shares = [
            Share(fleet, n, member, target, plan, folder, *others) for n, member in enumerate(own)
        ]
        load = TargetLoad(told, done, plan, partial(note, folder), target, fleet)
        searching = asyncio.ensure_future(search([load]))
        try:
            async with asyncio.TaskGroup() as group:
                driving = [group.create_task(share.drive(options)) for share in fleet.shares]
                try:
                    await asyncio.wait([searching, *driving], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    searching.cancel()
                for share, drive in zip(fleet.shares, driving, strict=True):
                    if share.begun.is_set():
                        share.say(Order())
                    else:
                        drive.cancel()  # who is not there yet need not come
        finally:
            await asyncio.wait([searching])
        if not searching.cancelled():
            searching.result()


class Share(Part):
    """One node's share of a load: of clients and arrivals every n-th, from its own place on."""

    lost = "the load ends there, and what was measured stands"

    def __init__(self, fleet: Fleet, place: int, member: Member, target: Target, *run: Any) -> None:
        super().__init__(member, *run, targets=[target])
        self.name, self._fleet, self._place, self._records = (
            member.name,
            fleet,
            place,
            Records(self._folder),
        )
        self._talk: Talk | None = None
        self._n_marks_open = 0
        self.begun, self.late, self._n_taken, self._recorded = (
            asyncio.Event(),
            asyncio.Queue[Late](),
            0,
            fleet.recorded,
        )

    def say(self, order: Order) -> None:
        if self._talk is not None:
            self._n_marks_open += order.mark
            self._talk.say(order)

    def max_bytes(self) -> int:
        capacity = self._plan.capacity
        return round(_BYTES_PER_S * capacity.max_time_s) if capacity is not None else 0

    def max_idle_s(self, options: RunOptions) -> float:
        """A load has calls under way for as long as it may take, or is told to wait."""
        capacity = self._plan.capacity
        load_s = capacity.max_time_s if capacity is not None else 0.0
        return limits.idle_s(options.timeout_s + load_s, 1, options.max_wait_s)

    def count_record(self) -> None:
        """By the time there was to make calls: see `check`."""

    def work(self, options: RunOptions) -> wire.Work:
        began_ns = (
            time.time_ns()
            - (perf_counter_ns() - self._fleet.origin_ns)
            + round(self._member.offset_ms * 1e6)
        )
        return change(
            super().work(options), place=(self._place, len(self._fleet.shares)), origin_ns=began_ns
        )

    async def take(self, talk: Talk) -> None:
        self._talk = talk
        self.begun.set()
        await super().take(talk)

    async def keep(self, item: Item) -> bool:
        """While an answer is waited for, nothing but that is progress."""
        if item.late is not None:
            self._n_marks_open -= 1
            if self.late.empty():
                self.late.put_nowait(item.late)
            return True
        if item.left is not None:
            self._fleet.left(item.left)
            return False
        is_new = await super().keep(item)
        return is_new and self._n_marks_open == 0

    def check(self, result: Result, **ours: Any) -> Result:
        load, times, self._n_taken = result.load, result.timings_us, self._n_taken + 1
        now, n_shares = self._plan.work.stretch, len(self._fleet.shares)
        # In a stretch before this one its place may have been another.
        is_own = 0 <= result.stretch < now or (
            result.stretch == now and result.repeat % n_shares == self._place
        )
        if load is None or result.suite != CAPACITY or not is_own or len(result.prompt_id) > 100:
            self.refuse("a record of what is not its to ask")
        figures: list[float | None] = [
            load.due_us,
            load.queued_us,
            times.e2e,
            times.ttft,
            *load.gaps_us,
            *(result.server_us or {}).values(),
        ]
        figures += [
            load.first_share,
            result.input_tokens,
            result.output_tokens,
            result.cached_tokens,
            result.reasoning_tokens,
        ]
        may_be = _AT_FIRST + _CALLS_PER_S * (perf_counter_ns() - self._fleet.origin_ns) / 1e9
        if self._n_taken > may_be or any(abs(figure or 0) > limits.MAX_COUNT for figure in figures):
            self.refuse("more records than calls can be made, or a figure that cannot be")
        return super().check(result, prompt_name=result.prompt_id, expected_tools=[])

    async def record(self, result: Result) -> None:
        self._records.put(result)
        asked = self._fleet.briefs.pop(result.prompt_id, None)
        if asked is not None and not asked.done():
            asked.set_result(result)
        elif asked is None:
            self._fleet.heard(result.prompt_id, sample_of(result))

    async def flush(self) -> None:
        await self._records.flush()


class Fleet:
    """The nodes as one pair of hands, for a search."""

    def __init__(self, done: Iterable[CellKey] = ()) -> None:
        self.origin_ns, self.shares, self.recorded = perf_counter_ns(), list[Share](), set(done)
        self.heard: Heard = lambda step, sample: None
        self.left: Left = lambda number: None
        self.briefs: dict[str, asyncio.Future[Result]] = {}

    def enter(self, group: asyncio.TaskGroup, heard: Heard, left: Left) -> None:
        self.heard, self.left = heard, left

    def go(self, go: Go) -> None:
        n = len(self.shares)
        for place, share in enumerate(self.shares):
            starts, arrivals = (
                [one for one in all_ if one[0] % n == place] for all_ in (go.starts, go.arrivals)
            )
            at_most = (go.at_most + n - 1 - place) // n
            share.say(Order(go=change(go, starts=starts, arrivals=arrivals, at_most=at_most)))

    async def get_ready(self) -> None:
        """Until every node says something of itself."""
        for share in self.shares:
            await share.begun.wait()
        await self.mark()

    async def ask_briefly(self, name: str, n_chars: int, key: str) -> Result:
        asked = self.briefs[name] = asyncio.Future[Result]()
        self.shares[0].say(Order(brief=(name, n_chars, key)))
        return await asked

    async def mark(self) -> Mapping[str, Late]:
        for share in self.shares:
            share.say(Order(mark=True))
        return {f"node {share.name}": await share.late.get() for share in self.shares}
