"""The policy, and every model measured against it: removed with its reason, or put in order. Deterministic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec

from clawgauge.errors import ConfigError
from clawgauge.routing.evidence import Evidence
from clawgauge.routing.scores import Scores, best_shares, weigh
from clawgauge.secrets import MASK
from clawgauge.small_file import read_toml
from clawgauge.words import format_ms, format_percent

Rate = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
Weight = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
# A model is the best where it is best in this share of the resamplings; short of it, it is one of a tie.
SURE_SHARE = 0.95


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model must keep to be considered at all. None: no such limit.

    Rates are over *scheduled* prompts, so that a model that is often down does not look good. A limit on a figure that
    was not measured removes the model: what is not known is not kept.
    """

    min_pass_rate: Rate | None = 0.5
    min_answered_rate: Rate | None = 0.8
    max_p95_ms: Positive | None = None
    max_ttft_p95_ms: Positive | None = None
    max_tier: Annotated[int, msgspec.Meta(ge=1, le=3)] | None = None
    max_cost_per_call_usd: Weight | None = None
    max_monthly_cost_usd: Weight | None = None
    local_only: bool = False


class Weights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much each figure counts in the order of what the limits left. Scores are between 0 and 1."""

    pass_rate: Weight = 3.0
    tool_use: Weight = 2.0
    latency: Weight = 1.0
    ttft: Weight = 1.0
    cost: Weight = 1.0


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file.

    `calls_per_month` turns a cost per call into the monthly one that `max_monthly_cost_usd` limits. `max_fallbacks` is
    how many models may stand behind the first.
    """

    limits: Limits = Limits()
    weights: Weights = Weights()
    calls_per_month: Annotated[int, msgspec.Meta(gt=0)] = 10_000
    max_fallbacks: Annotated[int, msgspec.Meta(ge=0, le=10)] = 3


def read_policy(path: Path | None) -> Policy:
    """The policy in a TOML file, or the default one."""
    if path is None:
        return Policy()
    policy, _ = read_toml(path, Policy, "policy")
    if not any(msgspec.structs.astuple(policy.weights)):
        raise ConfigError(
            f"the policy {path}: all weights are 0, so nothing could be ordered; give one of them a value"
        )
    return policy


@dataclass(frozen=True, slots=True)
class Reason:
    """One configured thing, by its path, and why. `model` is None where the reason is about all of them."""

    path: str
    setting: str
    why: str
    model: str | None = None


def address_notes(name: str, address: str, key_env: str | None) -> list[str]:
    """What a person must see to: a run folder may be somebody else's, and a key in an address is not recorded."""
    notes = [f"{name} at {address} will be sent the key in {key_env}: see that the address is yours"] if key_env else []
    if MASK in address:
        notes.append(f"the address of {name} holds a key, which is not recorded: put it in the place of {MASK}")
    return notes


def cite(evidence: Evidence) -> str:
    """Model, tier, k/n, confidence, p95, run: what every reason rests on."""
    group, tool_use = evidence.group, evidence.group.tool_use
    tier = tool_use.label
    if tool_use.tier is not None:
        tier += f", tools {tool_use.k}/{tool_use.n} ({tool_use.source})"
        if tool_use.p_tier is not None:
            tier += f", P(tier)={tool_use.p_tier[tool_use.tier - 1]:.2f}"
    if tool_use.caution:
        tier += f" (caution: {tool_use.caution})"
    passed = f"passed {group.n_passed}/{group.n_scheduled_judged}"
    timed = group.timed_ms
    over = "over " if "p95" in timed.beyond else ""
    p95 = "p95 not measured" if timed.p95 is None else f"p95 {over}{format_ms(timed.p95)}"
    return f"{evidence.label}: {tier}; {passed}; {p95} (n={timed.n}); run {evidence.run_id}"


@dataclass(frozen=True, slots=True)
class Standing:
    """One model's place. `removed_by` holds every limit it broke; `scores` what its place rests on.

    `best_share` is the share of resamplings in which it had the highest score of all that were kept.
    """

    evidence: Evidence
    removed_by: tuple[str, ...]
    scores: dict[str, float]
    score: float
    best_share: float = 0.0

    @property
    def kept(self) -> bool:
        return not self.removed_by


@dataclass(frozen=True, slots=True)
class Decision:
    """Every model that was measured: the kept ones best first, then the removed ones, by score too.

    `tied` are the first of them where none is surely the best; `in_use` the models in use now, as far as measured.
    """

    policy: Policy
    standings: tuple[Standing, ...]
    tied: tuple[str, ...] = ()
    in_use: tuple[str, ...] = ()

    @property
    def ranked(self) -> list[Evidence]:
        return [standing.evidence for standing in self.standings if standing.kept]

    @property
    def tie(self) -> str | None:
        """The tie for the first place in words."""
        if not self.tied:
            return None
        shares = {one.evidence.label: format_percent(one.best_share) for one in self.standings}
        named = ", ".join(f"{label} ({shares[label]})" for label in self.tied)
        first = self.tied[0]
        why = f"{first} stays: it is in use" if first in self.in_use else f"{first} has the higher score, no more"
        return f"a tie: {named}; none is the best in {SURE_SHARE:.0%} of resamplings of the prompts; {why}"


def decide(evidence: Sequence[Evidence], policy: Policy, in_use: Sequence[str] = ()) -> Decision:
    """Limits first, then the weighted order; of those that tie for the best, the ones `in_use` go first."""
    weights = {name: float(getattr(policy.weights, name)) for name in policy.weights.__struct_fields__}
    standings = sorted((_stand(one, policy, weights) for one in evidence), key=_place)
    kept, removed = [one for one in standings if one.kept], [one for one in standings if not one.kept]
    shares = best_shares([Scores(one.evidence) for one in kept], weights)
    kept = [replace(one, best_share=share) for one, share in zip(kept, shares, strict=True)]
    best = _maybe_best(kept)
    # A stable sort: what is not in use stays in the order of the scores.
    best.sort(key=lambda one: in_use.index(one.evidence.label) if one.evidence.label in in_use else len(in_use))
    labels = tuple(one.evidence.label for one in best)
    rest = [one for one in kept if one.evidence.label not in labels]
    return Decision(policy, (*best, *rest, *removed), labels if len(labels) > 1 else (), tuple(in_use))


def _maybe_best(kept: Sequence[Standing]) -> list[Standing]:
    """The fewest models of which one is surely the best, in the order of the scores."""
    found: list[Standing] = []
    for one in sorted(kept, key=lambda standing: -standing.best_share):
        if sum(standing.best_share for standing in found) >= SURE_SHARE:
            break
        found.append(one)
    return sorted(found, key=_place)


def _place(standing: Standing) -> tuple[bool, float, str]:
    return not standing.kept, -standing.score, standing.evidence.label


def _stand(evidence: Evidence, policy: Policy, weights: Mapping[str, float]) -> Standing:
    scores = Scores(evidence).measured
    return Standing(evidence, tuple(_broken(evidence, policy)), scores, weigh(scores, weights))


def _broken(evidence: Evidence, policy: Policy) -> list[str]:
    """Every limit the model does not keep, each as a sentence with its figure and its n."""
    limits, group, timed = policy.limits, evidence.group, evidence.group.timed_ms
    n_cells = group.n_scheduled
    found = [
        _under("pass rate", group.pass_rate_scheduled, limits.min_pass_rate, group.n_scheduled_judged),
        _under("answered", group.n_success / n_cells if n_cells else None, limits.min_answered_rate, n_cells),
        _over("p95", timed.p95, limits.max_p95_ms, "ms", timed.n, is_bound="p95" in timed.beyond),
        _over("first token p95", group.ttft_ms.p95, limits.max_ttft_p95_ms, "ms", group.ttft_ms.n),
        _tier_over(evidence, limits),
        _cost_over(evidence, limits.max_cost_per_call_usd, 1, "a call"),
        _cost_over(evidence, limits.max_monthly_cost_usd, policy.calls_per_month, "a month"),
        "not local" if limits.local_only and not evidence.local else None,
    ]
    return [words for words in found if words]


def _under(name: str, value: float | None, limit: float | None, n: int) -> str | None:
    if limit is None or (value is not None and value >= limit):
        return None
    measured = "not measured" if value is None else f"{format_percent(value)} of {n}"
    return f"{name} {measured}, wanted at least {format_percent(limit)}"


def _over(
    name: str, value: float | None, limit: float | None, unit: str, n: int, *, is_bound: bool = False
) -> str | None:
    """`is_bound`: more than `value`, and how much more nobody knows."""
    if limit is None or (value is not None and value <= limit and not is_bound):
        return None
    measured = "not measured" if value is None else f"{'over ' if is_bound else ''}{value:.0f} {unit} (n={n})"
    return f"{name} {measured}, wanted at most {limit:.0f} {unit}"


def _tier_over(evidence: Evidence, limits: Limits) -> str | None:
    tool_use = evidence.group.tool_use
    if limits.max_tier is None or (tool_use.tier is not None and tool_use.tier <= limits.max_tier):
        return None
    return f"{tool_use.label}, wanted Tier {limits.max_tier} or better"


def _cost_over(evidence: Evidence, limit: float | None, calls: int, per: str) -> str | None:
    if limit is None or evidence.free_of_charge:
        return None
    if evidence.cost_per_call_usd is None:
        return f"cost {per} unknown, wanted at most ${limit:g}"
    cost = evidence.cost_per_call_usd * calls
    return None if cost <= limit else f"cost ${cost:.4g} {per}, wanted at most ${limit:g}"
