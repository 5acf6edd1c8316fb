"""When a target has been asked enough: its tier is decided, or a budget is spent. Pure.

Owns: the evidence for the tier as it comes in, and what is left of a budget. Refuses: the order of the cells, and
sending. A budget is a small seam on purpose: whatever can be counted call by call can be one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from clawgauge.records import Result, Target
from clawgauge.runner.tier_pool import PromptKey
from clawgauge.stats import is_decided, tier_posterior


@dataclass(frozen=True, slots=True)
class Evidence:
    """What earlier stretches of a run know of a target.

    `n_calls` cells were asked in all; `n_pool` cells of the tier's pool have a record, `n_repeats` of them repeats;
    of its prompts `n` were answered, `k` of them with an expected tool. `cost_usd` is what the records say was paid.
    """

    n_calls: int = 0
    n_pool: int = 0
    n_repeats: int = 0
    n: int = 0
    k: int = 0
    cost_usd: float = 0.0


class Budget(Protocol):
    """A bound on what may be spent. `name` is the option that set it."""

    name: str

    @property
    def limit(self) -> float: ...

    @property
    def spent(self) -> float: ...

    @property
    def calls_left(self) -> int | None:
        """How many calls may still go out; None where that cannot be said, 0 when the budget is spent."""

    @property
    def detail(self) -> dict[str, Any]:
        """What else a reader of the run should know of its end."""

    def issue(self) -> None:
        """A call goes out."""

    def learn(self, result: Result) -> None:
        """It came back."""


class CallBudget:
    """At most `limit` cells of a target are asked, those of earlier stretches included; retries are not counted."""

    name = "max_calls"

    def __init__(self, limit: int, spent: int = 0) -> None:
        self._limit = limit
        self._spent = spent

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def spent(self) -> int:
        return self._spent

    @property
    def calls_left(self) -> int:
        return max(0, self._limit - self._spent)

    @property
    def detail(self) -> dict[str, Any]:
        return {}

    def issue(self) -> None:
        self._spent += 1

    def learn(self, result: Result) -> None:
        if not result.attempts:
            # Recorded as unavailable without having been sent.
            self._spent -= 1


class CostBudget:
    """At most `limit_usd` is spent on a run, earlier stretches included.

    Calls in flight are counted at the mean of those that have come back, so that a wide run stops in time; what they
    then really cost may still overshoot it a little. An answer of a target that is not `free` and has no cost ends the
    spending: what cannot be counted cannot be limited.
    """

    name = "max_cost"

    def __init__(self, limit_usd: float, spent_usd: float = 0.0, free: Collection[Target] = frozenset()) -> None:
        self._limit_usd = limit_usd
        self._free = free
        self._uncounted = False
        self._spent_usd = spent_usd
        self._n_back = 0
        self._spent_here_usd = 0.0
        self._n_out = 0

    @property
    def limit(self) -> float:
        return self._limit_usd

    @property
    def spent(self) -> float:
        return round(self._spent_usd, 6)

    @property
    def calls_left(self) -> int | None:
        if self._uncounted:
            return 0
        mean = self._spent_here_usd / self._n_back if self._n_back else 0.0
        return 0 if self._spent_usd + self._n_out * mean >= self._limit_usd else None

    @property
    def detail(self) -> dict[str, Any]:
        return {"unknown_cost": True} if self._uncounted else {}

    def issue(self) -> None:
        self._n_out += 1

    def learn(self, result: Result) -> None:
        self._n_out -= 1
        self._n_back += 1
        if result.cost_usd is None and result.availability_status == "ok":
            self._uncounted |= Target(result.provider, result.model, result.thinking_level) not in self._free
        self._spent_usd += result.cost_usd or 0.0
        self._spent_here_usd += result.cost_usd or 0.0


class TierSearch:
    """The evidence for one target's tier: one trial per prompt, counted as the answers come back."""

    def __init__(self, pool: Collection[PromptKey], repeats: int, before: Evidence) -> None:
        self._pool = frozenset(pool)
        self._n_cells = len(pool) * repeats
        self._n_repeats_planned = len(pool) * (repeats - 1)
        self._before = before
        self._n_recorded = before.n_pool
        self.n = before.n
        self.k = before.k
        self._posterior = tier_posterior(self.k, self.n)

    def __contains__(self, key: PromptKey) -> bool:
        return key in self._pool

    @property
    def decided(self) -> bool:
        """Whether one tier has 95% of the probability."""
        return is_decided(self._posterior)

    def learn(self, result: Result) -> None:
        """Count an answer that belongs here; what was not answered is no evidence."""
        if (result.suite, result.prompt_id) not in self._pool:
            return
        self._n_recorded += 1
        if result.availability_status == "ok":
            self.n += 1
            self.k += result.tool_use_success
            self._posterior = tier_posterior(self.k, self.n)

    def describe(self) -> dict[str, Any]:
        """The state of the search, for events.jsonl.

        `not_asked` of the pool's scheduled cells have no record. `not_needed` of these are done without: all of them
        once the tier is decided, before that the repeats.
        """
        likeliest = max(self._posterior)
        not_asked = self._n_cells - self._n_recorded
        repeats_left = self._n_repeats_planned - self._before.n_repeats
        return {
            "tier": self._posterior.index(likeliest) + 1 if self.n else None,
            "n": self.n,
            "k": self.k,
            "p": round(likeliest, 6),
            "asked": self._n_recorded,
            "not_asked": not_asked,
            "not_needed": not_asked if self.decided else min(not_asked, repeats_left),
        }
