"""What to ask a target next, given what has come back. Pure.

With several calls at once the decision rests on those that have come back; the few still out may overshoot it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from clawgauge.journal import CellKey
from clawgauge.records import Prompt, Result, RunOptions, Target
from clawgauge.runner.budgets import Budget, CallBudget, Cell, Evidence, TierSearch, plan_cells, pool_key

_ID_CHARS = 12


def make_prefix(salt: bytes, key: CellKey) -> str:
    """The line of one cell: the same for every attempt at it, another for every cell, repeat and run."""
    # The part that differs comes first: nothing before it can be shared.
    digest = hashlib.blake2b(repr(tuple(key)).encode(), key=salt).hexdigest()
    return f"[{digest[:_ID_CHARS]} request id]"


def prefixed(prompt: Prompt, prefix: str) -> Prompt:
    """The prompt as it is sent."""
    if prompt.system:
        return msgspec.structs.replace(prompt, system=f"{prefix}\n{prompt.system}")
    return msgspec.structs.replace(prompt, prompt=f"{prefix}\n{prompt.prompt}")


class Outcome(NamedTuple):
    """Why asking ended before the plan did: an event's name and its detail."""

    event: str
    detail: dict[str, Any]


class Agenda:
    """Open cells, taken one at a time. Those that a tier rests on come first, and only while it is undecided."""

    def __init__(
        self,
        planned: Sequence[Cell],
        *,
        tier_cells: Sequence[Cell] = (),
        search: TierSearch | None = None,
        budgets: Sequence[Budget] = (),
    ) -> None:
        self._planned = deque(planned)
        self._tier_cells = deque(tier_cells)
        self._search = search
        self._budgets = budgets

    @property
    def n_open(self) -> int:
        """How many cells would be asked from here, if no answer changed that."""
        n_open = self._n_wanted
        for budget in self._budgets:
            if (left := budget.calls_left) is not None:
                n_open = min(n_open, left)
        return n_open

    @property
    def n_tier_cells(self) -> int:
        """How many of the open cells are asked only until the tier is decided."""
        return len(self._tier_cells) if self._seeks_tier else 0

    @property
    def waits(self) -> bool:
        """Whether there are cells to ask, but one that is in flight has to come back first."""
        return self.n_open > 0 and not self._is_open

    def take(self) -> Cell | None:
        """The next cell to ask; None when there is none now. A later answer may open the search for a tier again."""
        if not self.n_open or not self._is_open:
            return None
        cell = self._tier_cells.popleft() if self._tier_cells and self._seeks_tier else self._planned.popleft()
        for budget in self._budgets:
            budget.issue(cell)
        return cell

    def learn(self, result: Result) -> None:
        """A cell that was taken has its record."""
        for budget in self._budgets:
            budget.learn(result)
        if self._search is not None:
            self._search.learn(result)

    def outcomes(self) -> list[Outcome]:
        """What a reader of the run must know about the cells that were not asked."""
        found = []
        if self._search is not None:
            found.append(Outcome("decided" if self._search.decided else "undecided", self._search.describe()))
        for budget in self._budgets:
            if budget.calls_left == 0 and self._n_wanted:
                detail = {"budget": budget.name, "limit": budget.limit, "spent": budget.spent, **budget.detail}
                found.append(Outcome("budget_spent", {**detail, "not_asked": self._n_wanted}))
        return found

    @property
    def _is_open(self) -> bool:
        return all(budget.is_open() for budget in self._budgets)

    @property
    def _seeks_tier(self) -> bool:
        return self._search is not None and not self._search.decided

    @property
    def _n_wanted(self) -> int:
        return len(self._planned) + self.n_tier_cells


def make_agenda(
    target: Target,
    prompts: list[Prompt],
    options: RunOptions,
    *,
    done: Collection[CellKey] = frozenset(),
    pool: Sequence[Prompt] = (),
    evidence: Evidence | None = None,
    shared: Sequence[Budget] = (),
) -> Agenda:
    """A target's open cells. With a `pool` its prompts are asked once each, in its order, until the tier is decided.

    `shared` budgets are those that other targets spend from, too.
    """
    before = evidence or Evidence()
    cells = plan_cells(target, prompts, options.repeats, done)
    budgets = [*shared]
    if options.max_calls is not None:
        budgets.append(CallBudget(options.max_calls, before.n_calls))
    if not options.until_decided:
        return Agenda(cells, budgets=budgets)
    search = TierSearch([pool_key(prompt) for prompt in pool], options.repeats, before)
    open_once = {pool_key(cell.prompt): cell for cell in cells if cell.repeat == 0}
    return Agenda(
        [cell for cell in cells if pool_key(cell.prompt) not in search],
        tier_cells=[open_once[key] for prompt in pool if (key := pool_key(prompt)) in open_once],
        search=search,
        budgets=budgets,
    )
