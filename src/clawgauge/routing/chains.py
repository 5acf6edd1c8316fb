"""What a chain of models would do, from recorded calls alone: no model is asked.

A chain falls back when a call *fails*: that is what a router can see. A wrong answer is an answer, so it ends the walk,
and shows in the pass rate.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import NamedTuple, TypeAlias

from clawgauge.errors import RequestError
from clawgauge.routing.decision import Decision
from clawgauge.routing.evidence import CellName, Evidence, mean_or_none
from clawgauge.stats import Interval, describe
from clawgauge.summary.rates import PooledRate, pool_rate

Chain: TypeAlias = tuple[Evidence, ...]

_MAX_CANDIDATES = 8
_MAX_LENGTH = 3
_LOCAL = "local"
_PARTS = 5


class Walk(NamedTuple):
    """One prompt's way down a chain."""

    answered: bool
    passed: bool | None
    waited_ms: int
    cost_usd: float | None
    place: int


Walked: TypeAlias = tuple[CellName, Walk]
# The lower end of the pass rate, the p95, the length, the name: the least of them is the best chain.
Place: TypeAlias = tuple[float, float, int, str]


@dataclass(frozen=True, slots=True)
class ChainForecast:
    """What the chain would have done on the prompts all its members were asked.

    The interval of the pass rate is Wilson's, with repeats and variants of a prompt counted for what they add; those of
    the times are by order statistics, None where the calls are too few. `answered_by` counts which member answered.
    `n_answered_together` is how many would be answered if all on one machine, or of one vendor, failed together, and
    `answered_low` the lower end of that share: calls that were made apart cannot show an outage that is shared.
    With `unseen` the passes are of prompts that had no part in choosing the chain.
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
    n_answered_together: int = 0
    answered_low: float | None = None
    unseen: bool = False

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
    found = _sum_up(chain, [(name, _walk(chain, name)) for name in shared])
    together = pool_rate(
        (chain[0].cells[name].family, _walk(chain, name, together=True).answered, 1) for name in shared
    )
    return replace(found, n_answered_together=together.k, answered_low=together.ci95[0] if together.ci95 else None)


def _sum_up(chain: Chain, walked: Sequence[Walked]) -> ChainForecast:
    walks = [walk for _, walk in walked]
    answered = [walk for walk in walks if walk.answered]
    rate = _pass_rate(chain[0], walked)
    spread = describe(sorted(float(walk.waited_ms) for walk in answered))
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


def _pass_rate(any_member: Evidence, walked: Sequence[Walked]) -> PooledRate:
    cells = [(any_member.cells[name], walk) for name, walk in walked]
    return pool_rate((cell.family, walk.passed is True, 1) for cell, walk in cells if cell.judged)


def best_chain(decision: Decision) -> ChainForecast | None:
    """The chain with the best lower end of its pass rate among what the policy kept; of equals the faster, the shorter.

    Tries every order of up to three of the eight best placed models that were asked the same prompts as the best placed
    one: chains on other prompts cannot be set beside each other. None where no model was kept.

    The best of many looks better than it is, so its pass rate is told from prompts it was not chosen on: they are dealt
    into five parts by family, and on each part stands the chain that the other four would have chosen.
    """
    ranked = decision.ranked[:_MAX_CANDIDATES]
    candidates = [one for one in ranked if one.cells.keys() == ranked[0].cells.keys()]
    longest = min(_MAX_LENGTH, 1 + decision.policy.max_fallbacks, len(candidates))
    chains = [chain for length in range(1, longest + 1) for chain in permutations(candidates, length)]
    if not chains or not (parts := _deal(ranked[0])):
        return None
    everything = {name for part in parts for name in part}
    samples = [everything, *([everything - part for part in parts] if len(parts) > 1 else [])]
    best: list[tuple[Place, Chain] | None] = [None] * len(samples)
    for chain in chains:
        walked = [(name, _walk(chain, name)) for name in ranked[0].cells]
        for place, sample in enumerate(samples):
            found = _sum_up(chain, [one for one in walked if one[0] in sample])
            held = best[place]
            if _keeps(found, decision) and (held is None or _chain_place(found) < held[0]):
                best[place] = _chain_place(found), chain
    if best[0] is None:
        return None
    chosen = forecast(best[0][1])
    # Where no chain keeps the limits on the other parts, the one that keeps them on all has to stand.
    elsewhere = [(held or best[0])[1] for held in best[1:]]
    unseen = [(name, _walk(chain, name)) for chain, part in zip(elsewhere, parts, strict=False) for name in part]
    rate = _pass_rate(ranked[0], unseen)
    return replace(
        chosen, n_judged=rate.n, n_passed=rate.k, pass_rate=rate.rate, pass_ci95=rate.ci95, unseen=bool(unseen)
    )


def _deal(evidence: Evidence) -> list[set[CellName]]:
    """The cells in up to five parts of whole families, the same ones every time."""
    families = sorted({cell.family for cell in evidence.cells.values()})
    random.Random(0).shuffle(families)
    part_of = {family: place % _PARTS for place, family in enumerate(families)}
    parts: list[set[CellName]] = [set() for _ in range(min(_PARTS, len(families)))]
    for name, cell in evidence.cells.items():
        parts[part_of[cell.family]].add(name)
    return parts


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


def _chain_place(found: ChainForecast) -> Place:
    low = found.pass_ci95[0] if found.pass_ci95 else 0.0
    slow = found.p95_ms if found.p95_ms is not None else float("inf")
    return -low, slow, len(found.chain), found.label


def _shared_cells(chain: Chain) -> list[CellName]:
    first, *others = (evidence.cells for evidence in chain)
    return [name for name in first if all(name in cells for cells in others)]


def _walk(chain: Sequence[Evidence], name: CellName, *, together: bool = False) -> Walk:
    """One prompt's way. With `together`, a model that failed takes all on its machine, or of its vendor, with it."""
    waited, cost = 0, 0.0
    cost_known = True
    down: set[str] = set()
    for place, evidence in enumerate(chain):
        cell = evidence.cells[name]
        if together and evidence.fails_with in down:
            continue
        down.add(evidence.fails_with)
        waited += cell.waited_ms
        if cell.cost_usd is not None:
            cost += cell.cost_usd
        elif not evidence.free_of_charge and cell.answered:
            # A call that failed before it was answered is not billed; one that answered at an unknown price is unknown.
            cost_known = False
        if cell.answered:
            return Walk(True, cell.passed, waited, cost if cost_known else None, place)
    return Walk(False, None, waited, cost if cost_known else None, len(chain) - 1)
