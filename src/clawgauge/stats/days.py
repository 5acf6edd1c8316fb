"""Runs of two sides on several days: a machine, or a vendor, has good and bad days, so runs of one
day are one observation."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from clawgauge.stats.paired import ALPHA, POWER, SMALLEST_P, Shift, compare_run_means
from clawgauge.stats.proportions import student_t_cdf, student_t_quantile

FEWEST_DAYS = 3
_GAP_S = 6 * 3600
_LEAST_ERROR = 1e-12


class RunLevel(NamedTuple):
    """One figure of one run, and when the run was started, in seconds."""

    started_s: float
    level: float


class DaysTest(enum.Enum):
    """How several days are compared, or why they cannot be."""

    BY_DAY = "by_day"
    MEANS_OF_DAYS = "means_of_days"
    ONE_DAY_A_SIDE = "one_day_a_side"
    TOO_FEW_DAYS = "too_few_days"


class DaysPlan(NamedTuple):
    """On how many days each side ran, on how many of them both did, and how that can be
    compared."""

    test: DaysTest
    n_days_a: int
    n_days_b: int
    n_shared_days: int

    @property
    def can_tell(self) -> bool:
        return self.test in (DaysTest.BY_DAY, DaysTest.MEANS_OF_DAYS)


def group_days(started_s: Sequence[float]) -> list[int]:
    """The number of the day of each run, in the order given: a run that was started less than six
    hours after another is of the same day."""
    in_order = sorted(range(len(started_s)), key=lambda run: started_s[run])
    days = [0] * len(started_s)
    for earlier, run in pairwise(in_order):
        is_new = started_s[run] - started_s[earlier] >= _GAP_S
        days[run] = days[earlier] + is_new
    return days


def plan_days(started_a_s: Sequence[float], started_b_s: Sequence[float]) -> DaysPlan:
    """How runs that were started then are compared: by the differences of the days that both sides
    ran on, where there are three or more; else by the means of the days, three a side or more."""
    days = group_days([*started_a_s, *started_b_s])
    days_a = set(days[: len(started_a_s)])
    days_b = set(days[len(started_a_s) :])
    n_shared_days = len(days_a & days_b)
    if n_shared_days >= FEWEST_DAYS:
        test = DaysTest.BY_DAY
    elif min(len(days_a), len(days_b)) >= FEWEST_DAYS:
        test = DaysTest.MEANS_OF_DAYS
    elif max(len(days_a), len(days_b)) == 1:
        test = DaysTest.ONE_DAY_A_SIDE
    else:
        test = DaysTest.TOO_FEW_DAYS
    return DaysPlan(
        test=test, n_days_a=len(days_a), n_days_b=len(days_b), n_shared_days=n_shared_days
    )


def compare_days(a: Sequence[RunLevel], b: Sequence[RunLevel], *, alpha: float = ALPHA) -> Shift:
    """B − A by `plan_days`. Raises `ValueError` where the days cannot tell."""
    plan = plan_days([run.started_s for run in a], [run.started_s for run in b])
    if not plan.can_tell:
        raise ValueError(f"these days cannot be compared: {plan}")
    days = group_days([run.started_s for run in (*a, *b)])
    means_a = _mean_by_day(a, days[: len(a)])
    means_b = _mean_by_day(b, days[len(a) :])
    if plan.test is DaysTest.MEANS_OF_DAYS:
        return compare_run_means(list(means_a.values()), list(means_b.values()), alpha=alpha)
    differences = [means_b[day] - mean for day, mean in means_a.items() if day in means_b]
    return _measure_differences(differences, alpha)


def _mean_by_day(runs: Sequence[RunLevel], days: Sequence[int]) -> dict[int, float]:
    levels: dict[int, list[float]] = {}
    for run, day in zip(runs, days, strict=True):
        levels.setdefault(day, []).append(run.level)
    return {day: fmean(of_day) for day, of_day in levels.items()}


def _measure_differences(differences: Sequence[float], alpha: float) -> Shift:
    """Student's paired test (1908) of two differences or more."""
    n = len(differences)
    mean = fmean(differences)
    squares = math.fsum((d - mean) ** 2 for d in differences)
    error = math.sqrt(squares / (n - 1) / n) or _LEAST_ERROR
    p = 2 * student_t_cdf(-abs(mean) / error, n - 1)
    half = student_t_quantile(1 - alpha / 2, n - 1) * error
    return Shift(
        estimate=mean,
        interval=(mean - half, mean + half),
        p=min(1.0, max(SMALLEST_P, p)),
        smallest=half + student_t_quantile(POWER, n - 1) * error,
    )
