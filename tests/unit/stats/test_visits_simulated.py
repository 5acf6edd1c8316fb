"""Capacity over visits and runs over days, held against simulated machines.

`pytest -m slow -rP` prints what was measured.
"""

from __future__ import annotations

import math
import random

import pytest

from clawgauge.stats.days import DaysTest, RunLevel, compare_days
from clawgauge.stats.paired import compare_run_means, holm
from clawgauge.stats.visits import ATTAINED, compare_visits, find_most_within

pytestmark = pytest.mark.slow

SEED = 20261119
LEVELS = (1, 2, 4, 6, 7, 8, 9, 10, 11, 12)
VISIT_S = 4.0
PERIOD_S = 30.0
BURST_S = 10.0
CALL_S = 0.25


class SimulatedServer:
    """Eight calls at a time; with bursts, for ten of thirty seconds, three fifths of that."""

    def __init__(self, dice: random.Random, *, has_bursts: bool) -> None:
        self._dice = dice
        self._has_bursts = has_bursts
        self._now_s = dice.uniform(0, PERIOD_S)

    def visit(self, level: int) -> tuple[float, float]:
        """Requests a second, and the share of them that kept the limits."""
        busy = self._busy_share(self._now_s) if self._has_bursts else 0.0
        per_s = (1 - busy) * min(level, 8.0) / CALL_S + busy * min(level, 4.8) / CALL_S
        n_calls = max(8, round(self._dice.gauss(per_s * VISIT_S, math.sqrt(per_s * VISIT_S))))
        share = kept_share(level, busy)
        n_kept = sum(self._dice.random() < share for _ in range(n_calls))
        self._now_s += VISIT_S + 1 + self._dice.expovariate(0.5)
        return per_s * math.exp(self._dice.gauss(0, 0.01)), n_kept / n_calls

    @staticmethod
    def _busy_share(begin_s: float) -> float:
        moments = [begin_s + VISIT_S * (i + 0.5) / 40 for i in range(40)]
        return sum(moment % PERIOD_S < BURST_S for moment in moments) / 40


def kept_share(level: float, busy: float) -> float:
    """How many calls keep the limits: nearly all up to ten at once, or six while it is busy."""
    quiet = 1 / (1 + math.exp((level - 10 - 1.95) / 0.32))
    in_burst = 1 / (1 + math.exp((level - 6 - 1.95) / 0.32))
    return (1 - busy) * quiet + busy * in_burst


def visit_levels(
    server: SimulatedServer, dice: random.Random, n_rounds: int
) -> tuple[dict[float, list[float]], dict[float, list[float]]]:
    rates: dict[float, list[float]] = {level: [] for level in LEVELS}
    attained: dict[float, list[float]] = {level: [] for level in LEVELS}
    for _ in range(n_rounds):
        for level in dice.sample(LEVELS, len(LEVELS)):
            rate, share = server.visit(level)
            rates[level].append(rate)
            attained[level].append(share)
    return rates, attained


@pytest.mark.parametrize("has_bursts", [False, True])
def test_five_visits_hold_the_truth_and_call_nothing_changed(has_bursts: bool) -> None:
    """A server whose mood changes for ten of thirty seconds: the most within the limits lies in
    the range in 90% of runs or more, and two runs of it differ at any level in 5% at most.
    """
    dice = random.Random(SEED)
    busy = BURST_S / PERIOD_S if has_bursts else 0.0
    truth = max(level for level in LEVELS if kept_share(level, busy) >= ATTAINED)
    n_runs = 300
    n_inside = 0
    n_changed = 0
    width = 0.0
    for _ in range(n_runs):
        sides = []
        for _ in range(2):
            server = SimulatedServer(dice, has_bursts=has_bursts)
            sides.append(visit_levels(server, dice, 5))
        low, high = find_most_within(sides[0][1])
        n_inside += low <= truth <= high
        width += high - low
        p_values = []
        for level in LEVELS:
            shift = compare_visits(sides[0][0][level], sides[1][0][level])
            assert shift is not None
            p_values.append(shift.p)
        n_changed += min(holm(p_values)) <= 0.05
    print(
        f"bursts {has_bursts}, truth {truth}: inside {n_inside / n_runs:.3f}, "
        f"width {width / n_runs:.1f}, changed {n_changed / n_runs:.3f}"
    )
    assert n_inside / n_runs >= 0.90
    assert n_changed / n_runs <= 0.05


def simulate_days(
    dice: random.Random, sd: float, days: range, moods: dict[int, float], change: float
) -> list[RunLevel]:
    """Two runs on each day, off by its mood and by 2% each."""
    runs = []
    for day in days:
        mood = moods.setdefault(day, dice.gauss(0, sd))
        for hour in (0, 1):
            level = mood + dice.gauss(0, 0.02) + change
            runs.append(RunLevel(started_s=86_400.0 * day + 3_600.0 * hour, level=level))
    return runs


@pytest.mark.parametrize("sd", [0.05, 0.10])
@pytest.mark.parametrize("same_days", [False, True])
def test_good_and_bad_days_are_no_change(sd: float, same_days: bool) -> None:
    """The same model on three days a side is called changed in about 5%; as runs it would be in
    far more. On the same days 20% more is found in 90%.
    """
    dice = random.Random(SEED)
    n_runs = 1_500
    n_false = 0
    n_false_by_run = 0
    n_found = 0
    days_b = range(3) if same_days else range(3, 6)
    for _ in range(n_runs):
        moods: dict[int, float] = {}
        a = simulate_days(dice, sd, range(3), moods, 0.0)
        b = simulate_days(dice, sd, days_b, moods, 0.0)
        comparison = compare_days(a, b)
        expected = DaysTest.BY_DAY if same_days else DaysTest.MEANS_OF_DAYS
        assert comparison.test is expected
        assert comparison.shift is not None
        n_false += comparison.shift.p <= 0.05
        by_run = compare_run_means([run.level for run in a], [run.level for run in b])
        n_false_by_run += by_run.p <= 0.05
        larger = [run._replace(level=run.level + math.log(1.2)) for run in b]
        found = compare_days(a, larger).shift
        assert found is not None
        n_found += found.p <= 0.05
    print(
        f"day sd {sd}, same days {same_days}: false {n_false / n_runs:.3f} "
        f"(by run {n_false_by_run / n_runs:.3f}), 20% more found {n_found / n_runs:.2f}"
    )
    assert n_false / n_runs <= 0.06
    if same_days:
        assert n_found / n_runs >= 0.90
