"""The policy of a user: what a model must keep to be routed to, and how much each figure weighs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Annotated

import msgspec

from clawgauge.errors import ConfigError
from clawgauge.figures import passed_of_asked, timed
from clawgauge.records import Percentiles
from clawgauge.routing.evidence import Evidence
from clawgauge.small_file import read_toml

Rate = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
Weight = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model must keep, of all that was *asked*. None: no such limit; what was not measured
    keeps none."""

    min_pass_rate: Rate | None = 0.5
    min_answered_rate: Rate | None = 0.8
    max_p95_ms: Positive | None = None
    max_ttft_p95_ms: Positive | None = None
    max_tier: Annotated[int, msgspec.Meta(ge=1, le=3)] | None = None
    max_cost_per_call_usd: Weight | None = None
    max_monthly_cost_usd: Weight | None = None
    local_only: bool = False


class Weights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much each figure counts in the order of what the limits left. Scores are between 0 and
    1."""

    pass_rate: Weight = 3.0
    tool_use: Weight = 2.0
    latency: Weight = 1.0
    ttft: Weight = 1.0
    cost: Weight = 1.0


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. `calls_per_month` turns a cost per call into the monthly one that is
    limited."""

    limits: Limits = Limits()
    weights: Weights = Weights()
    calls_per_month: Annotated[int, msgspec.Meta(gt=0)] = 10_000
    max_fallbacks: Annotated[int, msgspec.Meta(ge=0, le=10)] = 3


def read_policy(path: Path | None) -> Policy:
    """The policy in a file; without one, the built-in policy. Raises `ConfigError` for one that
    cannot be meant."""
    if path is None:
        return Policy()
    policy, _ = read_toml(path, Policy, "policy")
    if not any(msgspec.structs.astuple(policy.weights)):
        problem = "all weights are 0, so nothing could be ordered; give one of them a value"
        raise ConfigError(f"the policy {path}: {problem}")
    return policy


class LimitCode(Enum):
    """A limit of a policy."""

    PASS_RATE = auto()
    ANSWERED_RATE = auto()
    P95 = auto()
    FIRST_TOKEN_P95 = auto()
    TIER = auto()
    COST_PER_CALL = auto()
    COST_PER_MONTH = auto()
    LOCAL_ONLY = auto()


@dataclass(frozen=True, slots=True)
class BrokenLimit:
    """A limit that a model does not keep, and what was measured of it: None where nothing was.

    `n` is what the measured figure rests on. A time that `is_beyond` lies among the timeouts: it is
    longer than it says. `tier_label` is what is known of a tier, with how sure it is.
    """

    code: LimitCode
    limit: float = 0.0
    measured: float | None = None
    n: int = 0
    is_beyond: bool = False
    tier_label: str = ""


def find_broken_limits(evidence: Evidence, policy: Policy) -> Iterator[BrokenLimit]:
    """Every limit that a model does not keep, in the order of the policy."""
    limits = policy.limits
    group = evidence.group
    of_asked = passed_of_asked(group)
    yield from _check_rate(LimitCode.PASS_RATE, of_asked.k, of_asked.n, limits.min_pass_rate)
    answered = (group.n_success, group.attempted)
    yield from _check_rate(LimitCode.ANSWERED_RATE, *answered, limits.min_answered_rate)
    yield from _check_p95(LimitCode.P95, timed(group), limits.max_p95_ms)
    yield from _check_p95(LimitCode.FIRST_TOKEN_P95, group.ttft_ms, limits.max_ttft_p95_ms)
    tier = group.tool_use.tier
    if limits.max_tier is not None and (tier is None or tier > limits.max_tier):
        label = group.tool_use.label
        yield BrokenLimit(LimitCode.TIER, limits.max_tier, tier, tier_label=label)
    max_call_usd = limits.max_cost_per_call_usd
    yield from _check_cost(LimitCode.COST_PER_CALL, evidence, 1, max_call_usd)
    n_calls = policy.calls_per_month
    max_month_usd = limits.max_monthly_cost_usd
    yield from _check_cost(LimitCode.COST_PER_MONTH, evidence, n_calls, max_month_usd)
    if limits.local_only and not evidence.local:
        yield BrokenLimit(LimitCode.LOCAL_ONLY)


def _check_rate(code: LimitCode, k: int, n: int, least: float | None) -> Iterator[BrokenLimit]:
    if least is None:
        return
    rate = k / n if n else None
    if rate is None or rate < least:
        yield BrokenLimit(code, least, rate, n)


def _check_p95(code: LimitCode, times: Percentiles, most_ms: float | None) -> Iterator[BrokenLimit]:
    if most_ms is None:
        return
    # A figure that lies among the timeouts is more than it says, and how much more nobody knows.
    is_beyond = "p95" in times.beyond
    if times.p95 is None or times.p95 > most_ms or is_beyond:
        yield BrokenLimit(code, most_ms, times.p95, times.n, is_beyond)


def _check_cost(
    code: LimitCode, evidence: Evidence, n_calls: int, most_usd: float | None
) -> Iterator[BrokenLimit]:
    if most_usd is None or evidence.free_of_charge:
        return
    per_call_usd = evidence.cost_per_call_usd
    usd = None if per_call_usd is None else per_call_usd * n_calls
    if usd is None or usd > most_usd:
        yield BrokenLimit(code, most_usd, usd)
