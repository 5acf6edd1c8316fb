"""The routing as a patch of openclaw.json: primary, fallbacks, the subagents' model, tools by tier, local servers.

Owns: which keys the evidence speaks for, and the reason for each. Refuses: any other key. A patch merges into what is
there: objects recursively, lists and values by replacement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clawgauge.routing.decision import Decision
from clawgauge.routing.openclaw_names import Route, escape_references, find_routes
from clawgauge.routing.reasons import Reason, address_notes, cite

DENY_ALL = ["*"]
# What acts on the machine or starts others that do; reading, searching and answering stay.
DENY_ACTING = ["group:runtime", "write", "edit", "apply_patch", "group:automation", "group:nodes", "sessions_spawn"]


@dataclass(slots=True)
class OpenClawRouting:
    """A patch, the reason for each of its lines, and what could not be decided."""

    patch: dict[str, Any] = field(default_factory=dict)
    reasons: list[Reason] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def set(self, path: Sequence[str], value: Any, why: str, model: str | None = None) -> None:
        """Put one setting into the patch, with its reason."""
        place = self.patch
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = value
        self.reasons.append(Reason(_dotted(path), _shown(value), why, model))

    def set_chain(self, path: Sequence[str], chain: Sequence[Route], why: str, alone: str) -> None:
        """Put a model and those behind it into the patch, each with its own reason; `alone` where there are none."""
        first, *rest = chain
        self.set([*path, "primary"], first.ref, f"{why}; {cite(first.evidence)}", first.ref)
        self.set([*path, "fallbacks"], [route.ref for route in rest], "the next in order" if rest else alone)
        for place, route in enumerate(rest):
            where = f"{_dotted(path)}.fallbacks[{place}]"
            self.reasons.append(Reason(where, route.ref, cite(route.evidence), route.ref))


def openclaw_routing(decision: Decision) -> OpenClawRouting:
    """The patch that a decision amounts to. Empty, with notes, where the evidence carries nothing."""
    routing = OpenClawRouting()
    routes, unreachable = find_routes(decision.ranked)
    for label, why in unreachable.items():
        routing.notes.append(f"{label} is not routed: {why}")
    # Tools are taken from a model however it ranks: someone may choose it by hand.
    removed = [standing.evidence for standing in decision.standings if not standing.kept]
    others, _ = find_routes([*decision.ranked, *removed])
    _choose_models(routing, routes, decision)
    _choose_subagents(routing, routes, decision, unreachable)
    _limit_tools(routing, others)
    used = {reason.model for reason in routing.reasons}
    _describe_models(routing, [route for route in others if route.ref in used or _denied(route)])
    routing.patch = escape_references(routing.patch)
    return routing


def _choose_models(routing: OpenClawRouting, routes: Sequence[Route], decision: Decision) -> None:
    if not routes:
        routing.notes.append(
            "no model keeps the policy's limits and can be reached: primary and fallbacks are left alone"
        )
        return
    chosen = routes[: 1 + decision.policy.max_fallbacks]
    alone = "no other model keeps the policy's limits"
    routing.set_chain(("agents", "defaults", "model"), chosen, "placed first", alone)


def _choose_subagents(
    routing: OpenClawRouting, routes: Sequence[Route], decision: Decision, unreachable: Mapping[str, str]
) -> None:
    """Tier 1 and decided, or nothing: a subagent has a shell and nobody watching."""
    fit = [route for route in routes if route.evidence.group.tool_use.recommended_for_subagents]
    if not fit:
        routing.notes.append(
            "no model qualifies for subagents with full tool access (Tier 1, decided); their model is left alone. "
            + _missing_evidence(decision, unreachable)
        )
        return
    place = ("agents", "defaults", "subagents", "model")
    chosen = fit[: 1 + decision.policy.max_fallbacks]
    routing.set_chain(place, chosen, "Tier 1 and decided", "no other model is Tier 1 and decided")


def _missing_evidence(decision: Decision, unreachable: Mapping[str, str]) -> str:
    """What stands between the models and a subagent's place, the nearest first."""
    candidates = [standing.evidence for standing in decision.standings]
    removed = {one.evidence.label: ", ".join(one.removed_by) for one in decision.standings}
    decided = [one.label for one in candidates if one.group.tool_use.recommended_for_subagents]
    if decided:
        whys = (f"{label} ({unreachable.get(label) or removed[label]})" for label in decided)
        return f"Tier 1 and decided, but out: {'; '.join(whys)}"
    close = [one for one in candidates if one.group.tool_use.tier == 1 and one.group.tool_use.needed]
    if close:
        return "Missing: " + "; ".join(
            f"{one.label} needs {one.group.tool_use.needed} more clean passes of other tool prompts" for one in close
        )
    if not any(one.group.tool_use.n for one in candidates):
        return "Missing: tool prompts; run with -s tool_use or -s native_tools"
    return "None is Tier 1: " + "; ".join(
        f"{one.label} {one.group.tool_use.k}/{one.group.tool_use.n}" for one in candidates
    )


def _denied(route: Route) -> list[str] | None:
    """The tools a tier takes away: all from Tier 3, the acting ones from Tier 2; without a tier nothing is known."""
    tier = route.evidence.group.tool_use.tier
    return {2: DENY_ACTING, 3: DENY_ALL}.get(tier) if tier is not None else None


def _limit_tools(routing: OpenClawRouting, routes: Sequence[Route]) -> None:
    for route in routes:
        denied = _denied(route)
        if denied is None:
            continue
        tier = route.evidence.group.tool_use.tier
        word = "all tools denied" if denied is DENY_ALL else "tools that act denied"
        why = f"Tier {tier}: {word}; {cite(route.evidence)}"
        routing.set(["tools", "byProvider", route.ref, "deny"], list(denied), why, route.ref)


def _describe_models(routing: OpenClawRouting, routes: Sequence[Route]) -> None:
    """Servers OpenClaw does not know itself are declared; levels and runtimes are set as they were measured."""
    declared: dict[str, list[Route]] = {}
    for route in routes:
        if route.declared is not None:
            declared.setdefault(route.provider_id, []).append(route)
        settings: dict[str, Any] = {}
        if route.runtime is not None:
            settings["agentRuntime"] = {"id": route.runtime}
        if level := route.evidence.target.thinking_level:
            settings["params"] = {"thinking": level}
        if settings:
            why = f"as it was measured; {cite(route.evidence)}"
            routing.set(["agents", "defaults", "models", route.ref], settings, why, route.ref)
    for provider_id, members in declared.items():
        entry = {**(members[0].declared or {}), "models": [_model_entry(route) for route in members]}
        names = ", ".join(route.evidence.label for route in members)
        why = f"where {names} answered in run {members[0].evidence.run_id}"
        routing.set(["models", "providers", provider_id], entry, why)
        key = entry.get("apiKey")
        routing.notes += address_notes(provider_id, entry["baseUrl"], key["id"] if isinstance(key, dict) else None)


def _model_entry(route: Route) -> dict[str, Any]:
    """One model of a declared provider, with what the inventory and the tier know of it."""
    info, tool_use = route.evidence.model_info, route.evidence.group.tool_use
    name = route.model_id
    known = [part for part in (info.parameters, info.quantization) if part] if info else []
    entry: dict[str, Any] = {"id": route.model_id, "name": f"{name} ({', '.join(known)})" if known else name}
    if tool_use.tier is not None:
        entry["compat"] = {"supportsTools": tool_use.tier < 3}
    return entry


def _dotted(path: Sequence[str]) -> str:
    return ".".join(key if key.replace("_", "").isalnum() else f'["{key}"]' for key in path).replace(".[", "[")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        models = value.get("models")
        if isinstance(models, list):
            return f"{value.get('baseUrl')}: {', '.join(model['id'] for model in models)}"
        return ", ".join(f"{key} {_shown(inner)}" for key, inner in value.items())
    return str(value)
