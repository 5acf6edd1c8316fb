"""The policy: hard limits that remove a model, weights that order the rest. All of it in one small TOML file.

Owns: the policy's shape, its defaults, and the refusal of a file that cannot be meant. Refuses: deciding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from clawgauge.errors import ConfigError
from clawgauge.toml_file import read_toml

Rate = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
Weight = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


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
    policy = read_toml(path, Policy, "policy")
    if not any(msgspec.structs.astuple(policy.weights)):
        raise ConfigError(
            f"the policy {path}: all weights are 0, so nothing could be ordered; give one of them a value"
        )
    return policy
