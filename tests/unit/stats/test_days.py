"""Runs of two sides on several days."""

from __future__ import annotations

from clawgauge.stats.days import DaysTest, RunLevel, compare_days, group_days
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


def test_one_day_a_side_cannot_tell() -> None:
    """Three runs on Monday against three on Friday, however far apart they are."""
    comparison = compare_days(runs({0: [1.0, 1.1, 0.9]}), runs({4: [9.0, 9.1, 9.2]}))
    assert comparison.test is DaysTest.ONE_DAY_A_SIDE
    assert comparison.shift is None
    assert comparison[1:4] == (1, 1, 0)
    together = compare_days(runs({0: [1.0, 1.1]}), runs({0: [9.0, 9.1]}, from_s=HOUR / 2))
    assert together.test is DaysTest.ONE_DAY_A_SIDE
    assert together.n_shared_days == 1


def test_two_days_a_side_are_too_few() -> None:
    comparison = compare_days(runs({0: [1.0], 1: [1.1], 2: [1.0]}), runs({7: [9.0], 8: [9.1]}))
    assert comparison.test is DaysTest.TOO_FEW_DAYS
    assert comparison.shift is None
    assert (comparison.n_days_a, comparison.n_days_b) == (3, 2)
    beside_one = compare_days(runs({0: [1.0], 1: [1.1]}), runs({7: [9.0, 9.1]}))
    assert beside_one.test is DaysTest.TOO_FEW_DAYS


def test_days_are_compared_by_their_means() -> None:
    """Three days a side, of one to three runs: Student's test on three means a side."""
    a = runs({0: [1.0, 1.2], 1: [0.9], 2: [1.0, 1.1, 1.2]})
    b = runs({7: [1.5], 8: [1.4, 1.6], 9: [1.8]})
    comparison = compare_days(a, b)
    assert comparison.test is DaysTest.MEANS_OF_DAYS
    assert comparison.shift is not None
    expected = compare_run_means([1.1, 0.9, 1.1], [1.5, 1.5, 1.8])
    assert comparison.shift.estimate == close(expected.estimate)
    assert comparison.shift.p == close(expected.p)
    assert comparison.n_shared_days == 0


def test_sides_that_ran_on_the_same_days_are_compared_by_day() -> None:
    """A and B on each of three days: good and bad days cancel; a fourth day of one side is left
    out.
    """
    a = runs({0: [1.0], 1: [5.0], 2: [3.0], 9: [7.0]})
    b = runs({0: [1.2], 1: [5.3], 2: [3.4]}, from_s=2 * HOUR)
    comparison = compare_days(a, b)
    assert comparison.test is DaysTest.BY_DAY
    assert comparison[1:4] == (4, 3, 3)
    assert comparison.shift is not None
    assert comparison.shift.estimate == close(0.3)
    t = 0.3 / (0.1 / 3**0.5)
    assert comparison.shift.p == close(2 * student_t_cdf(-t, 2))
    seen = student_t_quantile(0.975, 2) + student_t_quantile(0.8, 2)
    assert comparison.shift.smallest == close(seen * 0.1 / 3**0.5)
    assert compare_run_means([1.0, 5.0, 3.0], [1.2, 5.3, 3.4]).p > 0.5


def test_differences_by_day_meet_the_reference() -> None:
    """The interval of ten paired differences is the reference's."""
    vector = VECTORS["paired_example"]
    a = runs({day: [float(level)] for day, level in enumerate(vector["B"])})
    b = runs({day: [float(level)] for day, level in enumerate(vector["A"])}, from_s=HOUR)
    shift = compare_days(a, b).shift
    assert shift is not None
    assert shift.estimate == close(vector["mean_diff"])
    assert shift.interval == close(tuple(vector["ci95_t"]))


def test_days_that_differ_by_nothing_are_no_change() -> None:
    same = {0: [1.0], 1: [1.0], 2: [1.0]}
    shift = compare_days(runs(same), runs(same, from_s=HOUR)).shift
    assert shift is not None
    assert shift.p == 1.0
