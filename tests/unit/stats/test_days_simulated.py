"""Runs over days, held against simulated machines.

`pytest -m slow -rP` prints what was measured.
"""

from __future__ import annotations

import math
import random

import pytest

from clawgauge.stats.days import DaysTest, RunLevel, compare_days, plan_days
from clawgauge.stats.paired import compare_run_means

pytestmark = pytest.mark.slow

SEED = 20261119


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
        plan = plan_days([run.started_s for run in a], [run.started_s for run in b])
        expected = DaysTest.BY_DAY if same_days else DaysTest.MEANS_OF_DAYS
        assert plan.test is expected
        n_false += compare_days(a, b).p <= 0.05
        by_run = compare_run_means([run.level for run in a], [run.level for run in b])
        n_false_by_run += by_run.p <= 0.05
        larger = [run._replace(level=run.level + math.log(1.2)) for run in b]
        n_found += compare_days(a, larger).p <= 0.05
    print(
        f"day sd {sd}, same days {same_days}: false {n_false / n_runs:.3f} "
        f"(by run {n_false_by_run / n_runs:.3f}), 20% more found {n_found / n_runs:.2f}"
    )
    assert n_false / n_runs <= 0.06
    if same_days:
        assert n_found / n_runs >= 0.90
