"""How likely a model is fit for a job while that is not decided.

A posterior chance (Bayes) with two levels, as random-effects models have them (Lindley & Smith
1972): how good a model is in all, u, and the true rate of each need, whose log odds lie about u. So
what is known of one need says something about another that was hardly asked. All is added up over a
grid: 33 values of u, 81 rates.

Half of all models are taken to have a rate between 66% and 91% in all. Calls are made more often
than they are right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from operator import mul
from typing import NamedTuple, TypeAlias

from clawgauge.stats.decision import FamilyCounts, log_likelihood

# In log odds: of models, of the needs of one model, and how far calls lie above the rest.
_MODEL_MEAN = 1.5
_MODEL_SD = 1.2
_NEED_SD = 0.9
_CALLS_ABOVE = 0.8
# What the answers of one family have in common.
_CORRELATION = 0.5
# A rate on the line is above it, whatever the last bit says.
_TOLERANCE = 1e-9

_Row: TypeAlias = tuple[float, ...]


class NeedEvidence(NamedTuple):
    """What is known of a need of a job: met from `line` on.

    `source` names the prompts that the evidence is from. Two needs with the same one, such as
    calls and arguments, are two views of the same answers."""

    name: str
    families: Sequence[FamilyCounts]
    line: float
    is_calls: bool
    source: str

    @property
    def n_answers(self) -> int:
        return sum(family.answers for family in self.families)


def chance_of_fit(jobs: Mapping[str, Sequence[NeedEvidence]]) -> dict[str, float]:
    """By job, how likely all of its needs are met. The evidence of all jobs says how good the model
    is in all; what comes from one source counts once for that."""
    weights = _weigh_models(jobs.values())
    chances = {}
    for job, needs in jobs.items():
        by_model = list(weights)
        for need in needs:
            by_model = list(map(mul, by_model, _chances_above(need)))
        chances[job] = min(1.0, math.fsum(by_model))
    return chances


def _weigh_models(jobs: Iterable[Sequence[NeedEvidence]]) -> list[float]:
    """How likely each value of u is, with all evidence; they add up to 1."""
    telling: dict[str, NeedEvidence] = {}
    for needs in jobs:
        for need in needs:
            other = telling.get(need.source)
            if other is None or _says_more(need, other):
                telling[need.source] = need
    weights: list[float] = list(_model_prior())
    for need in telling.values():
        prior = _rate_priors(need.is_calls)
        likelihood = _likelihood(need.families)
        weights = [
            weight * sum(map(mul, row, likelihood))
            for weight, row in zip(weights, prior, strict=True)
        ]
        # Many sources together may be less likely than a float can say.
        most = max(weights)
        weights = [weight / most for weight in weights]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _says_more(need: NeedEvidence, other: NeedEvidence) -> bool:
    """Which of two needs of one source stands for it: what is right tells more than what was
    called, then the one with more answers."""
    if need.is_calls != other.is_calls:
        return other.is_calls
    return need.n_answers > other.n_answers


def _chances_above(need: NeedEvidence) -> list[float]:
    """For each value of u, how likely the true rate of a need is at its line or above."""
    likelihood = _likelihood(need.families)
    begin = 0
    rates = _rates()
    while begin < len(rates) and rates[begin] < need.line - _TOLERANCE:
        begin += 1
    chances = []
    for row in _rate_priors(need.is_calls):
        posterior = list(map(mul, row, likelihood))
        chances.append(sum(posterior[begin:]) / sum(posterior))
    return chances


def _likelihood(families: Sequence[FamilyCounts]) -> list[float]:
    """Of each rate, in terms of the likeliest one."""
    n_alike = Counter((family.passes, family.answers) for family in families)
    logs = [0.0] * len(_rates())
    for (passes, answers), n in n_alike.items():
        of_one = _log_likelihoods(passes, answers)
        logs = [total + n * value for total, value in zip(logs, of_one, strict=True)]
    most = max(logs)
    return [math.exp(value - most) for value in logs]


@lru_cache(maxsize=512)
def _log_likelihoods(passes: int, answers: int) -> _Row:
    return tuple(log_likelihood(passes, answers, rate, _CORRELATION) for rate in _rates())


@cache
def _rate_log_odds() -> _Row:
    return tuple(-4.0 + i / 8 for i in range(81))


@cache
def _rates() -> _Row:
    return tuple(1 / (1 + math.exp(-x)) for x in _rate_log_odds())


@cache
def _models() -> _Row:
    """Values of u."""
    return tuple(-2.5 + i / 4 for i in range(33))


@cache
def _model_prior() -> _Row:
    return _normal(_models(), _MODEL_MEAN, _MODEL_SD)


@cache
def _rate_priors(is_calls: bool) -> tuple[_Row, ...]:
    """For each value of u, how likely each rate is before anything was asked."""
    above = _CALLS_ABOVE if is_calls else 0.0
    return tuple(_normal(_rate_log_odds(), u + above, _NEED_SD) for u in _models())


def _normal(points: Sequence[float], mean: float, sd: float) -> _Row:
    """A normal distribution on a grid, adding up to 1."""
    densities = [math.exp(-0.5 * ((x - mean) / sd) ** 2) for x in points]
    total = math.fsum(densities)
    return tuple(density / total for density in densities)
