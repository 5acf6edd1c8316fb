"""What a chain of models would do, from recorded calls alone: no model is asked.

A chain falls back when a call *fails*: that is what a router can see. A wrong answer is an answer, so it ends the walk,
and shows in the pass rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple, TypeAlias

from clawgauge.errors import RequestError
from clawgauge.routing.decision import Decision
from clawgauge.routing.evidence import Cell, CellName, Evidence, mean_or_none
from clawgauge.stats import Interval, describe
from clawgauge.summary.rates import pool_rate

Chain: TypeAlias = tuple[Evidence, ...]

_MAX_CANDIDATES = 8
_MAX_LENGTH = 3
_LOCAL = "local"


class Walk(NamedTuple):
    """One prompt's way down a chain."""

    answered: bool
    passed: bool | None
    waited_ms: int
    cost_usd: float | None
    place: int


@dataclass(frozen=True, slots=True)
class ChainForecast:
    """What the chain would have done on the prompts all its members were asked.

    The interval of the pass rate is Wilson's, with repeats of a prompt counted for what they add; those of the times
    are by order statistics, None where the calls are too few. `answered_by` counts which member answered.
    """

    chain: Chain
    n_cells: int
    n_answered: int
    n_judged: int
    n_passed: int
    pass_rate: float | None
    pass_ci95: Interval | None
    p50_ms: float | None
    p50_ci95: Interval | None
    p95_ms: float | None
    p95_ci95: Interval | None
    cost_per_call_usd: float | None
    answered_by: tuple[int, ...]

    @property
    def label(self) -> str:
        return " > ".join(evidence.label for evidence in self.chain)


def parse_chain(words: str, decision: Decision) -> Chain:
    """`local>codex>claude` as models: each word a label, a provider, a model, or a part that fits just one of them.

    `local` is the best placed model that runs on the user's own machine.
    """
    members = [_find_member(word.strip(), decision) for word in words.split(">")]
    if len(set(map(id, members))) < len(members):
        raise RequestError(f"the chain {words!r} names a model twice; a model that failed is not asked again")
    return tuple(members)


def _find_member(word: str, decision: Decision) -> Evidence:
    everyone = [standing.evidence for standing in decision.standings]
    if not word:
        raise RequestError("a chain is MODEL>MODEL…, as in local>codex>claude; one of its names is empty")
    if word == _LOCAL:
        # The embedded model ends with its run: no chain can call it.
        local = next((one for one in everyone if one.local and one.provider_type != "embedded"), None)
        if local is None:
            raise RequestError("the chain says local, and no model in the run is served on this machine")
        return local
    exact = [one for one in everyone if word in (one.label, one.target.model, one.target.provider)]
    # A part of a model's name first: `llama` would otherwise fit all of Ollama's.
    in_model = [one for one in everyone if word.lower() in one.target.model.lower()]
    fitting = exact or in_model or [one for one in everyone if word.lower() in one.label.lower()]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(one.label for one in fitting or everyone)
    problem = "fits more than one model" if fitting else "fits no model of the run"
    raise RequestError(f"{word!r} in the chain {problem}: name one of {known}")


def forecast(chain: Chain) -> ChainForecast:
    """What the chain would have done."""
    shared = _shared_cells(chain)
    walks = [_walk(chain, name) for name in shared]
    answered = [walk for walk in walks if walk.answered]
    judged = [(name, walk) for name, walk in zip(shared, walks, strict=True) if chain[0].cells[name].judged]
    rate = pool_rate(((name.suite, name.prompt_id), walk.passed is True, 1) for name, walk in judged)
    waits = sorted(float(walk.waited_ms) for walk in answered)
    spread = describe(waits)
    return ChainForecast(
        chain=chain,
        n_cells=len(walks),
        n_answered=len(answered),
        n_judged=rate.n,
        n_passed=rate.k,
        pass_rate=rate.rate,
        pass_ci95=rate.ci95,
        p50_ms=spread.p50,
        p50_ci95=spread.p50_ci95,
        p95_ms=spread.p95,
        p95_ci95=spread.p95_ci95,
        cost_per_call_usd=mean_or_none([walk.cost_usd for walk in walks]),
        answered_by=tuple(sum(walk.answered and walk.place == place for walk in walks) for place in range(len(chain))),
    )


def best_chain(decision: Decision) -> ChainForecast | None:
    """The chain with the best lower end of its pass rate among what the policy kept; of equals the faster, the shorter.

    Tries every order of up to three of the eight best placed models that were asked the same prompts as the best placed
    one: chains on other prompts cannot be set beside each other. None where no model was kept.
    """
    ranked = decision.ranked[:_MAX_CANDIDATES]
    candidates = [one for one in ranked if one.cells.keys() == ranked[0].cells.keys()]
    longest = min(_MAX_LENGTH, 1 + decision.policy.max_fallbacks, len(candidates))
    chains = [chain for length in range(1, longest + 1) for chain in permutations(candidates, length)]
    forecasts = [found for chain in chains if (found := forecast(chain)).n_cells and _keeps(found, decision)]
    return min(forecasts, key=_chain_place) if forecasts else None


def _keeps(found: ChainForecast, decision: Decision) -> bool:
    """Whether a chain keeps the limits that its members kept one by one, now that it adds their times and costs up."""
    limits, cost = decision.policy.limits, found.cost_per_call_usd
    per_month = None if cost is None else cost * decision.policy.calls_per_month
    return (
        _at_most(found.p95_ms, limits.max_p95_ms)
        and _at_most(cost, limits.max_cost_per_call_usd)
        and _at_most(per_month, limits.max_monthly_cost_usd)
    )


def _at_most(value: float | None, limit: float | None) -> bool:
    return limit is None or (value is not None and value <= limit)


def _chain_place(found: ChainForecast) -> tuple[float, float, int, str]:
    low = found.pass_ci95[0] if found.pass_ci95 else 0.0
    slow = found.p95_ms if found.p95_ms is not None else float("inf")
    return -low, slow, len(found.chain), found.label


def _shared_cells(chain: Chain) -> list[CellName]:
    first, *others = (evidence.cells for evidence in chain)
    return [name for name in first if all(name in cells for cells in others)]


def _walk(chain: Sequence[Evidence], name: CellName) -> Walk:
    waited, cost = 0, 0.0
    cost_known = True
    cell: Cell | None = None
    for place, evidence in enumerate(chain):
        cell = evidence.cells[name]
        waited += cell.waited_ms
        if cell.cost_usd is not None:
            cost += cell.cost_usd
        elif not evidence.free_of_charge and cell.answered:
            # A call that failed before it was answered is not billed; one that answered at an unknown price is unknown.
            cost_known = False
        if cell.answered:
            return Walk(True, cell.passed, waited, cost if cost_known else None, place)
    return Walk(False, None, waited, cost if cost_known else None, len(chain) - 1)
