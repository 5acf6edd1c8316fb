"""Times of two targets, compared as far as their runs allow.

A machine has moods that last for minutes. Calls made side by side (`run --interleave`) share them, so their ratios can
be told from luck; with three runs a side the moods can be measured. With less, nobody can tell a model from a mood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from clawgauge.compare.findings import PairedShift
from clawgauge.compare.paired import Numbers, measure_shift
from clawgauge.compare.pairing import Pair, SharedPrompt
from clawgauge.compare.tallies import PromptTally, RunSide
from clawgauge.stats.paired import Shift, agree, compare_run_means, median, signed_rank, smallest_ratio_change
from clawgauge.stats.quantiles import percentile

MIN_RUNS = 3
_ADVICE = (
    "ask both in one run with run --interleave, or make three runs a side and compare A1,A2,A3 B1,B2,B3 (run folders)"
)


def measure_times(
    a: RunSide, b: RunSide, pair: Pair, values: Callable[[PromptTally], Numbers], place: int
) -> Callable[[float], PairedShift]:
    """One time of a pair as a measurement at a level; `place` is where a call made side by side has it."""
    if a is b and a.interleaved:
        paired = [both for shared in pair.shared if (both := _side_by_side(shared, place))]
        logs = [math.log(y / x) for x, y in paired]
        if logs:
            return lambda alpha: _tell(paired, signed_rank(logs, alpha=alpha), "side_by_side", alpha)
        return lambda alpha: measure_shift([], alpha=alpha, reason="no prompt was timed side by side")
    moved = [(median(x), median(y)) for s in pair.shared if len(x := values(s.a)) and len(y := values(s.b))]
    if min(len(a.runs), len(b.runs)) >= MIN_RUNS:
        runs_a, runs_b = _run_levels(a, b, pair, values)
        if runs_a:
            return lambda alpha: _tell(moved, compare_run_means(runs_a, runs_b, alpha=alpha), "between_runs", alpha)
    return lambda alpha: measure_shift(moved, alpha=alpha, reason=_why_not(a, b))


def _why_not(a: RunSide, b: RunSide) -> str:
    n = min(len(a.runs), len(b.runs))
    if n >= MIN_RUNS:
        return "no prompt was timed in every run"
    if a is b:
        calls = "one after the other" if n == 1 else f"one after the other in only {n} runs"
        return f"the targets were asked {calls}, which cannot tell a model from its machine's mood: {_ADVICE}"
    return f"{'one run' if n == 1 else f'{n} runs'} a side cannot tell a model from its machine's mood: {_ADVICE}"


def _side_by_side(shared: SharedPrompt, place: int) -> tuple[float, float] | None:
    """A's time and B's, moved by the median ratio of the calls that were made side by side; None where there were none.

    Which of the two went first was drawn for each pair, so without a difference either sign is as likely, whatever the
    machine did meanwhile.
    """
    calls_a, calls_b = shared.a.moments, shared.b.moments
    both = [(calls_a[key][place] or 0, calls_b[key][place] or 0) for key in calls_a.keys() & calls_b.keys()]
    timed = [(x, y) for x, y in both if x > 0 and y > 0]
    if not timed:
        return None
    ratio = math.exp(median([math.log(y / x) for x, y in timed]))
    level = median([x for x, _ in timed])
    return level, timed[0][1] if len(timed) == 1 else level * ratio


def _run_levels(
    a: RunSide, b: RunSide, pair: Pair, values: Callable[[PromptTally], Numbers]
) -> tuple[list[float], list[float]]:
    """How slow each run was: the median over prompts of the logarithm of a time against the prompt's mean of all runs.

    Only prompts that every run has timed count; with none, both are empty.
    """
    columns: list[list[float]] = []
    n_runs = len(a.runs) + len(b.runs)
    for shared in pair.shared:
        tallies = [run[pair.a].get(shared.key_a) for run in a.by_run if pair.a in run]
        tallies += [run[pair.b].get(shared.key_b) for run in b.by_run if pair.b in run]
        timed = [median(times) for tally in tallies if tally is not None and len(times := values(tally))]
        if len(timed) == n_runs and min(timed) > 0:
            logs = [math.log(time) for time in timed]
            mean = math.fsum(logs) / n_runs
            columns.append([log - mean for log in logs])
    levels = [median(level) for level in zip(*columns, strict=True)]
    return levels[: len(a.runs)], levels[len(a.runs) :]


def _tell(
    moved: Sequence[tuple[float, float]], found: Shift, test: Literal["side_by_side", "between_runs"], alpha: float
) -> PairedShift:
    """What was found in logarithms as a ratio, and in milliseconds of a call as long as A's median."""
    level = percentile(sorted(x for x, _ in moved), 0.5) or 0.0
    ratio, ratio_interval = math.exp(found.estimate), None
    if found.interval is not None:
        low, high = agree(found.interval, found.p, found.estimate, alpha=alpha)
        ratio_interval = math.exp(low), math.exp(high)
    smallest = smallest_ratio_change(ratio_interval, alpha=alpha)
    return PairedShift(
        n_prompts=len(moved),
        median_a=level,
        median_b=percentile(sorted(y for _, y in moved), 0.5),
        difference=level * (ratio - 1),
        ci95=None if ratio_interval is None else (level * (ratio_interval[0] - 1), level * (ratio_interval[1] - 1)),
        ratio=ratio,
        ratio_ci95=ratio_interval,
        n_lower=sum(y < x for x, y in moved),
        n_higher=sum(y > x for x, y in moved),
        p=found.p,
        p_holm=found.p,
        test=test,
        smallest_change=smallest if found.smallest is None else math.expm1(found.smallest),
        reason=None if ratio_interval else f"{len(moved)} prompts are too few to tell any change from luck",
    )
