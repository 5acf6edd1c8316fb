"""What is made of answers before and around a load: the real search and runner, and a server that is a function."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import pytest

from clawgauge.capacity.dispatcher import Dispatcher, SteadyWindow
from clawgauge.capacity.measure import measure_capacity
from clawgauge.capacity.scope import word_end
from clawgauge.capacity.search import LevelSearch
from clawgauge.errors import CallFailure
from clawgauge.journal.folder import RunFolder
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sink
from clawgauge.records import CapacityOptions, Price, Prompt, Slo, StepSummary, Target
from clawgauge.runner.agenda import Cell, CostBudget
from clawgauge.runner.agendas import make_agenda
from clawgauge.runner.clock import ClientClock
from clawgauge.runner.context import Observer, RunContext
from clawgauge.runner.target import TargetRun
from support.plans import plan_of
from support.rows import every_row
from support.waiting import PATIENCE_S

TARGET = Target("box", "m")
OPTIONS = CapacityOptions(
    contexts=[1000], output_tokens=8, slo=Slo(), max_concurrency=4, rates=[], duration_s=1.0, shared_prefix=0,
    shape="plain", swap=False, max_time_s=60.0,
)  # fmt: skip
_CODES = re.compile(r"\b([KZ][0-9a-f]{8})\b")


class Box(Provider):
    """A server whose manners are words: how it answers prompts over 3,000 characters, and whether it counts."""

    def __init__(self, how: str) -> None:
        super().__init__(ProviderSettings(name="box", type="box"))
        self.how, self.n_long, self.under_load = set(how.split()), 0, asyncio.Event()
        self.budget: CostBudget | None = None
        self.window = 1 << 30

    async def attempt(self, call: Call, sink: Sink) -> None:
        sink.start(perf_counter_ns())
        first, last = dict.fromkeys(_CODES.findall(call.prompt))
        is_long = len(call.prompt) > 3000
        self.n_long += is_long
        if is_long and ("hangs" in self.how or (self.n_long > 1 and "hangs-later" in self.how)):
            self.under_load.set()
            await asyncio.sleep(3600)
        if is_long and "spends" in self.how and self.budget is not None and self.n_long > 1:
            self.budget.spent = self.budget.limit
        if is_long and ("busy" in self.how or ("busy-once" in self.how and self.n_long == 1)):
            raise CallFailure("rate_limited", "http_429", "later", http_status=429)
        if is_long and "too-long" in self.how:
            raise CallFailure("error", "http_400", "too long", http_status=400)
        if is_long and "slow" in self.how:
            await asyncio.sleep(0.3)
        said = [last] if is_long and "forgets" in self.how else [first, last]
        if "thinks" in self.how:
            sink.reasoning(perf_counter_ns(), "hm, well")
        else:
            sink.text(
                perf_counter_ns(),
                " ".join([] if is_long and "rambles" in self.how else said) + " the sea",
            )
        if "quiet" not in self.how:
            sink.usage(input_tokens=min(len(call.prompt) // 4, self.window), output_tokens=8)
        sink.end(perf_counter_ns())


def made(path: Path, box: Box, budget: CostBudget | None = None, **options: Any) -> RunContext:
    capacity = CapacityOptions(
        **{name: getattr(OPTIONS, name) for name in OPTIONS.__struct_fields__} | options
    )
    prices = {TARGET: Price(model="m", provider="box", input=1.0, output=1.0)}
    plan = plan_of(
        [], given={"box": box}, targets=[TARGET], capacity=capacity, prices=prices, max_retries=0
    )
    return RunContext(plan, RunFolder.create(path), Observer(), cost=budget)


class Told:
    """A `CapacityObserver` that keeps all that it is told."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def step_begun(self, context_tokens: int, load: str) -> None:
        """Only what has come of a load counts here."""

    def step_measured(self, context_tokens: int, step: StepSummary) -> None:
        self.all.append(step)

    def notice(self, text: str) -> None:
        self.all.append(text)


async def load(context: RunContext, box: Box) -> list[Any]:
    """What is told of a capacity run; the folder is closed behind it."""
    told = Told()
    with ClientClock() as clock, context.folder:
        run = TargetRun(
            context, TARGET, box, make_agenda(context.plan, TARGET, context.cost), clock
        )
        await measure_capacity(told, {}, context, {TARGET: run}, clock)
    return told.all


def look_at(
    path: Path, box: Box, **options: Any
) -> tuple[list[dict[str, Any]], list[Any], list[int]]:
    """What is found of every length, what is told of it, and who is loaded."""
    seen, loaded = list[dict[str, Any]](), list[int]()

    async def try_levels(*_: object) -> None:
        loaded.append(1)

    context = made(path, box, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LevelSearch, "run", try_levels)
        patch.setattr(
            RunContext, "event", lambda _, name, __, **facts: seen.append(facts | {"name": name})
        )
        told = asyncio.run(load(context, box))
    return [facts for facts in seen if facts["name"] == "capacity_context"], told, loaded


@every_row(
    "how, truncated, by, refused, n_looks, is_loaded",
    [
        ("", False, None, None, 1, True),
        ("thinks", False, None, None, 1, True),
        ("thinks quiet", None, None, None, 1, True),
        ("forgets", None, None, None, 3, True),
        ("forgets quiet", True, "marker", None, 3, False),
        ("rambles", False, None, None, 1, True),
        ("rambles quiet", None, None, None, 1, True),
        ("busy-once", False, None, None, 2, True),
        ("busy", None, None, None, 2, False),
        ("too-long", None, None, "too long", 1, False),
    ],
)
def test_what_is_said_of_a_length_is_what_can_be_told(
    tmp_path: Path,
    how: str,
    truncated: bool | None,
    by: str | None,
    refused: str | None,
    n_looks: int,
    is_loaded: bool,
) -> None:
    box = Box(how)
    [look], told, loaded = look_at(tmp_path, box)
    assert (look["truncated"], look["truncated_by"], look["refused"]) == (truncated, by, refused)
    assert (box.n_long, bool(loaded)) == (n_looks, is_loaded), told
    assert any("no answer" in str(line) for line in told) == (how == "busy")


@every_row(
    "window, contexts, cut",
    [
        (1000, [990, 1000, 1001, 1003, 2000], [False, False, True, True, True]),
        (11_998, [11_000, 11_998, 12_000], [False, False, True]),
        (
            512,
            [300, 500, 550, 1000],
            [False, True, True, True],
        ),  # even what is calibrated by is cut
        (601, [500, 600], [False, False]),
    ],
)
def test_a_window_is_found_however_little_it_cuts_off(
    tmp_path: Path, window: int, contexts: list[int], cut: list[bool]
) -> None:
    box = Box("")
    box.window = window
    looks, told, _ = look_at(tmp_path, box, contexts=contexts)
    assert [look["truncated"] for look in looks] == cut, told


def test_a_model_that_is_not_heard_at_all_cannot_be_loaded(tmp_path: Path) -> None:
    class Mute(Box):
        async def attempt(self, call: Call, sink: Sink) -> None:
            sink.start(perf_counter_ns())
            sink.end(perf_counter_ns())

    box = Mute("")
    told = asyncio.run(load(made(tmp_path, box), box))
    assert "cannot be loaded: empty_response" in told[-1]


def test_the_time_binds_what_comes_before_the_load_too(tmp_path: Path) -> None:
    box = Box("hangs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clawgauge.capacity.measure._GRACE_S", 0.1)
        told = asyncio.run(asyncio.wait_for(load(made(tmp_path, box, max_time_s=0.1), box), 60))
    assert "--max-time is over" in told[-1]
    assert "stands" not in told[-1], "nothing was measured"


def test_what_was_measured_is_said_to_stand_where_there_is_something(tmp_path: Path) -> None:
    """No call under load is answered in time."""
    box = Box("hangs-later")
    few = asyncio.run(load(made(tmp_path / "none", box, max_time_s=0.5), box))
    assert few[-1] == "the time ended before 1 at once were steady" or "is over" in few[-1]
    assert not any("stands" in str(line) for line in few)
    assert word_end("the time ended", 0) == "the time ended"
    assert word_end("the time ended", 3) == "the time ended: what was measured stands"


def test_progress_is_shown_before_the_first_call_and_says_what_calibration_took(
    tmp_path: Path,
) -> None:
    box = Box("hangs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clawgauge.capacity.measure._GRACE_S", 0.1)
        told = asyncio.run(asyncio.wait_for(load(made(tmp_path, box, max_time_s=0.1), box), 60))
    assert told[0] == "box:m: getting ready"
    assert told[1].startswith("calibrating by two short calls")
    assert told[2].startswith("calibration took ")
    assert told[3] == "asking whether prompts of 1000 tokens are read whole"


def test_who_stops_a_load_does_not_wait_for_its_answers(tmp_path: Path) -> None:
    async def stop() -> None:
        box = Box("hangs-later")
        task = asyncio.create_task(load(made(tmp_path, box), box))
        await box.under_load.wait()
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=PATIENCE_S)
        assert done, "it waits for answers under way"

    asyncio.run(stop())


def test_money_that_is_spent_is_said_in_words_whoever_arrives(tmp_path: Path) -> None:
    box, budget = Box("spends"), CostBudget(1000.0)
    box.budget = budget
    told = asyncio.run(load(made(tmp_path, box, budget, rates=[50.0]), box))
    assert told[-1].startswith("--max-cost is spent"), told


def test_a_rate_is_held_until_it_is_steady_however_short_the_duration(tmp_path: Path) -> None:
    box, windows = Box("slow"), list[tuple[float, float]]()

    async def play(
        self: Dispatcher, step: str, arrivals: list[float], window_s: tuple[float, float], *_: Any
    ) -> SteadyWindow:
        windows.append(window_s)
        assert max(arrivals) > window_s[1] + 0.5
        return SteadyWindow(0, 1, [])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatcher, "play_arrivals", play)
        asyncio.run(load(made(tmp_path, box, rates=[50.0]), box))
    ((begin, end),) = windows
    assert begin >= 0.6 and end == pytest.approx(begin + 1.0)


def test_a_call_under_load_never_waits_for_money(tmp_path: Path) -> None:
    """What the calls under way may cost is set aside: one more is not made, rather than made later."""

    async def ask() -> None:
        box, budget = Box("hangs-later"), CostBudget(0.01)
        context, prompt = made(tmp_path, box, budget), "K00000000 Z00000000 "
        with ClientClock() as clock, context.folder:
            run = TargetRun(context, TARGET, box, make_agenda(context.plan, TARGET, budget), clock)
            cells = [
                Cell(
                    Prompt(
                        id="p",
                        name="p",
                        prompt=prompt * n,
                        validator={"type": "noop"},
                        max_tokens=4000,
                    ),
                    place,
                )
                for place, n in enumerate((1, 200, 200, 200))
            ]
            assert await run.ask_under_load(cells[0], 0, 0, 0) is not None
            assert await run.ask_under_load(cells[1], 0, 0, 0) is not None
            assert not context.in_flight
            task = asyncio.create_task(run.ask_under_load(cells[2], 0, 0, 0))
            await box.under_load.wait()
            assert len(context.in_flight) == 1
            assert await asyncio.wait_for(run.ask_under_load(cells[3], 0, 0, 0), 60) is None
            task.cancel()

    asyncio.run(ask())


def test_every_change_of_models_is_one(tmp_path: Path) -> None:
    asked: list[str] = []

    class Listed(Box):
        async def attempt(self, call: Call, sink: Sink) -> None:
            asked.append(call.model)
            await super().attempt(call, sink)

    async def swap() -> None:
        box, targets = Listed(""), [Target("box", name) for name in "abc"]
        context = made(tmp_path, box, swap=True)
        context = dataclasses.replace(
            context, plan=dataclasses.replace(context.plan, targets=targets)
        )
        with ClientClock() as clock, context.folder:
            runs = {
                one: TargetRun(context, one, box, make_agenda(context.plan, one, None), clock)
                for one in targets
            }
            await measure_capacity(Told(), {}, context, runs, clock)

    asyncio.run(swap())
    changes = asked[-16:]
    assert len(asked) == 3 * 4 + 15 and all(before != after for before, after in pairwise(changes))
