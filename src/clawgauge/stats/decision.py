"""Whether a need is met, decided while it is asked: a sequential test between two rates.

Between a rate that is too low, b, and one that is good, g, either answer is right. The score is the
logarithm of a likelihood ratio of g to b (Wald 1945). While each family has one answer, exp(score)
is a fair bet against every rate up to b, and exp(-score) against every rate from g on, whatever the
difficulty of the prompts: were that so, a bet would ever grow to 1/α with a chance of at most α
(Ville 1939). So one may look after each answer, stop for any reason and go on later.

A further answer of a family (a variant, a drawing) counts for what a beta-binomial says it is
worth. How much the answers of one family have in common is not known: the likelihoods are averaged
over three correlations. That is no theorem any more; simulations hold it to the same errors.

A job needs all of its needs. One that is not fit is called fit only if its bad need is decided yes,
so each need may be wrong in 1 of 20 (intersection-union, Berger 1982). A fit one is called not fit
if any is decided no: four needs at 1 in 80 are again 1 in 20."""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

CORRELATIONS = (0.2, 0.5, 0.8)
"""What the answers of one family may have in common (ρ); the data weigh them."""

YES_AT = math.log(20)
NO_AT = -math.log(80)

_WIDTH = 0.20
_BEST_GOOD = 0.95
_LINE_ABOVE_BAD = 0.10
# Sums of rates are off in the last bits: .70 + .10 is to be .80.
_DIGITS = 10


class Zone(NamedTuple):
    """The rates between which either answer is right: up to `bad` a need is not met, from `good` on
    it is."""

    bad: float
    good: float
    stated_line: float | None = None

    @property
    def line(self) -> float:
        """From which rate on a need counts as met where one single rate is asked for."""
        if self.stated_line is not None:
            return self.stated_line
        return min(round(self.bad + _LINE_ABOVE_BAD, _DIGITS), self.good)


ARGUMENTS_ZONE = Zone(bad=0.70, good=0.90)
CALLS_ZONE = Zone(bad=0.80, good=0.92, stated_line=0.85)
MAIN_TASKS_ZONE = Zone(bad=0.60, good=0.85, stated_line=0.75)
SUBAGENT_TASKS_ZONE = Zone(bad=0.50, good=0.75, stated_line=0.65)
PAIR_ZONE = Zone(bad=0.55, good=0.80, stated_line=0.68)
"""Of two prompts that are passed together: 80% of pairs are about 90% of prompts."""
FALLBACK_ZONE = Zone(bad=0.50, good=0.75, stated_line=0.65)


def zone_at(at_least: float, good: float | None) -> Zone:
    """The zone of a job's own: `at_least` is the rate that a fit has shown to be exceeded.

    Without `good` it is .20 above, up to .95; from there on half of the way to 1. Raises ValueError
    where 0 < at_least < good < 1 does not hold: no number of answers shows a rate of 1."""
    if good is None:
        good = min(round(at_least + _WIDTH, _DIGITS), _BEST_GOOD)
        if good <= at_least:
            good = (at_least + 1) / 2
    if not 0 < at_least < good < 1:
        raise ValueError(f"no zone between {at_least} and {good}")
    return Zone(bad=at_least, good=good)


class FamilyCounts(NamedTuple):
    """The distinct texts of one family of prompts that were answered; a repeat of a text adds
    nothing."""

    passes: int
    answers: int
    zone: Zone


class Decision(enum.Enum):
    YES = "yes"
    NO = "no"
    OPEN = "open"


def score(families: Iterable[FamilyCounts]) -> float:
    """How much likelier the answers are at good rates than at bad ones: the logarithm of the ratio.

    It depends on the counts of each family alone, to the last bit: not on the order of families or
    answers. Without any it is 0."""
    n_alike = Counter(families)
    return _log_mean_likelihood(n_alike, "good") - _log_mean_likelihood(n_alike, "bad")


def _log_mean_likelihood(n_alike: Counter[FamilyCounts], end: str) -> float:
    """The logarithm of the likelihoods added up over the correlations, at one end of each zone."""
    by_correlation = []
    for correlation in CORRELATIONS:
        terms = []
        for family, n in n_alike.items():
            rate = family.zone.good if end == "good" else family.zone.bad
            terms.append(n * log_likelihood(family.passes, family.answers, rate, correlation))
        # Exact, so that the order cannot matter.
        by_correlation.append(math.fsum(terms))
    most = max(by_correlation)
    return most + math.log(math.fsum(math.exp(value - most) for value in by_correlation))


@lru_cache(maxsize=8192)
def log_likelihood(passes: int, answers: int, rate: float, correlation: float) -> float:
    """The logarithm of the chance of these answers in one given order: beta-binomial, in Pólya's
    form (Eggenberger & Pólya 1923), where each answer makes the like of it likelier."""
    alone = 1 - correlation
    terms = [math.log(rate * alone + i * correlation) for i in range(passes)]
    terms += [math.log((1 - rate) * alone + i * correlation) for i in range(answers - passes)]
    terms += [-math.log(alone + i * correlation) for i in range(answers)]
    return math.fsum(terms)


def decide(score: float) -> Decision:
    """Yes at ln 20, no at -ln 80."""
    if score >= YES_AT:
        return Decision.YES
    if score <= NO_AT:
        return Decision.NO
    return Decision.OPEN


def answers_until_yes(zone: Zone) -> int:
    """How many passes from nothing, each of another family, decide yes."""
    return _answers_until(zone, passed=True, decision=Decision.YES)


def answers_until_no(zone: Zone) -> int:
    """How many failures from nothing, each of another family, decide no."""
    return _answers_until(zone, passed=False, decision=Decision.NO)


def _answers_until(zone: Zone, *, passed: bool, decision: Decision) -> int:
    n = 1
    while decide(score([FamilyCounts(int(passed), 1, zone)] * n)) is not decision:
        n += 1
    return n


class DecisionChances(NamedTuple):
    yes: float
    no: float
    open: float


def decision_chances(n_families: int, zone: Zone, rate: float) -> DecisionChances:
    """What a model of this true rate comes to, each family being asked once: exact, by the chances
    of all numbers of passes that are still open after each answer."""
    pass_score = score([FamilyCounts(1, 1, zone)])
    failure_score = score([FamilyCounts(0, 1, zone)])
    still_open = {0: 1.0}
    ended = {Decision.YES: 0.0, Decision.NO: 0.0}
    for n in range(1, n_families + 1):
        after: dict[int, float] = {}
        for passes, chance in still_open.items():
            after[passes] = after.get(passes, 0.0) + chance * (1 - rate)
            after[passes + 1] = after.get(passes + 1, 0.0) + chance * rate
        still_open = {}
        for passes, chance in after.items():
            decision = decide(passes * pass_score + (n - passes) * failure_score)
            if decision is Decision.OPEN:
                still_open[passes] = chance
            else:
                ended[decision] += chance
    return DecisionChances(
        yes=ended[Decision.YES],
        no=ended[Decision.NO],
        open=math.fsum(still_open.values()),
    )


def chance_of_decision(n_families: int, zone: Zone, rate: float) -> float:
    """How likely a model of this true rate is decided, either way, by a pool of so many families
    without drawings."""
    chances = decision_chances(n_families, zone, rate)
    return chances.yes + chances.no
