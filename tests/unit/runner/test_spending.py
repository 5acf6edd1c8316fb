"""--max-cost is kept whatever calls turn out to cost: the real runner against providers that keep their own books."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import pytest

from clawgauge.errors import CallFailure
from clawgauge.journal.folder import RunFolder
from clawgauge.outcomes import Reply
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sink, Turn, create_provider
from clawgauge.records import Price, Prompt, Target
from clawgauge.runner.agenda import CostBudget
from clawgauge.runner.agendas import make_agenda
from clawgauge.runner.attempts import Spending
from clawgauge.runner.clock import ClientClock, Clock
from clawgauge.runner.context import Observer, RunContext
from clawgauge.runner.target import TargetRun
from support.command import read_records
from support.plans import plan_of
from support.rows import every_row

PRICE = Price(model="m", provider="p", input=100.0, output=2_000.0)


class Shop(Provider):
    """Bills every call it answers, or fails to: `bills` is what was really paid. Faults and prices are the dice's."""

    def __init__(self, name: str, dice: random.Random, *, how: str, local: bool = False) -> None:
        super().__init__(ProviderSettings(name=name, type="shop"))
        self.local = local
        self.bills: list[float] = []
        self.most_in_flight = self._in_flight = 0
        self._dice = dice
        self._how = how

    async def attempt(self, call: Call, sink: Sink) -> None:
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            for _ in range(self._dice.randrange(4)):
                await asyncio.sleep(0)
            await self._serve(call, sink)
        finally:
            self._in_flight -= 1

    async def _serve(self, call: Call, sink: Sink) -> None:
        sink.start(time.perf_counter_ns())
        fate = self._dice.random()
        if self._how == "flaky" and fate < 0.2:
            raise CallFailure("error", "http_500", retryable=True, http_status=500)
        sink.text(time.perf_counter_ns(), "yes")
        n_input, n_output = (
            self._dice.randint(1, len(call.prompt)),
            self._dice.randint(1, call.max_tokens or 1),
        )
        if self._how == "rising":
            n_output = min(call.max_tokens or 1, 1 + len(self.bills) ** 2)
        if self._how == "reported":
            self.bills.append(self._dice.choice([0.0, 0.01, 3.0]))
            sink.note(cost_usd=self.bills[-1])
        elif not self.local:
            # Reasoning that no limit holds, as some servers bill it: shown by the first call, which goes alone.
            factor = 500 if self._how == "beyond its limit" else 1
            self.bills.append((n_input * PRICE.input + factor * n_output * PRICE.output) / 1e6)
            if self._how == "flaky" and fate < 0.4:
                raise CallFailure("error", "stream_interrupted", retryable=True)
            if self._how != "mute":
                sink.usage(input_tokens=n_input, output_tokens=factor * n_output)
        sink.end(time.perf_counter_ns())


def go_shopping(
    path: Path, shops: list[Shop], budget: CostBudget, n_prompts: int = 40, **options: Any
) -> None:
    """Ask all shops, one after the other, as a run does."""
    prompts = [
        Prompt(id=f"P{n}", name="p", prompt="x" * 50, suite="s", validator={"type": "noop"})
        for n in range(n_prompts)
    ]
    with RunFolder.create(path) as folder:
        targets = {Target(shop.name, "m"): shop for shop in shops}
        plan = plan_of(
            prompts,
            prices={
                target: PRICE
                for target, shop in targets.items()
                if shop._how != "reported" and not shop.local
            },
            free={target for target, shop in targets.items() if shop.local},
            **{"retry_base_s": 0.0001, "max_tokens": 100, **options},
        )
        context = RunContext(plan, folder, Observer(), _Clock(), budget, random.Random(1))
        asyncio.run(_ask(context, targets))


async def _ask(context: RunContext, targets: dict[Target, Shop]) -> None:
    """`run` without the snapshots of the machine, which take a second each."""
    with ClientClock() as watch:
        for target, shop in targets.items():
            agenda = make_agenda(context.plan, target, context.cost)
            if agenda.n_open:
                await TargetRun(context, target, shop, agenda, watch).ask()


class _Clock(Clock):
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@every_row("seed", range(25))
def test_the_limit_is_passed_by_one_call_at_most(tmp_path: Path, seed: int) -> None:
    """Any order of targets, any concurrency, any faults: what was really paid is the limit and one call, no more."""
    dice = random.Random(seed)
    kinds = ["steady", "rising", "flaky", "mute", "reported", "beyond its limit", "free"]
    shops = [
        Shop(f"t{n}", dice, how=how, local=how == "free")
        for n, how in enumerate(dice.choices(kinds, k=4))
    ]
    limit = dice.choice([0.05, 0.5, 2.0, 20.0])
    budget = CostBudget(limit)
    go_shopping(
        tmp_path,
        shops,
        budget,
        concurrency=dice.choice([1, 3, 64]),
        max_retries=3,
        warm_up=dice.random() < 0.5,
    )
    bills = [bill for shop in shops for bill in shop.bills]
    assert sum(bills) <= limit + max(bills, default=0.0) + 1e-9
    # What the budget believes was spent is never less than what was.
    assert budget.spent >= sum(bills) - 1e-6 or budget.detail.get("unknown_cost")


def test_a_wide_run_stays_wide_where_the_money_allows(tmp_path: Path) -> None:
    """The limit costs no speed while it is far: after a first call that shows its price, all go at once."""
    shop = Shop("t", random.Random(1), how="steady")
    go_shopping(tmp_path, [shop], CostBudget(1_000.0), concurrency=16)
    assert len(shop.bills) == 40 and shop.most_in_flight > 8


def test_free_targets_are_asked_when_the_money_is_spent(tmp_path: Path) -> None:
    """A model that costs nothing cannot break the limit."""
    paid, free = (
        Shop("a", random.Random(1), how="steady"),
        Shop("b", random.Random(1), how="free", local=True),
    )
    go_shopping(tmp_path, [paid, free], CostBudget(0.0001), concurrency=4)
    assert len(paid.bills) == 1
    (folder,) = tmp_path.iterdir()
    assert [record["provider"] for record in read_records(folder)].count("b") == 40


def test_what_no_record_tells_is_kept_for_the_next_stretch(tmp_path: Path) -> None:
    """A warm-up and a lost attempt were paid for: the end of the stretch says how much, for whoever resumes."""
    shop = Shop("t", random.Random(3), how="flaky")
    budget = CostBudget(1_000.0)
    go_shopping(tmp_path, [shop], budget, warm_up=True, max_retries=5)
    (folder,) = tmp_path.iterdir()
    recorded = sum(record["cost_usd"] or 0.0 for record in read_records(folder))
    assert recorded < sum(shop.bills)
    assert budget.unrecorded_usd + recorded >= sum(shop.bills) - 1e-6


def test_thinking_that_comes_on_top_of_the_answer_is_foreseen() -> None:
    """Anthropic's thinking has tokens of its own, and they are billed: the money set aside is for both."""

    async def held(level: str | None) -> float:
        provider = create_provider(
            ProviderSettings("a", "anthropic_messages", "http://127.0.0.1:1")
        )
        budget = CostBudget(1_000.0)
        spending, call = (
            Spending(budget, PRICE, provider.most_output),
            Call("m", "x", None, level, max_tokens=100),
        )
        spending.settle(("s", "p", 0), call, Reply(input_tokens=1, output_tokens=1), None)
        await spending.admit(("s", "p", 1), call)
        return budget.held["s", "p", 1]

    assert asyncio.run(held("high")) - asyncio.run(held(None)) == pytest.approx(
        16_384 * PRICE.output / 1e6
    )


def test_what_goes_back_of_a_providers_own_is_paid_for() -> None:
    """Signed thinking is input of the next turn: a limit that leaves it out would be passed."""
    spending = Spending(CostBudget(1.0), PRICE, lambda call: 100)
    bare = Call(model="m", prompt="go", history=(Turn("", (), ()),))
    signed = Call(
        model="m", prompt="go", history=(Turn("", (), (), replay={"data": "x" * 200_000}),)
    )
    difference = spending._most_usd(signed) - spending._most_usd(bare)
    assert difference >= 200_000 * PRICE.input / 1e6
