"""Plans without a command line: some prompts, some options, and providers that a test has made itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clawgauge.config.settings import Settings
from clawgauge.plan import Plan
from clawgauge.providers.base import Provider
from clawgauge.records import Prompt, RunOptions


@dataclass(frozen=True, slots=True)
class GivenPlan(Plan):
    """A plan whose providers are `given` by name, already made."""

    given: Mapping[str, Provider] = field(default_factory=dict)

    def provider(self, name: str) -> Provider:
        return self.given[name]


def plan_of(prompts: Sequence[Prompt], *, given: Mapping[str, Provider] | None = None, **facts: Any) -> GivenPlan:
    """A plan that asks these prompts. `facts` are fields of `Plan`, or options by their recorded names."""
    options = {name: facts.pop(name) for name in RunOptions.__struct_fields__ if name in facts}
    return GivenPlan(Settings(**options), list(prompts), list(prompts), given=given or {}, **facts)
