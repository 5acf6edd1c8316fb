"""What to ask a target next, given what has come back. Pure.

With several calls at once the decision rests on those that have come back; the few still out may overshoot it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from clawgauge.journal import CellKey
from clawgauge.plan import Evidence, Plan
from clawgauge.records import Prompt, Result, Target
from clawgauge.runner.budgets import Budget, CallBudget, Cell, CostBudget, TierSearch, pool_key, tier_pool
from clawgauge.suites.draw import estimate_tokens

_ID_CHARS = 12
_SMALLEST_WINDOW = 512


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
        skipped: Outcome | None = None,
    ) -> None:
        self._planned = deque(planned)
        self._tier_cells = deque(tier_cells)
        self._search = search
        self._budgets = budgets
        self._skipped = skipped

    @property
    def n_open(self) -> int:
        """How many cells would be asked from here, if no answer changed that."""
        lefts = [left for budget in self._budgets if (left := budget.calls_left) is not None]
        return min([len(self._planned) + len(self._wanted_tier_cells), *lefts])

    @property
    def n_skipped(self) -> int:
        """How many cells are not asked because their prompt does not fit the model's window."""
        return 0 if self._skipped is None else int(self._skipped.detail["not_asked"])

    def take(self) -> Cell | None:
        """The next cell to ask. None where none is open, or, with some open, until one in flight has come back."""
        if not self.n_open or not all(budget.is_open() for budget in self._budgets):
            return None
        cell = (self._wanted_tier_cells or self._planned).popleft()
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
        found = [] if self._skipped is None else [self._skipped]
        if self._search is not None:
            found.append(Outcome("decided" if self._search.decided else "undecided", self._search.describe()))
        n_wanted = len(self._planned) + len(self._wanted_tier_cells)
        for budget in self._budgets:
            if budget.calls_left == 0 and n_wanted:
                detail = {"budget": budget.name, "limit": budget.limit, "spent": round(budget.spent, 6)}
                found.append(Outcome("budget_spent", {**detail, **budget.detail, "not_asked": n_wanted}))
        return found

    @property
    def _wanted_tier_cells(self) -> deque[Cell]:
        """None once the tier is decided; a later answer may open the search again."""
        seeking = self._search is not None and not self._search.decided
        return self._tier_cells if seeking else deque()


def make_agenda(plan: Plan, target: Target, cost: CostBudget | None = None) -> Agenda:
    """A target's open cells in the order they are asked; those of a tier's pool once each, in the pool's order.

    The `cost` budget is the whole run's: one target's spending is what the next has left.
    """
    settings, before = plan.settings, plan.work.evidence.get(target, Evidence())
    every = (Cell(prompt, repeat) for repeat in range(settings.repeats) for prompt in plan.asked)
    open_cells = [cell for cell in every if cell.key(target) not in plan.work.done]
    cells, skipped = _fit_to_window(plan, target, open_cells)
    budgets: list[Budget] = [] if cost is None or target in plan.free else [cost]
    if settings.max_calls is not None:
        budgets.append(CallBudget(settings.max_calls, before.n_calls))
    if not settings.until_decided:
        return Agenda(cells, budgets=budgets, skipped=skipped)
    pool = tier_pool(plan.prompts)
    search = TierSearch([pool_key(prompt) for prompt in pool], settings.repeats, before)
    open_once = {pool_key(cell.prompt): cell for cell in cells if cell.repeat == 0}
    return Agenda(
        [cell for cell in cells if pool_key(cell.prompt) not in search],
        tier_cells=[open_once[key] for prompt in pool if (key := pool_key(prompt)) in open_once],
        search=search,
        budgets=budgets,
        skipped=skipped,
    )


def _fit_to_window(plan: Plan, target: Target, cells: list[Cell]) -> tuple[list[Cell], Outcome | None]:
    """The cells without those whose prompt is surely longer than a window that is known, and what is said of these.

    Where the window is not known the server's error is on record; the estimate is a fifth too high at most.
    """
    long = {prompt.key: size for prompt in plan.asked if (size := _size(prompt)) > _SMALLEST_WINDOW}
    if not long or (window := plan.provider_for(target).context_tokens) is None:
        return cells, None
    beyond = {key for key, size in long.items() if size > window}
    fitting = [cell for cell in cells if cell.prompt.key not in beyond]
    if len(fitting) == len(cells):
        return cells, None
    ids = sorted({f"{cell.prompt.suite}/{cell.prompt.id}" for cell in cells if cell.prompt.key in beyond})
    detail = {"reason": "beyond_context", "window": window, "prompts": ids, "not_asked": len(cells) - len(fitting)}
    return fitting, Outcome("skip", detail)


def _size(prompt: Prompt) -> float:
    """The fewest tokens a prompt can have. Only a text that may matter is looked at: most are a few lines."""
    texts = (prompt.system or "", prompt.prompt)
    return 0.8 * sum(map(estimate_tokens, texts)) if sum(map(len, texts)) > _SMALLEST_WINDOW else 0.0
