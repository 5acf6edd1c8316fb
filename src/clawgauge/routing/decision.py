"""The policy, and every model measured against it: removed with its reason, or put in order. Deterministic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from clawgauge.errors import ConfigError
from clawgauge.routing.evidence import Evidence
from clawgauge.secrets import MASK
from clawgauge.small_file import read_toml
from clawgauge.stats import wilson_interval
from clawgauge.summary.rates import pool_rate
from clawgauge.words import format_ms, format_percent

Rate = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
Weight = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
# The value at which a score is one half: a p95 of five seconds, a first token after one, a cent a call.
HALF_P95_MS = 5_000.0
HALF_TTFT_MS = 1_000.0
HALF_COST_USD = 0.01


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
    p95 = "p95 not measured" if group.latency_ms.p95 is None else f"p95 {format_ms(group.latency_ms.p95)}"
    return f"{evidence.label}: {tier}; {passed}; {p95} (n={group.n_success}); run {evidence.run_id}"


@dataclass(frozen=True, slots=True)
class Standing:
    """One model's place. `removed_by` holds every limit it broke; `scores` what its place rests on."""

    evidence: Evidence
    removed_by: tuple[str, ...]
    scores: dict[str, float]
    score: float

    @property
    def kept(self) -> bool:
        return not self.removed_by


@dataclass(frozen=True, slots=True)
class Decision:
    """Every model that was measured: the kept ones best first, then the removed ones, by score too."""

    policy: Policy
    standings: tuple[Standing, ...]

    @property
    def ranked(self) -> list[Evidence]:
        return [standing.evidence for standing in self.standings if standing.kept]


def decide(evidence: Sequence[Evidence], policy: Policy) -> Decision:
    """Limits first, then the weighted order; equal scores go by name."""
    standings = [_stand(one, policy) for one in evidence]
    return Decision(policy, tuple(sorted(standings, key=_place)))


def _place(standing: Standing) -> tuple[bool, float, str]:
    return not standing.kept, -standing.score, standing.evidence.label


def _stand(evidence: Evidence, policy: Policy) -> Standing:
    scores = {name: score(evidence) for name, score in _SCORES.items()}
    weights = {name: float(getattr(policy.weights, name)) for name in scores}
    total = sum(weights.values())
    weighted = sum(weights[name] * scores[name] for name in scores) / total
    return Standing(evidence, tuple(_broken(evidence, policy)), scores, weighted)


def _broken(evidence: Evidence, policy: Policy) -> list[str]:
    """Every limit the model does not keep, each as a sentence with its figure and its n."""
    limits, group = policy.limits, evidence.group
    n_cells = group.n_scheduled
    found = [
        _under("pass rate", group.pass_rate_scheduled, limits.min_pass_rate, group.n_scheduled_judged),
        _under("answered", group.n_success / n_cells if n_cells else None, limits.min_answered_rate, n_cells),
        _over("p95", group.latency_ms.p95, limits.max_p95_ms, "ms", group.n_success),
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


def _over(name: str, value: float | None, limit: float | None, unit: str, n: int) -> str | None:
    if limit is None or (value is not None and value <= limit):
        return None
    measured = "not measured" if value is None else f"{value:.0f} {unit} (n={n})"
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


def _pass_score(evidence: Evidence) -> float:
    """The lower end of the interval over scheduled prompts: ten of ten says less than a hundred of a hundred.

    Repeats count for what they add; a cell that was scheduled and not recorded is no pass.
    """
    judged = [(name, cell) for name, cell in evidence.cells.items() if cell.judged]
    rate = pool_rate(((name.suite, name.prompt_id), cell.passed is True, 1) for name, cell in judged)
    missing = max(0, evidence.group.n_scheduled_judged - rate.n)
    if rate.effective is None:
        return 0.0
    bounds = wilson_interval(rate.effective.passes, rate.effective.trials + missing)
    return bounds[0] if bounds else 0.0


def _tool_score(evidence: Evidence) -> float:
    tool_use = evidence.group.tool_use
    n_eff = tool_use.n_eff or tool_use.n
    bounds = tool_use.ci95 or wilson_interval((tool_use.rate or 0.0) * n_eff, n_eff)
    return bounds[0] if bounds else 0.0


def _latency_score(evidence: Evidence) -> float:
    return _falling(evidence.group.latency_ms.p95, HALF_P95_MS)


def _ttft_score(evidence: Evidence) -> float:
    return _falling(evidence.group.ttft_ms.p50, HALF_TTFT_MS)


def _cost_score(evidence: Evidence) -> float:
    return 1.0 if evidence.free_of_charge else _falling(evidence.cost_per_call_usd, HALF_COST_USD)


def _falling(value: float | None, half: float) -> float:
    return 0.0 if value is None else half / (half + value)


_SCORES: dict[str, Callable[[Evidence], float]] = {
    "pass_rate": _pass_score,
    "tool_use": _tool_score,
    "latency": _latency_score,
    "ttft": _ttft_score,
    "cost": _cost_score,
}
