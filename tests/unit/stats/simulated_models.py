"""Simulated models asked as a plain run asks them: worst need first, dear ones last."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from clawgauge.stats.chance import NeedEvidence
from clawgauge.stats.decision import (
    ARGUMENTS_ZONE,
    CALLS_ZONE,
    MAIN_TASKS_ZONE,
    SUBAGENT_TASKS_ZONE,
    Decision,
    FamilyCounts,
    Zone,
    decide,
    score,
)

ZONE_BY_NEED = {
    "calls": CALLS_ZONE,
    "arguments": ARGUMENTS_ZONE,
    "restraint": ARGUMENTS_ZONE,
    "format": ARGUMENTS_ZONE,
    "data": ARGUMENTS_ZONE,
    "tasks": MAIN_TASKS_ZONE,
    "subagent tasks": SUBAGENT_TASKS_ZONE,
}
NEEDS_BY_JOB = {
    "main agent": ("calls", "arguments", "restraint", "tasks"),
    "subagent": ("calls", "arguments", "restraint", "subagent tasks"),
    "triage": ("restraint", "format"),
    "structured data": ("data",),
}
# The source of a need's evidence, for the chance of a fit: JSON serves format and data.
SOURCE_BY_NEED = {
    "calls": "native",
    "arguments": "native",
    "restraint": "restraint",
    "format": "format",
    "data": "format",
    "tasks": "tasks",
    "subagent tasks": "tasks",
}


@dataclass(frozen=True)
class Pool:
    """Prompts of one source: `n_calls` is what one of them takes."""

    name: str
    needs: tuple[str, ...]
    n_families: int
    n_calls: int = 1


# In the order in which they are asked while scores are equal: what serves format and data first.
POOLS = (
    Pool("native", ("calls", "arguments"), 65),
    Pool("restraint", ("restraint",), 40),
    Pool("json", ("format", "data"), 22),
    Pool("format", ("format",), 18),
    Pool("schema", ("data",), 18),
    Pool("tasks", ("tasks", "subagent tasks"), 43, n_calls=7),
)


def difficulties(dice: random.Random, rate: float, icc: float, n: int) -> list[float]:
    """The chance of each family to be passed: they differ so that its answers have `icc` in
    common (beta-binomial)."""
    if icc == 0 or rate in (0, 1):
        return [rate] * n
    total = 1 / icc - 1
    return [dice.betavariate(rate * total, (1 - rate) * total) for _ in range(n)]


@dataclass
class SimulatedNeed:
    zone: Zone
    counts: dict[object, tuple[int, int]] = field(default_factory=dict)
    score: float = 0.0
    decision: Decision = Decision.OPEN

    @property
    def n_answers(self) -> int:
        return sum(answers for _, answers in self.counts.values())

    @property
    def families(self) -> list[FamilyCounts]:
        return [FamilyCounts(passes, n, self.zone) for passes, n in self.counts.values()]

    def learn(self, family: object, passed: bool) -> None:
        passes, answers = self.counts.get(family, (0, 0))
        self.counts[family] = passes + passed, answers + 1
        self.score = score(self.families)
        if self.decision is Decision.OPEN:
            self.decision = decide(self.score)


@dataclass
class SimulatedRun:
    """A run of one model until every job is decided, or until a budget or the prompts end."""

    dice: random.Random
    rates: Mapping[str, float]
    icc: float = 0.5
    n_rounds: int = 4
    max_calls: int | None = None
    needs: dict[str, SimulatedNeed] = field(default_factory=dict)
    n_calls: int = 0
    decisions: dict[str, Decision] = field(default_factory=dict)
    calls_until: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[str, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.needs = {name: SimulatedNeed(zone) for name, zone in ZONE_BY_NEED.items()}
        self._difficulties: dict[str, list[float]] = {}
        self._order: dict[str, list[tuple[int, int]]] = {}
        for pool in POOLS:
            self._difficulties[pool.name] = difficulties(
                self.dice, self.rates[pool.name], self.icc, pool.n_families
            )
            order = []
            for drawing in range(self.n_rounds):
                shuffled = self.dice.sample(range(pool.n_families), pool.n_families)
                order += [(drawing, family) for family in shuffled]
            self._order[pool.name] = order

    def play(self) -> SimulatedRun:
        while (pool := self._next_pool()) is not None:
            if self.max_calls is not None and self.n_calls + pool.n_calls > self.max_calls:
                break
            self._ask(pool)
        return self

    def evidence(self) -> dict[str, list[NeedEvidence]]:
        """What the run knows of every job."""
        jobs = {}
        for job, names in NEEDS_BY_JOB.items():
            jobs[job] = [
                NeedEvidence(
                    name=name,
                    families=self.needs[name].families,
                    line=ZONE_BY_NEED[name].line,
                    is_calls=name == "calls",
                    source=SOURCE_BY_NEED[name],
                )
                for name in names
            ]
        return jobs

    def _open_needs(self) -> set[str]:
        names = set()
        for job, needs in NEEDS_BY_JOB.items():
            if job not in self.decisions:
                names.update(n for n in needs if self.needs[n].decision is Decision.OPEN)
        return names

    def _next_pool(self) -> Pool | None:
        open_needs = self._open_needs()
        askable = []
        for pool in POOLS:
            if self._order[pool.name] and open_needs.intersection(pool.needs):
                askable.append(pool)
        if not askable:
            return None
        cheapest = min(pool.n_calls for pool in askable)
        cheap = [pool for pool in askable if pool.n_calls == cheapest]

        def lowest_score(pool: Pool) -> float:
            return min(self.needs[name].score for name in pool.needs if name in open_needs)

        return min(cheap, key=lowest_score)

    def _ask(self, pool: Pool) -> None:
        drawing, family = self._order[pool.name].pop(0)
        self.asked.append((pool.name, drawing, family))
        self.n_calls += pool.n_calls
        passed = self.dice.random() < self._difficulties[pool.name][family]
        for name in pool.needs:
            # Half of the native calls that are wrong are calls all the same.
            is_met = passed or (name == "calls" and self.dice.random() < 0.5)
            self.needs[name].learn((pool.name, family), is_met)
        for job, names in NEEDS_BY_JOB.items():
            if job in self.decisions:
                continue
            of_needs = [self.needs[name].decision for name in names]
            if Decision.NO in of_needs:
                self.decisions[job] = Decision.NO
            elif set(of_needs) == {Decision.YES}:
                self.decisions[job] = Decision.YES
            else:
                continue
            self.calls_until[job] = self.n_calls
