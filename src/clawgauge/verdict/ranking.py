"""The one order of models: who stands before whom, who shares a place, and who ties with the best.

`verdict.jobs` ranks the models of a run for each job by it, `routing.decision` ranks models for a
router."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from enum import StrEnum
from typing import NamedTuple

# A model is the best where the evidence makes it so with this chance; short of it, it is one of a
# tie.
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


class Score(NamedTuple):
    """A score between 0 and 1, and its standard error."""

    value: float
    error: float


def find_best_by_error(scores: Sequence[Score]) -> list[int]:
    """The indexes of those of some models, the best first, that may be the best: more than one is a
    tie.

    For where nothing but the figures of a run is there: the distance of two scores is held against
    their errors.
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

    For where every call is there: `best_shares` tells in which share of resamplings of the prompts,
    the same ones for all models, each of them was the best. That pairs the models, and tells more
    than two errors do.
    """
    may_be_best: list[int] = []
    for index in sorted(range(len(best_shares)), key=lambda index: -best_shares[index]):
        if sum(best_shares[better] for better in may_be_best) >= SURE_SHARE:
            break
        may_be_best.append(index)
    return sorted(may_be_best)
