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
# Models are asked one after another, and a machine is now faster and now slower: the standard
# deviation of the logarithm of all times of a model, whatever the model.
PACE_SPREAD = 0.1
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

    `rates` and `times` have the mean of each prompt family, of times that of their scores. `known`
    has scores that do not differ from prompt to prompt; None of one that is not known.
    """

    rates: Mapping[str, Mapping[str, float]]
    times: Mapping[str, Mapping[str, float]]
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


class _Difference(NamedTuple):
    """How far A's score of a figure is above B's: by family, or where that is not to be had between
    two ends. `spread` is that of what moves all families of a model alike."""

    by_family: Sequence[float] = ()
    low: float = 0.0
    high: float = 0.0
    spread: float = 0.0


def _compare(a: ComparedModel, b: ComparedModel, weights: Mapping[str, float]) -> PairTest:
    """Two models by the families that both were asked."""
    figures = []
    known = 0.0
    margin = 0.0
    spread = 0.0
    heaviest = max(weights.values(), default=0.0)
    for name in weights:
        weight = weights[name] / heaviest
        if not weight:
            continue
        difference = _find_difference(name, a, b)
        if difference.by_family:
            figures.append(FigureDifferences(difference.by_family, weight))
        known += weight * (difference.low + difference.high) / 2
        margin += weight * (difference.high - difference.low) / 2
        # A machine that is slow is slow in all its times.
        spread += weight * difference.spread
    return compare_pair(figures, known=known, margin=margin, spread=spread)


def _find_difference(name: str, a: ComparedModel, b: ComparedModel) -> _Difference:
    """What is known of one model alone, or of both by other prompts, may be anything; what is known
    of neither tells nothing."""
    if name in a.known:
        return _compare_known(a.known[name], b.known[name])
    is_time = name in a.times or name in b.times
    of_a = (a.times if is_time else a.rates).get(name, {})
    of_b = (b.times if is_time else b.rates).get(name, {})
    differences = differences_by_family(of_a, of_b)
    if len(differences) > 1:
        spread = _measure_spread([*of_a.values(), *of_b.values()]) if is_time else 0.0
        return _Difference(by_family=differences, spread=spread)
    if of_a or of_b:
        return _Difference(low=-1.0, high=1.0)
    return _Difference()


def _compare_known(a: float | None, b: float | None) -> _Difference:
    if a is None and b is None:
        return _Difference()
    low = (0.0 if a is None else a) - (1.0 if b is None else b)
    high = (1.0 if a is None else a) - (0.0 if b is None else b)
    return _Difference(low=low, high=high)


def _measure_spread(scores: Sequence[float]) -> float:
    """What a machine's pace adds to the spread of the mean of these scores of times: their slope by
    the logarithm of the time."""
    slope = math.fsum(score * (1 - score) for score in scores) / len(scores)
    return slope * PACE_SPREAD


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
