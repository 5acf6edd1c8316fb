"""What a chain of models would do, from recorded calls alone. It goes on when a call *fails*: a
router sees no more."""

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
from clawgauge.routing.decision import Decision
from clawgauge.routing.evidence import Cell, CellName, Evidence, mean_or_none
from clawgauge.routing.policy import Policy
from clawgauge.stats.proportions import Interval, wilson_interval
from clawgauge.stats.quantiles import describe, percentile
from clawgauge.summary.groups import BEYOND_MS
from clawgauge.summary.rates import MAX_MS, PooledRate, pool_rate, to_censored

Chain: TypeAlias = tuple[Evidence, ...]

_MAX_CANDIDATES = 8
_MAX_LENGTH = 3
_N_HALVINGS = 3


class Walk(NamedTuple):
    """A prompt's way through a chain, of which the member at `place` was asked last.

    `timed_out`: nobody answered, and somebody was waited for in vain.
    """

    answered: bool
    passed: bool | None
    waited_ms: int
    cost_usd: float | None
    place: int
    timed_out: bool = False


Walked: TypeAlias = tuple[Cell, Walk]
"""The first member's call of a prompt, which tells its family and whether it is judged; and the
prompt's way."""


class ChainRank(NamedTuple):
    """What decides between two chains, the weightiest first. The least of these is the best
    chain."""

    negative_pass_rate: float
    p95_ms: float
    length: int
    names: str


class _Best(NamedTuple):
    """The best chain on some of the prompts, and what became of all prompts in it."""

    rank: ChainRank
    walked: list[Walked]
    chain: Chain


@dataclass(frozen=True, slots=True)
class ChainForecast:
    """What the chain would have done on the prompts all its members were asked. `answered_by`
    counts who answered. `n_answered_together` is how many would be answered if all on one machine,
    or of one vendor, failed together, and `answered_low` the lower end of that share: calls that
    were made apart cannot show an outage that is shared. With `unseen` the passes are of prompts
    that had no part in choosing the chain. Prompts that timed out to the end took longer than any
    answer: a percentile that is `beyond` lies among them, and is longer than it says."""

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


def parse_chain(text: str, decision: Decision) -> Chain:
    """`local>codex>claude` as models: each name a label, a provider, a model, or a part that fits
    just one of them.

    Raises `RequestError` for a name that fits no model or several, and for a model that is named
    twice.
    """
    measured = [standing.evidence for standing in decision.standings]
    members = [_find_member(name.strip(), measured) for name in text.split(">")]
    if len({member.label for member in members}) < len(members):
        problem = "names a model twice; a model that failed is not asked again"
        raise RequestError(f"the chain {text!r} {problem}")
    return tuple(members)


def _find_member(name: str, measured: Sequence[Evidence]) -> Evidence:
    if not name:
        raise RequestError(
            "a chain is MODEL>MODEL…, as in local>codex>claude; one of its names is empty"
        )
    if name == "local":
        return _find_local(measured)
    fitting = _find_fitting(name, measured)
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(evidence.label for evidence in fitting or measured)
    problem = "fits more than one model" if fitting else "fits no model of the run"
    raise RequestError(f"{name!r} in the chain {problem}: name one of {known}")


def _find_local(measured: Sequence[Evidence]) -> Evidence:
    for evidence in measured:
        # The embedded model ends with its run: no chain can call it.
        if evidence.local and not find_type(evidence.provider_type).is_own_server:
            return evidence
    raise RequestError("the chain says local, and no model in the run is served on this machine")


def _find_fitting(name: str, measured: Sequence[Evidence]) -> list[Evidence]:
    """The models that a name fits: as it stands, else a part of a model's name, else a part of a
    label."""
    exact = []
    in_model = []
    in_label = []
    for evidence in measured:
        target = evidence.target
        if name in (evidence.label, target.model, target.provider):
            exact.append(evidence)
        if name.lower() in target.model.lower():
            in_model.append(evidence)
        if name.lower() in evidence.label.lower():
            in_label.append(evidence)
    # A part of a model's name first: `llama` would otherwise fit all of Ollama's.
    return exact or in_model or in_label


def forecast(chain: Chain) -> ChainForecast:
    """What a chain would have done on the prompts that all its members were asked."""
    first = chain[0].cells
    names = []
    for name in first:
        if all(name in evidence.cells for evidence in chain):
            names.append(name)
    walked = [(first[name], _walk(chain, name)) for name in names]
    walks = [walk for _, walk in walked]
    answered_by = [0] * len(chain)
    for walk in walks:
        if walk.answered:
            answered_by[walk.place] += 1
    rate = _pass_rate(walked)
    waits = _describe_waits(walks)
    together = _rate_outages(chain, names)
    return ChainForecast(
        chain=chain,
        n_cells=len(walks),
        n_answered=sum(answered_by),
        n_judged=rate.n,
        n_passed=rate.k,
        pass_rate=rate.rate,
        pass_ci95=rate.ci95,
        p50_ms=waits.p50,
        p50_ci95=waits.p50_ci95,
        p95_ms=waits.p95,
        p95_ci95=waits.p95_ci95,
        cost_per_call_usd=mean_or_none([walk.cost_usd for walk in walks]),
        answered_by=tuple(answered_by),
        n_answered_together=together.k,
        answered_low=together.ci95[0] if together.ci95 else None,
        beyond=tuple(name for name in ("p50", "p95") if name in waits.beyond),
    )


def _rate_outages(chain: Chain, names: Sequence[CellName]) -> PooledRate:
    """How many prompts would be answered if all on one machine, or of one vendor, failed
    together."""
    # Of those that fail together the first to be asked speaks for all.
    speakers: dict[str, Evidence] = {}
    for evidence in chain:
        speakers.setdefault(evidence.fails_with, evidence)
    outcomes = []
    for name in names:
        is_answered = any(evidence.cells[name].answered for evidence in speakers.values())
        outcomes.append((chain[0].cells[name].family, is_answered, 1))
    return pool_rate(outcomes)


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
    outcomes = []
    for cell, walk in walked:
        if cell.judged:
            outcomes.append((cell.family, walk.passed is True, 1))
    return pool_rate(outcomes)


def best_chain(decision: Decision) -> ChainForecast | None:
    """The chain with the best lower end of its pass rate among what the policy kept; of equals the
    faster, the shorter.

    Of models that were asked the same prompts as the best placed one; None where no model was kept,
    or no chain keeps the limits. The best of many looks better than it is, so its pass rate is told
    from prompts it was not chosen on: of each of three random halvings, by family, one half is
    scored by the chain that the other would have chosen.
    """
    ranked = decision.ranked[:_MAX_CANDIDATES]
    candidates = []
    for evidence in ranked:
        if evidence.cells and evidence.cells.keys() == ranked[0].cells.keys():
            candidates.append(evidence)
    if not candidates:
        return None
    families = sorted({cell.family for cell in candidates[0].cells.values()})
    halves = _halve(families)
    best, *best_on_halves = _find_best(candidates, [set(families), *halves], decision.policy)
    if best is None:
        return None
    n_passed = 0
    for half, best_on_half in zip(halves, best_on_halves, strict=True):
        # Where no chain keeps the limits on a half, the one that keeps them on all has to stand.
        chosen = best_on_half or best
        other_half = [one for one in chosen.walked if one[0].family not in half]
        n_passed += _pass_rate(other_half).k
    # Every prompt is in the other half once in each halving.
    n_passed_once = n_passed / _N_HALVINGS
    rate = _pass_rate(best.walked)
    unseen_rate = n_passed_once / rate.n if rate.n else None
    n_effective = rate.effective.trials if rate.effective else 0.0
    return replace(
        forecast(best.chain),
        n_passed=round(n_passed_once),
        pass_rate=unseen_rate,
        pass_ci95=wilson_interval((unseen_rate or 0.0) * n_effective, n_effective),
        unseen=True,
    )


def _find_best(
    candidates: Sequence[Evidence], samples: Sequence[set[PromptKey]], policy: Policy
) -> list[_Best | None]:
    """The best chain of these models on each sample of families; None where none keeps the policy's
    limits on it."""
    best: list[_Best | None] = [None for _ in samples]
    longest = min(_MAX_LENGTH, 1 + policy.max_fallbacks, len(candidates))
    for length in range(1, longest + 1):
        for chain in permutations(candidates, length):
            walked = []
            for name, cell in candidates[0].cells.items():
                walked.append((cell, _walk(chain, name)))
            for index, sample in enumerate(samples):
                sampled = [one for one in walked if one[0].family in sample]
                rank = _rank(chain, sampled, policy)
                best_so_far = best[index]
                if rank is None:
                    continue
                if best_so_far is None or rank < best_so_far.rank:
                    best[index] = _Best(rank, walked, chain)
    return best


def _halve(families: Sequence[PromptKey]) -> list[set[PromptKey]]:
    """Both halves of every halving, the same ones every time. More parts than two would have chains
    agree less."""
    generator = random.Random(0)
    halves = []
    for _ in range(_N_HALVINGS):
        half = set(generator.sample(families, len(families) // 2))
        halves.append(half)
        halves.append(set(families) - half)
    return halves


def _rank(chain: Chain, walked: Sequence[Walked], policy: Policy) -> ChainRank | None:
    """A chain's rank on some of the calls; None where it breaks a limit, now that it adds times and
    costs up."""
    limits = policy.limits
    waits_ms = sorted(_censored_waits(walk for _, walk in walked))
    p95_ms = percentile(waits_ms, 0.95)
    if p95_ms is not None and p95_ms > MAX_MS:
        # Among the timeouts it breaks every limit, and any other chain is faster.
        p95_ms = math.inf
    usd = mean_or_none([walk.cost_usd for _, walk in walked])
    usd_per_month = None if usd is None else usd * policy.calls_per_month
    keeps_limits = (
        _keeps(p95_ms, limits.max_p95_ms)
        and _keeps(usd, limits.max_cost_per_call_usd)
        and _keeps(usd_per_month, limits.max_monthly_cost_usd)
    )
    if not keeps_limits:
        return None
    interval = _pass_rate(walked).ci95
    return ChainRank(
        negative_pass_rate=-(interval[0] if interval else 0.0),
        p95_ms=math.inf if p95_ms is None else p95_ms,
        length=len(chain),
        names=" > ".join(evidence.label for evidence in chain),
    )


def _keeps(measured: float | None, most: float | None) -> bool:
    """Whether a figure keeps a limit: what was not measured keeps none."""
    if most is None:
        return True
    return measured is not None and measured <= most


def _walk(chain: Sequence[Evidence], name: CellName) -> Walk:
    """A prompt's way through a chain: on to the next member until one answers."""
    waited_ms = 0
    cost_usd = 0.0
    timed_out = False
    for place, evidence in enumerate(chain):
        cell = evidence.cells[name]
        waited_ms += cell.waited_ms
        # A call that failed before it was answered is not billed.
        cost_usd += cell.cost_usd or 0.0
        timed_out = timed_out or cell.cut_off_ms is not None
        if cell.answered:
            # One that answered at an unknown price makes the whole unknown.
            is_known = cell.cost_usd is not None or evidence.free_of_charge
            return Walk(True, cell.passed, waited_ms, cost_usd if is_known else None, place)
    return Walk(False, None, waited_ms, cost_usd, len(chain) - 1, timed_out)
