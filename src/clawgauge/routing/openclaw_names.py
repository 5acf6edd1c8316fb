"""What OpenClaw calls a model that was measured here: its provider there, and its `provider/model` reference.

Owns: the mapping of providers, with an address to declare where OpenClaw does not know the server itself. Refuses:
models OpenClaw could not reach after the run: the embedded server ends with the run that started it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clawgauge.prices import vendor_of
from clawgauge.routing.evidence import Evidence

# OpenClaw takes a marker that is no secret for a server on the user's own machine or network.
LOCAL_KEY_MARKER = "ollama-local"
_APIS = {
    "ollama_openai": "openai-completions",
    "openai_chat": "openai-completions",
    "openai_responses": "openai-responses",
}
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,127}")
# OpenClaw puts a variable's value in the place of `${NAME}` in every text it reads; `$${NAME}` stands for itself.
_REFERENCE = re.compile(r"\$(?=\{[A-Z_][A-Z0-9_]*\})")
_ESCAPED_REFERENCE = re.compile(r"\$(?=\$\{[A-Z_][A-Z0-9_]*\})")
_ODD = re.compile(r"[^a-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Route:
    """How OpenClaw reaches a model. `declared` is the provider entry it needs, None where OpenClaw has its own."""

    evidence: Evidence
    provider_id: str
    model_id: str
    declared: dict[str, Any] | None
    runtime: str | None = None

    @property
    def ref(self) -> str:
        return f"{self.provider_id}/{self.model_id}"


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


def find_routes(ranked: Sequence[Evidence]) -> tuple[list[Route], dict[str, str]]:
    """The routes of the models that can be reached, in order, and why the others cannot, by label.

    Of one model at several thinking levels the best placed is taken: a reference names a model, not a level.
    """
    routes: list[Route] = []
    unreachable: dict[str, str] = {}
    provider_ids: dict[str, str] = {}
    for evidence in ranked:
        route = _route(evidence, provider_ids)
        if route is None:
            unreachable[evidence.label] = _why_not(evidence)
        elif any(route.ref == earlier.ref for earlier in routes):
            unreachable[evidence.label] = f"{route.ref} is routed at another thinking level, which is placed higher"
        else:
            routes.append(route)
    return routes, unreachable


def _route(evidence: Evidence, provider_ids: dict[str, str]) -> Route | None:
    kind, model = evidence.provider_type, evidence.target.model
    if kind == "claude_code_cli":
        return Route(evidence, "anthropic", _claude_model(evidence), None, runtime="claude-cli")
    address = evidence.settings.get("base_url")
    if kind not in _APIS or not isinstance(address, str):
        return None
    if kind == "openai_responses" and vendor_of(evidence.settings) == "openai":
        return Route(evidence, "openai", model, None)
    provider_id = _provider_id(evidence, provider_ids)
    return Route(evidence, provider_id, model, _declare(evidence, address, _APIS[kind]))


def _why_not(evidence: Evidence) -> str:
    if evidence.provider_type == "embedded":
        return (
            "measured on the embedded server, which runs only during a run: serve the model with Ollama to route to it"
        )
    return f"OpenClaw has no way to reach a provider of type {evidence.provider_type} without an address"


def _claude_model(evidence: Evidence) -> str:
    """What answered, where the name that was asked for is short for it (`opus`)."""
    asked, reported = evidence.target.model, evidence.model_reported
    return reported if reported and asked in reported else asked


def _provider_id(evidence: Evidence, taken: dict[str, str]) -> str:
    """A plain id for a provider, the same for all its models and no other's."""
    name = evidence.target.provider
    if name not in taken:
        wanted = "ollama" if name == "ollama_openai" else _ODD.sub("-", name.lower()).strip("-") or "provider"
        provider_id, count = wanted, 2
        while provider_id in taken.values() or provider_id in ("openai", "anthropic"):
            provider_id, count = f"{wanted}-{count}", count + 1
        taken[name] = provider_id
    return taken[name]


def _declare(evidence: Evidence, address: str, api: str) -> dict[str, Any]:
    declared: dict[str, Any] = {"baseUrl": address, "api": api}
    key_env = evidence.settings.get("api_key_env")
    if isinstance(key_env, str) and _ENV_NAME.fullmatch(key_env):
        declared["apiKey"] = {"source": "env", "provider": "default", "id": key_env}
    elif evidence.local:
        declared["apiKey"] = LOCAL_KEY_MARKER
    return declared
