"""Whether prompts are enough for a job, told before they are asked."""

from __future__ import annotations

import pytest

from clawgauge.records import Job, Prompt
from clawgauge.stats.decision import ARGUMENTS_ZONE, CALLS_ZONE, MAIN_TASKS_ZONE
from clawgauge.verdict import BUILT_IN
from clawgauge.verdict.coverage import (
    NeedCoverage,
    cover_needs,
    families_needed,
    find_lacking_suites,
)
from support.simulated_decisions import built_in

OWN = Job(prompts=["mine/a"], called="its own", needs=["restraint"], weighs={"passes": 1})


def prompt(number: int, **fields: object) -> Prompt:
    return Prompt(
        id=f"P{number}",
        name="n",
        prompt="p",
        suite="mine",
        category="a",
        validator={"type": "exact", "value": "x"},
        **fields,  # type: ignore[arg-type]  # any field of a prompt
    )


def test_the_built_in_suites_are_enough_for_the_jobs_that_everybody_has() -> None:
    prompts, _ = built_in()
    for name in ("main agent", "subagent with full tools", "heartbeat and triage"):
        assert find_lacking_suites(name, BUILT_IN[name], prompts) == []
        for coverage in cover_needs(name, BUILT_IN[name], prompts, lambda _prompt: 4):
            assert coverage.chance > 0.9, (name, coverage)


def test_variants_are_no_further_families() -> None:
    prompts = [prompt(1), prompt(2, variant_of="P1"), prompt(3)]
    own = next(need for need in cover_needs("w", OWN, prompts) if need.need == "prompts")
    assert own.n_families == 2 and 2 < own.worth < 3
    assert find_lacking_suites("w", OWN, prompts) == ["restraint"]


@pytest.mark.parametrize(
    ("zone", "n_families", "simulated"),
    [
        (ARGUMENTS_ZONE, 12, 0.49),
        (ARGUMENTS_ZONE, 28, 0.89),
        (ARGUMENTS_ZONE, 40, 0.97),
        (CALLS_ZONE, 65, 0.92),
        (MAIN_TASKS_ZONE, 15, 0.75),
        (MAIN_TASKS_ZONE, 20, 0.88),
    ],
)
def test_families_of_four_texts_decide_as_often_as_in_simulations(
    zone, n_families, simulated
) -> None:
    """What is said of prompts with three drawings each, against 2,000 simulated runs of a good model."""
    worth = n_families * 4 / (1 + 3 * 0.5)
    coverage = NeedCoverage("n", (), n_families, worth, zone)
    assert coverage.chance == pytest.approx(simulated, abs=0.025)


def test_as_many_as_are_advised_are_enough_and_one_fewer_is_not() -> None:
    n = families_needed(ARGUMENTS_ZONE)
    chances = [NeedCoverage("n", (), k, k, ARGUMENTS_ZONE).chance for k in (n - 1, n)]
    assert chances[0] < 0.9 <= chances[1]
