"""The places of OpenClaw's for models, and which model a configuration has in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clawgauge.routing.evidence import Evidence
from clawgauge.routing.openclaw import Route, find_routes
from clawgauge.routing.openclaw_file import as_openclaw_reads, object_at

_MAX_FALLBACKS = 10


@dataclass(frozen=True, slots=True)
class FilledSlot:
    """A place, the model in it, and what was measured of that model."""

    name: str
    ref: str
    evidence: Evidence | None
    level: str | None = None
    """A thinking level that the place sets for whatever model is in it."""
    level_path: str = ""


def find_slots(config: Mapping[str, Any], evidence: Sequence[Evidence]) -> list[FilledSlot]:
    """Every place that is filled, the main model first."""
    routes, _ = find_routes(evidence, _all_refs(config))
    defaults = object_at(config, "agents", "defaults")
    subagents = object_at(defaults, "subagents")
    level = subagents.get("thinking")
    level = level if isinstance(level, str) else None
    slots: list[FilledSlot] = []

    def add(name: str, ref: Any, own_level: str | None = None, level_path: str = "") -> None:
        if isinstance(ref, str) and "/" in ref:
            plain_ref = as_openclaw_reads(ref)
            measured = _find_evidence(routes, config, plain_ref)
            slots.append(FilledSlot(name, plain_ref, measured, own_level, level_path))

    primary, fallbacks = _read_chain(defaults.get("model"))
    add("main", primary)
    for number, ref in enumerate(fallbacks, start=1):
        add(f"fallback {number}", ref)
    path = "agents.defaults.subagents.thinking" if level else ""
    primary, fallbacks = _read_chain(subagents.get("model"))
    add("subagents", primary, level, path)
    for number, ref in enumerate(fallbacks, start=1):
        add(f"subagents {number + 1}", ref, level, path)
    add("heartbeat", object_at(defaults, "heartbeat").get("model"))
    add("utility", defaults.get("utilityModel"))
    compaction = object_at(defaults, "compaction")
    compaction_level = compaction.get("thinkingLevel")
    if not isinstance(compaction_level, str) or compaction_level == "inherit":
        compaction_level = None
    path = "agents.defaults.compaction.thinkingLevel" if compaction_level else ""
    add("compaction", compaction.get("model"), compaction_level, path)
    add("memory flush", object_at(compaction, "memoryFlush").get("model"))
    return slots


def _all_refs(config: Mapping[str, Any]) -> list[str]:
    """The names of models that the configuration declares, as it spells them."""
    names = []
    for provider_id, provider in object_at(config, "models", "providers").items():
        models = provider.get("models") if isinstance(provider, dict) else None
        for model in models if isinstance(models, list) else ():
            if isinstance(model, dict) and isinstance(model.get("id"), str):
                names.append(f"{provider_id}/{model['id']}")
    return names


def _read_chain(model: Any) -> tuple[Any, list[Any]]:
    if not isinstance(model, dict):
        return model, []
    fallbacks = model.get("fallbacks")
    return model.get("primary"), fallbacks[:_MAX_FALLBACKS] if isinstance(fallbacks, list) else []


def _find_evidence(routes: Sequence[Route], config: Mapping[str, Any], ref: str) -> Evidence | None:
    for route in routes:
        if route.is_named(ref, config):
            return route.evidence
    return None
