"""How far times and token counts moved, prompt by prompt, and how likely luck alone moves them.

A machine has moods that last for minutes, and good and bad days. Calls made side by side
(`run --interleave`) share them, so the ratios of their times can be told from luck; runs of three
days a side or more tell how much days differ. With less, nobody can tell a model from a mood."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from clawgauge.compare.correction import Measurement
from clawgauge.compare.findings import PairedShift
from clawgauge.compare.pairing import Pair, SharedPrompt
from clawgauge.compare.sides import Side
from clawgauge.compare.tallies import CallTimes, PromptTally
from clawgauge.stats import paired as stats
from clawgauge.stats.days import DaysPlan, DaysTest, RunLevel, compare_days, plan_days
from clawgauge.stats.proportions import Interval
from clawgauge.stats.quantiles import percentile
from clawgauge.words import plural

_HINT = (
    "ask both in one run (run --interleave), or run both on each of three days or more and compare "
    "A1,A2,A3 B1,B2,B3 (run folders)"
)
# A figure of A's and of B's, prompt by prompt.
Values: TypeAlias = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Timing:
    """A time of a call: how it is read of all calls of a prompt, and of one made side by side."""

    of_prompt: Callable[[PromptTally], Sequence[float]]
    of_call: Callable[[CallTimes], float | None]


WHOLE_CALL = Timing(of_prompt=lambda tally: tally.e2e_ms, of_call=lambda call: call.e2e_ms)
FIRST_TOKEN = Timing(of_prompt=lambda tally: tally.ttft_ms, of_call=lambda call: call.ttft_ms)


@dataclass(frozen=True, slots=True)
class SignTest:
    """A shift told from luck by the signs of the differences."""

    values: Values

    def at(self, alpha: float) -> PairedShift:
        differences = _differences(self.values)
        ratios = _ratios(self.values)
        ratio_interval = stats.median_interval(ratios, alpha=alpha)
        return _make_shift(
            self.values,
            p=self._p(differences),
            test="sign",
            estimates=_Estimates(
                difference=percentile(differences, 0.5),
                interval=stats.median_interval(differences, alpha=alpha),
                ratio=percentile(ratios, 0.5),
                ratio_interval=ratio_interval,
                smallest_change=stats.smallest_ratio_change(ratio_interval, alpha=alpha),
            ),
        )

    def _p(self, differences: Sequence[float]) -> float:
        # A prompt that did not move speaks for no change, here as in the interval: that keeps the
        # two of one mind.
        n = len(differences)
        n_lower = sum(difference < 0 for difference in differences)
        n_higher = sum(difference > 0 for difference in differences)
        n_against = n - max(n_lower, n_higher)
        if 2 * n_against >= n:
            return 1.0
        return stats.mcnemar_exact(n_against, n - n_against)


@dataclass(frozen=True, slots=True)
class Untested:
    """A shift that is described, and for a `reason` not told from luck."""

    values: Values
    reason: str

    def at(self, alpha: float) -> PairedShift:
        estimates = _Estimates(
            difference=percentile(_differences(self.values), 0.5),
            interval=None,
            ratio=percentile(_ratios(self.values), 0.5),
            ratio_interval=None,
            smallest_change=None,
        )
        return _make_shift(self.values, p=1.0, test=None, estimates=estimates, reason=self.reason)


@dataclass(frozen=True, slots=True)
class SideBySideTest:
    """A shift of times told from luck by the signed ranks of calls made side by side."""

    values: Values

    def at(self, alpha: float) -> PairedShift:
        log_ratios = [math.log(b / a) for a, b in self.values]
        log_shift = stats.signed_rank(log_ratios, alpha=alpha)
        return _as_ratio(self.values, log_shift, "side_by_side", alpha)


@dataclass(frozen=True, slots=True)
class DaysMeasurement:
    """A shift of times told from luck by how much the days of a side differ, or the differences of
    the days that both ran on.

    A level is how slow a run was, in logarithms. The days can tell: `plan` says how."""

    values: Values
    levels_a: Sequence[RunLevel]
    levels_b: Sequence[RunLevel]
    plan: DaysPlan

    def at(self, alpha: float) -> PairedShift:
        log_shift = compare_days(self.levels_a, self.levels_b, alpha=alpha)
        test: Literal["by_day", "means_of_days"] = "means_of_days"
        if self.plan.test is DaysTest.BY_DAY:
            test = "by_day"
        shift = _as_ratio(self.values, log_shift, test, alpha)
        return msgspec.structs.replace(
            shift,
            n_days_a=self.plan.n_days_a,
            n_days_b=self.plan.n_days_b,
            n_shared_days=self.plan.n_shared_days,
        )


def measure_tokens(prompts: Sequence[SharedPrompt]) -> Measurement[PairedShift]:
    return SignTest(_medians(prompts, lambda tally: tally.output_tokens))


def measure_times(a: Side, b: Side, pair: Pair, timing: Timing) -> Measurement[PairedShift]:
    if a is b and a.is_interleaved:
        return _measure_side_by_side(pair, timing)
    values = _medians(pair.shared, timing.of_prompt)
    plan = _plan_days(a, b)
    if not plan.can_tell:
        return Untested(values, _too_few_days(plan, is_one_side=a is b))
    levels = _run_levels(a, b, pair, timing)
    if not levels:
        return Untested(values, "no prompt was timed in every run")
    n_runs_a = len(a.runs)
    return DaysMeasurement(
        values,
        levels_a=_join_starts(a, levels[:n_runs_a]),
        levels_b=_join_starts(b, levels[n_runs_a:]),
        plan=plan,
    )


def can_test_times(a: Side, b: Side) -> bool:
    """Whether a change of times can be told from luck: calls side by side, or days enough."""
    if a is b and a.is_interleaved:
        return True
    return _plan_days(a, b).can_tell


def _plan_days(a: Side, b: Side) -> DaysPlan:
    return plan_days(_starts_s(a), _starts_s(b))


def _starts_s(side: Side) -> list[float]:
    return [tallied.run.started_at_ms / 1000 for tallied in side.runs]


def _join_starts(side: Side, levels: Sequence[float]) -> list[RunLevel]:
    starts = _starts_s(side)
    return [RunLevel(start, level) for start, level in zip(starts, levels, strict=True)]


def _measure_side_by_side(pair: Pair, timing: Timing) -> Measurement[PairedShift]:
    values = []
    for shared in pair.shared:
        times = _side_by_side_times(shared, timing)
        if times is not None:
            values.append(times)
    if not values:
        return Untested([], "no prompt was timed side by side")
    return SideBySideTest(values)


def _medians(
    prompts: Sequence[SharedPrompt], read: Callable[[PromptTally], Sequence[float]]
) -> list[tuple[float, float]]:
    """The medians of both sides, of every prompt that has a value on both."""
    medians = []
    for prompt in prompts:
        values_a = read(prompt.a)
        values_b = read(prompt.b)
        if len(values_a) and len(values_b):
            medians.append((stats.median(values_a), stats.median(values_b)))
    return medians


def _too_few_days(plan: DaysPlan, *, is_one_side: bool) -> str:
    n_a = plan.n_days_a
    n_b = plan.n_days_b
    if plan.test is DaysTest.ONE_DAY_A_SIDE:
        days = "one day a side"
    elif n_a == n_b:
        days = f"{plural(n_a, 'day')} a side"
    else:
        days = f"{plural(n_a, 'day')} in A and {n_b} in B"
    if is_one_side:
        on_days = "one day" if n_a == 1 else f"only {n_a} days"
        days = f"the targets were asked one after the other on {on_days}, which"
    return f"{days} cannot tell a model from its machine's mood: {_HINT}"


def _side_by_side_times(shared: SharedPrompt, timing: Timing) -> tuple[float, float] | None:
    """A's time and B's, moved by the median ratio of the calls that were made side by side; None
    where there were none.

    Who went first was drawn for each pair: without a difference either sign is as likely, whatever
    the machine did."""
    calls_a = shared.a.side_by_side
    calls_b = shared.b.side_by_side
    timed = []
    for call_place in calls_a.keys() & calls_b.keys():
        time_a = timing.of_call(calls_a[call_place]) or 0
        time_b = timing.of_call(calls_b[call_place]) or 0
        if time_a > 0 and time_b > 0:
            timed.append((time_a, time_b))
    if not timed:
        return None
    if len(timed) == 1:
        return timed[0]
    ratio = math.exp(stats.median([math.log(time_b / time_a) for time_a, time_b in timed]))
    level = stats.median([time_a for time_a, _ in timed])
    return level, level * ratio


def _run_levels(a: Side, b: Side, pair: Pair, timing: Timing) -> list[float]:
    """How slow each run was, A's runs before B's: the median, over the prompts that every run has
    timed, of the logarithm of a time against the prompt's mean of all runs. Empty where there is no
    such prompt."""
    n_runs = len(a.runs) + len(b.runs)
    rows: list[list[float]] = []
    for shared in pair.shared:
        times = []
        for run in a.runs:
            times += _median_of(run.tallies.get(pair.a, {}).get(shared.key_a), timing)
        for run in b.runs:
            times += _median_of(run.tallies.get(pair.b, {}).get(shared.key_b), timing)
        if len(times) == n_runs and min(times) > 0:
            logs = [math.log(time) for time in times]
            mean = math.fsum(logs) / n_runs
            rows.append([log - mean for log in logs])
    return [stats.median(column) for column in zip(*rows, strict=True)]


def _median_of(tally: PromptTally | None, timing: Timing) -> list[float]:
    """The median time of a prompt in one run; nothing where it has none."""
    if tally is None:
        return []
    times = timing.of_prompt(tally)
    return [stats.median(times)] if len(times) else []


class _Estimates(NamedTuple):
    difference: float | None
    interval: Interval | None
    ratio: float | None
    ratio_interval: Interval | None
    smallest_change: float | None


def _as_ratio(
    values: Values,
    log_shift: stats.Shift,
    test: Literal["side_by_side", "by_day", "means_of_days"],
    alpha: float,
) -> PairedShift:
    """What was measured in logarithms as a ratio, and in milliseconds of a call as long as A's
    median."""
    level = percentile(sorted(value_a for value_a, _ in values), 0.5) or 0.0
    ratio = math.exp(log_shift.estimate)
    interval = None
    ratio_interval = None
    if log_shift.interval is not None:
        low, high = stats.agree(log_shift.interval, log_shift.p, log_shift.estimate, alpha=alpha)
        ratio_interval = (math.exp(low), math.exp(high))
        interval = (level * (ratio_interval[0] - 1), level * (ratio_interval[1] - 1))
    if log_shift.smallest is None:
        smallest_change = stats.smallest_ratio_change(ratio_interval, alpha=alpha)
    else:
        smallest_change = math.expm1(log_shift.smallest)
    estimates = _Estimates(
        difference=level * (ratio - 1),
        interval=interval,
        ratio=ratio,
        ratio_interval=ratio_interval,
        smallest_change=smallest_change,
    )
    return _make_shift(values, p=log_shift.p, test=test, estimates=estimates)


def _make_shift(
    values: Values,
    *,
    p: float,
    test: Literal["sign", "side_by_side", "by_day", "means_of_days"] | None,
    estimates: _Estimates,
    reason: str | None = None,
) -> PairedShift:
    n_prompts = len(values)
    if test is not None and estimates.interval is None:
        prompts = plural(n_prompts, "prompt is", "prompts are")
        reason = f"{prompts} too few to tell any change from luck"
    return PairedShift(
        n_prompts=n_prompts,
        difference=estimates.difference,
        ci95=estimates.interval,
        p=p,
        p_holm=p,
        smallest_change=estimates.smallest_change,
        reason=reason,
        median_a=percentile(sorted(value_a for value_a, _ in values), 0.5),
        median_b=percentile(sorted(value_b for _, value_b in values), 0.5),
        ratio=estimates.ratio,
        ratio_ci95=estimates.ratio_interval,
        n_lower=sum(value_b < value_a for value_a, value_b in values),
        n_higher=sum(value_b > value_a for value_a, value_b in values),
        test=test,
    )


def _differences(values: Values) -> list[float]:
    return sorted(value_b - value_a for value_a, value_b in values)


def _ratios(values: Values) -> list[float]:
    """B over A, of the prompts where A is more than nothing."""
    return sorted(value_b / value_a for value_a, value_b in values if value_a > 0)
