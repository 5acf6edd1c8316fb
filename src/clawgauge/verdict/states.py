"""What is known of a model that is neither fit nor unfit for a job yet: how likely it is fit."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from clawgauge.records import GroupSummary, Job
from clawgauge.run_data.evidence import CALLS
from clawgauge.stats.chance import NeedEvidence, chance_of_fit
from clawgauge.verdict.decision import Condition, Question, Tallies, find_conditions
from clawgauge.verdict.ranking import Fitness

# From how many answers on a need may speak for or against a model before it is decided.
_LEAST_ANSWERS = 3
_LIKELY = 0.8
_UNLIKELY = 0.2
# A pool whose prompts are those of another pool, judged by something else.
_SOURCE_BY_POOL = {CALLS: "native", "arguments": "native"}


class FitState(StrEnum):
    """What is known of a model for a job: the values on disk."""

    DECIDED_FIT = "decided_fit"
    DECIDED_NOT_FIT = "decided_not_fit"
    LIKELY_FIT = "likely_fit"
    LIKELY_NOT_FIT = "likely_not_fit"
    OPEN = "open"
    NOT_ASKED = "not_asked"


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


def find_chances(group: GroupSummary, jobs: Mapping[str, Job]) -> dict[str, float]:
    """How likely a model is fit for each job, as far as every need of it was asked often enough."""
    if group.evidence is None:
        return {}
    needs_by_job = {}
    for name, job in jobs.items():
        needs = []
        for condition in find_conditions(name, job):
            need = _to_evidence(condition, group.evidence)
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
