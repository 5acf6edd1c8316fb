"""Plans without a command line: some prompts, some options, and providers that a test has made itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clawgauge.config.settings import Settings
from clawgauge.plan import OpenWork, Plan
from clawgauge.providers.base import Provider
from clawgauge.providers.provider_set import ProviderSet
from clawgauge.records import Prompt, RunOptions, Target
from clawgauge.suites.drawings import NO_DRAWINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenPlan(Plan):
    """A plan whose providers are `given` by name, already made."""

    given: Mapping[str, Provider]

    def provider(self, name: str) -> Provider:
        return self.given[name]

    def create_provider(self, target: Target) -> Provider:
        return self.given[target.provider]


def plan_of(
    prompts: Sequence[Prompt], *, given: Mapping[str, Provider] | None = None, **facts: Any
) -> GivenPlan:
    """A plan that asks these prompts. `facts` are fields of `Plan`, or options by their recorded names."""
    options = {name: facts.pop(name) for name in RunOptions.__struct_fields__ if name in facts}
    options.setdefault("concurrency", 1)
    fields: dict[str, Any] = {
        "prompts": list(prompts),
        "asked": list(prompts),
        "suites": [],
        "context": None,
        "targets": [],
        "providers": ProviderSet({}),
        "prices": {},
        "free": frozenset(),
        "capacity": None,
        "decision": None,
        "drawings": NO_DRAWINGS,
        "jobs": {},
        "config_file": None,
        "environ": {},
        "secrets": {},
        "redact": str,
        "work": OpenWork(),
    }
    return GivenPlan(settings=Settings(**options), given=given or {}, **(fields | facts))
