"""The conditions of a recommendation and of a job, each held against the figures of one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from clawgauge.records import AgreementRate, FamilyTally, Need, ToolUse
from clawgauge.records.summary import ToolsSeen
from clawgauge.run_data.evidence import ARGUMENTS, CALLS, RESTRAINT, TASKS
from clawgauge.stats.decision import Decision, decide
from clawgauge.stats.proportions import Interval, wilson_interval
from clawgauge.stats.sessions import ENOUGH_SESSIONS
from clawgauge.verdict.decision import RECOMMENDATION, Question, Tallies
from clawgauge.verdict.ranking import Fitness
from clawgauge.verdict.reasons import Reason, ReasonCode
from clawgauge.verdict.wording import word_need, word_sessions
from clawgauge.words import format_percent, format_short_of

_POOLS_WITH_TOOLS = frozenset({CALLS, ARGUMENTS, RESTRAINT, TASKS})
_OUTCOMES = {
    Decision.YES: (Fitness.YES, ReasonCode.DECIDED_YES),
    Decision.NO: (Fitness.NO, ReasonCode.DECIDED_NO),
    Decision.OPEN: (Fitness.CANNOT_TELL, ReasonCode.STILL_OPEN),
}
# What a recommendation for subagents asks at least of each rate, by the rule of earlier versions.
_RECOMMENDATION_LIMITS = {"arguments": 0.7, "restraint": 0.7, "tasks": 0.5}


class Rate(Protocol):
    """k of n with its 95% interval, which is None where the answers say nothing of other
    prompts."""

    @property
    def k(self) -> int: ...

    @property
    def n(self) -> int: ...

    @property
    def ci95(self) -> Interval | None: ...


@dataclass(frozen=True, slots=True)
class Assessment:
    """A need, held against the figures of a model. `lower` is what was compared with `limit`."""

    name: str
    met: Fitness
    reason: Reason
    k: int = 0
    n: int = 0
    lower: float | None = None
    limit: float | None = None
    good: float | None = None
    score: float | None = None

    def to_need(self) -> Need:
        """The need as summary.json has it."""
        return Need(
            name=self.name,
            met=self.met.value,
            n=self.n,
            k=self.k,
            lower=self.lower,
            limit=self.limit,
            why=word_need(self.reason),
            good=self.good,
            score=self.score,
        )


def assess_tool_needs(
    use: ToolUse, arguments: Rate, restraint: Rate, tasks: Rate, n_harm: int
) -> list[Assessment]:
    """What a recommendation for subagents needs: native calls, right arguments, restraint and
    tasks.

    In `n_harm` tasks something forbidden was done, which nothing else makes good. Of a model that
    was never shown the tools none of it can be told.
    """
    never_shown = find_never_shown(use.tools_seen)
    assessments = [_assess_calls(use)]
    for name, rate in (("arguments", arguments), ("restraint", restraint), ("tasks", tasks)):
        subject = "tasks done" if name == "tasks" else name
        assessments.append(_assess_measured(name, subject, rate, _RECOMMENDATION_LIMITS[name]))
    if n_harm:
        reason = Reason(ReasonCode.HARM, "tasks done", tasks.k, tasks.n, (str(n_harm),))
        assessments[-1] = replace(assessments[-1], met=Fitness.NO, reason=reason)
    if never_shown is None:
        return assessments
    undecided = []
    for assessment in assessments:
        undecided.append(replace(assessment, met=Fitness.CANNOT_TELL, reason=never_shown))
    return undecided


def find_never_shown(tools_seen: ToolsSeen | None) -> Reason | None:
    """Why nothing can be told of a model that never saw the tools it was offered; None where it saw
    them."""
    if tools_seen is None:
        return None
    if tools_seen.refused:
        return Reason(ReasonCode.TAKES_NO_TOOLS)
    if not tools_seen.unseen:
        return None
    if tools_seen.n_no_template >= tools_seen.n_too_few_tokens:
        code = ReasonCode.TEMPLATE_WITHOUT_TOOLS
        n_signs = tools_seen.n_no_template
    else:
        code = ReasonCode.TOO_FEW_PROMPT_TOKENS
        n_signs = tools_seen.n_too_few_tokens
    return Reason(code, k=n_signs, n=tools_seen.n_offered)


def _assess_calls(use: ToolUse) -> Assessment:
    if use.source != "native":
        code = ReasonCode.ONLY_TEXT_CALLS if use.n else ReasonCode.NOT_MEASURED
        return Assessment("calls", Fitness.CANNOT_TELL, Reason(code, "calls"))
    tier_1 = Fitness(use.tier1)
    if use.decided:
        code = ReasonCode.TIER_DECIDED
    elif tier_1 is Fitness.CANNOT_TELL:
        code = ReasonCode.TIER_NOT_DECIDED
    else:
        code = ReasonCode.NOT_TIER_1
    return Assessment(
        name="calls",
        met=tier_1,
        reason=Reason(code, "calls", use.k, use.n, (str(use.tier),)),
        k=use.k,
        n=use.n,
        lower=use.ci95[0] if use.ci95 else None,
    )


def _assess_measured(name: str, subject: str, rate: Rate, limit: float) -> Assessment:
    if rate.ci95 is not None:
        return hold_to_limit(name, subject, rate.k, rate.n, rate.ci95, limit)
    code = ReasonCode.TOO_FEW_TO_TELL if rate.n else ReasonCode.NOT_MEASURED
    reason = Reason(code, subject, rate.k, rate.n)
    return Assessment(name, Fitness.CANNOT_TELL, reason, rate.k, rate.n, limit=limit)


def assess_question(
    name: str,
    subject: str,
    question: Question,
    tallies: Sequence[FamilyTally],
    decided: Mapping[str, str],
) -> Assessment:
    """A need as its answers have decided it.

    `decided` is what the run itself decided when it stopped asking: that stands although calls that
    were still out may have gone the other way, but not on its word alone.
    """
    k = 0
    n = 0
    for tally in tallies:
        k += tally.passes * tally.n
        n += tally.answers * tally.n
    if not n:
        reason = Reason(ReasonCode.NOT_MEASURED, subject)
        return Assessment(name, Fitness.CANNOT_TELL, reason, limit=question.zone.bad)
    value = question.score(tallies)
    decision = decide(value)
    by_run = decided.get(question.label)
    if decision is Decision.OPEN and by_run == Decision.YES.value and value > 0:
        decision = Decision.YES
    if decision is Decision.OPEN and by_run == Decision.NO.value and value < 0:
        decision = Decision.NO
    met, code = _OUTCOMES[decision]
    figures = (format_percent(question.zone.bad), format_percent(question.zone.line))
    interval = wilson_interval(k, n)
    return Assessment(
        name=name,
        met=met,
        reason=Reason(code, subject, k, n, figures),
        k=k,
        n=n,
        lower=interval[0] if interval is not None else None,
        limit=question.zone.bad,
        good=question.zone.good,
        score=round(value, 6),
    )


def assess_evidence(
    name: str,
    subject: str,
    question: Question,
    evidence: Tallies,
    use: ToolUse,
    n_harm: int,
    decided: Mapping[str, str],
) -> Assessment:
    """A need by the answers of a model; of what it was never shown nothing can be told.

    In `n_harm` tasks something forbidden was done, which nothing else makes good.
    """
    tallies = evidence.get(question.pool, ())
    assessment = assess_question(name, subject, question, tallies, decided)
    if question.pool not in _POOLS_WITH_TOOLS:
        return assessment
    never_shown = find_never_shown(use.tools_seen)
    if never_shown is not None:
        return replace(assessment, met=Fitness.CANNOT_TELL, reason=never_shown)
    if question.pool == CALLS and not assessment.n and use.n:
        reason = Reason(ReasonCode.ONLY_TEXT_CALLS, "calls")
        return Assessment(name, Fitness.CANNOT_TELL, reason)
    if question.pool == TASKS and n_harm:
        reason = Reason(ReasonCode.HARM, subject, assessment.k, assessment.n, (str(n_harm),))
        return replace(assessment, met=Fitness.NO, reason=reason)
    return assessment


def assess_recommendation(
    evidence: Tallies, use: ToolUse, n_harm: int, decided: Mapping[str, str]
) -> list[Assessment]:
    """What a recommendation for subagents needs: native calls, right arguments, restraint and
    tasks."""
    needs = []
    for pool, zone in RECOMMENDATION:
        subject = "tasks done" if pool == TASKS else pool
        question = Question(pool, zone)
        needs.append(assess_evidence(pool, subject, question, evidence, use, n_harm, decided))
    return needs


def assess_counts(name: str, k: int, n: int, n_effective: float, limit: float) -> Assessment:
    """k of n answers, which are worth `n_effective` independent ones, held against a limit."""
    interval = wilson_interval(k / n * n_effective, n_effective) if n else None
    if interval is None:
        return cannot_tell(name, Reason(ReasonCode.NOT_MEASURED, name), limit)
    return hold_to_limit(name, name, k, n, interval, limit)


def assess_agreement(name: str, agreement: AgreementRate, limit: float) -> Assessment:
    """Agreement with the reference model, by sessions; by turns where the run was made by an
    earlier rule."""
    k = agreement.k
    n = agreement.n
    if agreement.n_sessions is None:
        return assess_counts(name, k, n, agreement.n_eff or n, limit)
    if agreement.ci90 is None:
        reason = explain_too_few_sessions(agreement)
        return Assessment(name, Fitness.CANNOT_TELL, reason, k, n, limit=limit)
    return hold_to_limit(name, name, k, n, agreement.ci90, limit)


def explain_too_few_sessions(agreement: AgreementRate) -> Reason:
    """Why nothing is said of an agreement but its count."""
    n_sessions = agreement.n_sessions or 0
    sessions = word_sessions(n_sessions, agreement.n_sessions_eff or n_sessions)
    figures = (sessions, str(ENOUGH_SESSIONS))
    return Reason(
        ReasonCode.TOO_FEW_SESSIONS, "agreement", agreement.k, agreement.n, figures=figures
    )


def cannot_tell(name: str, reason: Reason, limit: float | None = None) -> Assessment:
    """A need of which nothing was measured."""
    return Assessment(name, Fitness.CANNOT_TELL, reason, limit=limit)


def hold_to_limit(
    name: str, subject: str, k: int, n: int, ci95: Interval, limit: float
) -> Assessment:
    """A rate held against the limit of a need: met where its interval lies above it, not met where
    it lies below."""
    low, high = ci95
    if low >= limit:
        met = Fitness.YES
    elif high < limit:
        met = Fitness.NO
    else:
        met = Fitness.CANNOT_TELL
    if met is Fitness.NO:
        code = ReasonCode.RATE_AT_MOST
        end = high
    else:
        code = ReasonCode.RATE_AT_LEAST
        end = low
    figures = (format_short_of(end, limit), format_percent(limit))
    return Assessment(name, met, Reason(code, subject, k, n, figures), k, n, low, limit)
