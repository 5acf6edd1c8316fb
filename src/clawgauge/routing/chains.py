"""What a chain of models would do, from recorded calls alone. It goes on when a call *fails*: a router sees no more."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import NamedTuple, TypeAlias

from clawgauge.errors import RequestError
from clawgauge.records import Percentiles, PromptKey
from clawgauge.registry import find_type
from clawgauge.routing.decision import Decision, Policy
from clawgauge.routing.evidence import Cell, CellName, Evidence, mean_or_none
from clawgauge.stats.proportions import Interval, wilson_interval
from clawgauge.stats.quantiles import describe, percentile
from clawgauge.summary.groups import BEYOND_MS
from clawgauge.summary.rates import MAX_MS, PooledRate, pool_rate, to_censored

Chain: TypeAlias = tuple[Evidence, ...]

_MAX_CANDIDATES, _MAX_LENGTH, _HALVINGS = 8, 3, 3


class Walk(NamedTuple):
    """A prompt's way through a chain. `timed_out`: nobody answered, and somebody was waited for in vain."""

    answered: bool
    passed: bool | None
    waited_ms: int
    cost_usd: float | None
    place: int
    timed_out: bool = False


# The first member's call of a prompt, which tells its family and whether it is judged, and the prompt's way.
Walked: TypeAlias = tuple[Cell, Walk]
# The lower end of the pass rate, the p95, the length, the name: the least of them is the best chain.
Place: TypeAlias = tuple[float, float, int, str]


@dataclass(frozen=True, slots=True)
class ChainForecast:
    """What the chain would have done on the prompts all its members were asked. `answered_by` counts who answered.
    `n_answered_together` is how many would be answered if all on one machine, or of one vendor, failed together, and
    `answered_low` the lower end of that share: calls that were made apart cannot show an outage that is shared. With
    `unseen` the passes are of prompts that had no part in choosing the chain. Prompts that timed out to the end took
    longer than any answer: a percentile that is `beyond` lies among them, and is longer than it says."""

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
    n_answered_together: int
    answered_low: float | None
    unseen: bool = False
    beyond: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return " > ".join(evidence.label for evidence in self.chain)


def parse_chain(words: str, decision: Decision) -> Chain:
    """`local>codex>claude` as models: each word a label, a provider, a model, or a part that fits just one of them."""
    members = [_find_member(word.strip(), [one.evidence for one in decision.standings]) for word in words.split(">")]
    if len(set(map(id, members))) < len(members):
        raise RequestError(f"the chain {words!r} names a model twice; a model that failed is not asked again")
    return tuple(members)


def _find_member(word: str, everyone: Sequence[Evidence]) -> Evidence:
    if not word:
        raise RequestError("a chain is MODEL>MODEL…, as in local>codex>claude; one of its names is empty")
    if word == "local":
        # The embedded model ends with its run: no chain can call it.
        local = next((one for one in everyone if one.local and not find_type(one.provider_type).is_own_server), None)
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
    first, *others = (evidence.cells for evidence in chain)
    names = [name for name in first if all(name in cells for cells in others)]
    walked = [(first[name], _walk(chain, name)) for name in names]
    walks = [walk for _, walk in walked]
    answered = [walk for walk in walks if walk.answered]
    rate, spread = _pass_rate(walked), _describe_waits(walks)
    # Of those that fail together the first to be asked speaks for all.
    apart = {one.fails_with: one for one in reversed(chain)}.values()
    together = pool_rate((first[name].family, any(one.cells[name].answered for one in apart), 1) for name in names)
    return ChainForecast(
        chain=chain, n_cells=len(walks), n_answered=len(answered), n_judged=rate.n, n_passed=rate.k,
        pass_rate=rate.rate, pass_ci95=rate.ci95, p50_ms=spread.p50, p50_ci95=spread.p50_ci95, p95_ms=spread.p95,
        p95_ci95=spread.p95_ci95, cost_per_call_usd=mean_or_none([walk.cost_usd for walk in walks]),
        answered_by=tuple(sum(walk.place == place for walk in answered) for place in range(len(chain))),
        n_answered_together=together.k, answered_low=together.ci95[0] if together.ci95 else None,
        beyond=tuple(name for name in ("p50", "p95") if name in spread.beyond),
    )  # fmt: skip


def _describe_waits(walks: Sequence[Walk]) -> Percentiles:
    """How long an answer took, timeouts counted as longer than any."""
    waits_ms = [float(wait_ms) for wait_ms in _censored_waits(walks)]
    cut_off_ms = min((walk.waited_ms for walk in walks if walk.timed_out), default=None)
    return to_censored(describe(waits_ms), cut_off_ms)


def _censored_waits(walks: Iterable[Walk]) -> Iterator[int]:
    for walk in walks:
        if walk.answered:
            yield walk.waited_ms
        elif walk.timed_out:
            yield BEYOND_MS


def _pass_rate(walked: Iterable[Walked]) -> PooledRate:
    return pool_rate((cell.family, walk.passed is True, 1) for cell, walk in walked if cell.judged)


def best_chain(decision: Decision) -> ChainForecast | None:
    """The chain with the best lower end of its pass rate among what the policy kept; of equals the faster, the shorter.
    Of models that were asked the same prompts as the best placed one; None where no model was kept. The best of many
    looks better than it is, so its pass rate is told from prompts it was not chosen on: of each of three random
    halvings, by family, one half is scored by the chain that the other would have chosen."""
    ranked = decision.ranked[:_MAX_CANDIDATES]
    candidates = [one for one in ranked if one.cells and one.cells.keys() == ranked[0].cells.keys()]
    longest = min(_MAX_LENGTH, 1 + decision.policy.max_fallbacks, len(candidates))
    families = sorted({cell.family for one in candidates[:1] for cell in one.cells.values()})
    samples = [set(families), *_halve(families)]
    best: list[tuple[Place, list[Walked], Chain] | None] = [None for _ in samples]
    for chain in (chain for length in range(1, longest + 1) for chain in permutations(candidates, length)):
        walked = [(cell, _walk(chain, name)) for name, cell in candidates[0].cells.items()]
        for place, sample in enumerate(samples):
            rank, held = _rank(chain, [one for one in walked if one[0].family in sample], decision.policy), best[place]
            if rank is not None and (held is None or rank < held[0]):
                best[place] = rank, walked, chain
    if best[0] is None:
        return None
    _, seen, chain = best[0]
    # Where no chain keeps the limits on a half, the one that keeps them on all has to stand.
    halves = [(half, (held or best[0])[1]) for half, held in zip(samples[1:], best[1:], strict=True)]
    n_passed = sum(_pass_rate(one for one in walked if one[0].family not in half).k for half, walked in halves)
    rate = _pass_rate(seen)
    unseen_rate = n_passed / _HALVINGS / rate.n if rate.n else None
    n_effective = rate.effective.trials if rate.effective else 0.0
    ends = wilson_interval((unseen_rate or 0.0) * n_effective, n_effective)
    kept = round(n_passed / _HALVINGS)
    return replace(forecast(chain), n_passed=kept, pass_rate=unseen_rate, pass_ci95=ends, unseen=True)


def _halve(families: Sequence[PromptKey]) -> list[set[PromptKey]]:
    """Both halves of every halving, the same ones every time. More parts than two would have chains agree less."""
    generator, halves = random.Random(0), []
    for _ in range(_HALVINGS):
        half = set(generator.sample(families, len(families) // 2))
        halves += [half, set(families) - half]
    return halves


def _rank(chain: Chain, walked: Sequence[Walked], policy: Policy) -> Place | None:
    """A chain's place on some of the calls; None where it breaks a limit, now that it adds times and costs up."""
    limits = policy.limits
    cost = mean_or_none([walk.cost_usd for _, walk in walked])
    p95_ms = percentile(sorted(_censored_waits(walk for _, walk in walked)), 0.95)
    if p95_ms is not None and p95_ms > MAX_MS:
        # Among the timeouts it breaks every limit, and any other chain is faster.
        p95_ms = math.inf
    for value, most in (
        (p95_ms, limits.max_p95_ms),
        (cost, limits.max_cost_per_call_usd),
        (None if cost is None else cost * policy.calls_per_month, limits.max_monthly_cost_usd),
    ):
        if most is not None and (value is None or value > most):
            return None
    interval = _pass_rate(walked).ci95
    names = " > ".join(evidence.label for evidence in chain)
    return -(interval[0] if interval else 0.0), math.inf if p95_ms is None else p95_ms, len(chain), names


def _walk(chain: Sequence[Evidence], name: CellName) -> Walk:
    waited, cost = 0, 0.0
    timed_out = False
    for place, evidence in enumerate(chain):
        cell = evidence.cells[name]
        waited, cost = waited + cell.waited_ms, cost + (cell.cost_usd or 0.0)
        timed_out = timed_out or cell.cut_off_ms is not None
        if cell.answered:
            # A call that failed before it was answered is not billed; one that answered at an unknown price is unknown.
            known = cell.cost_usd is not None or evidence.free_of_charge
            return Walk(True, cell.passed, waited, cost if known else None, place)
    return Walk(False, None, waited, cost, len(chain) - 1, timed_out)
