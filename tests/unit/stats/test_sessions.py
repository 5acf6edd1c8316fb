"""Agreement with a user's history, by sessions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.stats.proportions import Cluster, student_t_quantile, wilson_interval
from clawgauge.stats.sessions import measure_sessions
from clawgauge.summary.agreement import measure_agreement
from clawgauge.verdict.needs import assess_agreement
from clawgauge.verdict.ranking import Fitness

from .stats_vectors import VECTORS, close

Z90 = 1.6448536269514722
sessions_of_any_length = st.lists(
    st.integers(1, 30).flatmap(lambda n: st.builds(Cluster, st.integers(0, n), st.just(n))),
    min_size=2,
    max_size=25,
)


def decide(sessions: list[Cluster], at_least: float) -> Fitness:
    return assess_agreement("agreement", measure_agreement(sessions), at_least).met


def test_sessions_of_one_length_by_hand() -> None:
    """Five sessions of four turns: the variance of their rates over five, and Wilson's interval
    with what is left.
    """
    sessions = [Cluster(4, 4), Cluster(3, 4), Cluster(4, 4), Cluster(2, 4), Cluster(3, 4)]
    measured = measure_sessions(sessions)
    assert measured is not None
    assert measured.rate == close(0.8)
    assert measured.n_sessions == close(5.0)
    variance = (0.04 + 0.0025 + 0.04 + 0.09 + 0.0025) / 4 / 5
    worth = 0.8 * 0.2 / variance
    assert measured.worth == close(worth)
    shrunk = worth * (1.959963984540054 / student_t_quantile(0.975, 4)) ** 2
    assert measured.interval == close(wilson_interval(0.8 * shrunk, shrunk))
    assert measured.has_too_few_sessions


def test_the_variance_is_that_of_the_reference() -> None:
    """Means of clusters of one length: their standard error is the reference's."""
    vector = VECTORS["clustered"]
    sessions = [Cluster(sum(answers), len(answers)) for answers in vector["clusters"]]
    measured = measure_sessions(sessions)
    assert measured is not None
    rate = vector["mean"]
    assert measured.rate == close(rate)
    assert measured.worth == close(rate * (1 - rate) / vector["se_of_prompt_means"] ** 2)


def test_worth_is_never_more_than_the_turns() -> None:
    """Sessions that differ by less than luck are worth their turns, no more."""
    sessions = [Cluster(3, 4), Cluster(3, 4), Cluster(3, 4), Cluster(2, 4), Cluster(3, 4)] * 2
    measured = measure_sessions(sessions)
    assert measured is not None
    assert measured.worth == close(40)
    alike = measure_sessions([Cluster(3, 7)] * 10)
    assert alike is not None
    assert alike.worth == close(70)


@pytest.mark.parametrize("passes", [0, 7])
def test_sessions_that_all_end_alike_are_worth_their_number(passes: int) -> None:
    """No failure in ten sessions of seven turns is no failure of ten, not of seventy."""
    measured = measure_sessions([Cluster(passes, 7)] * 10)
    assert measured is not None
    assert measured.worth == close(10.0)
    low, high = measured.interval
    shrunk = 10 * (1.959963984540054 / student_t_quantile(0.975, 9)) ** 2
    assert (low, high) == close(wilson_interval(passes / 7 * shrunk, shrunk))


def test_one_long_session_beside_short_ones_is_worth_little() -> None:
    """Twelve sessions, one of them with most of the turns, are fewer than two in effect."""
    measured = measure_sessions([Cluster(80, 100), *[Cluster(1, 1)] * 11])
    assert measured is not None
    assert measured.n_sessions == close(111**2 / (100**2 + 11))
    assert measured.has_too_few_sessions


def test_less_than_two_sessions_have_no_interval() -> None:
    """Thirty turns of a single session tell of that session; sessions without turns are none."""
    assert measure_sessions([]) is None
    assert measure_sessions([Cluster(30, 30)]) is None
    assert measure_sessions([Cluster(30, 30), Cluster(0, 0)]) is None
    assert decide([Cluster(30, 30)], 0.7) is Fitness.CANNOT_TELL


def test_fit_is_the_lower_end_of_the_interval_at_90_percent() -> None:
    """Ten clean sessions show 70%, six do not; ten failed ones refute it."""
    clean = [Cluster(5, 5)] * 10
    measured = measure_sessions(clean, level=0.90)
    assert measured is not None
    shrunk = 10 * (Z90 / student_t_quantile(0.95, 9)) ** 2
    assert measured.interval == close((shrunk / (shrunk + Z90**2), 1.0))
    assert decide(clean, 0.7) is Fitness.YES
    assert decide(clean, 0.9) is Fitness.CANNOT_TELL
    assert decide(clean[:6], 0.5) is Fitness.YES
    assert decide(clean[:6], 0.7) is Fitness.CANNOT_TELL
    assert decide(clean[:5], 0.1) is Fitness.CANNOT_TELL
    assert decide([Cluster(0, 5)] * 10, 0.7) is Fitness.NO
    assert decide([Cluster(3, 4)] * 4, 0.1) is Fitness.CANNOT_TELL


@given(sessions_of_any_length)
def test_the_interval_holds_the_rate_and_is_wider_than_that_of_turns(
    sessions: list[Cluster],
) -> None:
    measured = measure_sessions(sessions)
    assert measured is not None
    low, high = measured.interval
    assert 0 <= low <= measured.rate <= high <= 1
    n_turns = sum(session.trials for session in sessions)
    k = sum(session.passes for session in sessions)
    naive_low, naive_high = wilson_interval(k, n_turns) or (0, 1)
    assert high - low >= naive_high - naive_low - 1e-9
    assert 1 <= measured.n_sessions <= len(sessions) + 1e-9
