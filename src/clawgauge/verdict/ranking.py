"""The one order of models: who stands before whom, who shares a place, and who ties with the best.

`verdict.jobs` ranks the models of a run for each job by it, `routing.decision` ranks models for a
router."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from clawgauge.stats.ties import (
    FigureDifferences,
    PairTest,
    compare_pair,
    differences_by_family,
    find_beaten,
)

# By the rule of earlier versions a model is the best where the evidence makes it so with this
# chance; short of it, it is one of a tie. Today's rule has the level of `stats.ties`.
SURE_SHARE = 0.95
# The value at which a score is one half: a p95 of five seconds, a first token after one, a cent a
# call.
HALF_P95_MS = 5_000.0
HALF_TTFT_MS = 1_000.0
HALF_COST_USD = 0.01
# The point of the standard normal distribution that leaves 1 - SURE_SHARE above it.
_Z95_ONE_SIDED = 1.645


class Fitness(StrEnum):
    """Whether a model is fit for a job, and whether one of its needs is met: the values on disk."""

    YES = "yes"
    CANNOT_TELL = "cannot_tell"
    NO = "no"


_FITNESS_ORDER = {Fitness.YES: 0, Fitness.CANNOT_TELL: 1, Fitness.NO: 2}


class Rank(NamedTuple):
    """What decides between two models, the weightiest first. The least of these stands first."""

    is_removed: bool
    fitness_place: int
    is_without_answer: bool
    negative_score: float
    label: str

    @property
    def before_score(self) -> tuple[bool, int, bool]:
        """What counts more than any score: only models that are alike in it can be a tie."""
        return self.is_removed, self.fitness_place, self.is_without_answer


def rank_model(
    label: str,
    fitness: Fitness,
    score: float,
    *,
    is_without_answer: bool,
    is_removed: bool = False,
) -> Rank:
    """The rank of a model. Of equal scores its name decides, so that the order is the same every
    time.

    `is_removed` is for those that broke a limit of a policy: they stand behind all others.
    """
    return Rank(
        is_removed=is_removed,
        fitness_place=_FITNESS_ORDER[fitness],
        is_without_answer=is_without_answer,
        negative_score=-score,
        label=label,
    )


def number_places(ranked: Sequence[Hashable]) -> list[int]:
    """The place of each model of a ranking, from 1; `ranked` holds what each rests on, the best
    first.

    Who rests on the same as one before it shares the place of that one.
    """
    place_of: dict[Hashable, int] = {}
    places = []
    for place, evidence in enumerate(ranked, start=1):
        places.append(place_of.setdefault(evidence, place))
    return places


def score_falling(value: float | None, half: float) -> float:
    """A score that falls from 1 towards 0 as a time or a cost grows; 0 for one that is not
    known."""
    if value is None:
        return 0.0
    return half / (half + value)


class ComparedModel(NamedTuple):
    """What a model is compared with others by, by the name of the figure.

    `by_family` has the mean of each prompt family of what differs from prompt to prompt, and
    `known` the score of what does not; None of one that is not known.
    """

    by_family: Mapping[str, Mapping[str, float]]
    known: Mapping[str, float | None]


def find_behind(
    models: Sequence[ComparedModel], weights: Mapping[str, float]
) -> list[float | None]:
    """For each model the p-value, corrected for all pairs, by which another is ahead of it in these
    figures together. Those that have none are tied for best."""
    pairs = {}
    for a, b in itertools.combinations(range(len(models)), 2):
        pairs[a, b] = _compare(models[a], models[b], weights)
    return find_beaten(len(models), pairs)


def _compare(a: ComparedModel, b: ComparedModel, weights: Mapping[str, float]) -> PairTest:
    """Two models by the families that both were asked.

    A score that is known of one model alone, or of both by other prompts, may be anything between
    0 and 1: one model is ahead only where that makes no difference to it. What is known of neither
    is left out.
    """
    figures = []
    least = 0.0
    most = 0.0
    for name, weight in weights.items():
        if not weight:
            continue
        if name in a.known:
            low, high = _find_range(a.known[name], b.known[name])
            least += weight * low
            most += weight * high
            continue
        of_a = a.by_family.get(name, {})
        of_b = b.by_family.get(name, {})
        differences = differences_by_family(of_a, of_b)
        if len(differences) > 1:
            figures.append(FigureDifferences(differences, weight))
        elif of_a or of_b:
            least -= weight
            most += weight
    at_worst = compare_pair(figures, known=least)
    if at_worst.t > 0:
        return at_worst
    at_best = compare_pair(figures, known=most)
    if at_best.t < 0:
        return at_best
    return PairTest(t=0.0, p=1.0)


def _find_range(a: float | None, b: float | None) -> tuple[float, float]:
    """The least and the most that A's score may have more than B's."""
    if a is None and b is None:
        return 0.0, 0.0
    least = (0.0 if a is None else a) - (1.0 if b is None else b)
    most = (1.0 if a is None else a) - (0.0 if b is None else b)
    return least, most


class Score(NamedTuple):
    """A score between 0 and 1, and its standard error."""

    value: float
    error: float


def find_best_by_error(scores: Sequence[Score]) -> list[int]:
    """The indexes of those of some models, the best first, that may be the best: more than one is a
    tie.

    The rule of earlier versions for jobs: the distance of two scores is held against their errors.
    """
    may_be_best = []
    for index, score in enumerate(scores):
        best = scores[0]
        luck = _Z95_ONE_SIDED * math.hypot(score.error, best.error)
        if best.value - score.value <= luck:
            may_be_best.append(index)
    return may_be_best


def find_best_by_shares(best_shares: Sequence[float]) -> list[int]:
    """The indexes of the fewest models of which one is surely the best, in the given order: more
    than one is a tie.

    The rule of earlier versions for routes: `best_shares` tells in which share of resamplings of
    the prompts, the same ones for all models, each of them was the best.
    """
    may_be_best: list[int] = []
    for index in sorted(range(len(best_shares)), key=lambda index: -best_shares[index]):
        if sum(best_shares[better] for better in may_be_best) >= SURE_SHARE:
            break
        may_be_best.append(index)
    return sorted(may_be_best)
