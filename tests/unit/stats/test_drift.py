"""Changes of level over runs."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest

from clawgauge.stats.drift import find_level_change, usual_rate_spread
from clawgauge.stats.paired import find_change

from .stats_vectors import close

STEADY = [0.01, -0.02, 0.0, 0.02, -0.01, 0.01, 0.0, -0.01, 0.02, 0.0]
SLOWER = math.log(1.3)


def test_a_change_of_level_is_seen_by_the_fourth_run() -> None:
    """30% slower from the eleventh run on: told after four runs, not after three, either way."""
    for sign in (1, -1):
        after = [sign * SLOWER + value for value in STEADY[:4]]
        assert find_level_change(STEADY + after[:3]) is None
        change = find_level_change(STEADY + after)
        assert change is not None
        assert change.since == 10
        assert change.before == close(0.0)
        assert change.after == pytest.approx(sign * SLOWER, abs=0.02)


def test_no_run_is_a_change_by_itself() -> None:
    """One run that took three times as long, or three in a row, are no new level."""
    for n_slow in (1, 2, 3):
        levels = STEADY + [math.log(3)] * n_slow + STEADY
        assert find_level_change(levels) is None


def test_less_than_ten_percent_is_no_change() -> None:
    """However steady the runs are."""
    assert find_level_change([0.0] * 20 + [math.log(1.09)] * 20) is None
    assert find_level_change([0.0] * 30 + [math.log(1.13)] * 20) is not None


def test_eight_runs_are_needed_before() -> None:
    """Seven runs do not tell how much runs differ; sixteen later they still are not enough."""
    assert find_level_change([0.0] * 7 + [1.0] * 4) is None
    change = find_level_change([0.0] * 8 + [1.0] * 4)
    assert change is not None
    assert change.since == 8
    assert find_level_change([]) is None
    assert find_level_change([1.0]) is None


def test_the_latest_of_two_changes_is_told() -> None:
    """Slower and later as fast as ever: told since when it is fast again, and from which level."""
    levels = STEADY + [SLOWER + value for value in STEADY] + STEADY
    change = find_level_change(levels)
    assert change is not None
    assert change.since == 20
    assert change.before == close(SLOWER)
    assert change.after == close(0.0)


def test_a_slow_run_at_the_edge_does_not_move_the_date() -> None:
    """A usual run among the first slow ones is stepped over; the change is dated where slow runs
    begin.
    """
    rng = random.Random(5)
    before = [rng.gauss(0, 0.05) for _ in range(20)]
    after = [0.5 + rng.gauss(0, 0.05) for _ in range(12)]
    change = find_level_change(before + after)
    assert change is not None
    assert change.since == 20


def test_a_change_is_dated_before_the_run_that_told_it_apart() -> None:
    """The first slower run is not far enough off by itself, but belongs to the new level."""
    after = [0.11, 0.2, 0.2, 0.2, 0.2]
    assert find_level_change(STEADY + after[:4]) is None
    change = find_level_change(STEADY + after)
    assert change is not None
    assert change.since == 10


def test_runs_that_follow_each_other_are_held_to_more() -> None:
    """A level that wanders is left further before that is told: the same step, the same spread."""
    wandering = [0.0, 0.06, 0.1, 0.12, 0.1, 0.06, 0.0, -0.06, -0.1, -0.12, -0.1, -0.06]
    jumping = [0.0, -0.12, 0.12, -0.06, 0.06, -0.1, 0.1, -0.1, 0.1, -0.06, 0.06, 0.0]
    assert sorted(wandering) == sorted(jumping)
    step = [0.55] * 4
    assert find_level_change(jumping + step) is not None
    assert find_level_change(wandering + step) is None


def is_told_by_the_formula(levels: list[float]) -> bool:
    """Whether the last 4, 8 or 16 values are a change, step by step."""
    for h, c in ((4, 2.5), (8, 1.25), (16, 0.8)):
        n = len(levels) - h
        if n < 8:
            continue
        m = median(levels[:n])
        s = max(0.03, 1.4826 * median(abs(x - m) for x in levels[:n]))
        clipped = [max(-2.5 * s, min(2.5 * s, x - m)) for x in levels[:n]]
        mean = sum(clipped) / n
        r1 = sum((clipped[i] - mean) * (clipped[i + 1] - mean) for i in range(n - 1))
        r1 /= sum((x - mean) ** 2 for x in clipped)
        phi = max(0.0, min(0.7, r1 + (1 + 3 * r1) / n))
        f = math.sqrt((1 + phi) / (1 - phi))
        distance = c * s * f * (1 + 5 / n)
        window = sorted(levels[n:])
        middle = median(window)
        is_up = window[h // 4 - 1] > m + distance and middle > m + math.log(1.1)
        is_down = window[-(h // 4)] < m - distance and middle < m - math.log(1.1)
        if is_up or is_down:
            return True
    return False


def test_a_change_is_told_where_the_formula_says_so() -> None:
    """Histories of all kinds: first told after the same run, and not before."""
    rng = random.Random(20261119)
    n_told = 0
    for _ in range(150):
        sd = rng.choice((0.01, 0.03, 0.06, 0.1))
        correlation = rng.choice((0.0, 0.5, 0.9))
        slow = rng.choice((0.0, 0.1, 0.3))
        change = rng.choice((-0.4, -0.2, -0.1, 0.1, 0.2, 0.4))
        level = 0.0
        levels: list[float] = []
        for run in range(34):
            level = correlation * level + rng.gauss(0, sd)
            extra = 0.4 if rng.random() < slow else 0.0
            levels.append(level + extra + (change if run >= 14 else 0.0))
            expected = is_told_by_the_formula(levels)
            assert (find_level_change(levels) is not None) is expected
            if expected:
                n_told += 1
                break
    assert 50 <= n_told <= 140


def test_the_spread_of_a_rate_is_that_of_prompts_that_change_sides() -> None:
    """One of ten prompts changes sides from each run to the next: a tenth, halved, over ten."""
    always = {f"P{n}": True for n in range(9)}
    runs = [{**always, "coin": run % 2 == 0} for run in range(6)]
    assert usual_rate_spread(runs) == close(math.sqrt(0.1 / 20))


def test_a_rate_that_never_moves_has_half_a_prompt_of_spread() -> None:
    runs = [{f"P{n}": n > 2 for n in range(20)}] * 5
    assert usual_rate_spread(runs) == close(1 / 40)


def test_without_shared_prompts_there_is_no_spread() -> None:
    assert usual_rate_spread([]) is None
    assert usual_rate_spread([{"a": True}]) is None
    assert usual_rate_spread([{"a": True}, {"b": True}]) is None
    assert usual_rate_spread([{"a": True, "b": False}, {}, {"b": True}]) is None


def test_a_fall_is_seen_earlier_by_what_the_same_prompts_vary() -> None:
    """Of 36 prompts two fail and from some run on five: told after two runs by their own spread,
    and not yet by the luck of other prompts.
    """
    runs = []
    for run in range(12):
        n_failed = 2 if run < 10 else 5
        runs.append({f"P{n}": n >= n_failed for n in range(36)})
    rates = [sum(run.values()) / 36 for run in runs]
    spread = usual_rate_spread(runs)
    assert spread is not None
    assert find_change(rates, spread, 10) == 10
    assert find_change(rates, math.sqrt(0.92 * 0.08 / 36), 10) is None
