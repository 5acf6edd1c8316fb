"""What to ask a target next, given what has come back; the few calls still out may overshoot the decision. Pure."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, zip_longest
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import msgspec

from clawgauge.journal import CellKey
from clawgauge.plan import Evidence, Plan
from clawgauge.records import Prompt, PromptKey, Result, Target
from clawgauge.run_data.schedule import tier_prompts
from clawgauge.stats.tiers import can_tell_tier_1, tell_tier_1, tier_posterior
from clawgauge.suites.long_text import estimate_tokens

_SMALLEST_WINDOW = 512
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
    """The `n` cells of some prompts that are not taken yet, in the order of asking: all prompts once, then all again.
    A plan may hold a hundred thousand: here each is a byte."""

    def __init__(self, prompts: Sequence[Prompt], repeats: int) -> None:
        self._prompts, self._open = prompts, bytearray(b"\1") * (len(prompts) * repeats)
        self._places = {prompt.key: place for place, prompt in enumerate(prompts)}
        # None of those before `_begin` is open.
        self.n, self._begin = len(self._open), 0

    def __iter__(self) -> Iterator[Cell]:
        n_prompts = len(self._prompts)
        for place, is_open in enumerate(self._open):
            if is_open:
                yield Cell(self._prompts[place % n_prompts], place // n_prompts)

    def __contains__(self, cell: Cell) -> bool:
        first = self._places.get(cell.prompt.key)
        if first is None or cell.repeat < 0:
            return False
        place = cell.repeat * len(self._prompts) + first
        return place < len(self._open) and self._open[place] == 1

    def take(self, only: Cell | None = None) -> Cell:
        """The first of them, or that one, which has to be open."""
        if only is None:
            place = self._begin = self._open.index(1, self._begin)
        else:
            place = only.repeat * len(self._prompts) + self._places[only.prompt.key]
        self._open[place] = 0
        self.n -= 1
        return Cell(self._prompts[place % len(self._prompts)], place // len(self._prompts))

    def drop(self, unwanted: Callable[[Cell], bool]) -> list[Cell]:
        return [self.take(cell) for cell in self if unwanted(cell)]


def tier_pool(prompts: Iterable[Prompt]) -> list[Prompt]:
    """The prompts of a plan that count toward the tier, in the order in which to ask them one by one. Suites and
    categories take turns, and within them the prompts before their variants: whenever the asking stops, it has seen as
    many kinds of task as it could."""
    kinds = _grouped(tier_prompts(prompts), lambda prompt: (prompt.suite, prompt.category))
    return _take_turns([_take_turns(_grouped(kind, lambda prompt: prompt.family)) for kind in kinds])


def _grouped(members: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    groups: dict[Hashable, list[T]] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return list(groups.values())


def _take_turns(groups: Sequence[Sequence[T]]) -> list[T]:
    """The first of each, then the second of each, and so on."""
    return [member for turn in zip_longest(*groups) for member in turn if member is not None]


@dataclass
class CallBudget:
    """At most `limit` cells of a target are asked, those of earlier stretches included; retries are not counted."""

    limit: int
    spent: int
    name: ClassVar = "max_calls"
    detail: ClassVar[Mapping[str, Any]] = {}

    @property
    def calls_left(self) -> int:
        return max(0, self.limit - self.spent)

    def is_open(self) -> bool:
        return self.spent < self.limit

    def issue(self, cell: Cell) -> None:
        self.spent += 1

    def learn(self, result: Result) -> None:
        # A cell that was recorded without having been sent costs nothing.
        if not result.was_asked:
            self.spent -= 1


class CostBudget:
    """At most `limit` dollars are spent on a run, earlier stretches included, and one call more. A call goes out while
    what is spent and what `held` has for the calls in flight is below the limit. `math.inf` is held for a call that may
    cost anything, so it goes alone; `issue` holds that until somebody knows better. A call that was paid for and can
    have cost anything ends the spending: what cannot be counted cannot be limited. `changed` is for those of all
    targets who wait for a call to come back."""

    name = "max_cost"

    def __init__(self, limit: float, spent: float = 0.0) -> None:
        self.limit, self.spent = limit, spent
        self.held: dict[SpendingKey, float] = {}
        self.changed = asyncio.Event()
        self._before_usd = spent
        self._recorded_usd = self._assumed_usd = self._dearest_usd = 0.0
        self._uncounted = False
        self._paid: set[SpendingKey] = set()

    @property
    def calls_left(self) -> int | None:
        """0 when the budget is spent; how many cells may still be asked before that cannot be said."""
        return 0 if self._uncounted or self.spent >= self.limit else None

    @property
    def detail(self) -> Mapping[str, Any]:
        assumed = {"assumed": round(self._assumed_usd, 6)} if self._assumed_usd else {}
        return {"unknown_cost": True, **assumed} if self._uncounted else assumed

    @property
    def unrecorded_usd(self) -> float:
        """What this stretch has spent, or may have, and no record says: warm-ups, lost attempts, calls in flight."""
        held_usd = sum(self._dearest_usd if math.isinf(held) else held for held in self.held.values())
        return round(max(0.0, self.spent - self._before_usd - self._recorded_usd + held_usd), 6)

    def is_open(self, key: SpendingKey | None = None) -> bool:
        """Whether a call, or the next attempt of the cell `key`, may go out now; if not, one has to come back first."""
        others_usd = sum(held for holder, held in self.held.items() if holder != key)
        return not self._uncounted and self.spent + others_usd < self.limit

    def issue(self, cell: Cell) -> None:
        self.held[cell.spending_key] = math.inf

    def pay(self, key: SpendingKey, usd: float, *, assumed: bool = False) -> None:
        """An attempt came back, and has cost so much, or is `assumed` to: whoever waits may look again."""
        self.held.pop(key, None)
        self._paid.add(key)
        if math.isinf(usd):
            self._uncounted = True
        else:
            self.spent += usd
            self._dearest_usd = max(self._dearest_usd, usd)
            self._assumed_usd += usd if assumed else 0.0
        self.changed.set()
        self.changed = asyncio.Event()

    def learn(self, result: Result) -> None:
        key = (result.suite, result.prompt_id, result.repeat)
        cost = result.cost_usd
        self._recorded_usd += cost or 0.0
        if key not in self._paid:
            self.pay(key, math.inf if cost is None and result.availability_status == "ok" else cost or 0.0)
        self._paid.discard(key)


Budget: TypeAlias = CallBudget | CostBudget


def cost_budget(plan: Plan) -> CostBudget | None:
    """What the whole run may still spend, where that is limited: what it has cost so far, recorded or not, is gone."""
    limit_usd, work = plan.settings.max_cost_usd, plan.work
    spent_usd = work.beside_usd + sum(known.cost_usd for known in work.evidence.values())
    return None if limit_usd is None else CostBudget(limit_usd, spent_usd)


class TierSearch:
    """The evidence for one target's tier, counted as the answers come back, until it tells whether that is Tier 1.
    Variants of a prompt are alike: of a family only the first answer counts. A verdict once reached stands."""

    def __init__(self, pool: Sequence[Prompt], repeats: int, before: Evidence) -> None:
        self.families = {prompt.key: prompt.family for prompt in pool}
        # How many cells of a family have no record, as long as it has no answer either.
        self.unanswered = Counter(self.families.values())
        self._n_open, self._n_cells, self._n_recorded = len(self.unanswered), len(pool) * repeats, before.n_pool
        self.n = self.k = 0
        self._verdict: bool | None = None
        for key, passed in before.asked:
            self._count(key, passed)

    @property
    def is_decided(self) -> bool:
        return self._verdict is not None

    @property
    def is_futile(self) -> bool:
        """Whether what is left cannot decide it."""
        return not self.is_decided and not can_tell_tier_1(self.k, self.n, self._n_open)

    @property
    def is_over(self) -> bool:
        return self.is_decided or self.is_futile

    def learn(self, result: Result) -> None:
        """Count an answer to a prompt of the pool; what was not answered is no evidence."""
        self._n_recorded += 1
        is_evidence = result.availability_status == "ok" and result.not_judged is None
        self._count(result.prompt, result.tool_use_success if is_evidence else None)

    def _count(self, key: PromptKey, passed: bool | None) -> None:
        family = self.families.get(key)
        if family is None or not self.unanswered[family]:
            return
        self.unanswered[family] -= 1
        self._n_open -= passed is not None or self.unanswered[family] == 0
        if passed is not None:
            del self.unanswered[family]
            self.n += 1
            self.k += passed
            self._verdict = tell_tier_1(self.k, self.n) if self._verdict is None else self._verdict

    def describe(self) -> dict[str, Any]:
        """The state of the search, for events.jsonl. `not_asked` of the pool's scheduled cells have no record.
        `not_needed` of these are done without: all of them once the search is over, before that all but one of each
        family that has no answer yet."""
        posterior = tier_posterior(self.k, self.n)
        likeliest = max(posterior)
        not_asked = self._n_cells - self._n_recorded
        return {
            "tier": posterior.index(likeliest) + 1 if self.n else None,
            "tier1": "cannot_tell" if self._verdict is None else "yes" if self._verdict else "no",
            "n": self.n, "k": self.k, "p": round(likeliest, 6), "asked": self._n_recorded, "not_asked": not_asked,
            "not_needed": not_asked if self.is_over else max(0, not_asked - self._n_open), "futile": self.is_futile,
        }  # fmt: skip


class Outcome(NamedTuple):
    """Why asking ended before the plan did: an event's name and its detail."""

    event: str
    detail: dict[str, Any]


class Agenda:
    """Open cells, taken one at a time. Those that a tier rests on come first, and only until its search is over."""

    def __init__(
        self, cells: OpenCells, search: TierSearch | None, budgets: list[Budget], skipped: Sequence[Outcome] = ()
    ) -> None:
        self._planned, self._search, self._budgets, self._skipped = cells, search, budgets, skipped
        self.left_out = [f"{one.detail['not_asked']} left out: {why_left_out(one.detail)}" for one in skipped]
        pool = {} if search is None else search.families
        of_pool = cells.drop(lambda cell: cell.prompt.key in pool) if pool else []
        # The cells of a family that has no answer yet: one is out, or may go, while the others wait. None, once the
        # search is over. Each is asked once, in the pool's order.
        self._waiting: dict[PromptKey, list[Cell]] = {}
        self._out: dict[PromptKey, list[Cell]] = {}
        if search is not None and not search.is_over:
            once = {cell.prompt.key: cell for cell in of_pool if cell.repeat == 0}
            for key, family in pool.items():
                if key in once and family in search.unanswered:
                    self._waiting.setdefault(family, []).append(once[key])

    @property
    def n_open(self) -> int:
        """How many cells would be asked from here, if no answer changed that."""
        lefts = [left for budget in self._budgets if (left := budget.calls_left) is not None]
        return min([self._planned.n + len(self._waiting), *lefts])

    @property
    def n_untaken(self) -> int:
        """How many cells nobody has taken yet, whatever the budgets allow."""
        return self._planned.n + len(self._waiting)

    def holds(self, cell: Cell) -> bool:
        return cell in self._planned or cell in self._waiting.get(cell.prompt.family, ())

    def take(self, only: Cell | None = None) -> Cell | None:
        """The next cell to ask, or that one. None where it is not open, or until one in flight has come back."""
        if not (self._planned.n or self._waiting) or not all(budget.is_open() for budget in self._budgets):
            return None
        if only is not None and not self.holds(only):
            return None
        if not self._waiting or (only is not None and only in self._planned):
            cell = self._planned.take(only)
        else:
            family = only.prompt.family if only else next(iter(self._waiting))
            others = self._out[family] = self._waiting.pop(family)
            cell = only or others[0]
            others.remove(cell)
        for budget in self._budgets:
            budget.issue(cell)
        return cell

    def learn(self, result: Result) -> None:
        for budget in self._budgets:
            budget.learn(result)
        search = self._search
        if search is not None and (family := search.families.get(result.prompt)) is not None:
            search.learn(result)
            others = self._out.pop(family, None)
            if search.is_over:
                self._waiting.clear()
            elif others and family in search.unanswered:
                self._waiting[family] = others

    def outcomes(self) -> list[Outcome]:
        """What a reader of the run must know about the cells that were not asked."""
        found = list(self._skipped)
        if self._search is not None:
            found.append(Outcome("decided" if self._search.is_decided else "undecided", self._search.describe()))
        n_wanted = self._planned.n + len(self._waiting)
        for budget in self._budgets:
            if budget.calls_left == 0 and n_wanted:
                detail = {"budget": budget.name, "limit": budget.limit, "spent": round(budget.spent, 6)}
                found.append(Outcome("budget_spent", {**detail, **budget.detail, "not_asked": n_wanted}))
        return found


def make_agenda(plan: Plan, target: Target, cost: CostBudget | None = None, window: int | None = None) -> Agenda:
    """A target's open cells. The `cost` budget is the whole run's: what one target spends, the next has not."""
    settings, before = plan.settings, plan.work.evidence.get(target, Evidence())
    cells, done = OpenCells(plan.asked, settings.repeats), plan.work.done
    if done:
        cells.drop(lambda cell: cell.key(target) in done)
    skipped, beyond = _leave_out(plan, target, cells, window)
    budgets: list[Budget] = [] if cost is None or target in plan.free else [cost]
    if settings.max_calls is not None:
        budgets.append(CallBudget(settings.max_calls, before.n_calls))
    search = None
    if settings.until_decided:
        pool = [prompt for prompt in tier_pool(plan.prompts) if prompt.key not in beyond]
        search = TierSearch(pool, settings.repeats, before)
    return Agenda(cells, search, budgets, skipped)


def interleaved_order(plan: Plan, run_id: str) -> Iterator[tuple[Cell, list[Target]]]:
    """Every cell of a plan in the order that all agendas keep to, and the order in which its targets take their turns.
    That is drawn for each cell from the run's id and the cell's name, so a run that is resumed goes on with the
    same."""
    pool = tier_pool(plan.prompts) if plan.settings.until_decided else []
    first = {prompt.key for prompt in pool}
    asked = {prompt.key: prompt for prompt in plan.asked}
    cells = (Cell(asked[prompt.key], 0) for prompt in pool if prompt.key in asked)
    rest = OpenCells([prompt for prompt in plan.asked if prompt.key not in first], plan.settings.repeats)
    for cell in chain(cells, rest):
        targets = list(plan.targets)
        random.Random(f"{run_id} {cell.prompt.suite}/{cell.prompt.id} {cell.repeat}").shuffle(targets)
        yield cell, targets


def why_left_out(detail: Mapping[str, Any]) -> str:
    if detail["reason"] == "beyond_context":
        return f"longer than the model's window of {detail['window']} tokens"
    return f"{' and '.join(detail['keys'])} cannot be sent by this provider"


def _leave_out(
    plan: Plan, target: Target, cells: OpenCells, window: int | None
) -> tuple[list[Outcome], set[PromptKey]]:
    """Take out cells that cannot be asked; what is said of them, and whose they were. Those are left out whose prompt
    is surely longer than a window that is known, or asks for what the provider cannot send. Where the window is not
    known the server's error is on record; the estimate is a fifth too high at most."""
    suspect: list[tuple[PromptKey, float, set[str]]] = []
    for prompt in plan.asked:
        # Only a text that may matter is looked at: most are a few lines.
        texts = prompt.texts
        size = 0.8 * sum(map(_estimate, texts)) if sum(map(len, texts)) > _SMALLEST_WINDOW else 0.0
        given = {"tool_choice": prompt.tool_choice not in (None, "auto"), "response_format": prompt.response_format}
        keys = {key for key, value in given.items() if value}
        if keys or size > _SMALLEST_WINDOW:
            suspect.append((prompt.key, size, keys))
    if not suspect:
        return [], set()
    provider = plan.provider(target.provider)
    window = window or provider.context_tokens
    beyond = {key for key, size, _ in suspect if window is not None and size > window}
    lost = {key: sent & provider.cannot_send for key, _, sent in suspect if sent & provider.cannot_send}
    too_long = {"reason": "beyond_context", "window": window}
    unsendable = {"reason": "cannot_be_sent", "keys": sorted(set().union(*lost.values()))}
    skipped = []
    for prompts, why in ((beyond, too_long), (lost.keys() - beyond, unsendable)):
        names = [f"{cell.prompt.suite}/{cell.prompt.id}" for cell in cells if cell.prompt.key in prompts]
        if names:
            skipped.append(Outcome("skip", {**why, "prompts": sorted(set(names)), "not_asked": len(names)}))
    left_out = beyond | lost.keys()
    return skipped, {cell.prompt.key for cell in cells.drop(lambda cell: cell.prompt.key in left_out)}
