"""What to ask a target next where that is planned, and what may be spent on it.

Nothing here asks a server or writes a file. Calls that are still out when asking is decided to end
are not called back: they are the few by which a run may go beyond the decision.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeAlias

import msgspec

from clawgauge.journal import CellKey
from clawgauge.plan import Plan
from clawgauge.records import Prompt, PromptKey, Result, Target
from clawgauge.suites.long_text import estimate_tokens

# No model has a smaller context window, so a shorter prompt is never left out.
_SMALLEST_WINDOW = 512
# The estimate of a prompt's tokens is a fifth too high at most.
_LEAST_OF_ESTIMATE = 0.8
# Prompts share long texts, and every target is held against the same ones.
_estimate = lru_cache(maxsize=65_536)(estimate_tokens)
SpendingKey: TypeAlias = tuple[str, str, int, int]
"""A cell of the target that is asked: (suite, prompt id, repeat, drawing)."""


class Cell(msgspec.Struct, frozen=True, gc=False):
    """One prompt, once. `draw` says which drawing of it the text is."""

    prompt: Prompt
    repeat: int
    draw: int = 0

    @property
    def spending_key(self) -> SpendingKey:
        return self.prompt.suite, self.prompt.id, self.repeat, self.draw

    def key(self, target: Target) -> CellKey:
        return CellKey(target.provider, target.model, target.thinking_level, *self.spending_key)


class OpenCells:
    """The cells of some prompts that are not taken yet, in the order of asking.

    Every prompt comes once, then every prompt again, `repeats` times in all. A plan may hold a
    hundred thousand cells: here each is a byte.
    """

    def __init__(self, prompts: Sequence[Prompt], repeats: int) -> None:
        self._prompts = prompts
        self._is_open = bytearray(b"\1") * (len(prompts) * repeats)
        self._position_by_prompt = {prompt.key: position for position, prompt in enumerate(prompts)}
        self._n_open = len(self._is_open)
        # No cell before this position is open.
        self._first_open = 0

    def __len__(self) -> int:
        return self._n_open

    def __iter__(self) -> Iterator[Cell]:
        for position, is_open in enumerate(self._is_open):
            if is_open:
                yield self._cell_at(position)

    def __contains__(self, cell: Cell) -> bool:
        position = self._find_position(cell)
        return position is not None and self._is_open[position] == 1

    def take(self, only: Cell | None = None) -> Cell:
        """Take the first open cell, or `only` that one, which has to be open."""
        if only is None:
            position = self._is_open.index(1, self._first_open)
            self._first_open = position
        else:
            position = only.repeat * len(self._prompts) + self._position_by_prompt[only.prompt.key]
        self._is_open[position] = 0
        self._n_open -= 1
        return self._cell_at(position)

    def drop(self, is_unwanted: Callable[[Cell], bool]) -> list[Cell]:
        """Take all open cells that are unwanted, and return them."""
        dropped = []
        for cell in self:
            if is_unwanted(cell):
                dropped.append(self.take(cell))
        return dropped

    def _cell_at(self, position: int) -> Cell:
        repeat, position_in_round = divmod(position, len(self._prompts))
        return Cell(self._prompts[position_in_round], repeat)

    def _find_position(self, cell: Cell) -> int | None:
        position_in_round = self._position_by_prompt.get(cell.prompt.key)
        if position_in_round is None or cell.repeat < 0:
            return None
        position = cell.repeat * len(self._prompts) + position_in_round
        return position if position < len(self._is_open) else None


@dataclass
class CallBudget:
    """At most `limit` requests are made to a target, those of earlier stretches included.

    Each turn of a task is one, and a task that was begun is brought to its end. Retries and
    warm-ups are not counted.
    """

    limit: int
    spent: int
    name: ClassVar = "max_calls"
    detail: ClassVar[Mapping[str, Any]] = {}

    @property
    def calls_left(self) -> int:
        return max(0, self.limit - self.spent)

    def is_open(self) -> bool:
        """Whether another cell may be asked."""
        return self.spent < self.limit

    def issue(self, cell: Cell) -> None:
        """Count a cell that is about to be asked."""
        self.spent += 1

    def learn(self, result: Result) -> None:
        """Count the further turns of a task; give back a cell that was not sent."""
        if not result.was_asked:
            self.spent -= 1
        elif result.turns is not None:
            self.spent += max(0, result.turns - 1)


class CostBudget:
    """At most `limit` dollars are spent on a run, earlier stretches included, and one call more.

    A call goes out while what is spent and what is `held` for the calls in flight is below the
    limit. `math.inf` is held for a call that may cost anything, so that it goes alone; `issue`
    holds that until somebody knows better. A call that was paid for and can have cost anything
    ends the spending: what cannot be counted cannot be limited.

    `changed` is set, and replaced, whenever a call has come back: who waits for money, of whatever
    target, waits for it.
    """

    name = "max_cost"

    def __init__(self, limit: float, spent: float = 0.0) -> None:
        self.limit = limit
        self.spent = spent
        self.held: dict[SpendingKey, float] = {}
        self.changed = asyncio.Event()
        self._spent_before_usd = spent
        self._recorded_usd = 0.0
        self._assumed_usd = 0.0
        self._dearest_call_usd = 0.0
        # Whether a call was paid for that may have cost anything.
        self._is_uncountable = False
        # The cells that have paid for an attempt and have no record yet.
        self._paid: set[SpendingKey] = set()

    @property
    def calls_left(self) -> int | None:
        """0 when the budget is spent; None as long as it is not, for nobody can say how many."""
        return 0 if self._is_uncountable or self.spent >= self.limit else None

    @property
    def detail(self) -> Mapping[str, Any]:
        """What the event says of a budget that is spent, beside the sums."""
        detail: dict[str, Any] = {}
        if self._is_uncountable:
            detail["unknown_cost"] = True
        if self._assumed_usd:
            detail["assumed"] = round(self._assumed_usd, 6)
        return detail

    @property
    def unrecorded_usd(self) -> float:
        """What this stretch has spent, or may have, and no record says.

        That is the cost of warm-ups, of lost attempts and of calls in flight.
        """
        held_usd = 0.0
        for call_usd in self.held.values():
            held_usd += self._dearest_call_usd if math.isinf(call_usd) else call_usd
        spent_usd = self.spent - self._spent_before_usd
        return round(max(0.0, spent_usd - self._recorded_usd + held_usd), 6)

    def is_open(self, key: SpendingKey | None = None) -> bool:
        """Whether a call, or the next attempt at the cell `key`, may go out now.

        If not, one that is in flight has to come back first.
        """
        if self._is_uncountable:
            return False
        held_by_others_usd = 0.0
        for holder, call_usd in self.held.items():
            if holder != key:
                held_by_others_usd += call_usd
        return self.spent + held_by_others_usd < self.limit

    def issue(self, cell: Cell) -> None:
        """Hold everything for a cell that is about to be asked."""
        self.held[cell.spending_key] = math.inf

    def pay(self, key: SpendingKey, usd: float, *, assumed: bool = False) -> None:
        """Count the cost of an attempt that came back, and wake whoever waits for money.

        `assumed` says that nobody has reported the cost, and that it is the most it can be.
        """
        self.held.pop(key, None)
        self._paid.add(key)
        if math.isinf(usd):
            self._is_uncountable = True
        else:
            self.spent += usd
            self._dearest_call_usd = max(self._dearest_call_usd, usd)
            if assumed:
                self._assumed_usd += usd
        self.changed.set()
        self.changed = asyncio.Event()

    def learn(self, result: Result) -> None:
        """Count the cost of a result, unless its attempts have been paid for already."""
        key = (result.suite, result.prompt_id, result.repeat, result.draw)
        cost_usd = result.cost_usd
        self._recorded_usd += cost_usd or 0.0
        if key not in self._paid:
            is_unknown = cost_usd is None and result.availability_status == "ok"
            self.pay(key, math.inf if is_unknown else cost_usd or 0.0)
        self._paid.discard(key)


class TimeBudget:
    """Calls are begun for `limit` seconds of the time in which this stretch asks a target."""

    name: ClassVar = "max_time"
    detail: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._began_s = time.monotonic()
        self._spent_before_s = 0.0
        self._is_paused = False

    @property
    def spent(self) -> float:
        if self._is_paused:
            return self._spent_before_s
        return self._spent_before_s + time.monotonic() - self._began_s

    def pause(self) -> None:
        """Others are asked: that is no time of this target's."""
        self._spent_before_s = self.spent
        self._is_paused = True

    def resume(self) -> None:
        if self._is_paused:
            self._began_s = time.monotonic()
            self._is_paused = False

    @property
    def calls_left(self) -> int | None:
        """0 when the time is over; None as long as it is not, for nobody can say how many."""
        return None if self.is_open() else 0

    def is_open(self) -> bool:
        """Whether another cell may be asked."""
        return self.spent < self.limit

    def issue(self, cell: Cell) -> None:
        """A cell that is asked takes its time by itself."""

    def learn(self, result: Result) -> None:
        """A result has taken its time by itself."""


Budget: TypeAlias = CallBudget | CostBudget | TimeBudget


def cost_budget(plan: Plan) -> CostBudget | None:
    """What the whole run may still spend; None where that is not limited.

    What the run has cost in earlier stretches is gone, recorded or not.
    """
    limit_usd = plan.settings.max_cost_usd
    if limit_usd is None:
        return None
    recorded_usd = sum(answers.cost_usd for answers in plan.work.answers.values())
    return CostBudget(limit_usd, plan.work.beside_usd + recorded_usd)


class Outcome(NamedTuple):
    """Why cells of a target were not asked: the name of an event, and its detail."""

    event: str
    detail: dict[str, Any]


class Agenda:
    """The open cells of a target, taken one at a time in the order of the plan.

    `skipped` says which cells were left out from the start.
    """

    def __init__(
        self, cells: OpenCells, budgets: list[Budget], skipped: Sequence[Outcome] = ()
    ) -> None:
        self._planned = cells
        self._budgets = budgets
        self.skipped = skipped

    def give_up(self) -> bool:
        """Whether nothing is taken any more of a target that cannot answer.

        Every planned cell gets its record: those that are left are recorded as not asked.
        """
        return False

    @property
    def n_open(self) -> int:
        """How many cells would be asked from here, as far as the budgets allow them."""
        n_open = self.n_untaken
        for budget in self._budgets:
            calls_left = budget.calls_left
            if calls_left is not None:
                n_open = min(n_open, calls_left)
        return n_open

    @property
    def n_untaken(self) -> int:
        """How many cells nobody has taken yet, whatever the budgets allow."""
        return len(self._planned)

    def holds(self, cell: Cell) -> bool:
        """Whether the cell can be taken, as far as the budgets allow it."""
        return cell in self._planned

    def take(self, only: Cell | None = None) -> Cell | None:
        """The next cell to ask, or `only` that one.

        Returns None where it is not open, or where one in flight has to come back first.
        """
        if not self.n_untaken or not all(budget.is_open() for budget in self._budgets):
            return None
        if only is not None and not self.holds(only):
            return None
        cell = self._planned.take(only)
        for budget in self._budgets:
            budget.issue(cell)
        return cell

    def learn(self, result: Result) -> None:
        """Count a result against the budgets."""
        for budget in self._budgets:
            budget.learn(result)

    def outcomes(self) -> list[Outcome]:
        """What a reader of the run must know about the cells that were not asked."""
        return [*self.skipped, *describe_spent(self._budgets, self.n_untaken)]


def describe_spent(budgets: Iterable[Budget], n_untaken: int) -> list[Outcome]:
    """The budgets that are spent, where something was left to ask."""
    outcomes = []
    for budget in budgets:
        if budget.calls_left == 0 and n_untaken:
            detail = {
                "budget": budget.name,
                "limit": budget.limit,
                "spent": round(budget.spent, 6),
                **budget.detail,
                "not_asked": n_untaken,
            }
            outcomes.append(Outcome("budget_spent", detail))
    return outcomes


def interleaved_order(plan: Plan, run_id: str) -> Iterator[tuple[Cell, list[Target]]]:
    """Every cell of a plan in the order that all agendas keep to, and whose turn it is when.

    The order of the targets is drawn for each cell from the run's id and the cell's name, so that
    a run that is resumed goes on with the same.
    """
    for cell in OpenCells(plan.asked, plan.settings.repeats):
        targets = list(plan.targets)
        prompt = cell.prompt
        random.Random(f"{run_id} {prompt.suite}/{prompt.id} {cell.repeat}").shuffle(targets)
        yield cell, targets


class _Demands(NamedTuple):
    """What a prompt may ask too much of: the context window, and the provider's protocol."""

    prompt: PromptKey
    least_tokens: float
    options: set[str]


def leave_out(
    plan: Plan, target: Target, cells: OpenCells, window: int | None
) -> tuple[list[Outcome], set[PromptKey]]:
    """Take out the cells that this target cannot be asked.

    These are prompts that are surely longer than the model's window, and prompts that ask for
    what the provider cannot send. Where the window is not known, the server's error is recorded.

    Returns what is recorded of them, and the prompts of which cells were taken out.
    """
    demanding = []
    for prompt in plan.asked:
        demands = _find_demands(prompt)
        if demands.options or demands.least_tokens > _SMALLEST_WINDOW:
            demanding.append(demands)
    if not demanding:
        return [], set()

    provider = plan.provider(target.provider)
    window = window or provider.context_tokens
    too_long: set[PromptKey] = set()
    not_sendable: set[PromptKey] = set()
    options_not_sent: set[str] = set()
    for demands in demanding:
        options = demands.options & provider.cannot_send
        options_not_sent |= options
        if window is not None and demands.least_tokens > window:
            too_long.add(demands.prompt)
        elif options:
            not_sendable.add(demands.prompt)

    skipped = []
    beyond_context = {"reason": "beyond_context", "window": window}
    cannot_be_sent = {"reason": "cannot_be_sent", "keys": sorted(options_not_sent)}
    for prompts, reason in ((too_long, beyond_context), (not_sendable, cannot_be_sent)):
        names = []
        for cell in cells:
            if cell.prompt.key in prompts:
                names.append(f"{cell.prompt.suite}/{cell.prompt.id}")
        if names:
            detail = {**reason, "prompts": sorted(set(names)), "not_asked": len(names)}
            skipped.append(Outcome("skip", detail))
    dropped = cells.drop(
        lambda cell: cell.prompt.key in too_long or cell.prompt.key in not_sendable
    )
    return skipped, {cell.prompt.key for cell in dropped}


def _find_demands(prompt: Prompt) -> _Demands:
    options = set()
    if prompt.tool_choice not in (None, "auto"):
        options.add("tool_choice")
    if prompt.response_format:
        options.add("response_format")
    texts = prompt.texts
    least_tokens = 0.0
    # Most prompts are a few lines: only a text that may be too long is estimated.
    if sum(map(len, texts)) > _SMALLEST_WINDOW:
        least_tokens = _LEAST_OF_ESTIMATE * sum(map(_estimate, texts))
    return _Demands(prompt.key, least_tokens, options)
