"""Two models on the prompts that both were asked: what counts as a win, and when wins tell them apart."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from clawgauge.records import Event, PromptKey
from clawgauge.run_data.evidence import (
    Evidence,
    EvidencePool,
    EvidencePools,
    Observation,
    Observations,
    Weight,
)
from clawgauge.run_data.head_to_head import Wins, count_wins
from clawgauge.verdict import BUILT_IN
from clawgauge.verdict.best import (
    TOLD_APART,
    compare_fit_models,
    find_weighed_pools,
    read_told_apart,
)

DATA = "structured data"
POOL = "job/structured data"
PAIR: PromptKey = ("s", "pair")
FAMILY_OF: Mapping[PromptKey, PromptKey] = {
    ("s", "want"): PAIR,
    ("s", "none"): PAIR,
    ("s", "P0v1"): ("s", "P0"),
}


def evidence(passes: Mapping[tuple[str, int], bool | None], pool: str = POOL) -> Evidence:
    """What a model passed, by prompt id and drawing."""
    keys = frozenset(("s", name) for name, _ in passes)
    pools = EvidencePools(
        pools={pool: EvidencePool(pool, keys)}, family_of=FAMILY_OF, pairs=frozenset({PAIR})
    )
    observations = Observations()
    for (name, draw), passed in passes.items():
        weight = Weight.NONE if passed is None else Weight.ANSWER
        seen = Observation(weight, False, passed, is_refusal=False, did_harm=False)
        observations.add(("s", name), draw, 0, seen)
    return Evidence(pools, observations)


@pytest.mark.parametrize(
    ("a", "b", "wins"),
    [
        # What both passed, and what only one was asked or answered, is no win.
        ({("P0", 0): True, ("P1", 0): True}, {("P0", 0): True}, Wins(1, 0, 0)),
        ({("P0", 0): True}, {("P0", 0): None}, Wins(0, 0, 0)),
        ({("P0", 0): True, ("P1", 0): False}, {("P0", 0): False, ("P1", 0): True}, Wins(2, 1, 1)),
        # The first text of a family in which they differ counts, and no later one.
        (
            {("P0", 0): True, ("P0", 1): True, ("P0", 2): False},
            {("P0", 0): True, ("P0", 1): False, ("P0", 2): True},
            Wins(1, 1, 0),
        ),
        (
            {("P0", 0): True, ("P0v1", 0): False},
            {("P0", 0): True, ("P0v1", 0): True},
            Wins(1, 0, 1),
        ),
        # Of a pair both halves have to be passed, and both to be there.
        (
            {("want", 0): True, ("none", 0): True},
            {("want", 0): True, ("none", 0): False},
            Wins(1, 1, 0),
        ),
        ({("want", 0): True, ("none", 0): True}, {("want", 0): False}, Wins(0, 0, 0)),
    ],
)
def test_a_family_is_won_once(
    a: Mapping[tuple[str, int], bool | None], b: Mapping[tuple[str, int], bool | None], wins: Wins
) -> None:
    assert count_wins(evidence(a), evidence(b), [POOL]) == wins
    mirrored = Wins(wins.n_shared, wins.only_b, wins.only_a)
    assert count_wins(evidence(b), evidence(a), [POOL]) == mirrored


def models(only_a: int, only_b: int) -> dict[str, Evidence]:
    n_families = only_a + only_b + 20
    a = {(f"P{n}", 0): not only_a <= n < only_a + only_b for n in range(n_families)}
    b = {(f"P{n}", 0): n >= only_a for n in range(n_families)}
    return {"a": evidence(a), "b": evidence(b)}


@pytest.mark.parametrize(
    ("only_a", "only_b", "is_told"),
    [(7, 0, False), (8, 0, True), (12, 2, False), (14, 2, True), (6, 5, False)],
)
def test_wins_tell_two_models_apart(only_a: int, only_b: int, is_told: bool) -> None:
    """As docs/jobs.md has it: 8 against none, 14 against 2."""
    best = compare_fit_models(DATA, BUILT_IN[DATA], models(only_a, only_b), {})
    assert list(best.behind_p) == (["b"] if is_told else [])
    (pair,) = best.pairs
    assert (pair.only_a, pair.only_b, pair.n_shared) == (only_a, only_b, only_a + only_b + 20)


def test_who_was_told_behind_stays_so() -> None:
    """Answers that came after it do not undo it; and more pairs want more of it."""
    event = Event(
        event=TOLD_APART, at_ms=0, target="b", detail={"job": DATA, "ahead": "a", "p": 0.03}
    )
    told = read_told_apart([event])
    later = compare_fit_models(DATA, BUILT_IN[DATA], models(9, 4), told)
    assert later.behind_p == {"b": pytest.approx(0.03)}
    crowd = {**models(9, 4), "c": models(1, 1)["a"], "d": models(1, 1)["b"]}
    assert compare_fit_models(DATA, BUILT_IN[DATA], crowd, told).behind_p == {}


@pytest.mark.parametrize(
    ("job", "pools"),
    [
        ("main agent", ["tasks", "restraint"]),
        ("subagent with full tools", ["tasks", "arguments"]),
        (DATA, [POOL]),
        ("heartbeat and triage", []),
    ],
)
def test_right_answers_that_a_job_weighs_are_compared(job: str, pools: list[str]) -> None:
    assert find_weighed_pools(job, BUILT_IN[job]) == pools
