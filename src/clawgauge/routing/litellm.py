"""The routing as a LiteLLM proxy configuration: model_list, fallbacks, and timeouts from what was measured."""

from __future__ import annotations

import math
from typing import Any

from clawgauge.prices import vendor_of
from clawgauge.registry import find_type
from clawgauge.routing.decision import Decision, Reason, Routing, address_notes, cite, word_places
from clawgauge.routing.evidence import Evidence
from clawgauge.stats.quantiles import samples_needed
from clawgauge.words import format_ms

# Of the answers alone: what hung in the run is what a timeout is there to cut off. Room above the
# slowest of them: a timeout at the very p99 would cut off one call in a hundred that was on its way.
TIMEOUT_FACTOR = 2.0
MIN_TIMEOUT_S = 5
# LiteLLM puts a variable's value in the place of any text that begins so, and knows no escape.
_REFERENCE = "os.environ/"


def litellm_config(decision: Decision) -> Routing:
    """`model_list` best first, and each model's fallbacks: those placed after it."""
    routing = Routing()
    entries: dict[str, dict[str, Any]] = {}
    for evidence in decision.ranked:
        params = _params(evidence)
        if params is None:
            routing.notes.append(f"{evidence.label} is not routed: LiteLLM cannot reach a provider of this kind")
            continue
        texts = [evidence.label, *(str(value) for name, value in params.items() if name != "api_key")]
        if any(text.startswith(_REFERENCE) for text in texts):
            routing.notes.append(f"{evidence.label} is not routed: LiteLLM would read its name as that of a variable")
            continue
        p99_ms, timed = evidence.group.latency_ms.p99, "no successful call, so no timeout"
        if p99_ms is not None:
            timeout_s = params["timeout"] = max(MIN_TIMEOUT_S, math.ceil(p99_ms * TIMEOUT_FACTOR / 1000))
            rule = "the least there is" if timeout_s == MIN_TIMEOUT_S else f"p99 × {TIMEOUT_FACTOR:g}"
            thin = ", indicative only" if evidence.group.n_success < samples_needed(0.99) else ""
            n_success = evidence.group.n_success
            timed = f"timeout {timeout_s} s ({rule}; p99 of the answers {format_ms(p99_ms)}{thin}, n={n_success})"
        key_env = evidence.settings.get("api_key_env")
        is_any_server = find_type(evidence.provider_type).is_any_server
        if is_any_server or vendor_of(evidence.settings) is None:
            routing.notes += address_notes(evidence.label, params["api_base"], key_env)
        entries[evidence.label] = {"model_name": evidence.label, "litellm_params": params}
        why = f"{timed}; {cite(evidence)}"
        routing.reasons.append(Reason(f'model_list["{evidence.label}"]', str(params["model"]), why, evidence.label))
    if not entries:
        routing.notes.append("no model keeps the policy's limits and can be reached: nothing is configured")
        return routing
    names = list(entries)
    routing.notes[:0] = word_places((one, "") for one in decision.standings if one.evidence.label in entries)
    routing.settings["model_list"] = list(entries.values())
    # Each model falls back to those placed after it, the last to none.
    limit = decision.policy.max_fallbacks
    chains = ((name, names[place : place + limit]) for place, name in enumerate(names, start=1))
    if fallbacks := [{name: after} for name, after in chains if after]:
        routing.settings["router_settings"] = {"fallbacks": fallbacks}
        routing.reasons.append(Reason("router_settings.fallbacks", " > ".join(names), "the order of the policy"))
    return routing


def _params(evidence: Evidence) -> dict[str, Any] | None:
    settings = evidence.settings
    prefix = find_type(evidence.provider_type).litellm_prefix
    address = settings.get("base_url")
    if prefix is None or not isinstance(address, str):
        return None
    params: dict[str, Any] = {"model": f"{prefix}{evidence.target.model}", "api_base": address}
    key_env = settings.get("api_key_env")
    params["api_key"] = f"{_REFERENCE}{key_env}" if key_env else "none"
    if evidence.target.thinking_level:
        params["reasoning_effort"] = evidence.target.thinking_level
    return params
