"""The routing as a patch of openclaw.json, under OpenClaw's names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from clawgauge.prices import vendor_of
from clawgauge.records import CapacitySummary, Fit, Need
from clawgauge.registry import VENDORS, find_type
from clawgauge.routing.configuration import ConfiguredLine, Routing
from clawgauge.routing.decision import Decision
from clawgauge.routing.evidence import Evidence, plain_model
from clawgauge.routing.openclaw_file import as_openclaw_reads, find_overruling, object_at
from clawgauge.routing.openclaw_keys import (
    find_cost,
    find_keys,
    find_provider_keys,
    find_runtime,
    local_key,
    word_timeout,
)
from clawgauge.routing.wording import (
    address_notes,
    cite,
    word_places,
    word_removed_by,
    word_tie,
)
from clawgauge.stats.load import carried
from clawgauge.stats.tiers import DECIDED_LEVEL
from clawgauge.verdict.jobs import SUBAGENT_SUITES
from clawgauge.verdict.ranking import Fitness
from clawgauge.verdict.wording import word_capacity, word_lacking, word_run
from clawgauge.words import list_names, plural

_OPENCLAW_PROVIDERS = frozenset(vendor.name for vendor in VENDORS)
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,127}")
# OpenClaw puts a variable's value in the place of `${NAME}` in every text it reads; `$${NAME}`
# stands for itself.
_REFERENCE = re.compile(r"\$(?=\{[A-Z_][A-Z0-9_]*\})")
_NOT_IN_AN_ID = re.compile(r"[^a-z0-9_-]+")
_EMBEDDED = (
    "measured on the embedded server, which runs only during a run: "
    "serve the model with Ollama to route to it"
)
_MAX_NEAREST = 3
_MAIN_PATH = ("agents", "defaults", "model")
_SUBAGENTS_PATH = ("agents", "defaults", "subagents", "model")
_SUBAGENTS_THINKING_PATH = ("agents", "defaults", "subagents", "thinking")
_MAX_CONCURRENT_PATH = ("agents", "defaults", "subagents", "maxConcurrent")


class Slot(NamedTuple):
    """A place of OpenClaw's for a model that does one thing by itself."""

    title: str
    path: tuple[str, ...]
    job: str
    acts: bool = False
    """Whether it writes files."""


_TRIAGE = "heartbeat and triage"
SMALL_SLOTS = (
    Slot("heartbeat", ("agents", "defaults", "heartbeat", "model"), _TRIAGE),
    Slot("utility", ("agents", "defaults", "utilityModel"), _TRIAGE),
    Slot("compaction", ("agents", "defaults", "compaction", "model"), "compaction"),
    Slot(
        "memory flush",
        ("agents", "defaults", "compaction", "memoryFlush", "model"),
        _TRIAGE,
        acts=True,
    ),
)


class Denial(Enum):
    """Which tools are taken from a model."""

    ALL = "all"
    ACTING = "acting"


DENIED_TOOLS = {
    Denial.ALL: ["*"],
    # What acts on the machine or starts others that do; reading, searching and answering stay.
    Denial.ACTING: [
        "group:runtime",
        "write",
        "edit",
        "apply_patch",
        "group:automation",
        "group:nodes",
        "sessions_spawn",
    ],
}
_WITHOUT = {Denial.ALL: " without any tools", Denial.ACTING: " without the tools that act"}


class Route(NamedTuple):
    """How OpenClaw reaches a model. `declared` is the provider entry it needs, None where OpenClaw
    has its own."""

    evidence: Evidence
    provider_id: str
    model_id: str
    declared: dict[str, Any] | None
    runtime: str | None = None

    @property
    def ref(self) -> str:
        return f"{self.provider_id}/{self.model_id}"

    def is_named(self, ref: str, config: Mapping[str, Any]) -> bool:
        """Whether a configuration means this model by `ref`: by its provider's name, or by another
        at its address."""
        provider_id, _, model = as_openclaw_reads(ref).partition("/")
        kind = self.evidence.provider_type
        if plain_model(kind, model) != plain_model(kind, self.model_id):
            return False
        address = str(object_at(config, "models", "providers", provider_id).get("baseUrl") or "")
        mine = str(self.evidence.settings.get("base_url") or "")
        # To OpenClaw's own Ollama protocol the address ends before the version.
        is_same_address = bool(address) and _plain_address(address) == _plain_address(mine)
        return provider_id == self.provider_id or is_same_address


def _plain_address(address: str) -> str:
    return address.rstrip("/").removesuffix("/v1")


def escape_references(value: Any) -> Any:
    """A value for openclaw.json that OpenClaw reads as what it is here. Keys it reads as they
    are."""
    if isinstance(value, str):
        return _REFERENCE.sub("$$", value)
    if isinstance(value, dict):
        return {key: escape_references(item) for key, item in value.items()}
    if isinstance(value, list):
        return [escape_references(item) for item in value]
    return value


def models_in_use(config: Mapping[str, Any], evidence: Sequence[Evidence]) -> list[str]:
    """The labels of the measured models that a configuration uses, the first one first. Nothing
    else of it is told."""
    model = object_at(config, "agents", "defaults").get("model")
    chain = model if isinstance(model, dict) else {"primary": model}
    fallbacks = chain.get("fallbacks")
    refs = [chain.get("primary"), *(fallbacks if isinstance(fallbacks, list) else [])]
    routes, _ = find_routes(evidence)
    labels: list[str] = []
    for ref in refs:
        if not isinstance(ref, str):
            continue
        for route in routes:
            if route.is_named(ref, config) and route.evidence.label not in labels:
                labels.append(route.evidence.label)
    return labels


def _names_in(config: Mapping[str, Any]) -> set[str]:
    """Every name in a configuration, as key or as text. Not by recursion: how deep it goes is its
    writer's choice."""
    names: set[str] = set()
    unread: list[Any] = [config]
    while unread:
        value = unread.pop()
        if isinstance(value, dict):
            names.update(value)
            unread += value.values()
        elif isinstance(value, list):
            unread += value
        elif isinstance(value, str):
            names.add(value)
    return names


def _refs_in_use(config: Mapping[str, Any]) -> list[str]:
    """The models in the places that a configuration fills for all agents."""
    defaults = object_at(config, "agents", "defaults")
    places = [defaults.get("utilityModel")]
    for path in (
        ("heartbeat",),
        ("compaction",),
        ("compaction", "memoryFlush"),
        ("subagents",),
        (),
    ):
        model = object_at(defaults, *path).get("model")
        if isinstance(model, dict):
            places.append(model.get("primary"))
            fallbacks = model.get("fallbacks")
            places += fallbacks if isinstance(fallbacks, list) else []
        else:
            places.append(model)
    return [ref for ref in places if isinstance(ref, str) and "/" in ref]


def find_routes(
    ranked: Sequence[Evidence], names: Collection[str] = ()
) -> tuple[list[Route], dict[str, str]]:
    """The routes of the models that can be reached, at one thinking level each, and why the others
    cannot.

    `names` are those by which the user's configuration knows models.
    """
    routes: list[Route] = []
    unreachable: dict[str, str] = {}
    provider_ids: dict[str, str] = {}
    for evidence in ranked:
        provider_type = evidence.provider_type
        route = _find_route(evidence, provider_ids, names)
        if route is None and find_type(provider_type).is_own_server:
            unreachable[evidence.label] = _EMBEDDED
        elif route is None:
            why = "OpenClaw has no way to reach a provider of type"
            unreachable[evidence.label] = f"{why} {provider_type} without an address"
        elif any(route.is_named(earlier.ref, {}) for earlier in routes):
            why = "is routed at another thinking level, which is placed higher"
            unreachable[evidence.label] = f"{route.ref} {why}"
        else:
            routes.append(route)
    return routes, unreachable


def _find_route(
    evidence: Evidence, provider_ids: dict[str, str], names: Collection[str]
) -> Route | None:
    """How OpenClaw reaches a model; None where it cannot."""
    provider_type = find_type(evidence.provider_type)
    model = evidence.target.model
    vendor = provider_type.vendor
    if provider_type.openclaw_runtime is not None and vendor is not None:
        # What answered, where the name that was asked for is short for it (`opus`).
        reported = evidence.model_reported
        answered = reported if reported and model in reported else model
        return Route(evidence, vendor.name, answered, None, runtime=provider_type.openclaw_runtime)
    address = evidence.settings.get("base_url")
    if provider_type.openclaw_api is None or not isinstance(address, str):
        return None
    billed_by = vendor_of(evidence.settings)
    if provider_type.openclaw_vendor and vendor is not None and vendor.name == billed_by:
        return Route(evidence, vendor.name, model, None, runtime=find_runtime(evidence))
    provider_id = _find_provider_id(evidence, provider_ids)
    declared: dict[str, Any] = {"baseUrl": address, "api": provider_type.openclaw_api}
    key_env = evidence.settings.get("api_key_env")
    if isinstance(key_env, str) and _ENV_NAME.fullmatch(key_env):
        declared["apiKey"] = {"source": "env", "provider": "default", "id": key_env}
    elif evidence.local:
        declared["apiKey"] = local_key(provider_type.openclaw_api)
    model_id = _find_model_id(evidence, provider_id, names)
    return Route(evidence, provider_id, model_id, declared)


def _find_provider_id(evidence: Evidence, provider_ids: dict[str, str]) -> str:
    """A plain id for a provider, the same for all its models and no other's; `provider_ids` has
    those given before."""
    name = evidence.target.provider
    if name in provider_ids:
        return provider_ids[name]
    plain_name = _NOT_IN_AN_ID.sub("-", name.lower()).strip("-") or "provider"
    if find_type(name).is_ollama:
        plain_name = "ollama"
    provider_id = plain_name
    number = 2
    while provider_id in provider_ids.values() or provider_id in _OPENCLAW_PROVIDERS:
        provider_id = f"{plain_name}-{number}"
        number += 1
    provider_ids[name] = provider_id
    return provider_id


def _find_model_id(evidence: Evidence, provider_id: str, names: Collection[str]) -> str:
    """The name of a model as the user's configuration has it, else as it was measured."""
    model = evidence.target.model
    spellings = [model]
    if find_type(evidence.provider_type).is_ollama:
        plain_name = plain_model(evidence.provider_type, model)
        spellings += [plain_name, f"{plain_name}:latest"]
    for spelling in spellings:
        if spelling in names or f"{provider_id}/{spelling}" in names:
            return spelling
    return model


def openclaw_routing(
    decision: Decision,
    config: Mapping[str, Any] | None = None,
    capacity: Sequence[CapacitySummary] = (),
) -> Routing:
    """The patch that a decision amounts to; a model that `config` knows by another name is named as
    it is there."""
    names = _names_in(config or {})
    routes, unreachable = find_routes(decision.ranked, names)
    # Tools are taken from a model however it ranks: someone may choose it by hand.
    removed = [standing.evidence for standing in decision.standings if not standing.kept]
    all_routes, _ = find_routes([*decision.ranked, *removed], names)
    routing = Routing()
    for label, why in unreachable.items():
        routing.notes.append(f"{label} is not routed: {why}")
    _route_main_agent(routing, decision, routes)
    _route_subagents(routing, decision, routes, unreachable, capacity)
    _route_small_jobs(routing, decision, routes)
    placed_refs = {line.model for line in routing.reasons}
    denials: dict[str, Denial] = {}
    for route in all_routes:
        denial = _find_denial(route, is_placed=route.ref in placed_refs)
        if denial is not None:
            denials[route.ref] = denial
    standings = {standing.evidence.label: standing for standing in decision.standings}
    placed = []
    for route in all_routes:
        if route.ref in placed_refs:
            denial = denials.get(route.ref)
            without = "" if denial is None else _WITHOUT[denial]
            placed.append((standings[route.evidence.label], without))
    routing.notes[:0] = word_places(placed)
    # A model that has a place of the user's own choice is to run as it was measured, too.
    chosen_refs = _refs_in_use(config or {})
    configured = []
    for route in all_routes:
        if route.ref in denials:
            _limit_tools(routing, route, denials[route.ref])
        is_chosen = any(route.is_named(ref, config or {}) for ref in chosen_refs)
        if route.ref in placed_refs or route.ref in denials or is_chosen:
            configured.append(route)
    routing.notes += find_overruling(config or {})
    _describe_models(routing, configured, placed_refs)
    _declare_providers(routing, configured, denials)
    routing.settings = escape_references(routing.settings)
    return routing


def _route_main_agent(routing: Routing, decision: Decision, routes: Sequence[Route]) -> None:
    if not routes:
        nobody = "no model keeps the policy's limits and can be reached"
        routing.notes.append(f"{nobody}: primary and fallbacks are left alone")
        return
    longest = 1 + decision.policy.max_fallbacks
    why = word_tie(decision) or "placed first"
    alone = "no other model keeps the policy's limits"
    _set_chain(routing, _MAIN_PATH, routes[:longest], why, alone)


def _route_subagents(
    routing: Routing,
    decision: Decision,
    routes: Sequence[Route],
    unreachable: Mapping[str, str],
    capacity: Sequence[CapacitySummary],
) -> None:
    """Who is recommended, or nothing: a subagent has a shell and nobody watching."""
    recommended = []
    for route in routes:
        if route.evidence.group.tool_use.recommended_for_subagents:
            recommended.append(route)
    if not recommended:
        nobody = "no model is recommended for subagents with full tool access"
        routing.notes.append(f"{nobody}; their model is left alone")
        routing.notes += _word_missing_evidence(decision, unreachable)
        return
    longest = 1 + decision.policy.max_fallbacks
    why = "recommended for subagents"
    alone = "no other model is recommended for subagents"
    _set_chain(routing, _SUBAGENTS_PATH, recommended[:longest], why, alone)
    _limit_subagents(routing, recommended[0], capacity)
    levels = {route.evidence.target.thinking_level for route in recommended[:longest]}
    level = recommended[0].evidence.target.thinking_level
    # It is one level for the whole chain, and goes before that of each model.
    if level is not None and len(levels) == 1:
        _set(routing, _SUBAGENTS_THINKING_PATH, level, "as they were measured")


def _route_small_jobs(routing: Routing, decision: Decision, routes: Sequence[Route]) -> None:
    """What OpenClaw does by itself: heartbeats, titles and recaps, compaction and what goes before
    it. Where nothing is set it takes the main model, or one of a vendor's."""
    slots_by_problem: dict[str, list[str]] = {}
    rankings = {job.job: job.ranking for job in decision.jobs}
    for slot in SMALL_SLOTS:
        if slot.job not in rankings:
            continue
        route, problem = _find_for_slot(slot, rankings[slot.job], routes)
        if route is None:
            slots_by_problem.setdefault(problem, []).append(slot.title)
        else:
            why = f"fit for {slot.job}; {cite(route.evidence)}"
            _set(routing, slot.path, route.ref, why, route.ref)
    for problem, titles in slots_by_problem.items():
        slots = list_names(titles, len(titles))
        routing.notes.append(f"no model of their own for {slots}: {problem}")


def _find_for_slot(
    slot: Slot, ranking: Sequence[Fit], routes: Sequence[Route]
) -> tuple[Route | None, str]:
    """The best model that is fit for the job of a slot and can be reached; else what is in the
    way."""
    routes_by_label = {route.evidence.label: route for route in routes}
    is_any_fit = False
    for fit in ranking:
        route = routes_by_label.get(fit.target)
        if fit.fit != Fitness.YES or route is None:
            continue
        is_any_fit = True
        if slot.acts and _find_denial(route, is_placed=True) is not None:
            continue
        return route, ""
    if is_any_fit:
        return None, f"it takes tools that act, which no model fit for {slot.job} is given"
    return None, f"no model that can be reached is shown to be fit for {slot.job}"


def _limit_subagents(routing: Routing, first: Route, capacity: Sequence[CapacitySummary]) -> None:
    """How many subagents the first model may serve at once, where a capacity run tells."""
    loads = []
    for entry in capacity:
        if entry.target == first.evidence.label and entry.mode == "closed":
            loads.append(entry)
    if not loads:
        return
    # Of the longest prompts that were tried: what carries these carries shorter ones, and not the
    # other way.
    load = max(loads, key=lambda entry: entry.context_tokens)
    n_clients = carried(load)
    if n_clients:
        _set(routing, _MAX_CONCURRENT_PATH, n_clients, word_capacity(load), first.ref)
    else:
        path = _dotted(_MAX_CONCURRENT_PATH)
        routing.notes.append(f"{path} is left alone: {word_capacity(load)}")


def _set(
    routing: Routing, path: Sequence[str], value: Any, why: str, model: str | None = None
) -> None:
    settings = routing.settings
    for key in path[:-1]:
        settings = settings.setdefault(key, {})
    settings[path[-1]] = value
    routing.reasons.append(ConfiguredLine(_dotted(path), _word_value(value), why, model))


def _set_chain(
    routing: Routing, path: Sequence[str], chain: Sequence[Route], why: str, alone: str
) -> None:
    """Put a model and those behind it into the patch, each with its own reason; `alone` where there
    are none."""
    first, *rest = chain
    _set(routing, [*path, "primary"], first.ref, f"{why}; {cite(first.evidence)}", first.ref)
    refs = [route.ref for route in rest]
    _set(routing, [*path, "fallbacks"], refs, "the next in order" if rest else alone)
    for place, route in enumerate(rest):
        line_path = f"{_dotted(path)}.fallbacks[{place}]"
        line = ConfiguredLine(line_path, route.ref, cite(route.evidence), route.ref)
        routing.reasons.append(line)


def _word_missing_evidence(decision: Decision, unreachable: Mapping[str, str]) -> list[str]:
    """What stands between the best placed models and a subagent's place, the nearest first."""
    notes = []
    for standing in decision.standings:
        use = standing.evidence.group.tool_use
        if use.recommended_for_subagents:
            label = standing.evidence.label
            why = unreachable.get(label) or ", ".join(word_removed_by(standing)) or use.caution
            notes.append(f"{label} is recommended for subagents, but out: {why}")
    if notes:
        return notes
    candidates = [standing.evidence for standing in decision.standings]
    # Those of which another run could tell more.
    undecided = [one for one in candidates if one.group.tool_use.evidence_command]
    for evidence in (undecided or candidates)[:_MAX_NEAREST]:
        lacking = word_lacking(evidence.group.tool_use.needs)
        notes.append(f"{evidence.label} is not recommended: {lacking}")
    if undecided:
        labels = [evidence.label for evidence in undecided[:_MAX_NEAREST]]
        command = " ".join(word_run(labels, SUBAGENT_SUITES))
        notes.append(f"to tell who may be a subagent, run {command}")
    return notes


def _find_denial(route: Route, *, is_placed: bool) -> Denial | None:
    """The tools that the evidence does not support; what is merely not known denies nothing to who
    gets no place."""
    use = route.evidence.group.tool_use
    if use.recommended_for_subagents:
        return None
    if use.tier is None:
        # No tier was measured: then the needs and the caution decide.
        p_tier_1 = 1.0
        p_tier_2 = 0.0
    else:
        p_tier_1, p_tier_2, _ = use.p_tier or (0.0, 0.0, 1.0)
    is_against = (
        is_placed or bool(use.caution) or _is_any_not_met(use.needs) or p_tier_1 < DECIDED_LEVEL
    )
    if not is_against:
        return None
    return Denial.ACTING if p_tier_1 + p_tier_2 >= DECIDED_LEVEL else Denial.ALL


def _is_any_not_met(needs: Sequence[Need]) -> bool:
    return any(need.met == Fitness.NO for need in needs)


def _limit_tools(routing: Routing, route: Route, denial: Denial) -> None:
    """Take tools from a model, with the reason and what would give them back."""
    use = route.evidence.group.tool_use
    if denial is Denial.ALL:
        why = "all tools denied: not sure to be Tier 2 or better"
    elif use.tier is not None and (use.p_tier or (0.0,))[0] < DECIDED_LEVEL:
        why = "tools that act denied: not sure to be Tier 1"
    else:
        why = f"tools that act denied: {word_lacking(use.needs) or use.caution}"
    why += f"; {cite(route.evidence)}"
    if use.tier == 1 and use.needed:
        answers = plural(use.needed, "more right answer", "more right answers")
        why += f"; {answers} in a row would do for Tier 1"
    path = ["tools", "byProvider", route.ref, "deny"]
    _set(routing, path, list(DENIED_TOOLS[denial]), why, route.ref)


def _describe_models(
    routing: Routing, routes: Sequence[Route], placed_refs: Collection[str | None]
) -> None:
    """Levels and runtimes are set as they were measured. Every model with a place is listed:
    OpenClaw shows its user no others."""
    for route in routes:
        settings: dict[str, Any] = {}
        if route.runtime is not None:
            settings["agentRuntime"] = {"id": route.runtime}
        keys = find_keys(route.evidence)
        if keys.params:
            settings["params"] = keys.params
        routing.notes += keys.notes
        if not settings and route.ref not in placed_refs:
            continue
        why = f"as it was measured; {cite(route.evidence)}"
        path = ["agents", "defaults", "models", route.ref]
        _set(routing, path, settings, why, route.ref)


def _declare_providers(
    routing: Routing, routes: Sequence[Route], denials: Mapping[str, Denial]
) -> None:
    """Servers that OpenClaw does not know itself, each with its models."""
    routes_by_provider: dict[str, list[Route]] = {}
    for route in routes:
        if route.declared is not None:
            routes_by_provider.setdefault(route.provider_id, []).append(route)
    for provider_id, members in routes_by_provider.items():
        models = [_describe_model(route, denials.get(route.ref)) for route in members]
        measured = [route.evidence for route in members]
        entry = {**(members[0].declared or {}), **find_provider_keys(measured), "models": models}
        labels = ", ".join(evidence.label for evidence in measured)
        parts = [f"where {labels} answered in run {measured[0].run_id}", word_timeout(measured)]
        why = "; ".join(part for part in parts if part)
        _set(routing, ["models", "providers", provider_id], entry, why)
        key = entry.get("apiKey")
        key_env = key["id"] if isinstance(key, dict) else None
        routing.notes += address_notes(provider_id, entry["baseUrl"], key_env)


def _describe_model(route: Route, denial: Denial | None) -> dict[str, Any]:
    """One model of a declared provider, with what the inventory and the tier know of it."""
    info = route.evidence.model_info
    name = route.model_id
    if info is not None:
        known = ", ".join(part for part in (info.parameters, info.quantization) if part)
        if known:
            name = f"{route.model_id} ({known})"
    entry: dict[str, Any] = {"id": route.model_id, "name": name}
    entry |= find_keys(route.evidence).entry
    cost = find_cost(route.evidence)
    if cost is not None:
        entry["cost"] = cost
    if route.evidence.group.tool_use.tier is not None:
        tools = {"supportsTools": denial is not Denial.ALL}
        entry["compat"] = {**entry.get("compat", {}), **tools}
    return entry


def _dotted(path: Sequence[str]) -> str:
    """A path as it is written: `tools.byProvider["ollama/qwen3"].deny`."""
    text = ""
    for key in path:
        if not key.replace("_", "").isalnum():
            text += f'["{key}"]'
        elif text:
            text += f".{key}"
        else:
            text = key
    return text


def _word_value(value: Any) -> str:
    """A setting on one line."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if not isinstance(value, dict):
        return str(value)
    models = value.get("models")
    if isinstance(models, list):
        return f"{value.get('baseUrl')}: {', '.join(model['id'] for model in models)}"
    if not value:
        return "listed"
    return ", ".join(f"{key} {_word_value(inner)}" for key, inner in value.items())
