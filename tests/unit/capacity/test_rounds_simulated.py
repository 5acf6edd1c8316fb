"""Whole capacity runs of simulated servers: the search, the rounds, the summary and the comparison.

`pytest -m slow -rP` prints what was measured.
"""

from __future__ import annotations

import asyncio
import math
import random
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from clawgauge.capacity.rounds import VisitRounds
from clawgauge.capacity.scope import SearchScope
from clawgauge.capacity.search import LevelSearch
from clawgauge.records import CapacityOptions, CapacitySummary, Slo, StepSummary, Target, WithinSlo
from clawgauge.stats.load import (
    LoadVisit,
    find_within_slo,
    measure_step,
    measure_visits,
)
from clawgauge.stats.visits import ATTAINED
from clawgauge.verdict.load import compare_capacity
from support.load_visits import make_sample, make_window

pytestmark = pytest.mark.slow

SEED = 7
SLO = Slo(ttft_ms=100.0)
PERIOD_S = 30.0
BURST_S = 10.0
CALL_S = 0.25
N_PAIRS = 150


class SimulatedServer:
    """Eight calls at a time; with bursts, for ten of thirty seconds, three fifths of that."""

    def __init__(self, dice: random.Random, *, has_bursts: bool) -> None:
        self._dice = dice
        self._has_bursts = has_bursts
        self._now_s = dice.uniform(0, PERIOD_S)

    def visit(self, level: int, visit: int) -> LoadVisit:
        """Hold so many clients for as long as the program would, and go on with the time."""
        # The load has to be steady first.
        self._now_s += 1 + 3 * level / min(level, 8) * CALL_S
        n_least = 60 if visit > 1 else 120
        seconds = max(2.0, n_least / (min(level, 8) / CALL_S))
        busy = self._busy_share(seconds) if self._has_bursts else 0.0
        self._now_s += seconds
        per_s = (1 - busy) * min(level, 8.0) / CALL_S + busy * min(level, 4.8) / CALL_S
        per_s *= math.exp(self._dice.gauss(0, 0.01))
        cycle_ms = 1000 * level / per_s
        share = kept_share(level, busy)
        samples = []
        for number in range(max(8, level, round(per_s * seconds))):
            is_kept = self._dice.random() < share
            ttft_ms = min(90.0, cycle_ms - 230) if is_kept else max(110.0, cycle_ms - 230)
            samples.append(make_sample(number % level, max(20.0, ttft_ms), cycle_ms))
        return LoadVisit(make_window(level, visit), samples)

    def _busy_share(self, seconds: float) -> float:
        moments = [self._now_s + seconds * (i + 0.5) / 40 for i in range(40)]
        return sum(moment % PERIOD_S < BURST_S for moment in moments) / 40


def kept_share(level: float, busy: float) -> float:
    """How many calls keep the limits: nearly all up to ten at once, or six while it is busy."""
    quiet = 1 / (1 + math.exp((level - 10 - 1.95) / 0.32))
    in_burst = 1 / (1 + math.exp((level - 6 - 1.95) / 0.32))
    return (1 - busy) * quiet + busy * in_burst


class SimulatedRun:
    """One capacity run of a simulated server: in place of a `StepRunner`."""

    def __init__(self, server: SimulatedServer, order_seed: int, n_rounds: int) -> None:
        self._server = server
        self._n_rounds = n_rounds
        self._visits: dict[int, list[LoadVisit]] = {}
        options = CapacityOptions(
            contexts=[1000],
            output_tokens=24,
            slo=SLO,
            max_concurrency=64,
            rates=[],
            duration_s=1.0,
            shared_prefix=0,
            shape="plain",
            swap=False,
            max_time_s=900.0,
            order_seed=order_seed,
        )
        quiet = SimpleNamespace(notice=lambda text: None)
        scope = SimpleNamespace(
            options=options,
            target=Target("box", "m"),
            finished_steps={},
            observer=quiet,
            record_event=lambda *_, **__: None,
        )
        self._scope = cast(SearchScope, scope)

    async def measure_clients(
        self, level: int, spacing_ms: float | None, *, visit: int = 1, is_second_try: bool = False
    ) -> StepSummary:
        if visit > self._n_rounds:
            raise TimeoutError
        of_visit = self._server.visit(level, visit)
        self._visits.setdefault(level, []).append(of_visit)
        return measure_step(of_visit.samples, of_visit.window, SLO)

    async def run(self) -> CapacitySummary:
        """Search and visit again, and sum up what was measured."""
        search = LevelSearch(self._scope, cast(Any, self))
        await search.run()
        rounds = VisitRounds(self._scope, 1000, 0, search.steps, search.visit)
        with suppress(TimeoutError):
            await rounds.run()
        steps = []
        for level in sorted(self._visits):
            steps.append(measure_visits(self._visits[level], SLO))
        return CapacitySummary(
            target="box:m",
            mode="closed",
            context_tokens=1000,
            steps=steps,
            within_slo=find_within_slo(steps, SLO, self._n_rounds),
            n_rounds=self._n_rounds,
            slo=SLO,
        )


def make_run(dice: random.Random, *, has_bursts: bool, n_rounds: int) -> CapacitySummary:
    server = SimulatedServer(dice, has_bursts=has_bursts)
    return asyncio.run(SimulatedRun(server, dice.randrange(1 << 32), n_rounds).run())


def range_of(summary: CapacitySummary) -> tuple[int, int]:
    within = summary.within_slo
    assert isinstance(within, WithinSlo)
    assert within.concurrency is not None
    assert within.concurrency_to is not None
    return within.concurrency, within.concurrency_to


def find_truth(*, has_bursts: bool) -> int:
    """The most that keep the limits over a long time."""
    busy = BURST_S / PERIOD_S if has_bursts else 0.0
    return max(level for level in range(1, 20) if kept_share(level, busy) >= ATTAINED)


@pytest.mark.parametrize(("has_bursts", "n_rounds"), [(False, 5), (True, 5), (True, 3), (True, 2)])
def test_the_truth_lies_in_the_range_and_two_runs_of_a_server_differ_by_luck(
    has_bursts: bool, n_rounds: int
) -> None:
    """A server whose mood changes for ten of thirty seconds: what it carries over a long time lies
    within the range in 90% of runs, after fewer rounds too; and in 5% of pairs of runs at most any
    figure of any number of clients is called changed.
    """
    dice = random.Random(SEED)
    truth = find_truth(has_bursts=has_bursts)
    n_inside = 0
    n_changed = 0
    width = 0
    for _ in range(N_PAIRS):
        sides = []
        for _ in range(2):
            side = make_run(dice, has_bursts=has_bursts, n_rounds=n_rounds)
            sides.append(side)
            low, high = range_of(side)
            n_inside += low <= truth <= high
            width += high - low
        verdicts = [change.verdict for change in compare_capacity([sides[0]], [sides[1]])]
        n_changed += "changed" in verdicts
    n_runs = 2 * N_PAIRS
    print(
        f"bursts {has_bursts}, {n_rounds} rounds, truth {truth}: inside {n_inside / n_runs:.3f}, "
        f"width {width / n_runs:.1f}, changed {n_changed / N_PAIRS:.3f}"
    )
    assert n_inside / n_runs >= 0.90
    assert n_changed / N_PAIRS <= 0.05
