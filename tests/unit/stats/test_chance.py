"""How likely a model is fit for a job: the posterior over a grid."""

from __future__ import annotations

import math
import random
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.stats.chance import NeedEvidence, chance_of_fit
from clawgauge.stats.decision import ARGUMENTS_ZONE, CALLS_ZONE, MAIN_TASKS_ZONE, FamilyCounts

from .stats_vectors import close

GRID = [-4 + 10 * i / 80 for i in range(81)]


def evidence(
    name: str,
    counts: list[tuple[int, int]],
    *,
    line: float = 0.8,
    is_calls: bool = False,
    source: str | None = None,
) -> NeedEvidence:
    """A need whose families have these passes and answers."""
    return NeedEvidence(
        name=name,
        families=[FamilyCounts(passes, n, ARGUMENTS_ZONE) for passes, n in counts],
        line=line,
        is_calls=is_calls,
        source=source or name,
    )


def passes(k: int, n: int) -> list[tuple[int, int]]:
    """Families asked once."""
    return [(1, 1)] * k + [(0, 1)] * (n - k)


def likelihood(counts: list[tuple[int, int]], rate: float) -> float:
    """As the answers come one by one: later answers of a family follow the earlier ones by half."""
    product = 1.0
    for k, n in counts:
        for i in range(n):
            passed = i < k
            n_like = i if passed else i - k
            chance = rate if passed else 1 - rate
            product *= (chance * 0.5 + n_like * 0.5) / (0.5 + i * 0.5)
    return product


def density(x: float, mean: float, sd: float) -> float:
    return NormalDist(mean, sd).pdf(x)


def chance_by_hand(needs: list[NeedEvidence], sources: list[NeedEvidence]) -> float:
    """The formula as it is written: a sum over models of products of needs."""
    total = 0.0
    met = 0.0
    for step in range(33):
        u = -2.5 + step / 4
        weight = density(u, 1.5, 1.2)
        above = 1.0
        for need in {*sources, *needs}:
            mean = u + (0.8 if need.is_calls else 0.0)
            norm = sum(density(x, mean, 0.9) for x in GRID)
            whole = 0.0
            part = 0.0
            for x in GRID:
                rate = 1 / (1 + math.exp(-x))
                counts = [(family.passes, family.answers) for family in need.families]
                term = density(x, mean, 0.9) / norm * likelihood(counts, rate)
                whole += term
                part += term if rate >= need.line else 0.0
            if need in sources:
                weight *= whole
            if need in needs:
                above *= part / whole
        total += weight
        met += weight * above
    return met / total


def as_tuples(need: NeedEvidence) -> NeedEvidence:
    return need._replace(families=tuple(need.families))


def test_the_chance_is_the_formula() -> None:
    """Two jobs that share a need, calls beside arguments, and families with drawings."""
    calls = as_tuples(
        evidence("calls", passes(9, 9), line=0.85, is_calls=True, source="native"),
    )
    arguments = as_tuples(evidence("arguments", passes(7, 9), source="native"))
    restraint = as_tuples(evidence("restraint", [(1, 1), (4, 4), (2, 3), (0, 2)]))
    tasks = as_tuples(evidence("tasks", [], line=0.75))
    main_agent = [calls, arguments, restraint, tasks]
    triage = [restraint]
    sources = [arguments, restraint, tasks]
    chances = chance_of_fit({"main agent": main_agent, "triage": triage})
    assert chances["main agent"] == close(chance_by_hand(main_agent, sources))
    assert chances["triage"] == close(chance_by_hand(triage, sources))


def test_before_anything_is_asked_it_is_the_prior() -> None:
    """Half of all models have a rate of 66% to 91% in all, so about half have 80% of one need."""
    chance = chance_of_fit({"job": [evidence("need", [])]})["job"]
    assert 0.5 < chance < 0.6
    assert chance_of_fit({"job": []}) == {"job": 1.0}
    assert chance_of_fit({}) == {}


def test_needs_inform_each_other() -> None:
    """A model that does well in three needs is likelier to do well in a fourth that nobody asked
    for.
    """
    unasked = evidence("tasks", [], line=0.75)
    alone = chance_of_fit({"job": [unasked]})["job"]
    for k, is_likelier in ((20, True), (8, False)):
        others = [evidence(name, passes(k, 20)) for name in ("arguments", "restraint", "format")]
        chance = chance_of_fit({"job": [unasked], "other": others})["job"]
        assert (chance > alone) is is_likelier


def test_two_needs_of_one_source_count_once_for_the_model() -> None:
    """The same answers seen as calls and as arguments, in whatever order, or used by three jobs,
    say no more of a third need than arguments alone.
    """
    calls = evidence("calls", passes(30, 30), line=0.85, is_calls=True, source="native")
    arguments = evidence("arguments", passes(30, 30), source="native")
    unasked = evidence("restraint", [])
    alone = chance_of_fit({"job": [arguments], "other": [unasked]})["other"]
    for needs in ([calls, arguments], [arguments, calls]):
        jobs = {"job": needs, "again": needs, "more": needs, "other": [unasked]}
        assert chance_of_fit(jobs)["other"] == close(alone)
    separate = calls._replace(source="calls")
    assert chance_of_fit({"job": [separate, arguments], "other": [unasked]})["other"] > alone


def test_of_two_needs_of_one_source_the_one_with_more_answers_counts() -> None:
    few = evidence("data", passes(3, 3), source="format")
    many = evidence("format", passes(30, 30), source="format")
    unasked = evidence("restraint", [])
    expected = chance_of_fit({"job": [many], "other": [unasked]})["other"]
    for needs in ([few, many], [many, few]):
        assert chance_of_fit({"job": needs, "other": [unasked]})["other"] == close(expected)


@given(k=st.integers(0, 30), n_failures=st.integers(0, 30))
def test_a_pass_raises_the_chance_and_a_failure_lowers_it(k: int, n_failures: int) -> None:
    """And it is a chance: from 0 to 1, also after very many answers."""
    counts = passes(k, k + n_failures)
    chance = chance_of_fit({"job": [evidence("need", counts)]})["job"]
    more = chance_of_fit({"job": [evidence("need", [*counts, (1, 1)])]})["job"]
    less = chance_of_fit({"job": [evidence("need", [*counts, (0, 1)])]})["job"]
    assert 0 <= less <= chance <= more <= 1


@pytest.mark.parametrize("n", [1_000, 30_000])
def test_so_many_answers_leave_no_doubt_and_no_error(n: int) -> None:
    """Likelihoods smaller than a float holds are compared all the same, over many sources too."""
    for share, expected in ((0.95, 1.0), (0.5, 0.0)):
        needs = [evidence(f"need {i}", passes(int(share * n), n)) for i in range(9)]
        assert chance_of_fit({"job": needs})["job"] == pytest.approx(expected, abs=1e-6)
    apart = [evidence("good", passes(n, n)), evidence("bad", passes(0, n))]
    chances = chance_of_fit({"good": apart[:1], "bad": apart[1:], "both": apart})
    assert chances["good"] == pytest.approx(1.0, abs=1e-6)
    assert chances["bad"] == pytest.approx(0.0, abs=1e-6)
    assert chances["both"] == pytest.approx(0.0, abs=1e-6)


def test_order_and_zones_of_families_do_not_matter() -> None:
    """Of a family its passes and answers count; the line is the need's."""
    counts = [(1, 1), (4, 4), (2, 3), (0, 2), (1, 1), (0, 1)]
    mixed = []
    for index, (k, n) in enumerate(counts):
        zone = CALLS_ZONE if index % 2 else MAIN_TASKS_ZONE
        mixed.append(FamilyCounts(k, n, zone))
    random.Random(3).shuffle(mixed)
    need = evidence("need", counts)
    chance = chance_of_fit({"job": [need]})["job"]
    assert chance_of_fit({"job": [need._replace(families=mixed)]})["job"] == close(chance)
