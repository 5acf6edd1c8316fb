"""Whether a target changed its level from some run on, by more than runs differ by anyway."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from clawgauge.history.findings import Point
from clawgauge.records import PromptKey
from clawgauge.stats.days import FEWEST_DAYS, group_days
from clawgauge.stats.drift import (
    FEWEST_BEFORE,
    LevelChange,
    find_level_change,
    level_spread,
    usual_rate_spread,
)
from clawgauge.stats.paired import find_change
from clawgauge.words import format_percent, format_rate, plural

# What the same prompts vary by is known well: it counts as so many runs would.
_N_USUAL_RATE = 10
# Runs that differ by so much hide a change of a fifth, and wander off by themselves.
_UNSTEADY = 0.08
TOLD_BEYOND = 3.0
"""A change of more than so many spreads is told of such runs all the same."""


class Pace(NamedTuple):
    """How the times of runs moved. `spread` is there where runs differ so much that no smaller
    change can be told."""

    change: LevelChange | None = None
    spread: float | None = None


def find_rate_drift(
    points: Sequence[Point], rates_by_run: Sequence[Mapping[PromptKey, float]]
) -> str | None:
    """Where the pass rate of answers (an outage is no worse model) changed its level by more than
    the same prompts vary; None where it did not. `rates_by_run` has what each prompt passed."""
    # A run that its own results stopped asked other prompts.
    usable = []
    usable_rates = []
    for point, rates in zip(points, rates_by_run, strict=True):
        if point.pass_rate is not None and not point.stopped_early:
            usable.append(point)
            usable_rates.append(rates)
    usual_sd = usual_rate_spread(usable_rates)
    if usual_sd is None:
        return None
    since = find_change([point.pass_rate or 0.0 for point in usable], usual_sd, _N_USUAL_RATE)
    if since is None:
        return None
    n_passed_before = sum(point.n_passed for point in usable[:since])
    n_judged_before = sum(point.n_judged for point in usable[:since])
    n_passed_since = sum(point.n_passed for point in usable[since:])
    n_judged_since = sum(point.n_judged for point in usable[since:])
    before = format_rate(n_passed_before, n_judged_before)
    after = format_rate(n_passed_since, n_judged_since)
    has_fallen = n_passed_since * n_judged_before < n_passed_before * n_judged_since
    direction = "fell" if has_fallen else "rose"
    when = _word_since(usable, since)
    return f"pass rate {direction} from {before} to {after} of the answers {when}"


def find_pace(times_by_run: Sequence[Mapping[PromptKey, float]]) -> Pace:
    """Whether calls take longer or less from some run on, each prompt beside its own median. Every
    run has a time."""
    levels = _find_levels(times_by_run)
    change = find_level_change(levels)
    if change is not None:
        is_far_beyond = abs(change.after - change.before) > TOLD_BEYOND * change.spread
        if change.spread < _UNSTEADY or is_far_beyond:
            return Pace(change=change)
        return Pace(spread=change.spread)
    if len(levels) >= FEWEST_BEFORE:
        spread = level_spread(levels)
        if spread >= _UNSTEADY:
            return Pace(spread=spread)
    return Pace()


def _find_levels(times_by_run: Sequence[Mapping[PromptKey, float]]) -> list[float]:
    """How slow each run was, in logarithms."""
    logs_by_prompt: dict[PromptKey, list[float]] = {}
    for run in times_by_run:
        for key, time_ms in run.items():
            logs_by_prompt.setdefault(key, []).append(_log_ms(time_ms))
    usual_log = {key: median(logs) for key, logs in logs_by_prompt.items()}
    levels = []
    for run in times_by_run:
        levels.append(median(_log_ms(time_ms) - usual_log[key] for key, time_ms in run.items()))
    return levels


def _log_ms(time_ms: float) -> float:
    """Less than a millisecond counts as one."""
    return math.log(max(1.0, time_ms))


def word_pace_change(change: LevelChange, points: Sequence[Point]) -> str:
    """`calls take 15% longer since day11 (10 runs before, 3 since; …)`."""
    share = math.expm1(change.after - change.before)
    direction = "longer" if share > 0 else "less"
    when = _word_since(points, change.since)
    return f"calls take {format_percent(abs(share))} {direction} {when}"


def _word_since(points: Sequence[Point], since: int) -> str:
    """The run a change began with, and the comparison that looks closer."""
    before = points[:since]
    after = points[since:]
    # Of each side the days next to the change, which tell a model from a day where there are three.
    days_before = _one_run_a_day(before[::-1])[:FEWEST_DAYS][::-1]
    days_after = _one_run_a_day(after)[:FEWEST_DAYS]
    if min(len(days_before), len(days_after)) < FEWEST_DAYS:
        days_before = [before[-1]]
        days_after = [after[0]]
    side_a = ",".join(point.run_id for point in days_before)
    side_b = ",".join(point.run_id for point in days_after)
    runs = f"{plural(len(before), 'run')} before, {len(after)} since"
    return f"since {after[0].run_id} ({runs}; clawgauge compare {side_a} {side_b})"


def _one_run_a_day(points: Sequence[Point]) -> list[Point]:
    """The first run of every day, in the order given."""
    days = group_days([point.started_at_ms / 1000 for point in points])
    first_by_day: dict[int, Point] = {}
    for day, point in zip(days, points, strict=True):
        first_by_day.setdefault(day, point)
    return list(first_by_day.values())
