"""Whether some prompts are enough to decide the needs of a job, before any of them is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from clawgauge.records import Job, Prompt, PromptKey
from clawgauge.run_data.evidence import find_pools
from clawgauge.stats.decision import Zone, chance_of_decision
from clawgauge.verdict.decision import Question, find_conditions
from clawgauge.verdict.jobs import find_suites_of

GOOD_CHANCE = 0.9
"""How likely a good model is decided by as many prompts as are advised."""
_MOST_FAMILIES = 400
# What the answers of one family are taken to have in common. Families of four texts then decide as
# often as simulated ones do, to two points of a hundred.
_CORRELATION = 0.5

CountTexts = Callable[[Prompt], int]
"""How many texts there are to ask of a prompt: as written, and its drawings."""


class NeedCoverage(NamedTuple):
    """How far some prompts tell of one need of a job."""

    need: str
    suites: tuple[str, ...]
    """Those that show it."""
    n_families: int
    """How many prompts there are of which none is a variant of another."""
    worth: float
    """How many families, each asked once, tell as much as all their texts do."""
    zone: Zone

    @property
    def chance(self) -> float:
        """How likely a model that is good is decided."""
        if not self.n_families:
            return 0.0
        return chance_of_decision(round(self.worth), self.zone, self.zone.good)


def count_one(_prompt: Prompt) -> int:
    """Of a prompt that is asked as written alone."""
    return 1


def cover_needs(
    name: str, job: Job, prompts: Sequence[Prompt], count_texts: CountTexts = count_one
) -> list[NeedCoverage]:
    """How far these prompts tell of each need of a job that answers decide."""
    pools = find_pools(prompts, {name: job})

    def cover(need: str, question: Question) -> NeedCoverage:
        members = pools.pools[question.pool].prompts
        n_texts: dict[PromptKey, int] = {}
        for prompt in prompts:
            if prompt.key not in members:
                continue
            family = pools.family(prompt.key)
            if family in pools.pairs:
                # Both halves are one text.
                n_texts[family] = count_texts(prompt)
            else:
                n_texts[family] = n_texts.get(family, 0) + count_texts(prompt)
        worth = 0.0
        for n in n_texts.values():
            worth += n / (1 + (n - 1) * _CORRELATION)
        return NeedCoverage(
            need=need,
            suites=tuple(find_suites_of(need, job)),
            n_families=len(n_texts),
            worth=worth,
            zone=question.zone,
        )

    covered = []
    for condition in find_conditions(name, job):
        coverages = [cover(condition.name, question) for question in condition.questions]
        # One of its questions is enough.
        covered.append(max(coverages, key=lambda coverage: coverage.worth))
    return covered


def find_lacking_suites(name: str, job: Job, prompts: Sequence[Prompt]) -> list[str]:
    """The suites without which none of these prompts tells of a need: nobody can be shown fit."""
    lacking: dict[str, None] = {}
    for coverage in cover_needs(name, job, prompts):
        if not coverage.n_families:
            lacking.update(dict.fromkeys(coverage.suites))
    return list(lacking)


@cache
def families_needed(zone: Zone) -> int:
    """How many families, each asked once, decide a good model nearly always."""
    low = 1
    high = _MOST_FAMILIES
    while low < high:
        middle = (low + high) // 2
        if chance_of_decision(middle, zone, zone.good) >= GOOD_CHANCE:
            high = middle
        else:
            low = middle + 1
    return low
