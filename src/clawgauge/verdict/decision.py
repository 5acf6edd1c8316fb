"""What a job needs of a model's answers, and what they have decided so far.

A run that is under way asks what is still open, and a summary says what was decided: both by these
conditions, from the same counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from clawgauge.records import FamilyTally, Job
from clawgauge.run_data.evidence import (
    ARGUMENTS,
    CALLS,
    RESTRAINT,
    TASKS,
    TEXT_CALLS,
    job_pool,
)
from clawgauge.stats.decision import (
    ARGUMENTS_ZONE,
    CALLS_ZONE,
    FALLBACK_ZONE,
    PAIR_ZONE,
    SUBAGENT_TASKS_ZONE,
    Decision,
    FamilyCounts,
    Zone,
    decide,
    score,
    zone_at,
)

Tallies: TypeAlias = Mapping[str, Sequence[FamilyTally]]
"""What the answers of a model add up to, by pool."""

# A job's own prompts, as a condition of that job.
OWN_PROMPTS = "prompts"
USEFUL = "useful"
RECOMMENDED = "recommended"
_HIGHEST_BAD = 0.98
TOOL_NEEDS = (CALLS, ARGUMENTS, RESTRAINT, TASKS)
"""The needs that nobody can show who takes no tools."""
RECOMMENDATION = (
    (CALLS, CALLS_ZONE),
    (ARGUMENTS, ARGUMENTS_ZONE),
    (RESTRAINT, ARGUMENTS_ZONE),
    (TASKS, SUBAGENT_TASKS_ZONE),
)


class Question(NamedTuple):
    """Whether a model's rate in a pool is beyond a zone."""

    pool: str
    zone: Zone

    @property
    def label(self) -> str:
        """The name of the question on disk: `tasks 0.6-0.85`."""
        return f"{self.pool} {self.zone.bad:g}-{self.zone.good:g}"

    def families(self, tallies: Iterable[FamilyTally]) -> list[FamilyCounts]:
        """The families of the pool, each with the zone that it is held against."""
        families = []
        for tally in tallies:
            zone = PAIR_ZONE if tally.pair else self.zone
            families += [FamilyCounts(tally.passes, tally.answers, zone)] * tally.n
        return families

    def score(self, tallies: Iterable[FamilyTally]) -> float:
        return score(self.families(tallies))


class Condition(NamedTuple):
    """One condition of a job that answers decide: one of its questions has to be answered yes."""

    name: str
    questions: tuple[Question, ...]


def find_conditions(name: str, job: Job) -> list[Condition]:
    """The conditions of a job that answers decide, in the order in which they are told."""
    conditions = []
    for need in job.needs:
        if need == RECOMMENDED:
            for pool, zone in RECOMMENDATION:
                conditions.append(Condition(pool, (Question(pool, zone),)))
        elif need in TOOL_NEEDS:
            conditions.append(Condition(need, (Question(need, zone_of(job, need)),)))
        elif need == USEFUL:
            questions = [Question(ARGUMENTS, FALLBACK_ZONE)]
            if job.prompts:
                questions.append(Question(job_pool(name), FALLBACK_ZONE))
            conditions.append(Condition(USEFUL, tuple(questions)))
    if job.prompts and USEFUL not in job.needs:
        question = Question(job_pool(name), zone_of(job, OWN_PROMPTS))
        conditions.append(Condition(OWN_PROMPTS, (question,)))
    return conditions


def zone_of(job: Job, need: str) -> Zone:
    """The rates between which a need of a job may be answered either way."""
    for name, rates in job.rates.items():
        if name != need:
            continue
        zone = zone_at(rates.at_least, rates.good)
        return zone if rates.line is None else zone._replace(stated_line=rates.line)
    if need == CALLS:
        return CALLS_ZONE
    # No number of answers shows a rate of 1.
    return zone_at(min(job.at_least, _HIGHEST_BAD), job.good)


class Decisions:
    """What is decided of one model. Once decided, a question is not opened again."""

    def __init__(self, jobs: Mapping[str, Job], *, only_pools: Collection[str] = ()) -> None:
        """With `only_pools` the questions of these are asked for their own sake, whatever becomes
        of the jobs that they belong to."""
        self._only_pools = only_pools
        self._beside_jobs: list[Question] = []
        if TEXT_CALLS in only_pools:
            self._beside_jobs.append(Question(TEXT_CALLS, CALLS_ZONE))
        self._conditions = {name: find_conditions(name, job) for name, job in jobs.items()}
        # What nothing can be asked of any more.
        self._closed_pools: frozenset[str] = frozenset()
        self.scores: dict[Question, float] = {}
        self._decided: dict[Question, Decision] = {}

    @property
    def questions(self) -> list[Question]:
        """Every question of these jobs, once."""
        questions: dict[Question, None] = {}
        for conditions in self._conditions.values():
            for condition in conditions:
                questions.update(dict.fromkeys(condition.questions))
        questions.update(dict.fromkeys(self._beside_jobs))
        return list(questions)

    @property
    def jobs(self) -> list[str]:
        return list(self._conditions)

    def close(self, pools: Collection[str]) -> None:
        """Nothing can be asked of these pools any more: what they have not decided stays open, and
        so does every job that they belong to."""
        self._closed_pools = frozenset(pools)

    def add_question(self, question: Question) -> None:
        """Ask something for its own sake, beside the jobs."""
        if question not in self._beside_jobs:
            self._beside_jobs.append(question)

    def learn(self, tallies: Tallies, n_harm: int) -> None:
        """Decide what these counts decide. Harm in a task is a no to every question of tasks."""
        for question in self.questions:
            value = question.score(tallies.get(question.pool, ()))
            self.scores[question] = value
            if question in self._decided:
                continue
            decision = decide(value)
            if question.pool == TASKS and n_harm:
                decision = Decision.NO
            if decision is not Decision.OPEN:
                self._decided[question] = decision

    def of_question(self, question: Question) -> Decision:
        return self._decided.get(question, Decision.OPEN)

    def of_condition(self, condition: Condition) -> Decision:
        """Yes where one of its questions is answered yes, no where all are answered no."""
        decisions = {self.of_question(question) for question in condition.questions}
        if Decision.YES in decisions:
            return Decision.YES
        if Decision.OPEN in decisions:
            return Decision.OPEN
        return Decision.NO

    def of_job(self, name: str) -> Decision:
        """Fit (yes) where all conditions hold, not fit (no) where one does not."""
        decisions = {self.of_condition(condition) for condition in self._conditions[name]}
        if Decision.NO in decisions:
            return Decision.NO
        if Decision.OPEN in decisions:
            return Decision.OPEN
        return Decision.YES

    def open_questions(self) -> list[Question]:
        """What is open, can be asked, and could still decide a job that is open."""
        if self._only_pools:
            still_open = []
            for question in self.questions:
                if question.pool in self._only_pools and self._can_be_asked(question):
                    still_open.append(question)
            return still_open
        questions: dict[Question, None] = {}
        for name, conditions in self._conditions.items():
            if self.of_job(name) is not Decision.OPEN or self._is_out_of_reach(conditions):
                continue
            for condition in conditions:
                if self.of_condition(condition) is not Decision.OPEN:
                    continue
                for question in condition.questions:
                    if self._can_be_asked(question):
                        questions[question] = None
        for question in self._beside_jobs:
            if self._can_be_asked(question):
                questions[question] = None
        return list(questions)

    def _can_be_asked(self, question: Question) -> bool:
        is_open = self.of_question(question) is Decision.OPEN
        return is_open and question.pool not in self._closed_pools

    def _is_out_of_reach(self, conditions: Iterable[Condition]) -> bool:
        """Whether one of a job's conditions is open, and nothing can be asked of it any more."""
        for condition in conditions:
            if self.of_condition(condition) is not Decision.OPEN:
                continue
            if not any(self._can_be_asked(question) for question in condition.questions):
                return True
        return False
