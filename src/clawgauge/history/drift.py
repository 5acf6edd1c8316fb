"""Whether a target changed its level from some run on, by more than runs differ by anyway."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, median

from clawgauge.history.entries import RunEntry
from clawgauge.history.findings import Point
from clawgauge.records import PromptKey, Target
from clawgauge.stats.paired import find_change
from clawgauge.words import format_percent, format_rate, plural

# With so many, `compare` can tell a change of times from a machine's mood.
_RUNS_A_SIDE = 3
# How much a machine's pace commonly shifts from one run to the next.
_USUAL_SHIFT = 0.03
# Luck with n prompts is known well: it counts as so many runs would.
_N_USUAL_RATE = 10


def find_rate_drift(points: Sequence[Point]) -> str | None:
    """Where the pass rate of answers (an outage is no worse model) changed its level by more than
    luck has it; None where it did not."""
    # A run that its own results stopped asked other prompts.
    usable = [point for point in points if point.pass_rate is not None and not point.stopped_early]
    if len(usable) < 2:
        return None
    n_judged = sum(point.n_judged for point in usable)
    n_passed = sum(point.n_passed for point in usable)
    common_rate = (n_passed + 1) / (n_judged + 2)
    usual_sd = math.sqrt(common_rate * (1 - common_rate) * len(usable) / n_judged)
    rates = [point.pass_rate or 0.0 for point in usable]
    since = find_change(rates, usual_sd, _N_USUAL_RATE)
    if since is None:
        return None
    n_passed_before = sum(point.n_passed for point in usable[:since])
    n_judged_before = sum(point.n_judged for point in usable[:since])
    n_passed_since = n_passed - n_passed_before
    n_judged_since = n_judged - n_judged_before
    before = format_rate(n_passed_before, n_judged_before)
    after = format_rate(n_passed_since, n_judged_since)
    has_fallen = n_passed_since * n_judged_before < n_passed_before * n_judged_since
    direction = "fell" if has_fallen else "rose"
    when = _word_since(usable, since)
    return f"pass rate {direction} from {before} to {after} of the answers {when}"


def find_pace_drift(
    target: Target, row: Sequence[tuple[Point, RunEntry]], suite: str | None
) -> str | None:
    """Where calls began to take longer or less than before; None where they did not."""
    if len(row) < 2:
        return None
    timed_points = []
    runs_ms = []
    for point, entry in row:
        medians_ms = entry.prompt_medians_ms(target, suite)
        if medians_ms:
            timed_points.append(point)
            runs_ms.append(medians_ms)
    change = find_pace_change(runs_ms)
    if change is None:
        return None
    since, share = change
    direction = "longer" if share > 0 else "less"
    when = _word_since(timed_points, since)
    return f"calls take {format_percent(abs(share))} {direction} {when}"


def find_pace_change(runs_ms: Sequence[Mapping[PromptKey, float]]) -> tuple[int, float] | None:
    """The run with which calls began to take longer or less, by what share; each prompt beside its
    own median."""
    logs_by_prompt: dict[PromptKey, list[float]] = {}
    for run in runs_ms:
        for key, time_ms in run.items():
            logs_by_prompt.setdefault(key, []).append(_log_ms(time_ms))
    usual_log = {key: median(logs) for key, logs in logs_by_prompt.items()}
    levels = []
    for run in runs_ms:
        levels.append(median(_log_ms(time_ms) - usual_log[key] for key, time_ms in run.items()))
    since = find_change(levels, _USUAL_SHIFT)
    if since is None:
        return None
    return since, math.exp(mean(levels[since:]) - mean(levels[:since])) - 1


def _log_ms(time_ms: float) -> float:
    """Less than a millisecond counts as one."""
    return math.log(max(1.0, time_ms))


def _word_since(points: Sequence[Point], since: int) -> str:
    """The run a change began with, and the comparison that looks closer."""
    ids = [point.run_id for point in points]
    n_since = len(points) - since
    n_a_side = _RUNS_A_SIDE if min(since, n_since) >= _RUNS_A_SIDE else 1
    side_a = ",".join(ids[since - n_a_side : since])
    side_b = ",".join(ids[since : since + n_a_side])
    runs = f"{plural(since, 'run')} before, {n_since} since"
    return f"since {ids[since]} ({runs}; clawgauge compare {side_a} {side_b})"
