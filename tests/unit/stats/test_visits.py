"""Capacity over several visits of a level."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.stats.proportions import student_t_cdf, student_t_quantile
from clawgauge.stats.visits import (
    average_visits,
    compare_visits,
    find_most_within,
    pool_to_fall,
)

from .stats_vectors import close


def test_visits_are_averaged_as_logarithms() -> None:
    """8, 10 and 12.5 a second are 10 a second, with Student's interval of two degrees."""
    measured = average_visits([8.0, 10.0, 12.5])
    assert measured is not None
    assert measured.rate == close(10.0)
    assert measured.n_visits == 3
    factor = math.exp(student_t_quantile(0.975, 2) * math.log(1.25) / math.sqrt(3))
    assert measured.interval == close((10 / factor, 10 * factor))


def test_equal_visits_still_differ_by_one_percent() -> None:
    measured = average_visits([10.0] * 5)
    assert measured is not None
    factor = math.exp(student_t_quantile(0.975, 4) * 0.01 / math.sqrt(5))
    assert measured.interval == close((10 / factor, 10 * factor))


def test_one_visit_has_no_interval_and_none_no_rate() -> None:
    alone = average_visits([10.0])
    assert alone is not None
    assert alone.rate == close(10.0)
    assert alone.interval is None
    assert average_visits([]) is None
    assert average_visits([10.0, 0.0]) is None


def test_the_most_within_the_limits_is_a_range() -> None:
    """6 always, 11 in its quiet moments; a level above that was good once by luck is pooled with
    the one below.
    """
    attained = {
        1: [1.0],
        4: [0.99, 1.0],
        6: [0.95, 0.97, 1.0],
        8: [0.80, 0.99],
        11: [0.60, 0.96],
        12: [0.50, 0.70],
        13: [0.30, 0.96],
    }
    assert find_most_within(attained) == (6, 11)


def test_a_level_above_a_broken_one_is_not_always_within() -> None:
    assert find_most_within({2: [1.0, 1.0], 4: [0.5, 0.9], 6: [1.0, 1.0]}) == (2, 6)
    assert find_most_within({2: [1.0], 4: [0.5], 6: [0.96]}) == (2, 2)


def test_nothing_within_the_limits_is_zero() -> None:
    """Not even the lowest level; and a level without visits is none."""
    assert find_most_within({1: [0.4, 0.5], 2: [0.2]}) == (0, 0)
    assert find_most_within({1: [0.4, 0.99], 2: [0.2]}) == (0, 1)
    assert find_most_within({}) == (0, 0)
    assert find_most_within({1: [1.0], 2: [], 3: [1.0]}) == (3, 3)


def test_one_visit_a_level_is_a_single_number() -> None:
    assert find_most_within({1: [1.0], 2: [0.99], 3: [0.9]}) == (2, 2)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_pooled_values_fall_and_keep_their_sum(values: list[float]) -> None:
    pooled = pool_to_fall(values)
    assert len(pooled) == len(values)
    assert all(x >= y - 1e-12 for x, y in pairwise(pooled))
    assert sum(pooled) == pytest.approx(sum(values), abs=1e-9)
    assert pool_to_fall(sorted(values, reverse=True)) == close(sorted(values, reverse=True))


def test_neighbours_are_pooled_until_they_fall() -> None:
    assert pool_to_fall([1.0, 0.6, 0.8, 0.2, 0.9]) == close([1.0, 0.7, 0.7, 0.55, 0.55])
    assert pool_to_fall([0.0, 1.0]) == close([0.5, 0.5])


def test_visits_of_two_runs_are_compared_by_hand() -> None:
    """Each side's own variance, at least that of 1%; eight degrees for five visits a side."""
    a = [10.0, 10.5, 9.5, 10.2, 9.8]
    b = [12.0] * 5
    shift = compare_visits(a, b)
    assert shift is not None
    logs = [math.log(x) for x in a]
    mean = sum(logs) / 5
    variance = sum((x - mean) ** 2 for x in logs) / 4
    error = math.sqrt(variance / 5 + 0.0001 / 5)
    change = math.log(12) - mean
    half = student_t_quantile(0.975, 8) * error
    assert shift.estimate == close(change)
    assert shift.p == close(2 * student_t_cdf(-change / error, 8))
    assert shift.interval == close((change - half, change + half))


def test_a_change_under_two_percent_is_none() -> None:
    shift = compare_visits([100.0] * 9, [101.9] * 9)
    assert shift is not None
    assert shift.p == 1.0
    # Half a request a second is a rate like any other.
    larger = compare_visits([0.5] * 9, [0.5105] * 9)
    assert larger is not None
    assert larger.p < 0.05


def test_single_visits_cannot_be_compared() -> None:
    assert compare_visits([10.0], [20.0, 20.0]) is None
    assert compare_visits([10.0, 10.0], [20.0]) is None
    assert compare_visits([10.0, 0.0], [20.0, 20.0]) is None
    assert compare_visits([], []) is None
