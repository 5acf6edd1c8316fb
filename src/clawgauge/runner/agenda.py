"""What to ask a target next, given what has come back.

Nothing here asks a server or writes a file. Calls that are still out when asking is decided to end
are not called back: they are the few by which a run may go beyond the decision.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import msgspec

from clawgauge.journal import CellKey
from clawgauge.plan import Evidence, Plan
from clawgauge.records import Prompt, PromptKey, Result, Target
from clawgauge.run_data.schedule import tier_prompts
from clawgauge.stats.tiers import can_tell_tier_1, tell_tier_1, tier_posterior
from clawgauge.suites.long_text import estimate_tokens

# No model has a smaller context window, so a shorter prompt is never left out.
_SMALLEST_WINDOW = 512
# The estimate of a prompt's tokens is a fifth too high at most.
_LEAST_OF_ESTIMATE = 0.8
# Prompts share long texts, and every target is held against the same ones.
_estimate = lru_cache(maxsize=65_536)(estimate_tokens)
T = TypeVar("T")
SpendingKey: TypeAlias = tuple[str, str, int]
"""A cell of the target that is asked: (suite, prompt id, repeat)."""


class Cell(msgspec.Struct, frozen=True, gc=False):
    """One prompt, once."""

    prompt: Prompt
    repeat: int

    @property
    def spending_key(self) -> SpendingKey:
        return self.prompt.suite, self.prompt.id, self.repeat

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


def tier_pool(prompts: Iterable[Prompt]) -> list[Prompt]:
    """The prompts of a plan that count toward the tier, in the order in which to ask them.

    Suites and categories take turns, and within them the prompts come before their variants:
    whenever the asking stops, it has seen as many kinds of task as it could.
    """
    prompts_by_kind = _group(tier_prompts(prompts), lambda prompt: (prompt.suite, prompt.category))
    ordered_kinds = []
    for kind in prompts_by_kind:
        families = _group(kind, lambda prompt: prompt.family)
        ordered_kinds.append(_take_turns(families))
    return _take_turns(ordered_kinds)


def _group(members: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """The members that have a key in common, in the order in which the keys come up."""
    groups: dict[Hashable, list[T]] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return list(groups.values())


def _take_turns(groups: Sequence[Sequence[T]]) -> list[T]:
    """The first of each group, then the second of each, and so on."""
    ordered = []
    for turn in zip_longest(*groups):
        for member in turn:
            if member is not None:
                ordered.append(member)
    return ordered


@dataclass
class CallBudget:
    """At most `limit` cells of a target are asked, those of earlier stretches included.

    Retries of a cell are not counted.
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
        """Give the cell back where it was recorded without having been sent."""
        if not result.was_asked:
            self.spent -= 1


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
        key = (result.suite, result.prompt_id, result.repeat)
        cost_usd = result.cost_usd
        self._recorded_usd += cost_usd or 0.0
        if key not in self._paid:
            is_unknown = cost_usd is None and result.availability_status == "ok"
            self.pay(key, math.inf if is_unknown else cost_usd or 0.0)
        self._paid.discard(key)


Budget: TypeAlias = CallBudget | CostBudget


def cost_budget(plan: Plan) -> CostBudget | None:
    """What the whole run may still spend; None where that is not limited.

    What the run has cost in earlier stretches is gone, recorded or not.
    """
    limit_usd = plan.settings.max_cost_usd
    if limit_usd is None:
        return None
    recorded_usd = sum(evidence.cost_usd for evidence in plan.work.evidence.values())
    return CostBudget(limit_usd, plan.work.beside_usd + recorded_usd)


class TierSearch:
    """The evidence for one target's tier, counted as answers come back, until it tells Tier 1.

    Variants of a prompt are alike: of a family only the first answer counts. A verdict stands
    once it is reached. `n` families have an answer, and `k` of these passed.
    """

    def __init__(self, pool: Sequence[Prompt], repeats: int, before: Evidence) -> None:
        self.family_by_prompt = {prompt.key: prompt.family for prompt in pool}
        # Of the families without an answer: how many of their prompts have no record.
        self._n_unrecorded = Counter(self.family_by_prompt.values())
        # The families that may still get an answer.
        self._n_open_families = len(self._n_unrecorded)
        self._n_cells = len(pool) * repeats
        self._n_recorded_cells = before.n_pool
        self.n = 0
        self.k = 0
        self._is_tier_1: bool | None = None
        for key, passed in before.asked:
            self._count(key, passed)

    @property
    def is_decided(self) -> bool:
        return self._is_tier_1 is not None

    @property
    def is_futile(self) -> bool:
        """Whether what is left cannot decide it."""
        return not self.is_decided and not can_tell_tier_1(self.k, self.n, self._n_open_families)

    @property
    def is_over(self) -> bool:
        return self.is_decided or self.is_futile

    def has_no_answer(self, family: PromptKey) -> bool:
        """Whether no prompt of a family has been answered yet."""
        return family in self._n_unrecorded

    def learn(self, result: Result) -> None:
        """Count a result of a prompt of the pool; what was not answered is no evidence."""
        self._n_recorded_cells += 1
        is_evidence = result.availability_status == "ok" and result.not_judged is None
        self._count(result.prompt, result.tool_use_success if is_evidence else None)

    def _count(self, key: PromptKey, passed: bool | None) -> None:
        family = self.family_by_prompt.get(key)
        if family is None or not self._n_unrecorded[family]:
            return
        self._n_unrecorded[family] -= 1
        if passed is None:
            if self._n_unrecorded[family] == 0:
                self._n_open_families -= 1
            return
        del self._n_unrecorded[family]
        self._n_open_families -= 1
        self.n += 1
        self.k += passed
        if self._is_tier_1 is None:
            self._is_tier_1 = tell_tier_1(self.k, self.n)

    def describe(self) -> dict[str, Any]:
        """The state of the search, for events.jsonl.

        `not_asked` of the pool's scheduled cells have no record, and `not_needed` of these are
        done without: all of them once the search is over, before that all but one of each family
        that has no answer yet.
        """
        posterior = tier_posterior(self.k, self.n)
        likeliest = max(posterior)
        tier = posterior.index(likeliest) + 1 if self.n else None
        tier_1 = "cannot_tell"
        if self._is_tier_1 is not None:
            tier_1 = "yes" if self._is_tier_1 else "no"
        not_asked = self._n_cells - self._n_recorded_cells
        not_needed = not_asked
        if not self.is_over:
            not_needed = max(0, not_asked - self._n_open_families)
        return {
            "tier": tier,
            "tier1": tier_1,
            "n": self.n,
            "k": self.k,
            "p": round(likeliest, 6),
            "asked": self._n_recorded_cells,
            "not_asked": not_asked,
            "not_needed": not_needed,
            "futile": self.is_futile,
        }


class Outcome(NamedTuple):
    """Why cells of a target were not asked: the name of an event, and its detail."""

    event: str
    detail: dict[str, Any]


class Agenda:
    """The open cells of a target, taken one at a time.

    Cells that a tier rests on come first, and only until the search for it is over. `skipped` says
    which cells were left out from the start.
    """

    def __init__(
        self,
        cells: OpenCells,
        search: TierSearch | None,
        budgets: list[Budget],
        skipped: Sequence[Outcome] = (),
    ) -> None:
        self._planned = cells
        self._search = search
        self._budgets = budgets
        self.skipped = skipped
        # By family that has no answer yet: one cell of it may go, or is out while the others wait.
        # Each of its prompts is asked once, in the pool's order; none once the search is over.
        self._waiting: dict[PromptKey, list[Cell]] = {}
        self._waiting_for_answer: dict[PromptKey, list[Cell]] = {}
        if search is not None:
            self._take_over_pool(search)

    def _take_over_pool(self, search: TierSearch) -> None:
        """Take the pool's cells out of the plan, and line up those that the search asks for."""
        pool = search.family_by_prompt
        if not pool:
            return
        first_cells = {}
        for cell in self._planned.drop(lambda cell: cell.prompt.key in pool):
            if cell.repeat == 0:
                first_cells[cell.prompt.key] = cell
        if search.is_over:
            return
        for key, family in pool.items():
            if key in first_cells and search.has_no_answer(family):
                self._waiting.setdefault(family, []).append(first_cells[key])

    @property
    def n_open(self) -> int:
        """How many cells would be asked from here, if no answer changed that."""
        n_open = self.n_untaken
        for budget in self._budgets:
            calls_left = budget.calls_left
            if calls_left is not None:
                n_open = min(n_open, calls_left)
        return n_open

    @property
    def n_untaken(self) -> int:
        """How many cells nobody has taken yet, whatever the budgets allow."""
        return len(self._planned) + len(self._waiting)

    def holds(self, cell: Cell) -> bool:
        """Whether the cell can be taken, as far as the budgets allow it."""
        return cell in self._planned or cell in self._waiting.get(cell.prompt.family, ())

    def take(self, only: Cell | None = None) -> Cell | None:
        """The next cell to ask, or `only` that one.

        Returns None where it is not open, or where one in flight has to come back first.
        """
        if not self.n_untaken or not all(budget.is_open() for budget in self._budgets):
            return None
        if only is not None and not self.holds(only):
            return None
        if not self._waiting or (only is not None and only in self._planned):
            cell = self._planned.take(only)
        else:
            cell = self._take_of_pool(only)
        for budget in self._budgets:
            budget.issue(cell)
        return cell

    def _take_of_pool(self, only: Cell | None) -> Cell:
        """Take a cell of the first family that waits, or `only` that one."""
        family = only.prompt.family if only is not None else next(iter(self._waiting))
        cells = self._waiting.pop(family)
        cell = only or cells[0]
        cells.remove(cell)
        self._waiting_for_answer[family] = cells
        return cell

    def learn(self, result: Result) -> None:
        """Count a result against the budgets, and let it change what is asked next."""
        for budget in self._budgets:
            budget.learn(result)
        search = self._search
        if search is None:
            return
        family = search.family_by_prompt.get(result.prompt)
        if family is None:
            return
        search.learn(result)
        other_cells = self._waiting_for_answer.pop(family, None)
        if search.is_over:
            self._waiting.clear()
        elif other_cells and search.has_no_answer(family):
            self._waiting[family] = other_cells

    def outcomes(self) -> list[Outcome]:
        """What a reader of the run must know about the cells that were not asked."""
        outcomes = list(self.skipped)
        if self._search is not None:
            event = "decided" if self._search.is_decided else "undecided"
            outcomes.append(Outcome(event, self._search.describe()))
        not_asked = self.n_untaken
        for budget in self._budgets:
            if budget.calls_left == 0 and not_asked:
                detail = {
                    "budget": budget.name,
                    "limit": budget.limit,
                    "spent": round(budget.spent, 6),
                    **budget.detail,
                    "not_asked": not_asked,
                }
                outcomes.append(Outcome("budget_spent", detail))
        return outcomes


def make_agenda(
    plan: Plan, target: Target, cost: CostBudget | None = None, window: int | None = None
) -> Agenda:
    """A target's open cells.

    The `cost` budget is the whole run's: what one target spends, the next has not. `window` is the
    model's context window in tokens, where it is known.
    """
    settings = plan.settings
    before = plan.work.evidence.get(target, Evidence())
    done = plan.work.done
    cells = OpenCells(plan.asked, settings.repeats)
    if done:
        cells.drop(lambda cell: cell.key(target) in done)
    skipped, left_out = _leave_out(plan, target, cells, window)
    budgets: list[Budget] = []
    if cost is not None and target not in plan.free:
        budgets.append(cost)
    if settings.max_calls is not None:
        budgets.append(CallBudget(settings.max_calls, before.n_calls))
    search = None
    if settings.until_decided:
        pool = [prompt for prompt in tier_pool(plan.prompts) if prompt.key not in left_out]
        search = TierSearch(pool, settings.repeats, before)
    return Agenda(cells, search, budgets, skipped)


def interleaved_order(plan: Plan, run_id: str) -> Iterator[tuple[Cell, list[Target]]]:
    """Every cell of a plan in the order that all agendas keep to, and whose turn it is when.

    The order of the targets is drawn for each cell from the run's id and the cell's name, so that
    a run that is resumed goes on with the same.
    """
    for cell in _order_cells(plan):
        targets = list(plan.targets)
        prompt = cell.prompt
        random.Random(f"{run_id} {prompt.suite}/{prompt.id} {cell.repeat}").shuffle(targets)
        yield cell, targets


def _order_cells(plan: Plan) -> Iterator[Cell]:
    pool = tier_pool(plan.prompts) if plan.settings.until_decided else []
    pool_keys = {prompt.key for prompt in pool}
    asked_by_key = {prompt.key: prompt for prompt in plan.asked}
    for prompt in pool:
        if prompt.key in asked_by_key:
            yield Cell(asked_by_key[prompt.key], 0)
    other_prompts = [prompt for prompt in plan.asked if prompt.key not in pool_keys]
    yield from OpenCells(other_prompts, plan.settings.repeats)


class _Demands(NamedTuple):
    """What a prompt may ask too much of: the context window, and the provider's protocol."""

    prompt: PromptKey
    least_tokens: float
    options: set[str]


def _leave_out(
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
