"""The sequential decision about one need: exact figures."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.stats.decision import (
    ARGUMENTS_ZONE,
    CALLS_ZONE,
    CORRELATIONS,
    FALLBACK_ZONE,
    MAIN_TASKS_ZONE,
    PAIR_ZONE,
    SUBAGENT_TASKS_ZONE,
    Decision,
    FamilyCounts,
    Zone,
    answers_until_no,
    answers_until_yes,
    chance_of_decision,
    decide,
    decision_chances,
    score,
    zone_at,
)

from .stats_vectors import VECTORS, close

ZONES = {
    "arguments": ARGUMENTS_ZONE,
    "calls": CALLS_ZONE,
    "tasks of the main agent": MAIN_TASKS_ZONE,
    "tasks of a subagent": SUBAGENT_TASKS_ZONE,
    "pairs": PAIR_ZONE,
    "fallback": FALLBACK_ZONE,
}
zones = st.sampled_from(sorted(ZONES.values()))


@st.composite
def drawn_families(draw: st.DrawFn) -> list[FamilyCounts]:
    counts = []
    for _ in range(draw(st.integers(0, 12))):
        answers = draw(st.integers(1, 5))
        passes = draw(st.integers(0, answers))
        counts.append(FamilyCounts(passes, answers, draw(zones)))
    return counts


def clean(n: int, zone: Zone) -> list[FamilyCounts]:
    return [FamilyCounts(1, 1, zone)] * n


def failed(n: int, zone: Zone) -> list[FamilyCounts]:
    return [FamilyCounts(0, 1, zone)] * n


@pytest.mark.parametrize(
    ("name", "n_passes", "n_failures", "line"),
    [
        ("arguments", 12, 4, 0.80),
        ("calls", 22, 5, 0.85),
        ("tasks of the main agent", 9, 5, 0.75),
        ("tasks of a subagent", 8, 7, 0.65),
        ("pairs", 8, 6, 0.68),
        ("fallback", 8, 7, 0.65),
    ],
)
def test_so_many_answers_from_nothing_decide(
    name: str, n_passes: int, n_failures: int, line: float
) -> None:
    """Twelve clean passes show arguments, eleven do not; four straight failures refute them, three
    do not; and so on for every kind of need, whose line is where it is said to be.
    """
    zone = ZONES[name]
    assert answers_until_yes(zone) == n_passes
    assert answers_until_no(zone) == n_failures
    assert decide(score(clean(n_passes, zone))) is Decision.YES
    assert decide(score(clean(n_passes - 1, zone))) is Decision.OPEN
    assert decide(score(failed(n_failures, zone))) is Decision.NO
    assert decide(score(failed(n_failures - 1, zone))) is Decision.OPEN
    assert zone.line == line
    assert zone.bad < zone.line < zone.good


def test_first_answers_are_worth_what_the_reference_says() -> None:
    """A pass adds ln(g / b) and a failure ln((1 - g) / (1 - b)), as in Wald's test."""
    reference = VECTORS["sprt"]["0.7-0.9"]
    assert score(clean(1, ARGUMENTS_ZONE)) == close(reference["up"])
    assert score(failed(1, ARGUMENTS_ZONE)) == close(reference["down"])
    assert answers_until_yes(ARGUMENTS_ZONE) == reference["n_all_pass"]
    assert score([]) == 0.0
    assert decide(0.0) is Decision.OPEN


def test_a_change_of_mind_counts_in_full_and_a_second_pass_counts_less() -> None:
    """In one family a pass after a pass is worth less than half of a first one."""
    first_pass = score([FamilyCounts(1, 1, ARGUMENTS_ZONE)])
    second_pass = score([FamilyCounts(2, 2, ARGUMENTS_ZONE)]) - first_pass
    failure_after_pass = score([FamilyCounts(1, 2, ARGUMENTS_ZONE)]) - first_pass
    first_failure = score([FamilyCounts(0, 1, ARGUMENTS_ZONE)])
    assert 0 < second_pass < first_pass / 2
    assert failure_after_pass == pytest.approx(first_failure, rel=0.05)


def add_up_one_by_one(answers: list[tuple[int, bool]], zone: Zone) -> float:
    """The score as each answer in turn adds to it."""
    good = [0.0] * len(CORRELATIONS)
    bad = [0.0] * len(CORRELATIONS)
    counts: dict[int, tuple[int, int]] = {}
    for family, passed in answers:
        k, m = counts.get(family, (0, 0))
        for index, rho in enumerate(CORRELATIONS):
            for sums, rate in ((good, zone.good), (bad, zone.bad)):
                p = (rate * (1 - rho) + k * rho) / (1 - rho + m * rho)
                sums[index] += math.log(p if passed else 1 - p)
        counts[family] = k + passed, m + 1
    return math.log(sum(map(math.exp, good))) - math.log(sum(map(math.exp, bad)))


@given(
    answers=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=20),
    zone=zones,
)
def test_the_score_is_what_the_answers_add_one_by_one(
    answers: list[tuple[int, bool]], zone: Zone
) -> None:
    """In whatever order answers come, the counts of the families say all: a resumed run decides as
    the run would.
    """
    counts: dict[int, list[bool]] = {}
    for family, passed in answers:
        counts.setdefault(family, []).append(passed)
    families = [FamilyCounts(sum(passed), len(passed), zone) for passed in counts.values()]
    assert score(families) == pytest.approx(add_up_one_by_one(answers, zone), abs=1e-9)


@given(families=drawn_families(), seed=st.integers(0, 99))
def test_the_order_of_families_does_not_change_a_bit(
    families: list[FamilyCounts], seed: int
) -> None:
    shuffled = random.Random(seed).sample(families, len(families))
    assert score(shuffled) == score(families)


@given(zone=zones, n=st.integers(1, 9), share=st.floats(0, 1))
def test_the_score_is_a_fair_bet_on_families_asked_once(zone: Zone, n: int, share: float) -> None:
    """At a rate that is too low the wealth does not grow on average, nor at a good one the wealth
    against it.
    """
    for rate, sign in ((zone.bad * share, 1), (zone.good + (1 - zone.good) * share, -1)):
        wealth = 0.0
        for verdicts in itertools.product((0, 1), repeat=n):
            k = sum(verdicts)
            chance = rate**k * (1 - rate) ** (n - k)
            families = [FamilyCounts(passed, 1, zone) for passed in verdicts]
            wealth += chance * math.exp(sign * score(families))
        assert wealth <= 1 + 1e-9


@given(families=drawn_families(), zone=zones)
def test_a_pass_never_lowers_and_a_failure_never_raises_the_score(
    families: list[FamilyCounts], zone: Zone
) -> None:
    """What a family asked for the first time says goes the way it should."""
    before = score(families)
    assert score([*families, FamilyCounts(1, 1, zone)]) > before
    assert score([*families, FamilyCounts(0, 1, zone)]) < before


@pytest.mark.parametrize("name", ZONES)
def test_a_need_is_decided_wrongly_in_one_of_twenty_and_one_of_eighty_at_most(name: str) -> None:
    """Exact, 400 families asked once: decided yes at the bad rate in 5% at most, decided no at the
    good rate in 1.25%. Below the bad and above the good rate it is less.
    """
    zone = ZONES[name]
    assert 0.040 <= decision_chances(400, zone, zone.bad).yes <= 0.05
    assert 0.008 <= decision_chances(400, zone, zone.good).no <= 0.0125
    assert decision_chances(400, zone, zone.bad - 0.05).yes <= 0.02
    assert decision_chances(400, zone, zone.good + 0.05).no <= 0.001


def test_a_pool_decides_so_often() -> None:
    """Exact: a 90% model is decided by twelve families in three runs of ten, by 28 in six, by 65 in
    nine.
    """
    assert chance_of_decision(0, ARGUMENTS_ZONE, 0.9) == 0.0
    assert chance_of_decision(11, ARGUMENTS_ZONE, 1.0) == 0.0
    assert chance_of_decision(12, ARGUMENTS_ZONE, 1.0) == 1.0
    assert chance_of_decision(3, ARGUMENTS_ZONE, 0.0) == 0.0
    assert chance_of_decision(4, ARGUMENTS_ZONE, 0.0) == 1.0
    assert chance_of_decision(4, ARGUMENTS_ZONE, 0.9) == close(0.1**4)
    assert chance_of_decision(12, ARGUMENTS_ZONE, 0.9) == pytest.approx(0.28, abs=0.005)
    assert chance_of_decision(28, ARGUMENTS_ZONE, 0.9) == pytest.approx(0.64, abs=0.005)
    assert chance_of_decision(65, ARGUMENTS_ZONE, 0.9) >= 0.9
    chances = decision_chances(43, MAIN_TASKS_ZONE, 0.7)
    assert sum(chances) == close(1.0)


@pytest.mark.parametrize(
    ("at_least", "good", "expected", "line"),
    [
        (0.70, None, (0.70, 0.90), 0.80),
        (0.50, None, (0.50, 0.70), 0.60),
        (0.80, None, (0.80, 0.95), 0.90),
        (0.90, None, (0.90, 0.95), 0.95),
        (0.95, None, (0.95, 0.975), 0.975),
        (0.60, 0.65, (0.60, 0.65), 0.65),
    ],
)
def test_the_zone_of_a_job_of_the_users(
    at_least: float, good: float | None, expected: tuple[float, float], line: float
) -> None:
    """`at_least` is too low still, good is .20 more up to .95, and the line lies .10 above, never
    beyond good.
    """
    zone = zone_at(at_least, good)
    assert (zone.bad, zone.good) == close(expected)
    assert zone.line == close(line)
    assert answers_until_yes(zone) > 0
    assert answers_until_no(zone) > 0


@pytest.mark.parametrize(("at_least", "good"), [(1.0, None), (0.8, 0.8), (0.8, 0.7), (0.8, 1.0)])
def test_rates_that_no_answers_tell_apart_are_no_zone(at_least: float, good: float | None) -> None:
    with pytest.raises(ValueError, match="no zone"):
        zone_at(at_least, good)
