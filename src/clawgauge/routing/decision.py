"""Every model measured against a policy: removed with its reasons, or put in order.
Deterministic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from clawgauge.records import Fit, Job, JobVerdict
from clawgauge.routing.evidence import Evidence
from clawgauge.routing.policy import BrokenLimit, Policy, find_broken_limits
from clawgauge.routing.scores import Scores, find_best_shares, to_compared, weigh_scores
from clawgauge.verdict.jobs import BUILT_IN, MAIN_AGENT, judge_jobs
from clawgauge.verdict.ranking import (
    Fitness,
    Rank,
    find_behind,
    find_best_by_shares,
    rank_model,
)


@dataclass(frozen=True, slots=True)
class Standing:
    """One model's place.

    `main` judges it as main agent, `removed_by` holds every limit it broke, `scores` what its place
    rests on. `may_be_best` where it is one of those that may be first, and none of them is ahead of
    it; `behind_p` is the p-value where one is. By the rule of earlier versions `best_share` is the
    share of resamplings in which it had the highest score of all that may be first.
    """

    evidence: Evidence
    main: Fit
    removed_by: tuple[BrokenLimit, ...]
    scores: dict[str, float]
    score: float
    may_be_best: bool = False
    behind_p: float | None = None
    best_share: float = 0.0

    @property
    def kept(self) -> bool:
        return not self.removed_by

    @property
    def fitness(self) -> Fitness:
        return Fitness(self.main.fit)


@dataclass(frozen=True, slots=True)
class Decision:
    """Every model that was measured: the kept ones best first, then the removed ones, by fitness
    and score too.

    `jobs` judges them, as the run of the last one measured defines the jobs. `tied` are the first
    where none is surely the best; `in_use` the models in use now, as far as measured.
    """

    policy: Policy
    standings: tuple[Standing, ...]
    jobs: list[JobVerdict]
    is_by_shares: bool = False
    """Whether the first are told by shares of resamplings, as they were by the rule of earlier
    versions: so they are where a run of such a version is among those named."""
    tied: tuple[str, ...] = ()
    in_use: tuple[str, ...] = ()

    @property
    def ranked(self) -> list[Evidence]:
        return [standing.evidence for standing in self.standings if standing.kept]


def decide(evidence: Sequence[Evidence], policy: Policy, in_use: Sequence[str] = ()) -> Decision:
    """Limits first, then who is fit as main agent, then the weighted order; of a tie, the ones
    `in_use` go first."""
    weights = msgspec.structs.asdict(policy.weights)
    jobs = _judge_jobs(evidence)
    main_fits: dict[str, Fit] = {}
    for job in jobs:
        if job.job == MAIN_AGENT:
            main_fits = {fit.target: fit for fit in job.ranking}
    standings = []
    for measured in evidence:
        # A job of the user's own may be in the place of the main agent, and judge nobody.
        fit = main_fits.get(measured.label) or _cannot_tell(measured)
        scores = Scores(measured).measured
        standing = Standing(
            evidence=measured,
            main=fit,
            removed_by=tuple(find_broken_limits(measured, policy)),
            scores=scores,
            score=weigh_scores(scores, weights),
        )
        standings.append(standing)
    standings.sort(key=_rank)
    first = _find_first(standings)
    is_by_shares = any(measured.group.by_family is None for measured in evidence)
    first = _compare_by_shares(first, weights) if is_by_shares else _compare(first, weights)
    best = [standing for standing in first if standing.may_be_best]
    # A stable sort: what is not in use stays in the order of the scores.
    best.sort(key=lambda standing: _place_in_use(standing, in_use))
    best_labels = [standing.evidence.label for standing in best]
    others = [standing for standing in first if not standing.may_be_best]
    ordered = [*best, *others, *standings[len(first) :]]
    return Decision(
        policy=policy,
        standings=tuple(ordered),
        jobs=jobs,
        is_by_shares=is_by_shares,
        tied=tuple(best_labels) if len(best_labels) > 1 else (),
        in_use=tuple(in_use),
    )


def _judge_jobs(evidence: Sequence[Evidence]) -> list[JobVerdict]:
    own_jobs: Mapping[str, Job] = {}
    for measured in evidence:
        if measured.jobs:
            own_jobs = measured.jobs
    settings = {measured.target: measured.settings for measured in evidence}
    groups = [measured.group for measured in evidence]
    return judge_jobs(groups, {**BUILT_IN, **own_jobs}, settings.__getitem__)


def _cannot_tell(evidence: Evidence) -> Fit:
    return Fit(target=evidence.label, fit=Fitness.CANNOT_TELL.value, why="not measured", n=0)


def _rank(standing: Standing) -> Rank:
    return rank_model(
        standing.evidence.label,
        standing.fitness,
        standing.score,
        is_without_answer=not standing.evidence.group.n_ok,
        is_removed=not standing.kept,
    )


def _find_first(standings: Sequence[Standing]) -> list[Standing]:
    """The models that may be first: kept, and as fit as the best one."""
    first = []
    for standing in standings:
        if standing.kept and _rank(standing).before_score == _rank(standings[0]).before_score:
            first.append(standing)
    return first


def _compare(first: Sequence[Standing], weights: Mapping[str, float]) -> list[Standing]:
    """The models that may be first, and who of them may be the best."""
    compared = [to_compared(standing.evidence) for standing in first]
    judged = []
    for standing, p in zip(first, find_behind(compared, weights), strict=True):
        judged.append(replace(standing, may_be_best=p is None, behind_p=p))
    return judged


def _compare_by_shares(first: Sequence[Standing], weights: Mapping[str, float]) -> list[Standing]:
    """The same by the rule of earlier versions."""
    shares = find_best_shares([Scores(standing.evidence) for standing in first], weights)
    best = find_best_by_shares(shares)
    judged = []
    for index, standing in enumerate(first):
        share = shares[index]
        judged.append(replace(standing, may_be_best=index in best, best_share=share))
    return judged


def _place_in_use(standing: Standing, in_use: Sequence[str]) -> int:
    """The place among the models that are in use now; behind all of them where it is not."""
    label = standing.evidence.label
    return in_use.index(label) if label in in_use else len(in_use)
