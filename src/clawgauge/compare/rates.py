"""Pass rates of two sides over the prompts that both have, and how likely luck alone makes their
difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from clawgauge.compare.findings import PairedRate
from clawgauge.compare.pairing import Family, SharedPrompt
from clawgauge.compare.tallies import PromptTally
from clawgauge.records import PromptKey
from clawgauge.stats import paired as stats
from clawgauge.stats.proportions import Cluster
from clawgauge.words import plural

Outcome: TypeAlias = Callable[[PromptTally], Cluster]


def _passed_of_judged(tally: PromptTally) -> Cluster:
    return Cluster(tally.n_passed, tally.n_judged)


def _passed_of_planned(tally: PromptTally) -> Cluster:
    """No answer is no pass here."""
    n_planned = max(tally.n_planned, tally.n_recorded)
    return Cluster(tally.n_passed, n_planned - tally.n_unjudged)


def _passed_of_answered(tally: PromptTally) -> Cluster:
    """An empty answer is an answer, and no pass."""
    return Cluster(tally.n_passed, tally.n_answered)


def _called_of_answered(tally: PromptTally) -> Cluster:
    return Cluster(tally.n_tool_successes, tally.n_answered)


# What each rate counts.
OUTCOMES: Mapping[str, Outcome] = {
    "objective_pass_rate": _passed_of_judged,
    "pass_rate_scheduled": _passed_of_planned,
    "restraint": _passed_of_answered,
    "tasks": _passed_of_answered,
    "agreement": _passed_of_answered,
    "tool_use_rate": _called_of_answered,
    "in_context": _passed_of_judged,
}


@dataclass(frozen=True, slots=True)
class Trials:
    """What both sides made of one prompt, each at least once."""

    family: PromptKey
    a: Cluster
    b: Cluster

    @property
    def rate_a(self) -> float:
        return self.a.passes / self.a.trials

    @property
    def rate_b(self) -> float:
        return self.b.passes / self.b.trials

    @property
    def change(self) -> float:
        return self.rate_b - self.rate_a


class RateMeasurement:
    """The rates of both sides over the prompts that have a trial on both.

    Without `fixed_size` the results themselves decided how many prompts there are: no interval, and
    a p-value that holds at any stop. `unit` is what may stand alone, where that is too few."""

    def __init__(self, trials: Sequence[Trials], *, fixed_size: bool, unit: str) -> None:
        self._trials = trials
        self._unit = unit
        self._fixed_size = fixed_size
        self._moved = _add_up_families(trials)
        n_families = len(self._moved)
        each_once = all(trial.a.trials == trial.b.trials == 1 for trial in trials)
        self._is_single = n_families == len(trials) and each_once
        self._only_a = sum(trial.change < 0 for trial in trials)
        self._only_b = sum(trial.change > 0 for trial in trials)
        totals = [family.total for family in self._moved]
        self._difference = math.fsum(totals) / len(trials) if trials else None
        self._test: Literal["mcnemar_exact", "sign_flip", "bets"] = "sign_flip"
        if not fixed_size:
            self._test = "bets"
            n_better_in_a = sum(total < 0 for total in totals)
            n_better_in_b = sum(total > 0 for total in totals)
            self._p = stats.bets_p(n_better_in_a, n_better_in_b)
        elif self._is_single:
            self._test = "mcnemar_exact"
            self._p = stats.mcnemar_exact(self._only_a, self._only_b)
        else:
            self._p = stats.sign_flip_p(totals)

    @property
    def n_prompts(self) -> int:
        return len(self._trials)

    def at(self, alpha: float) -> PairedRate:
        interval = None
        smallest_change = None
        reason: str | None = None
        if self._fixed_size:
            interval = self._interval(alpha)
            smallest_change = stats.smallest_rate_change(self._moved, alpha=alpha)
            reason = None if smallest_change is not None else self._too_few()
        rate_a = None
        rate_b = None
        if self._trials:
            rate_a = math.fsum(trial.rate_a for trial in self._trials) / self.n_prompts
            rate_b = math.fsum(trial.rate_b for trial in self._trials) / self.n_prompts
        return PairedRate(
            n_prompts=self.n_prompts,
            difference=self._difference,
            ci95=interval,
            p=self._p,
            p_holm=self._p,
            smallest_change=smallest_change,
            reason=reason,
            n_trials_a=sum(trial.a.trials for trial in self._trials),
            n_trials_b=sum(trial.b.trials for trial in self._trials),
            rate_a=rate_a,
            rate_b=rate_b,
            only_a=self._only_a,
            only_b=self._only_b,
            test=self._test,
        )

    def _interval(self, alpha: float) -> tuple[float, float] | None:
        interval = stats.paired_rate_interval(self._moved, single=self._is_single, alpha=alpha)
        if interval is None:
            return None
        return stats.agree(interval, self._p, self._difference or 0.0, alpha=alpha)

    def _too_few(self) -> str:
        families = plural(len(self._moved), f"{self._unit} is", f"{self._unit}s are")
        return f"{families} too few to tell any change from luck"


def measure_rate(
    prompts: Sequence[SharedPrompt],
    outcome: Outcome,
    family: Family,
    *,
    fixed_size: bool = True,
    unit: str = "independent prompt",
) -> RateMeasurement:
    """The rate of an `outcome`. Prompts of one `family` are one difference, and `unit` is what
    these are called."""
    trials = []
    for prompt in prompts:
        a = outcome(prompt.a)
        b = outcome(prompt.b)
        if a.trials and b.trials:
            trials.append(Trials(family=family(prompt.key_a), a=a, b=b))
    return RateMeasurement(trials, fixed_size=fixed_size, unit=unit)


def _add_up_families(trials: Sequence[Trials]) -> list[stats.Moved]:
    moved_by_family: dict[PromptKey, stats.Moved] = {}
    for trial in trials:
        moved = moved_by_family.get(trial.family, stats.Moved(0.0, 0))
        moved_by_family[trial.family] = stats.Moved(
            total=moved.total + trial.change, n_prompts=moved.n_prompts + 1
        )
    return list(moved_by_family.values())
