"""The routing as a LiteLLM proxy configuration: model_list, fallbacks, and timeouts from what was
measured."""

from __future__ import annotations

import math
from typing import Any

from clawgauge.prices import vendor_of
from clawgauge.records import THINKING_OFF
from clawgauge.registry import find_type
from clawgauge.routing.configuration import ConfiguredLine, Routing
from clawgauge.routing.decision import Decision
from clawgauge.routing.evidence import Evidence
from clawgauge.routing.wording import address_notes, cite, word_places
from clawgauge.stats.quantiles import samples_needed
from clawgauge.words import format_ms

# Of the answers alone: what hung in the run is what a timeout is there to cut off. Room above the
# slowest of them: a timeout at the very p99 would cut off one call in a hundred that was on its
# way.
TIMEOUT_FACTOR = 2.0
MIN_TIMEOUT_S = 5
# How LiteLLM asks a model not to think.
_NO_THINKING = "none"
# LiteLLM puts a variable's value in the place of any text that begins so, and knows no escape.
_REFERENCE = "os.environ/"


def litellm_config(decision: Decision) -> Routing:
    """`model_list` best first, and each model's fallbacks: those placed after it."""
    routing = Routing()
    entries: dict[str, dict[str, Any]] = {}
    for evidence in decision.ranked:
        params = _params(evidence)
        if params is None:
            why = "LiteLLM cannot reach a provider of this kind"
            routing.notes.append(f"{evidence.label} is not routed: {why}")
        elif _is_read_as_variable(evidence, params):
            why = "LiteLLM would read its name as that of a variable"
            routing.notes.append(f"{evidence.label} is not routed: {why}")
        else:
            entries[evidence.label] = {"model_name": evidence.label, "litellm_params": params}
            _configure_model(routing, evidence, params)
    if not entries:
        nobody = "no model keeps the policy's limits and can be reached"
        routing.notes.append(f"{nobody}: nothing is configured")
        return routing
    placed = []
    for standing in decision.standings:
        if standing.evidence.label in entries:
            placed.append((standing, ""))
    routing.notes[:0] = word_places(placed)
    routing.settings["model_list"] = list(entries.values())
    _configure_fallbacks(routing, list(entries), decision.policy.max_fallbacks)
    return routing


def _is_read_as_variable(evidence: Evidence, params: dict[str, Any]) -> bool:
    """Whether a text begins as LiteLLM's name of a variable does; that of the key is meant to."""
    texts = [evidence.label]
    texts += [str(value) for name, value in params.items() if name != "api_key"]
    return any(text.startswith(_REFERENCE) for text in texts)


def _configure_model(routing: Routing, evidence: Evidence, params: dict[str, Any]) -> None:
    """Give a model its timeout, and say why it stands there; a note where a key goes to an address
    of its own."""
    p99_ms = evidence.group.latency_ms.p99
    timeout = "no successful call, so no timeout"
    if p99_ms is not None:
        timeout_s = max(MIN_TIMEOUT_S, math.ceil(p99_ms * TIMEOUT_FACTOR / 1000))
        params["timeout"] = timeout_s
        timeout = _word_timeout(timeout_s, p99_ms, evidence.group.n_success)
    is_any_server = find_type(evidence.provider_type).is_any_server
    if is_any_server or vendor_of(evidence.settings) is None:
        key_env = evidence.settings.get("api_key_env")
        routing.notes += address_notes(evidence.label, params["api_base"], key_env)
    path = f'model_list["{evidence.label}"]'
    why = f"{timeout}; {cite(evidence)}"
    routing.reasons.append(ConfiguredLine(path, str(params["model"]), why, evidence.label))


def _word_timeout(timeout_s: int, p99_ms: float, n_success: int) -> str:
    rule = "the least there is" if timeout_s == MIN_TIMEOUT_S else f"p99 × {TIMEOUT_FACTOR:g}"
    p99 = f"p99 of the answers {format_ms(p99_ms)}"
    if n_success < samples_needed(0.99):
        p99 += ", indicative only"
    return f"timeout {timeout_s} s ({rule}; {p99}, n={n_success})"


def _configure_fallbacks(routing: Routing, labels: list[str], max_fallbacks: int) -> None:
    """Each model falls back to those placed after it, the last to none."""
    fallbacks = []
    for place, label in enumerate(labels, start=1):
        after = labels[place : place + max_fallbacks]
        if after:
            fallbacks.append({label: after})
    if fallbacks:
        routing.settings["router_settings"] = {"fallbacks": fallbacks}
        path = "router_settings.fallbacks"
        line = ConfiguredLine(path, " > ".join(labels), "the order of the policy")
        routing.reasons.append(line)


def _params(evidence: Evidence) -> dict[str, Any] | None:
    settings = evidence.settings
    prefix = find_type(evidence.provider_type).litellm_prefix
    address = settings.get("base_url")
    if prefix is None or not isinstance(address, str):
        return None
    params: dict[str, Any] = {"model": f"{prefix}{evidence.target.model}", "api_base": address}
    key_env = settings.get("api_key_env")
    params["api_key"] = f"{_REFERENCE}{key_env}" if key_env else "none"
    level = evidence.target.thinking_level
    if level:
        params["reasoning_effort"] = _NO_THINKING if level == THINKING_OFF else level
    return params
