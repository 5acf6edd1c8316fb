"""Runs of one target lined up: has the level of its times, or of its pass rate, changed?

A machine has moods and slow runs, so one far value is no change, nor are a few that are far
together. Nearly all of the latest runs must lie away from the runs before, by more than these
differ; how much they differ is measured by figures that a slow run does not move, the median and
the median distance from it (Hampel 1974). How far away was set by simulation: of histories of fifty
runs without a change 5% at most ever show one.

Pass rates go to `paired.find_change`, with a spread of their own."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple, TypeVar

PromptName = TypeVar("PromptName", bound=Hashable)

FEWEST_BEFORE = 8
# Of each window of latest runs, how many spreads it must be away.
_SPREADS_BY_WINDOW = {4: 2.5, 8: 1.25, 16: 0.8}
# The run of a window that must lie away is the first, second or fourth from the old side.
_WINDOW_BY_RANK = 4
# Levels are logarithms: runs differ by 3% at least, and what is under 10% is no change.
_LEAST_SPREAD = 0.03
_LEAST_CHANGE = math.log(1.10)
# Makes the median distance from the median a standard deviation of normal values.
_MAD_TO_SD = 1.4826
_CLIPPED_AT = 2.5
_MOST_CORRELATED = 0.7
# What is known of few runs is known badly: so many shares of 1/n more.
_FEW_RUNS = 5


class LevelChange(NamedTuple):
    """The first value of the new level by its index; the levels are medians. `spread` is how much
    the values before it differ."""

    since: int
    before: float
    after: float
    spread: float


def find_level_change(levels: Sequence[float]) -> LevelChange | None:
    """The latest change of level, asked after every run; None where none is seen. Levels are
    logarithms of times."""
    begin = 0
    latest = None
    for end in range(1, len(levels) + 1):
        since = _find_change_at_end(levels[begin:end])
        if since is None:
            continue
        former = levels[begin : begin + since]
        begin += since
        latest = LevelChange(
            since=begin,
            before=median(former),
            after=median(levels[begin:]),
            spread=level_spread(former),
        )
    return latest


def level_spread(levels: Sequence[float]) -> float:
    """The standard deviation of levels, which some slow runs do not move."""
    middle = median(levels)
    return _MAD_TO_SD * median(abs(level - middle) for level in levels)


def _find_change_at_end(levels: Sequence[float]) -> int | None:
    """With which value the level changed, if the last ones tell; the shortest window first."""
    for n_window, n_spreads in _SPREADS_BY_WINDOW.items():
        n_before = len(levels) - n_window
        if n_before < FEWEST_BEFORE:
            return None
        before = levels[:n_before]
        level = median(before)
        distance = n_spreads * _spread(before, level) * (1 + _FEW_RUNS / n_before)
        if _has_left(levels[n_before:], level, distance):
            return _find_begin(levels, n_before, level)
    return None


def _has_left(window: Sequence[float], level: float, distance: float) -> bool:
    rank = len(window) // _WINDOW_BY_RANK
    ordered = sorted(window)
    change = median(ordered) - level
    if change > _LEAST_CHANGE:
        return ordered[rank - 1] > level + distance
    if change < -_LEAST_CHANGE:
        return ordered[-rank] < level - distance
    return False


def _spread(values: Sequence[float], level: float) -> float:
    """How far runs may be off the level together: wider where each follows the one before."""
    n = len(values)
    spread = max(_LEAST_SPREAD, level_spread(values))
    most = _CLIPPED_AT * spread
    clipped = [min(most, max(-most, value - level)) for value in values]
    mean = fmean(clipped)
    squares = math.fsum((value - mean) ** 2 for value in clipped)
    products = math.fsum((x - mean) * (y - mean) for x, y in pairwise(clipped))
    lag_one = products / squares if squares else 0.0
    # Of few values it comes out too small (Marriott & Pope 1954; Kendall 1954).
    correlation = min(_MOST_CORRELATED, max(0.0, lag_one + (1 + 3 * lag_one) / n))
    return spread * math.sqrt((1 + correlation) / (1 - correlation))


def _find_begin(levels: Sequence[float], n_before: int, level: float) -> int:
    """Where the window begins, moved to where values begin to lie nearer to its median than to the
    level before."""
    new_level = median(levels[n_before:])

    def is_new(value: float) -> bool:
        return abs(value - new_level) < abs(value - level)

    begin = n_before
    while not is_new(levels[begin]):
        begin += 1
    while begin > 1 and is_new(levels[begin - 1]):
        begin -= 1
    return begin


def usual_rate_spread(runs: Sequence[Mapping[PromptName, float]]) -> float | None:
    """The standard deviation by which the pass rate of the same prompts commonly differs between
    runs, for `paired.find_change`; None without prompts that two runs in a row were asked.

    A run has the share of its repeats that each prompt passed. Most prompts pass always or never,
    so the luck with other prompts is not in it. Half the share of prompts that change sides from
    one run to the next (of repeats, half the mean square of what their share moves) is what one
    prompt varies by."""
    changed = 0.0
    n_shared = 0
    for run, following in pairwise(runs):
        for prompt, share in run.items():
            if prompt in following:
                n_shared += 1
                changed += (share - following[prompt]) ** 2
    if not n_shared:
        return None
    n_prompts = fmean(len(run) for run in runs if run)
    variance = changed / n_shared / (2 * n_prompts)
    return max(math.sqrt(variance), 1 / (2 * n_prompts))
