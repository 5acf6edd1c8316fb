"""Runs of two sides on several days."""

from __future__ import annotations

import pytest

from clawgauge.stats.days import (
    DaysPlan,
    DaysTest,
    RunLevel,
    compare_days,
    group_days,
    plan_days,
)
from clawgauge.stats.paired import compare_run_means
from clawgauge.stats.proportions import student_t_cdf, student_t_quantile

from .stats_vectors import VECTORS, close

HOUR = 3600.0
DAY = 24 * HOUR


def runs(levels_by_day: dict[int, list[float]], from_s: float = 0.0) -> list[RunLevel]:
    """Runs one hour apart on each day."""
    listed = []
    for day, levels in levels_by_day.items():
        for hour, level in enumerate(levels):
            started_s = from_s + day * DAY + hour * HOUR
            listed.append(RunLevel(started_s=started_s, level=level))
    return listed


def test_runs_less_than_six_hours_apart_are_of_one_day() -> None:
    """Also across midnight and in any order; six hours are another day."""
    hours = [0.0, 5.9, 11.8, 17.8, 30.0]
    assert group_days([hour * HOUR for hour in hours]) == [0, 0, 0, 1, 2]
    assert group_days([30 * HOUR, 0.0, 31 * HOUR]) == [1, 0, 1]
    assert group_days([]) == []


def plan_of(a: list[RunLevel], b: list[RunLevel]) -> DaysPlan:
    return plan_days([run.started_s for run in a], [run.started_s for run in b])


def test_one_day_a_side_cannot_tell() -> None:
    """Three runs on Monday against three on Friday, however far apart they are."""
    monday = runs({0: [1.0, 1.1, 0.9]})
    friday = runs({4: [9.0, 9.1, 9.2]})
    plan = plan_of(monday, friday)
    assert plan == DaysPlan(DaysTest.ONE_DAY_A_SIDE, n_days_a=1, n_days_b=1, n_shared_days=0)
    assert not plan.can_tell
    with pytest.raises(ValueError, match="cannot be compared"):
        compare_days(monday, friday)
    together = plan_of(runs({0: [1.0, 1.1]}), runs({0: [9.0, 9.1]}, from_s=HOUR / 2))
    assert together.test is DaysTest.ONE_DAY_A_SIDE
    assert together.n_shared_days == 1


def test_two_days_a_side_are_too_few() -> None:
    plan = plan_of(runs({0: [1.0], 1: [1.1], 2: [1.0]}), runs({7: [9.0], 8: [9.1]}))
    assert plan == DaysPlan(DaysTest.TOO_FEW_DAYS, n_days_a=3, n_days_b=2, n_shared_days=0)
    assert not plan.can_tell
    beside_one = plan_of(runs({0: [1.0], 1: [1.1]}), runs({7: [9.0, 9.1]}))
    assert beside_one.test is DaysTest.TOO_FEW_DAYS


def test_days_are_compared_by_their_means() -> None:
    """Three days a side, of one to three runs: Student's test on three means a side."""
    a = runs({0: [1.0, 1.2], 1: [0.9], 2: [1.0, 1.1, 1.2]})
    b = runs({7: [1.5], 8: [1.4, 1.6], 9: [1.8]})
    assert plan_of(a, b).test is DaysTest.MEANS_OF_DAYS
    assert plan_of(a, b).n_shared_days == 0
    shift = compare_days(a, b)
    expected = compare_run_means([1.1, 0.9, 1.1], [1.5, 1.5, 1.8])
    assert shift.estimate == close(expected.estimate)
    assert shift.p == close(expected.p)


def test_sides_that_ran_on_the_same_days_are_compared_by_day() -> None:
    """A and B on each of three days: good and bad days cancel; a fourth day of one side is left
    out.
    """
    a = runs({0: [1.0], 1: [5.0], 2: [3.0], 9: [7.0]})
    b = runs({0: [1.2], 1: [5.3], 2: [3.4]}, from_s=2 * HOUR)
    plan = plan_of(a, b)
    assert plan == DaysPlan(DaysTest.BY_DAY, n_days_a=4, n_days_b=3, n_shared_days=3)
    shift = compare_days(a, b)
    assert shift.estimate == close(0.3)
    t = 0.3 / (0.1 / 3**0.5)
    assert shift.p == close(2 * student_t_cdf(-t, 2))
    seen = student_t_quantile(0.975, 2) + student_t_quantile(0.8, 2)
    assert shift.smallest == close(seen * 0.1 / 3**0.5)
    assert compare_run_means([1.0, 5.0, 3.0], [1.2, 5.3, 3.4]).p > 0.5


def test_differences_by_day_meet_the_reference() -> None:
    """The interval of ten paired differences is the reference's."""
    vector = VECTORS["paired_example"]
    a = runs({day: [float(level)] for day, level in enumerate(vector["B"])})
    b = runs({day: [float(level)] for day, level in enumerate(vector["A"])}, from_s=HOUR)
    shift = compare_days(a, b)
    assert shift.estimate == close(vector["mean_diff"])
    assert shift.interval == close(tuple(vector["ci95_t"]))


def test_days_that_differ_by_nothing_are_no_change() -> None:
    same = {0: [1.0], 1: [1.0], 2: [1.0]}
    shift = compare_days(runs(same), runs(same, from_s=HOUR))
    assert shift.p == 1.0
