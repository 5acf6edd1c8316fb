"""The routing as a patch of openclaw.json, under OpenClaw's names, merged into a file that is there already."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyjson5

from clawgauge.errors import ConfigError, DiskFailure
from clawgauge.json_limits import SETTINGS_LIMITS, find_excess
from clawgauge.prices import vendor_of
from clawgauge.records import CapacitySummary
from clawgauge.registry import ANTHROPIC, VENDORS, find_type
from clawgauge.routing.decision import Decision, Reason, Routing, address_notes, cite, word_places
from clawgauge.routing.evidence import Evidence, plain_model
from clawgauge.secrets import mask_shapes
from clawgauge.small_file import UnfitFile, read_small_file, replacing
from clawgauge.stats.load import carried
from clawgauge.stats.tiers import DECIDED_LEVEL
from clawgauge.verdict.jobs import SUBAGENT_SUITES
from clawgauge.verdict.wording import word_capacity, word_lacking, word_run
from clawgauge.words import plural

# OpenClaw takes a marker that is no secret for a server on the user's own machine or network.
LOCAL_KEY_MARKER = "ollama-local"
_OPENCLAW_PROVIDERS = frozenset(vendor.name for vendor in VENDORS)
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,127}")
# OpenClaw puts a variable's value in the place of `${NAME}` in every text it reads; `$${NAME}` stands for itself.
_REFERENCE = re.compile(r"\$(?=\{[A-Z_][A-Z0-9_]*\})")
_ESCAPED_REFERENCE = re.compile(r"\$(?=\$\{[A-Z_][A-Z0-9_]*\})")
_ODD = re.compile(r"[^a-z0-9_-]+")
MAX_LEVELS = 100  # of a configuration: nobody writes a tenth of it
_LIMITS = SETTINGS_LIMITS._replace(depth=None)  # its decoder counts the levels
DENY_ALL = ["*"]
# What acts on the machine or starts others that do; reading, searching and answering stay.
DENY_ACTING = ["group:runtime", "write", "edit", "apply_patch", "group:automation", "group:nodes", "sessions_spawn"]
_WITHOUT = {tuple(DENY_ALL): " without any tools", tuple(DENY_ACTING): " without the tools that act"}
_EMBEDDED = "measured on the embedded server, which runs only during a run: serve the model with Ollama to route to it"
_MAX_NEAR = 3
# Half a surrogate pair, which the user's own file may hold as an escape, can be written as nothing else.
_HALF = re.compile("[\ud800-\udfff]")
# How a provider is reached is the user's to say, where they have said it.
_OWN_SETTINGS = ("baseUrl", "apiKey", "api")


class Route(NamedTuple):
    """How OpenClaw reaches a model. `declared` is the provider entry it needs, None where OpenClaw has its own."""

    evidence: Evidence
    provider_id: str
    model_id: str
    declared: dict[str, Any] | None
    runtime: str | None = None

    @property
    def ref(self) -> str:
        return f"{self.provider_id}/{self.model_id}"

    def is_named(self, ref: str, config: Mapping[str, Any]) -> bool:
        """Whether a configuration means this model by `ref`: by its provider's name, or by another at its address."""
        provider_id, _, model = as_openclaw_reads(ref).partition("/")
        kind = self.evidence.provider_type
        if plain_model(kind, model) != plain_model(kind, self.model_id):
            return False
        address = str(_at(config, "models", "providers", provider_id).get("baseUrl") or "")
        mine = str(self.evidence.settings.get("base_url") or "")
        # To OpenClaw's own Ollama protocol the address ends before the version.
        same = bool(address) and address.rstrip("/").removesuffix("/v1") == mine.rstrip("/").removesuffix("/v1")
        return provider_id == self.provider_id or same


def escape_references(value: Any) -> Any:
    """A value for openclaw.json that OpenClaw reads as what it is here. Keys it reads as they are."""
    if isinstance(value, str):
        return _REFERENCE.sub("$$", value)
    if isinstance(value, dict):
        return {key: escape_references(item) for key, item in value.items()}
    return [escape_references(item) for item in value] if isinstance(value, list) else value


def as_openclaw_reads(text: str) -> str:
    """The name that an escaped text stands for."""
    return _ESCAPED_REFERENCE.sub("", text)


def models_in_use(config: Mapping[str, Any], evidence: Sequence[Evidence]) -> list[str]:
    """The labels of the measured models that a configuration uses, the first one first. Nothing else of it is told."""
    model = _at(config, "agents", "defaults").get("model")
    named = model if isinstance(model, dict) else {"primary": model}
    fallbacks = named.get("fallbacks")
    refs = [named.get("primary"), *(fallbacks if isinstance(fallbacks, list) else [])]
    routes, _ = find_routes(evidence)
    named_by = (route for ref in refs if isinstance(ref, str) for route in routes if route.is_named(ref, config))
    return list(dict.fromkeys(route.evidence.label for route in named_by))


def _names_in(config: Mapping[str, Any]) -> set[str]:
    """Every name in a configuration, as key or as text. Not by recursion: how deep it goes is its writer's choice."""
    found: set[str] = set()
    left: list[Any] = [config]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            found.update(value)
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, str):
            found.add(value)
    return found


def find_routes(ranked: Sequence[Evidence], names: Collection[str] = ()) -> tuple[list[Route], dict[str, str]]:
    """The routes of the models that can be reached, at one thinking level each, and why the others cannot."""
    routes: list[Route] = []
    unreachable: dict[str, str] = {}
    provider_ids: dict[str, str] = {}
    for evidence in ranked:
        route, kind = _route(evidence, provider_ids, names), evidence.provider_type
        if route is None:
            why = f"OpenClaw has no way to reach a provider of type {kind} without an address"
            unreachable[evidence.label] = _EMBEDDED if kind == "embedded" else why
        elif any(route.is_named(earlier.ref, {}) for earlier in routes):
            unreachable[evidence.label] = f"{route.ref} is routed at another thinking level, which is placed higher"
        else:
            routes.append(route)
    return routes, unreachable


def _route(evidence: Evidence, provider_ids: dict[str, str], names: Collection[str]) -> Route | None:
    """How OpenClaw reaches a model; None where it cannot.

    `names` are those by which the user's configuration knows models.
    """
    kind = evidence.provider_type
    provider_type = find_type(kind)
    model = evidence.target.model
    if kind == "claude_code_cli":
        # What answered, where the name that was asked for is short for it (`opus`).
        reported = evidence.model_reported
        answered = reported if reported and model in reported else model
        return Route(evidence, ANTHROPIC.name, answered, None, runtime="claude-cli")
    address = evidence.settings.get("base_url")
    if provider_type.openclaw_api is None or not isinstance(address, str):
        return None
    vendor = provider_type.vendor
    billed_by = vendor_of(evidence.settings)
    if provider_type.openclaw_vendor and vendor is not None and vendor.name == billed_by:
        return Route(evidence, vendor.name, model, None)
    provider_id = _provider_id(evidence, provider_ids)
    spellings = [model]
    if provider_type.is_ollama:
        plain = plain_model(kind, model)
        spellings += [plain, f"{plain}:latest"]
    known = (name for name in spellings if name in names or f"{provider_id}/{name}" in names)
    declared: dict[str, Any] = {"baseUrl": address, "api": provider_type.openclaw_api}
    key_env = evidence.settings.get("api_key_env")
    if isinstance(key_env, str) and _ENV_NAME.fullmatch(key_env):
        declared["apiKey"] = {"source": "env", "provider": "default", "id": key_env}
    elif evidence.local:
        declared["apiKey"] = LOCAL_KEY_MARKER
    return Route(evidence, provider_id, next(known, model), declared)


def _provider_id(evidence: Evidence, taken: dict[str, str]) -> str:
    """A plain id for a provider, the same for all its models and no other's."""
    name = evidence.target.provider
    if name not in taken:
        plain = _ODD.sub("-", name.lower()).strip("-") or "provider"
        wanted = "ollama" if find_type(name).is_ollama else plain
        provider_id, number = wanted, 2
        while provider_id in taken.values() or provider_id in _OPENCLAW_PROVIDERS:
            provider_id, number = f"{wanted}-{number}", number + 1
        taken[name] = provider_id
    return taken[name]


def openclaw_routing(
    decision: Decision, config: Mapping[str, Any] | None = None, capacity: Sequence[CapacitySummary] = ()
) -> Routing:
    """The patch that a decision amounts to; a model that `config` knows by another name is named as it is there."""
    names = _names_in(config or {})
    routes, unreachable = find_routes(decision.ranked, names)
    routing = Routing(notes=[f"{label} is not routed: {why}" for label, why in unreachable.items()])
    # Tools are taken from a model however it ranks: someone may choose it by hand.
    removed = [standing.evidence for standing in decision.standings if not standing.kept]
    others, _ = find_routes([*decision.ranked, *removed], names)
    longest = 1 + decision.policy.max_fallbacks
    if routes:
        why, alone = decision.tie or "placed first", "no other model keeps the policy's limits"
        _set_chain(routing, ("agents", "defaults", "model"), routes[:longest], why, alone)
    else:
        words = "no model keeps the policy's limits and can be reached"
        routing.notes.append(f"{words}: primary and fallbacks are left alone")
    # Who is recommended, or nothing: a subagent has a shell and nobody watching.
    fit = [route for route in routes if route.evidence.group.tool_use.recommended_for_subagents]
    if fit:
        why, alone = "recommended for subagents", "no other model is recommended for subagents"
        _set_chain(routing, ("agents", "defaults", "subagents", "model"), fit[:longest], why, alone)
        # Of the longest prompts that were tried: what carries these carries shorter ones, and not the other way.
        loads = [one for one in capacity if one.target == fit[0].evidence.label and one.mode == "closed"]
        if load := max(loads, key=lambda entry: entry.context_tokens, default=None):
            path = ("agents", "defaults", "subagents", "maxConcurrent")
            if carried(load):
                _set(routing, path, carried(load), word_capacity(load), fit[0].ref)
            else:
                routing.notes.append(f"{_dotted(path)} is left alone: {word_capacity(load)}")
    else:
        routing.notes.append("no model is recommended for subagents with full tool access; their model is left alone")
        routing.notes += _missing_evidence(decision, unreachable)
    used = {reason.model for reason in routing.reasons}
    denied = {route.ref: tools for route in others if (tools := _denied(route, placed=route.ref in used))}
    standings = {one.evidence.label: one for one in decision.standings}
    placed = [(standings[one.evidence.label], denied.get(one.ref)) for one in others if one.ref in used]
    routing.notes[:0] = word_places((one, _WITHOUT[tuple(tools)] if tools else "") for one, tools in placed)
    _limit_tools(routing, others, denied)
    _describe_models(routing, [route for route in others if route.ref in used or route.ref in denied], denied)
    routing.settings = escape_references(routing.settings)
    return routing


def _set(routing: Routing, path: Sequence[str], value: Any, why: str, model: str | None = None) -> None:
    place = routing.settings
    for key in path[:-1]:
        place = place.setdefault(key, {})
    place[path[-1]] = value
    routing.reasons.append(Reason(_dotted(path), _shown(value), why, model))


def _set_chain(routing: Routing, path: Sequence[str], chain: Sequence[Route], why: str, alone: str) -> None:
    """Put a model and those behind it into the patch, each with its own reason; `alone` where there are none."""
    first, *rest = chain
    _set(routing, [*path, "primary"], first.ref, f"{why}; {cite(first.evidence)}", first.ref)
    _set(routing, [*path, "fallbacks"], [route.ref for route in rest], "the next in order" if rest else alone)
    for place, route in enumerate(rest):
        where = f"{_dotted(path)}.fallbacks[{place}]"
        routing.reasons.append(Reason(where, route.ref, cite(route.evidence), route.ref))


def _missing_evidence(decision: Decision, unreachable: Mapping[str, str]) -> list[str]:
    """What stands between the best placed models and a subagent's place, the nearest first."""
    candidates = [standing.evidence for standing in decision.standings]
    out = []
    for one in decision.standings:
        label, use = one.evidence.label, one.evidence.group.tool_use
        why = unreachable.get(label) or ", ".join(one.removed_by) or use.caution
        out += [f"{label} is recommended for subagents, but out: {why}"] if use.recommended_for_subagents else []
    if out:
        return out
    open_yet = [one for one in candidates if one.group.tool_use.evidence_command]
    nearest = (open_yet or candidates)[:_MAX_NEAR]
    notes = [f"{one.label} is not recommended: {word_lacking(one.group.tool_use.needs)}" for one in nearest]
    if open_yet:
        command = " ".join(word_run([one.label for one in open_yet[:_MAX_NEAR]], SUBAGENT_SUITES))
        notes.append(f"to tell who may be a subagent, run {command}")
    return notes


def _denied(route: Route, *, placed: bool) -> list[str] | None:
    """The tools that the evidence does not support; what is merely not known denies nothing to who gets no place."""
    use = route.evidence.group.tool_use
    p_tier_1, p_tier_2, _ = (1.0, 0.0, 0.0) if use.tier is None else use.p_tier or (0.0, 0.0, 1.0)
    against = placed or use.caution or any(need.met == "no" for need in use.needs) or p_tier_1 < DECIDED_LEVEL
    if use.recommended_for_subagents or not against:
        return None
    return DENY_ACTING if p_tier_1 + p_tier_2 >= DECIDED_LEVEL else DENY_ALL


def _limit_tools(routing: Routing, routes: Sequence[Route], denied: Mapping[str, list[str]]) -> None:
    for route in [route for route in routes if route.ref in denied]:
        tool_use = route.evidence.group.tool_use
        why = f"tools that act denied: {word_lacking(tool_use.needs) or tool_use.caution}"
        if denied[route.ref] is DENY_ALL:
            why = "all tools denied: not sure to be Tier 2 or better"
        elif tool_use.tier is not None and (tool_use.p_tier or (0.0,))[0] < DECIDED_LEVEL:
            why = "tools that act denied: not sure to be Tier 1"
        why += f"; {cite(route.evidence)}"
        if tool_use.tier == 1 and tool_use.needed:
            more = plural(tool_use.needed, "more right answer", "more right answers")
            why += f"; {more} in a row would do for Tier 1"
        _set(routing, ["tools", "byProvider", route.ref, "deny"], list(denied[route.ref]), why, route.ref)


def _describe_models(routing: Routing, routes: Sequence[Route], denied: Mapping[str, list[str]]) -> None:
    """Servers OpenClaw does not know itself are declared; levels and runtimes are set as they were measured."""
    declared: dict[str, list[Route]] = {}
    for route in routes:
        if route.declared is not None:
            declared.setdefault(route.provider_id, []).append(route)
        settings: dict[str, Any] = {"agentRuntime": {"id": route.runtime}} if route.runtime is not None else {}
        if level := route.evidence.target.thinking_level:
            settings["params"] = {"thinking": level}
        if settings:
            why = f"as it was measured; {cite(route.evidence)}"
            _set(routing, ["agents", "defaults", "models", route.ref], settings, why, route.ref)
    for provider_id, members in declared.items():
        entry = {**(members[0].declared or {}), "models": [_model_entry(one, denied.get(one.ref)) for one in members]}
        names = ", ".join(route.evidence.label for route in members)
        why = f"where {names} answered in run {members[0].evidence.run_id}"
        _set(routing, ["models", "providers", provider_id], entry, why)
        key = entry.get("apiKey")
        routing.notes += address_notes(provider_id, entry["baseUrl"], key["id"] if isinstance(key, dict) else None)


def _model_entry(route: Route, denied: list[str] | None) -> dict[str, Any]:
    """One model of a declared provider, with what the inventory and the tier know of it."""
    info, name = route.evidence.model_info, route.model_id
    known = ", ".join(part for part in (info.parameters, info.quantization) if part) if info else ""
    entry: dict[str, Any] = {"id": name, "name": f"{name} ({known})" if known else name}
    has_tier = route.evidence.group.tool_use.tier is not None
    return entry | ({"compat": {"supportsTools": denied is not DENY_ALL}} if has_tier else {})


def _dotted(path: Sequence[str]) -> str:
    return ".".join(key if key.replace("_", "").isalnum() else f'["{key}"]' for key in path).replace(".[", "[")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if not isinstance(value, dict):
        return str(value)
    if isinstance(models := value.get("models"), list):
        return f"{value.get('baseUrl')}: {', '.join(model['id'] for model in models)}"
    return ", ".join(f"{key} {_shown(inner)}" for key, inner in value.items())


def read_openclaw(path: Path) -> dict[str, Any]:
    """The configuration in `path`. JSON5, as OpenClaw itself reads it: comments, trailing commas, bare keys."""
    try:
        data = read_small_file(path, 8 << 20, "it is over 8 MiB; that is no openclaw.json")
        excess = find_excess(data, _LIMITS, "json5")
        if excess is not None:
            raise ConfigError(f"{path} holds {excess}; that is no openclaw.json")
        found = pyjson5.decode(data.decode("utf-8-sig"), MAX_LEVELS)
    except UnfitFile as unfit:
        raise ConfigError(f"cannot read {path}: {unfit}") from None
    except pyjson5.Json5NestingTooDeep:
        raise ConfigError(f"{path} is nested more than {MAX_LEVELS} levels deep") from None
    except (pyjson5.Json5DecoderException, UnicodeDecodeError) as fault:
        raise ConfigError(f"{path} is not JSON5: {fault.args[0] if len(fault.args) == 3 else fault}") from fault
    if not isinstance(found, dict):
        raise ConfigError(f"{path} does not hold an object; that is no openclaw.json")
    return found


def merge_patch(config: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """`config` with `patch` in it; neither is changed. A list of models keeps the models the patch does not name."""
    merged = dict(config)
    for key, value in patch.items():
        there = merged.get(key)
        if isinstance(there, dict) and isinstance(value, dict):
            merged[key] = merge_patch(there, value)
        elif key in ("models", "deny") and isinstance(there, list) and isinstance(value, list):
            merged[key] = (_merge_models if key == "models" else _merge_denials)(there, value)
        elif key in _OWN_SETTINGS and there is not None:
            continue
        elif isinstance(there, str) and isinstance(value, dict) and set(value) <= {"primary", "fallbacks"}:
            # `model: "a/b"` is short for an object with that primary.
            merged[key] = merge_patch({"primary": there}, value)
        else:
            merged[key] = value
    return merged


def find_conflicts(config: dict[str, Any], patch: dict[str, Any]) -> list[str]:
    """Where the file and the evidence do not go together, for the person to decide: each as a sentence."""
    found = []
    for provider_id, wanted in _at(patch, "models", "providers").items():
        there, measured = _at(config, "models", "providers", provider_id).get("baseUrl"), wanted.get("baseUrl")
        if there is not None and there != measured:
            shown = mask_shapes(str(there))
            found.append(f"{provider_id} is at {shown} in the file and was measured at {measured}: left as it is")
    for place in (("agents", "defaults", "model"), ("agents", "defaults", "subagents", "model")):
        primary = _at(patch, *place).get("primary")
        denied = _at(config, "tools", "byProvider", as_openclaw_reads(str(primary))).get("deny")
        if denied:
            shown = ", ".join(map(str, denied)) if isinstance(denied, list) else str(denied)
            found.append(f"{primary} becomes {'.'.join(place)}, and the file denies it tools ({shown}): left as it is")
    return found


def _at(config: Mapping[str, Any], *path: str) -> dict[str, Any]:
    place: Any = config
    for key in path:
        place = place.get(key) if isinstance(place, dict) else None
    return place if isinstance(place, dict) else {}


def _merge_denials(there: list[Any], wanted: list[Any]) -> list[Any]:
    """All that either denies; `*` says the rest by itself."""
    if "*" in there:
        return there
    return list(wanted) if "*" in wanted else [*there, *(tool for tool in wanted if tool not in there)]


def _merge_models(there: list[Any], wanted: list[Any]) -> list[Any]:
    patches = {model["id"]: model for model in wanted}
    merged = []
    for model in there:
        patch = patches.pop(model.get("id"), {}) if isinstance(model, dict) else {}
        # The name is the user's own word for a model they already have.
        settings = {key: value for key, value in patch.items() if key != "name"}
        merged.append(merge_patch(model, settings) if settings else model)
    return [*merged, *patches.values()]


def write_openclaw(path: Path, config: dict[str, Any]) -> Path | None:
    """Put `config` into `path` at one stroke. Returns where what was there is kept, None if nothing was there."""
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    path = path.resolve()  # a link stays a link; what it points at is replaced
    try:
        backup = _back_up(path)
        with replacing(path, 0o600) as file:
            file.write(_HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode())
    except OSError as fault:
        raise DiskFailure(f"cannot write {path} ({fault.strerror}); it is as it was") from fault
    return backup


def _back_up(path: Path) -> Path | None:
    """A copy of `path` under the first free name."""
    if not path.exists():
        return None
    content, mode = path.read_bytes(), path.stat().st_mode & 0o777
    for number in count():
        backup = path.with_name(f"{path.name}.bak" + (f".{number}" if number else ""))
        with suppress(FileExistsError):
            fd = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            break
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return backup
