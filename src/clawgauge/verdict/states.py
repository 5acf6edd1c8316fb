"""What is known of a model that is neither fit nor unfit for a job yet: how likely it is fit."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from clawgauge.records import Job
from clawgauge.run_data.evidence import CALLS
from clawgauge.stats.chance import NeedEvidence, chance_of_fit
from clawgauge.stats.decision import Decision
from clawgauge.verdict.decision import (
    OWN_PROMPTS,
    Condition,
    Decisions,
    Question,
    Tallies,
    find_conditions,
)
from clawgauge.verdict.ranking import Fitness

# From how many answers on a need may speak for or against a model before it is decided.
_LEAST_ANSWERS = 3
_LIKELY = 0.8
_UNLIKELY = 0.2
# A pool whose prompts are those of another pool, judged by something else.
_SOURCE_BY_POOL = {CALLS: "native", "arguments": "native"}


_FITNESS = {
    Decision.YES: Fitness.YES,
    Decision.NO: Fitness.NO,
    Decision.OPEN: Fitness.CANNOT_TELL,
}


class FitState(StrEnum):
    """What is known of a model for a job: the values on disk."""

    DECIDED_FIT = "decided_fit"
    DECIDED_NOT_FIT = "decided_not_fit"
    LIKELY_FIT = "likely_fit"
    LIKELY_NOT_FIT = "likely_not_fit"
    OPEN = "open"
    NOT_ASKED = "not_asked"


class JobState(NamedTuple):
    """What is known of a model for one job; `chance` is that it is fit, where that is not decided
    and enough was asked to tell. Where it was not, `unasked` are the needs that nothing was asked
    for."""

    state: FitState
    chance: float | None
    unasked: tuple[str, ...] = ()


def find_state(fitness: Fitness, chance: float | None, *, is_asked: bool) -> FitState:
    if fitness is Fitness.YES:
        return FitState.DECIDED_FIT
    if fitness is Fitness.NO:
        return FitState.DECIDED_NOT_FIT
    if not is_asked:
        return FitState.NOT_ASKED
    if chance is None:
        return FitState.OPEN
    if chance >= _LIKELY:
        return FitState.LIKELY_FIT
    if chance <= _UNLIKELY:
        return FitState.LIKELY_NOT_FIT
    return FitState.OPEN


def find_states(
    decisions: Decisions, evidence: Tallies, jobs: Mapping[str, Job]
) -> dict[str, JobState]:
    """What is known of a model for each job while it is asked."""
    chances = find_chances(evidence, jobs)
    states = {}
    for name in jobs:
        fitness = _FITNESS[decisions.of_job(name)]
        chance = chances.get(name) if fitness is Fitness.CANNOT_TELL else None
        is_asked = False
        unasked = []
        for condition in find_conditions(name, jobs[name]):
            if any(evidence.get(question.pool) for question in condition.questions):
                is_asked = True
            elif condition.name == OWN_PROMPTS:
                unasked.append(jobs[name].called)
            else:
                unasked.append(condition.name)
        state = find_state(fitness, chance, is_asked=is_asked)
        if state is not FitState.OPEN:
            unasked = []
        states[name] = JobState(state, chance, tuple(unasked))
    return states


def find_chances(evidence: Tallies | None, jobs: Mapping[str, Job]) -> dict[str, float]:
    """How likely a model is fit for each job, as far as every need of it was asked often enough.

    Of a run that is judged by the rule of earlier versions there is no `evidence`.
    """
    if evidence is None:
        return {}
    needs_by_job = {}
    for name, job in jobs.items():
        needs = []
        for condition in find_conditions(name, job):
            need = _to_evidence(condition, evidence)
            if need is not None:
                needs.append(need)
        if needs and len(needs) == len(find_conditions(name, job)):
            needs_by_job[name] = needs
    return chance_of_fit(needs_by_job) if needs_by_job else {}


def _to_evidence(condition: Condition, evidence: Tallies) -> NeedEvidence | None:
    """The evidence of a condition; None where too little was asked to say anything."""

    def count_answers(question: Question) -> int:
        return sum(tally.answers * tally.n for tally in evidence.get(question.pool, ()))

    question = max(condition.questions, key=count_answers)
    if count_answers(question) < _LEAST_ANSWERS:
        return None
    return NeedEvidence(
        name=condition.name,
        families=question.families(evidence[question.pool]),
        line=question.zone.line,
        is_calls=question.pool == CALLS,
        source=_SOURCE_BY_POOL.get(question.pool, question.pool),
    )
