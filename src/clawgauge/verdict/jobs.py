"""The jobs, and every model judged for each: fit, not fit, or cannot tell yet, and who is the best
of the fit."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from clawgauge.figures import passed, passed_of_asked, timed
from clawgauge.prices import is_free, is_local
from clawgauge.records import (
    Fit,
    GroupSummary,
    Job,
    JobVerdict,
    Percentiles,
    RateWithInterval,
    Target,
)
from clawgauge.records.summary import FamilyMeans
from clawgauge.registry import find_type
from clawgauge.run_data.evidence import job_pool
from clawgauge.stats.proportions import Interval
from clawgauge.verdict.decision import (
    OWN_PROMPTS,
    USEFUL,
    Condition,
    Tallies,
    find_conditions,
)
from clawgauge.verdict.needs import (
    Assessment,
    Rate,
    assess_agreement,
    assess_counts,
    assess_evidence,
    assess_tool_needs,
    cannot_tell,
    find_never_shown,
    hold_to_limit,
)
from clawgauge.verdict.ranking import (
    HALF_COST_USD,
    HALF_P95_MS,
    HALF_TTFT_MS,
    ComparedModel,
    Fitness,
    Rank,
    Score,
    find_behind,
    find_best_by_error,
    number_places,
    rank_model,
    score_falling,
)
from clawgauge.verdict.reasons import NEEDS_NO_ANSWER, NEVER_SHOWN, Reason, ReasonCode
from clawgauge.verdict.states import FitState, find_chances, find_state
from clawgauge.verdict.wording import word_fit, word_run
from clawgauge.words import format_latency, format_money

_Z95 = 1.96
_MAX_LACKING = 3
_COLUMN_CHARS = 8
# Of `long_context/16k`, the length of the text.
_LENGTH = re.compile(r"/(\d+)k$")
# The suite that shows each need of a recommendation.
_SUITE_BY_NEED = {
    "calls": "native_tools",
    "arguments": "native_tools",
    "restraint": "restraint",
    "tasks": "agentic",
}
# Of a need that is made of others: those.
_SUITES_OF_NEED = {"recommended": tuple(_SUITE_BY_NEED), "useful": ("arguments",)}
# The suites that together show what a recommendation needs. One run must: what several show is not
# added up.
SUBAGENT_SUITES = tuple(dict.fromkeys(_SUITE_BY_NEED.values()))
MAIN_AGENT = "main agent"
# What everybody wants to know of a model: a run that names no prompts decides these.
PLAIN_JOBS = (MAIN_AGENT, "subagent with full tools", "heartbeat and triage", "structured data")
_JOBS_FILE = Path(__file__).with_name("jobs.toml")
BUILT_IN = msgspec.convert(tomllib.loads(_JOBS_FILE.read_text("utf-8")), dict[str, Job])

Settings: TypeAlias = Mapping[str, Any]
"""What config.json says of a target's provider."""
SettingsOf: TypeAlias = Callable[[Target], Settings]


class Weighed(NamedTuple):
    """One figure that a job weighs; without a reason where there is nothing to report."""

    score: Score
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class JudgedModel:
    """A model held against the needs of a job, and what the job weighs of it."""

    group: GroupSummary
    needs: list[Assessment]
    weighed: list[Weighed]
    score: Score
    cost_score: float | None
    """That of what a call costs; None where that is not known."""
    chance: float | None = None
    """How likely it is fit, where that is not decided and enough was asked to tell."""
    by_interval: bool = False
    """Whether the job rests on intervals alone, so that no such chance is known."""

    @property
    def label(self) -> str:
        return self.group.target.label

    @property
    def state(self) -> FitState | None:
        """What is known of it; None of a run that is judged by the rule of earlier versions."""
        if self.group.evidence is None:
            return None
        return find_state(self.fitness, self.chance, is_asked=any(need.n for need in self.needs))

    @property
    def fitness(self) -> Fitness:
        met = {need.met for need in self.needs}
        if Fitness.NO in met:
            return Fitness.NO
        if Fitness.CANNOT_TELL in met:
            return Fitness.CANNOT_TELL
        return Fitness.YES

    @property
    def is_undecided(self) -> bool:
        return self.fitness is Fitness.CANNOT_TELL

    @property
    def is_never_shown(self) -> bool:
        """Whether another run could show nothing: a model that never saw the tools will not see
        them then either."""
        return any(need.reason.code in NEVER_SHOWN for need in self.needs)


def judge_jobs(
    groups: Sequence[GroupSummary],
    jobs: Mapping[str, Job],
    settings_of: SettingsOf,
    in_full: Collection[str] = (),
) -> list[JobVerdict]:
    """Every job with its models, the best first. `in_full` names the suites that have nothing more
    to ask."""
    is_own_work_asked = any(group.agreement for group in groups)
    chances = [find_chances(group.evidence, jobs) for group in groups]
    verdicts = []
    for name, job in jobs.items():
        if "agreement" in job.needs and not is_own_work_asked:
            continue
        models = []
        for group, chance_by_job in zip(groups, chances, strict=True):
            model = judge_model(name, job, group, settings_of(group.target))
            by_interval = not find_conditions(name, job)
            chance = chance_by_job.get(name)
            models.append(replace(model, chance=chance, by_interval=by_interval))
        verdicts.append(_judge_job(name, job, models, in_full))
    return verdicts


def order_targets(jobs: Sequence[JobVerdict]) -> list[str]:
    """The order in which models are named: who is fit for the most jobs first, then who stands
    higher in them."""
    standings = _find_standings(jobs)
    return sorted(standings, key=lambda target: standings[target])


def best_first(groups: Sequence[GroupSummary], jobs: Sequence[JobVerdict]) -> list[GroupSummary]:
    """The one order in which models are shown: as `order_targets` has them, and of those that the
    jobs do not tell apart who passed more first."""
    standings = _find_standings(jobs)
    places = {target: place for place, target in enumerate(order_targets(jobs))}

    def order_of(group: GroupSummary) -> tuple[_JobStanding, float, int]:
        target = group.target.label
        passed = passed_of_asked(group)
        pass_rate = passed.k / passed.n if passed.n else 0.0
        return standings.get(target, _IN_NO_JOB), -pass_rate, places.get(target, len(places))

    return sorted(groups, key=order_of)


class _JobStanding(NamedTuple):
    """How a model stands in all jobs together. The least of these is the best."""

    negative_n_fit: float
    n_not_fit: float
    sum_of_places: float


_IN_NO_JOB = _JobStanding(math.inf, math.inf, math.inf)


def _find_standings(jobs: Sequence[JobVerdict]) -> dict[str, _JobStanding]:
    fits: dict[str, list[Fit]] = {}
    for job in jobs:
        for fit in job.ranking:
            fits.setdefault(fit.target, []).append(fit)
    standings = {}
    for target, fits_of_target in fits.items():
        standings[target] = _JobStanding(
            negative_n_fit=-sum(fit.fit == Fitness.YES for fit in fits_of_target),
            n_not_fit=sum(fit.fit == Fitness.NO for fit in fits_of_target),
            sum_of_places=sum(fit.place for fit in fits_of_target),
        )
    return standings


def _judge_job(
    name: str, job: Job, models: list[JudgedModel], asked_in_full: Collection[str]
) -> JobVerdict:
    models.sort(key=_rank)
    # Those that are fit stand first.
    fit_models = [model for model in models if model.fitness is Fitness.YES]
    best = _find_best(name, job, fit_models)
    fit_models.sort(key=lambda model: model.label in best.behind_p)
    models = fit_models + models[len(fit_models) :]
    reasons = [_find_reasons(model) for model in models]
    behind = [best.behind_p.get(model.label) for model in models]
    places = number_places(list(zip(reasons, behind, strict=True)))
    ranking = []
    for index, model in enumerate(models):
        fit = Fit(
            target=model.label,
            fit=model.fitness.value,
            why=word_fit(model.fitness, reasons[index]),
            n=sum(need.n for need in model.needs),
            tie=len(best.tied) > 1 and model.label in best.tied,
            place=places[index],
            state=None if model.state is None else model.state.value,
            chance=model.chance if model.is_undecided else None,
            never_shown=model.is_undecided and model.is_never_shown,
            by_interval=model.by_interval,
            behind_p=behind[index],
        )
        ranking.append(fit)
    targets: list[str] = []
    suites: list[str] = []
    if not fit_models:
        targets, suites = _plan_next_run(job, models, asked_in_full)
    return JobVerdict(
        job=name,
        ranking=ranking,
        column=job.column or name.split()[0][:_COLUMN_CHARS],
        needs=" ".join(word_run(targets, suites)) if suites else None,
        targets=targets,
        suites=suites,
    )


class _Best(NamedTuple):
    """The labels of the fit models that may be the best, and of those that are behind another, with
    the p-value of that."""

    tied: frozenset[str]
    behind_p: dict[str, float]


def _find_best(name: str, job: Job, fit_models: Sequence[JudgedModel]) -> _Best:
    """Who of the fit, the one with the highest score first, may be the best."""
    labels = [model.label for model in fit_models]
    if all(name in (model.group.behind_by_prompts or {}) for model in fit_models):
        # The run went on until these told, and ended when they did: no other test would hold.
        return _read_behind(name, fit_models)
    compared = []
    for model in fit_models:
        means = model.group.by_family
        if means is None:
            # A run of an earlier version.
            tied = find_best_by_error([model.score for model in fit_models])
            return _Best(tied=frozenset(labels[index] for index in tied), behind_p={})
        compared.append(_to_compared(name, job, model, means))
    behind_p = {}
    weights: dict[str, float] = dict(job.weighs.items())
    for label, p in zip(labels, find_behind(compared, weights), strict=True):
        if p is not None:
            behind_p[label] = p
    return _Best(tied=frozenset(labels) - behind_p.keys(), behind_p=behind_p)


def _read_behind(name: str, fit_models: Sequence[JudgedModel]) -> _Best:
    """Who is best as `--best` has found out by the prompts that all were asked."""
    may_be_best = []
    behind_p = {}
    for model in fit_models:
        p = (model.group.behind_by_prompts or {}).get(name)
        if p is None:
            may_be_best.append(model.label)
        else:
            behind_p[model.label] = p
    if not may_be_best:
        # Who was ahead of them is not among them.
        return _Best(tied=frozenset(behind_p), behind_p={})
    return _Best(tied=frozenset(may_be_best), behind_p=behind_p)


def _to_compared(name: str, job: Job, model: JudgedModel, means: FamilyMeans) -> ComparedModel:
    """What a model is compared by for a job."""
    rates: dict[str, Mapping[str, float]] = {}
    times: dict[str, Mapping[str, float]] = {}
    for figure in job.weighs:
        if figure in ("first_token", "latency"):
            times[figure] = means.of(figure)
        elif figure == "passes" and job.prompts:
            rates[figure] = means.of(job_pool(name))
        elif figure != "tools" or model.group.tool_use.source == "native":
            rates[figure] = means.of(figure)
    return ComparedModel(rates=rates, times=times, known={"cost": model.cost_score})


def _rank(model: JudgedModel) -> Rank:
    return rank_model(
        model.label,
        model.fitness,
        model.score.value,
        is_without_answer=not model.group.n_ok,
    )


def _find_reasons(model: JudgedModel) -> tuple[Reason, ...]:
    """Why a model has its place: all that is weighed of one that is fit; what the first few are
    that another lacks."""
    if model.fitness is Fitness.YES:
        return tuple(weighed.reason for weighed in model.weighed if weighed.reason is not None)
    reasons: list[Reason] = []
    unmeasured: list[str] = []
    for need in model.needs:
        if need.met is not model.fitness:
            continue
        if not need.n and need.reason.code not in NEEDS_NO_ANSWER:
            unmeasured.append(need.name)
        elif need.reason not in reasons:
            reasons.append(need.reason)
    if unmeasured:
        reasons.append(Reason(ReasonCode.NEEDS_NOT_MEASURED, figures=tuple(unmeasured)))
    return tuple(reasons[:_MAX_LACKING])


def _plan_next_run(
    job: Job, models: Sequence[JudgedModel], asked_in_full: Collection[str]
) -> tuple[list[str], list[str]]:
    """The targets that may be fit and the suites that would tell; nothing where there is no more to
    ask, or nobody."""
    targets: list[str] = []
    open_needs: set[str] = set()
    for model in models:
        if model.fitness is Fitness.CANNOT_TELL and model.group.n_ok and not model.is_never_shown:
            targets.append(model.label)
            open_needs.update(need.name for need in model.needs if need.met is Fitness.CANNOT_TELL)
    needs_by_suite = find_suites(job)
    for suite, needs in needs_by_suite.items():
        if suite not in asked_in_full and open_needs & needs:
            # All that the job needs, not only what is lacking: what several runs show is not added
            # up.
            return targets, list(needs_by_suite)
    return [], []


def find_suites(job: Job) -> dict[str, set[str]]:
    """The suites that show what a job needs, each with the names of these needs."""
    needs_by_suite: dict[str, set[str]] = {}
    for name in job.needs:
        for need in _SUITES_OF_NEED.get(name, (name,)):
            if need in _SUITE_BY_NEED:
                needs_by_suite.setdefault(_SUITE_BY_NEED[need], set()).add(need)
    for prompts in job.prompts:
        suite = prompts.partition("/")[0]
        needs_by_suite.setdefault(suite, set()).add(job.called)
    return needs_by_suite


def find_suites_of(condition: str, job: Job) -> list[str]:
    """The suites that show one condition of a job."""
    suites: dict[str, None] = {}
    for need in _SUITES_OF_NEED.get(condition, (condition,)):
        if need in _SUITE_BY_NEED:
            suites[_SUITE_BY_NEED[need]] = None
    if condition in (OWN_PROMPTS, USEFUL):
        for prompts in job.prompts:
            suites[prompts.partition("/")[0]] = None
    return list(suites)


def judge_model(name: str, job: Job, group: GroupSummary, settings: Settings) -> JudgedModel:
    """One model held against a job."""
    passes = _assess_passes(job, group, settings)
    needs: list[Assessment] = []
    if group.evidence is not None:
        needs = _assess_by_evidence(name, job, group, group.evidence, settings)
    else:
        for need in job.needs:
            # As earlier versions judged a fallback.
            former_need = "answers" if need == USEFUL else need
            needs += _assess_need(former_need, job, group, settings)
        if job.prompts and USEFUL not in job.needs:
            needs.append(passes)
    weighed = []
    shares_of_score = []
    shares_of_error = []
    total_weight = sum(job.weighs.values())
    for figure_name, weight in job.weighs.items():
        if figure_name == "passes" and USEFUL in job.needs and group.evidence is None:
            # As earlier versions weighed a fallback.
            figure = _weigh("answers", passes, group, settings)
        else:
            figure = _weigh(figure_name, passes, group, settings)
        weighed.append(figure)
        shares_of_score.append(weight / total_weight * figure.score.value)
        shares_of_error.append(weight / total_weight * figure.score.error)
    usd = call_cost_usd(group, settings)
    return JudgedModel(
        group=group,
        needs=needs,
        weighed=weighed,
        score=Score(sum(shares_of_score), math.hypot(*shares_of_error)),
        cost_score=None if usd is None else score_falling(usd, HALF_COST_USD),
    )


def _assess_by_evidence(
    job_name: str, job: Job, group: GroupSummary, evidence: Tallies, settings: Settings
) -> list[Assessment]:
    """The needs of a job: those that answers decide, and those that are told otherwise."""
    needs: list[Assessment] = []
    for need in job.needs:
        if need == "local":
            needs.append(_assess_location(settings))
        elif need == "answers":
            n = group.attempted
            needs.append(assess_counts(need, group.n_success, n, float(n), job.at_least))
        elif need == "agreement":
            needs.append(_assess_agreement(need, job, group))
    is_beyond_window = job.prompts and _is_beyond_window(job, _window_of(group, settings))
    for condition in find_conditions(job_name, job):
        if condition.name == OWN_PROMPTS and is_beyond_window:
            # They are not asked: no run would tell.
            reason = Reason(
                ReasonCode.WINDOW_TOO_SMALL,
                figures=(str(_window_of(group, settings)), group.target.provider),
            )
            needs.append(cannot_tell(job.called, reason))
            continue
        needs.append(_assess_condition(condition, job, group, evidence))
    return needs


def _assess_condition(
    condition: Condition, job: Job, group: GroupSummary, evidence: Tallies
) -> Assessment:
    """A condition by the question that speaks most for it."""
    assessments = []
    for question in condition.questions:
        subject = question.pool if question.pool in evidence else condition.name
        if question.pool.startswith(job_pool("")):
            subject = job.called
        assessments.append(
            assess_evidence(
                subject,
                subject,
                question,
                evidence,
                group.tool_use,
                group.tasks.n_harm,
                group.decided,
            )
        )
    for fitness in (Fitness.YES, Fitness.CANNOT_TELL, Fitness.NO):
        of_kind = [assessment for assessment in assessments if assessment.met is fitness]
        if of_kind:
            return max(of_kind, key=lambda assessment: assessment.n)
    raise AssertionError("a condition has a question")


def _assess_need(name: str, job: Job, group: GroupSummary, settings: Settings) -> list[Assessment]:
    """What a recommendation needs is held to the job's own bound; harm stays harm, and what was not
    seen unseen."""
    arguments = group.argument_accuracy or RateWithInterval(n=0, k=0)
    rates: dict[str, Rate] = {
        "arguments": arguments,
        "restraint": group.restraint,
        "tasks": group.tasks,
    }
    tool_needs = assess_tool_needs(
        group.tool_use, arguments, group.restraint, group.tasks, group.tasks.n_harm
    )
    if name == "recommended":
        return tool_needs
    for need in tool_needs:
        if need.name != name:
            continue
        rate = rates.get(name)
        is_settled = need.met is Fitness.NO or need.reason.code in NEVER_SHOWN
        if rate is None or rate.ci95 is None or is_settled or need.limit == job.at_least:
            return [need]
        return [hold_to_limit(name, name, need.k, need.n, rate.ci95, job.at_least)]
    if name == "local":
        return [_assess_location(settings)]
    if name == "answers":
        n = group.attempted
        return [assess_counts(name, group.n_success, n, float(n), job.at_least)]
    return [_assess_agreement(name, job, group)]


def _assess_location(settings: Settings) -> Assessment:
    if not is_local(settings):
        return Assessment("local", Fitness.NO, Reason(ReasonCode.RUNS_ELSEWHERE))
    if settings.get("api_key_env"):
        return Assessment("local", Fitness.CANNOT_TELL, Reason(ReasonCode.WANTS_KEY))
    return Assessment("local", Fitness.YES, Reason(ReasonCode.RUNS_HERE))


def _assess_agreement(name: str, job: Job, group: GroupSummary) -> Assessment:
    agreement = group.agreement
    if agreement is None:
        return cannot_tell(name, Reason(ReasonCode.NOT_MEASURED, name))
    never_shown = find_never_shown(group.tool_use.tools_seen)
    if never_shown is not None:
        return Assessment(name, Fitness.CANNOT_TELL, never_shown, agreement.k, agreement.n)
    return assess_agreement(name, agreement, job.at_least)


def _assess_passes(job: Job, group: GroupSummary, settings: Settings) -> Assessment:
    """The job's own prompts together; of a job without any, all that has a verdict."""
    window = _window_of(group, settings)
    if window is not None and _is_beyond_window(job, window):
        # They are not asked: no run would tell.
        reason = Reason(ReasonCode.WINDOW_TOO_SMALL, figures=(str(window), group.target.provider))
        return cannot_tell(job.called, reason)
    if not job.prompts:
        passes = passed(group)
        return assess_counts("passes", passes.k, passes.n, float(passes.n), job.at_least)
    rates: list[_Counts] = []
    for suite in group.suites:
        if suite.suite in job.prompts:
            rates.append(_Counts(suite.n_passed, suite.n_judged, suite.n_eff))
            continue
        for category, rate in suite.by_category.items():
            if f"{suite.suite}/{category}" in job.prompts:
                rates.append(_Counts(rate.k, rate.n, rate.n_eff))
    k, n, n_effective = _add_up(rates)
    return assess_counts(job.called, k, n, n_effective, job.at_least)


def _window_of(group: GroupSummary, settings: Settings) -> int | None:
    """How many tokens fit the model's window, as the run found it, its table says, or a provider
    type had it always before runs recorded it."""
    if group.window_tokens is not None:
        return group.window_tokens
    window = settings.get("context") or find_type(str(settings.get("type"))).former_context
    return window if isinstance(window, int) else None


def _is_beyond_window(job: Job, window: int | None) -> bool:
    """Whether all prompts of a job are longer than a context window, as far as their names tell."""
    if not job.prompts or window is None:
        return False
    for prompts in job.prompts:
        length = _LENGTH.search(prompts)
        if length is None or window >= int(length[1]) * 1000:
            return False
    return True


class _Counts(NamedTuple):
    """Passes, answers, and how many independent answers these are worth; None where that is not
    known."""

    k: int
    n: int
    n_effective: float | None


def _add_up(rates: Sequence[_Counts]) -> tuple[int, int, float]:
    k = sum(rate.k for rate in rates)
    n = sum(rate.n for rate in rates)
    worth = [rate.n if rate.n_effective is None else rate.n_effective for rate in rates]
    return k, n, math.fsum(worth)


def _weigh(name: str, passes: Assessment, group: GroupSummary, settings: Settings) -> Weighed:
    """The figure that a job weighs under this name."""
    match name:
        case "tasks":
            return _weigh_rate(name, group.tasks.k, group.tasks.n)
        case "restraint":
            return _weigh_rate(name, group.restraint.k, group.restraint.n)
        case "tools" if group.tool_use.source == "native":
            return _weigh_rate(name, group.tool_use.k, group.tool_use.n)
        case "agreement" if group.agreement is not None:
            return _weigh_rate(name, group.agreement.k, group.agreement.n)
        case "tools" | "agreement":
            return _weigh_rate(name, 0, 0)
        case "answers":
            return _weigh_rate(name, group.n_success, group.attempted)
        case "passes":
            return _weigh_rate(passes.name, passes.k, passes.n)
        case "first_token":
            return _weigh_time("first token", group.ttft_ms, "p50", HALF_TTFT_MS)
        case "latency":
            return _weigh_time("p95", timed(group), "p95", HALF_P95_MS)
        case _:
            usd = call_cost_usd(group, settings)
            return Weighed(
                Score(score_falling(usd, HALF_COST_USD), 0.0), explain_cost(group, settings)
            )


def call_cost_usd(group: GroupSummary, settings: Settings) -> float | None:
    if group.cost is not None:
        return group.cost.per_call_usd
    return 0.0 if is_free(settings) else None


def explain_cost(group: GroupSummary, settings: Settings) -> Reason:
    """What a call costs, or that it is free of charge, or unknown."""
    usd = call_cost_usd(group, settings)
    if usd is None:
        return Reason(ReasonCode.COST_UNKNOWN)
    if group.cost is None:
        return Reason(ReasonCode.FREE_OF_CHARGE)
    return Reason(ReasonCode.COST, figures=(format_money(usd),))


def _weigh_rate(subject: str, k: int, n: int) -> Weighed:
    """Drawn towards one half by two answers: ten of ten says less than a hundred of a hundred."""
    if not n:
        return Weighed(Score(0.0, 0.5), None)
    rate = (k + 1) / (n + 2)
    error = math.sqrt(rate * (1 - rate) / (n + 3))
    return Weighed(Score(rate, error), Reason(ReasonCode.RATE, subject, k, n))


def _weigh_time(subject: str, times: Percentiles, figure: str, half_ms: float) -> Weighed:
    """A percentile of times by its score, which falls to one half at `half_ms`."""
    value: float | None = getattr(times, figure)
    if value is None:
        return Weighed(Score(0.0, 0.5), Reason(ReasonCode.NOT_MEASURED, subject))
    figures = (format_latency(value),)
    score = score_falling(value, half_ms)
    if figure in times.beyond:
        # Among the timeouts: it lies somewhere between nothing and what a time just over the
        # deadline would get.
        reason = Reason(ReasonCode.TIME_BEYOND_DEADLINE, subject, figures=figures)
        return Weighed(Score(0.0, score / 2), reason)
    ends: Interval | None = getattr(times, f"{figure}_ci95")
    # Of too few calls for an interval, half as much again is nothing unusual.
    error_ms = (ends[1] - ends[0]) / (2 * _Z95) if ends else value / 2
    slope = half_ms / (half_ms + value) ** 2
    return Weighed(
        Score(score, slope * error_ms), Reason(ReasonCode.TIME, subject, figures=figures)
    )
