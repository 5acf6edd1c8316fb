"""Drift, held against simulated histories. `pytest -m slow -rP` prints what was measured."""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from statistics import NormalDist, median

import pytest

from clawgauge.stats.drift import find_level_change, usual_rate_spread
from clawgauge.stats.paired import find_change

pytestmark = pytest.mark.slow

SEED = 20261119
N_RUNS = 50
N_BEFORE = 10


def simulate_levels(
    dice: random.Random, sd: float, correlation: float, slow: float, step: float = 0.0
) -> list[float]:
    """Levels of runs: each follows the one before by `correlation`, a share of `slow` takes 30%
    longer, and from the eleventh on all do by `step`."""
    levels = []
    mood = dice.gauss(0, sd)
    for run in range(N_RUNS):
        if run:
            mood = correlation * mood + dice.gauss(0, sd * math.sqrt(1 - correlation**2))
        level = mood
        if dice.random() < slow:
            level += 0.3
        if run >= N_BEFORE:
            level += step
        levels.append(level)
    return levels


def runs_until_seen(levels: list[float]) -> int:
    """After how many runs a change is first seen; one more than there are if never."""
    return bisect_left(
        range(len(levels) + 1), True, key=lambda n: find_level_change(levels[:n]) is not None
    )


@pytest.mark.parametrize(
    ("sd", "correlation", "slow"),
    [
        (0.02, 0.0, 0.0),
        (0.05, 0.0, 0.0),
        (0.02, 0.5, 0.0),
        (0.05, 0.5, 0.0),
        (0.02, 0.0, 0.1),
        (0.05, 0.0, 0.1),
        (0.05, 0.5, 0.1),
    ],
)
def test_without_a_change_none_is_seen(sd: float, correlation: float, slow: float) -> None:
    """Fifty runs: a false change in 5% of histories at most, with moods of a correlation up to .5
    and with slow runs.
    """
    dice = random.Random(SEED)
    n_histories = 600
    n_false = 0
    for _ in range(n_histories):
        n_false += find_level_change(simulate_levels(dice, sd, correlation, slow)) is not None
    share = n_false / n_histories
    print(f"sd {sd}, correlation {correlation}, slow {slow}: false {share:.4f}")
    assert share <= 0.05


@pytest.mark.parametrize(
    ("sd", "correlation", "slow", "most_runs"),
    [(0.02, 0.0, 0.0, 5), (0.02, 0.5, 0.0, 5), (0.02, 0.0, 0.1, 5), (0.05, 0.5, 0.0, 8)],
)
def test_twenty_percent_is_soon_seen(
    sd: float, correlation: float, slow: float, most_runs: int
) -> None:
    """20% slower after ten runs: seen by the fifth, in the median, and dated about right."""
    dice = random.Random(SEED)
    delays = []
    dates = []
    for _ in range(150):
        levels = simulate_levels(dice, sd, correlation, slow, math.log(1.2))
        n = runs_until_seen(levels)
        delays.append(n - N_BEFORE)
        change = find_level_change(levels[:n])
        if change is not None:
            dates.append(change.since)
    delays.sort()
    print(
        f"sd {sd}, correlation {correlation}, slow {slow}: seen after {median(delays)} runs, "
        f"p90 {delays[135]}, never {sum(d > 40 for d in delays) / 150:.2f}, "
        f"dated {median(dates)}, within one {sum(abs(d - 10) <= 1 for d in dates) / 150:.2f}"
    )
    assert median(delays) <= most_runs
    assert abs(median(dates) - N_BEFORE) <= 1


def simulate_verdicts(
    dice: random.Random, n_prompts: int, icc: float, rates: list[float]
) -> list[dict[int, bool]]:
    """Runs of the same prompts, whose difficulty stays."""
    difficulty = [math.sqrt(icc) * dice.gauss(0, 1) for _ in range(n_prompts)]
    runs = []
    for rate in rates:
        limit = NormalDist().inv_cdf(rate)
        verdicts = {}
        for prompt, level in enumerate(difficulty):
            verdicts[prompt] = level + math.sqrt(1 - icc) * dice.gauss(0, 1) < limit
        runs.append(verdicts)
    return runs


def find_fall(runs: list[dict[int, bool]]) -> int | None:
    spread = usual_rate_spread(runs)
    assert spread is not None
    return find_change([sum(run.values()) / len(run) for run in runs], spread, 10)


@pytest.mark.parametrize(("n_prompts", "icc"), [(36, 0.5), (36, 0.8), (69, 0.8)])
def test_luck_with_the_same_prompts_is_no_drift_of_the_rate(n_prompts: int, icc: float) -> None:
    """Fifty runs at 90%: a false change in 5% of histories at most."""
    dice = random.Random(SEED)
    n_false = 0
    for _ in range(100):
        runs = simulate_verdicts(dice, n_prompts, icc, [0.9] * N_RUNS)
        n_false += find_fall(runs) is not None
    print(f"{n_prompts} prompts, ICC {icc}: false {n_false / 100:.2f}")
    assert n_false / 100 <= 0.05


@pytest.mark.parametrize(
    ("n_prompts", "icc", "most_runs"), [(36, 0.8, 10), (69, 0.8, 5), (69, 0.5, 8)]
)
def test_ten_points_fewer_are_seen(n_prompts: int, icc: float, most_runs: int) -> None:
    """After ten runs at 90% some at 80%: seen within so many in half of histories or more."""
    dice = random.Random(SEED)
    n_seen = 0
    for _ in range(100):
        runs = simulate_verdicts(dice, n_prompts, icc, [0.9] * N_BEFORE + [0.8] * most_runs)
        n_seen += find_fall(runs) is not None
    print(f"{n_prompts} prompts, ICC {icc}: seen within {most_runs} runs in {n_seen / 100:.2f}")
    assert n_seen / 100 >= 0.5
