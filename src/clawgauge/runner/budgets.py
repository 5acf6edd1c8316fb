"""When a target has been asked enough: its tier is decided, or a budget is spent; and how soon that is likely. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from clawgauge.journal import CellKey
from clawgauge.plan import Evidence, Plan
from clawgauge.records import Prompt, PromptKey, Result, Target
from clawgauge.run_data.schedule import tier_prompts
from clawgauge.stats import DECIDED_LEVEL, TIER_1_RATE, TIER_2_RATE, is_decided, tier_posterior

EXAMPLE_RATES = (0.95, 0.9, 0.65, 0.3)
# A model that takes more than this to decide sits on a border, where no number of prompts is enough.
_LOOK_AHEAD = 200
_HALF = 0.5


class Cell(msgspec.Struct, frozen=True, gc=False):
    """One prompt, once. A plan may hold a hundred thousand, which the collector need not walk while calls are out."""

    prompt: Prompt
    repeat: int

    def key(self, target: Target) -> CellKey:
        """What the record of this cell is found by."""
        prompt = self.prompt
        return CellKey(target.provider, target.model, target.thinking_level, prompt.suite, prompt.id, self.repeat)


T = TypeVar("T")


def tier_pool(prompts: Iterable[Prompt]) -> list[Prompt]:
    """The prompts of a plan that count toward the tier, in the order in which to ask them one by one.

    Suites and categories take turns, and within them the prompts before their variants: whenever the asking stops, it
    has seen as many kinds of task as it could.
    """
    kinds = _grouped(((prompt.suite, prompt.category), prompt) for prompt in tier_prompts(prompts))
    return _take_turns([_take_turns(_grouped((p.variant_of or p.id, p) for p in kind)) for kind in kinds])


def pool_key(prompt: Prompt) -> PromptKey:
    """What a prompt is found by in the pool."""
    return prompt.suite, prompt.id


def _grouped(pairs: Iterable[tuple[Hashable, T]]) -> list[list[T]]:
    groups: dict[Hashable, list[T]] = {}
    for key, member in pairs:
        groups.setdefault(key, []).append(member)
    return list(groups.values())


def _take_turns(groups: Sequence[Sequence[T]]) -> list[T]:
    """The first of each, then the second of each, and so on."""
    return [member for turn in zip_longest(*groups) for member in turn if member is not None]


SpendingKey: TypeAlias = tuple[str, str, int]
"""A cell of the target that is asked: (suite, prompt id, repeat)."""


class Budget:
    """A bound on what may be spent. `name` is the option that set it."""

    name = ""

    def __init__(self, limit: float, spent: float = 0) -> None:
        self.limit = limit
        self.spent = spent

    @property
    def calls_left(self) -> int | None:
        """How many cells may still be asked; None where that cannot be said, 0 when the budget is spent."""
        raise NotImplementedError

    @property
    def detail(self) -> dict[str, Any]:
        """What else a reader of the run should know of its end."""
        return {}

    def is_open(self) -> bool:
        """Whether one may go out now; if not, one that is in flight has to come back first."""
        return self.calls_left != 0

    def issue(self, cell: Cell) -> None:
        """A cell goes out."""

    def learn(self, result: Result) -> None:
        """It came back."""


class CallBudget(Budget):
    """At most `limit` cells of a target are asked, those of earlier stretches included; retries are not counted."""

    name = "max_calls"

    @property
    def calls_left(self) -> int:
        return max(0, int(self.limit - self.spent))

    def issue(self, cell: Cell) -> None:
        self.spent += 1

    def learn(self, result: Result) -> None:
        if not result.attempts:
            # Recorded as unavailable without having been sent.
            self.spent -= 1


class CostBudget(Budget):
    """At most `limit` dollars are spent on a run, earlier stretches included, and one call more.

    A call goes out while what is spent and what is held for the calls in flight is below the limit. `math.inf` is held
    for a call that may cost anything, so it goes alone; `issue` holds that until somebody knows better. A call that was
    paid for and can have cost anything ends the spending: what cannot be counted cannot be limited.
    """

    name = "max_cost"

    def __init__(self, limit: float, spent: float = 0.0) -> None:
        super().__init__(limit, spent)
        self._before_usd = spent
        self._recorded_usd = self._assumed_usd = self._dearest_usd = 0.0
        self._uncounted = False
        self._holds: dict[SpendingKey, float] = {}
        self._paid: set[SpendingKey] = set()

    @property
    def calls_left(self) -> int | None:
        return 0 if self._uncounted or self.spent >= self.limit else None

    @property
    def detail(self) -> dict[str, Any]:
        assumed = {"assumed": round(self._assumed_usd, 6)} if self._assumed_usd else {}
        return {"unknown_cost": True, **assumed} if self._uncounted else assumed

    @property
    def unrecorded_usd(self) -> float:
        """What this stretch has spent, or may have, and no record says: warm-ups, lost attempts, calls in flight."""
        held = sum(self._dearest_usd if math.isinf(held) else held for held in self._holds.values())
        return round(max(0.0, self.spent - self._before_usd - self._recorded_usd + held), 6)

    def is_open(self, key: SpendingKey | None = None) -> bool:
        """Whether a call, or the next attempt of the cell `key`, may go out now."""
        others_usd = sum(held for holder, held in self._holds.items() if holder != key)
        return not self._uncounted and self.spent + others_usd < self.limit

    def issue(self, cell: Cell) -> None:
        self._holds[spending_key(cell)] = math.inf

    def hold(self, key: SpendingKey, most_usd: float) -> None:
        """An attempt goes out that costs at most so much."""
        self._holds[key] = most_usd

    def pay(self, key: SpendingKey, usd: float, *, assumed: bool = False) -> None:
        """An attempt came back, and has cost so much, or is `assumed` to."""
        self._holds.pop(key, None)
        self._paid.add(key)
        if math.isinf(usd):
            self._uncounted = True
            return
        self.spent += usd
        self._dearest_usd = max(self._dearest_usd, usd)
        self._assumed_usd += usd if assumed else 0.0

    def learn(self, result: Result) -> None:
        key = (result.suite, result.prompt_id, result.repeat)
        cost = result.cost_usd
        self._recorded_usd += cost or 0.0
        if key not in self._paid:
            unknown = cost is None and result.availability_status == "ok"
            self.pay(key, math.inf if unknown else cost or 0.0)
        self._paid.discard(key)


def cost_budget(plan: Plan) -> CostBudget | None:
    """What the whole run may still spend, where that is limited."""
    limit_usd = plan.settings.max_cost_usd
    return None if limit_usd is None else CostBudget(limit_usd, plan.work.spent_usd)


def spending_key(cell: Cell) -> SpendingKey:
    return cell.prompt.suite, cell.prompt.id, cell.repeat


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


class Foresight(NamedTuple):
    """What asking a model of true rate `rate` is likely to take.

    Half of such models are decided within `median` prompts (None: not within 200), and the share `p_decided` within
    as many as the plan has.
    """

    rate: float
    median: int | None
    p_decided: float


def foresee(n_prompts: int, rates: Sequence[float] = EXAMPLE_RATES) -> list[Foresight]:
    """One line for each rate, for a plan with `n_prompts` tool prompts."""
    walks = [_Walk(rate) for rate in rates]
    low, high = [1.0], [1.0]
    for n in range(1, _LOOK_AHEAD + 1):
        # Bin(n, ·) of the two borders becomes Bin(n + 1, ·), which the posterior after n answers is read from.
        low, high = (_one_more(pmf, border) for pmf, border in ((low, TIER_2_RATE), (high, TIER_1_RATE)))
        decided = _decided(_one_more(low, TIER_2_RATE), _one_more(high, TIER_1_RATE), n)
        for walk in walks:
            walk.step(n, decided, within_plan=n <= n_prompts)
        if n >= n_prompts and all(walk.median is not None for walk in walks):
            break
    return [Foresight(walk.rate, walk.median, walk.p_in_plan) for walk in walks]


class _Walk:
    """Where models of one rate stand after n answers, as long as they are undecided: chances by number of passes."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.median: int | None = None
        self.p_in_plan = 0.0
        self._p_decided = 0.0
        self._undecided = [1.0]

    def step(self, n: int, decided: list[bool], *, within_plan: bool) -> None:
        reached = _one_more(self._undecided, self.rate)
        self._p_decided += sum(p for p, is_over in zip(reached, decided, strict=True) if is_over)
        self._undecided = [0.0 if is_over else p for p, is_over in zip(reached, decided, strict=True)]
        if self.median is None and self._p_decided >= _HALF:
            self.median = n
        if within_plan:
            self.p_in_plan = self._p_decided


def _one_more(chances: list[float], rate: float) -> list[float]:
    """The chances of k passes after one more trial."""
    failed = [p * (1 - rate) for p in chances]
    passed = [p * rate for p in chances]
    return [a + b for a, b in zip([*failed, 0.0], [0.0, *passed], strict=True)]


def _decided(low: list[float], high: list[float], n: int) -> list[bool]:
    """Whether one tier has 95% of the probability, for k = 0 … n; `low`, `high`: Bin(n + 1) at the two borders."""
    found, below_low, below_high = [], 0.0, 0.0
    for k in range(n + 1):
        below_low += low[k]
        below_high += high[k]
        p1, p3 = below_high, 1.0 - below_low
        found.append(max(p1, p3, 1.0 - p1 - p3) >= DECIDED_LEVEL)
    return found
