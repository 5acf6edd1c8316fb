"""The keys of openclaw.json that make OpenClaw send a model what it was measured with.

Which key puts what on the wire was seen with OpenClaw 2026.9.6; what `agentRuntime` does at
OpenAI's own address is from its documentation. `route --verify` tells whether they still do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clawgauge.registry import OPENAI, find_type
from clawgauge.routing.evidence import Evidence
from clawgauge.routing.request_facts import Protocol, RequestFacts, find_protocol, read_request
from clawgauge.secrets import MASK
from clawgauge.words import format_ms

# OpenClaw takes a marker that is no secret for a server on the user's own machine or network. With
# other protocols than these it finds no key in it, and makes no call.
LOCAL_KEY_MARKER = "ollama-local"
_MARKER_APIS = frozenset({"ollama", "openai-completions"})
NO_KEY_NEEDED = "not-needed"
# OpenClaw asks Ollama's /v1 for a window of its own choice unless it is told not to. That server
# does not read it, and it was not measured.
_NO_WINDOW_OVER_CHAT = "injectNumCtxForOpenAICompat"
# What a chat server is told of effort goes out only where the model's entry has it in its list.
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
MIN_TIMEOUT_S = 60
_TIMEOUT_FACTOR = 2
# What every chat request of ours has, beside what a user's `extra_body` adds to it.
_ORDINARY_CHAT_MEMBERS = frozenset(
    {
        "model",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "seed",
        "reasoning_effort",
        "prompt_cache_key",
        # Set for the measurement: with it a server's times are those of a prompt read anew.
        "cache_prompt",
    }
)


@dataclass(slots=True)
class ModelKeys:
    """What stands in a configuration of one model."""

    entry: dict[str, Any] = field(default_factory=dict)
    """In `models.providers.<id>.models[]`."""
    params: dict[str, Any] = field(default_factory=dict)
    """In `agents.defaults.models["<id>/<model>"].params`."""
    notes: list[str] = field(default_factory=list)


def measured_request(evidence: Evidence) -> RequestFacts | None:
    """What the model was sent; None where the run does not say."""
    if evidence.sent is None:
        return None
    return read_request(evidence.sent.path, evidence.sent.body)


def find_keys(evidence: Evidence) -> ModelKeys:
    """The keys for what one model was measured with."""
    keys = ModelKeys()
    level = evidence.target.thinking_level
    if level is not None:
        keys.params["thinking"] = level
        keys.entry["reasoning"] = True
    _add_window(keys, evidence)
    facts = measured_request(evidence)
    if facts is None:
        return keys
    if facts.temperature is not None:
        keys.params["temperature"] = _plain_number(facts.temperature)
    match facts.protocol:
        case Protocol.OLLAMA:
            _add_ollama(keys, facts, level)
        case Protocol.CHAT:
            _add_chat(keys, evidence)
        case Protocol.RESPONSES:
            if level is not None:
                keys.entry["compat"] = {"supportedReasoningEfforts": list(_EFFORTS)}
        case Protocol.MESSAGES:
            _add_messages(keys, evidence, facts)
        case _:
            pass
    return keys


def _add_window(keys: ModelKeys, evidence: Evidence) -> None:
    """How many tokens OpenClaw believes to fit: it takes 128,000 or 200,000 where nobody says."""
    info = evidence.model_info
    facts = measured_request(evidence)
    window = info.context_tokens if info is not None else None
    measured = facts.window if facts is not None and facts.window else evidence.window_tokens
    if window is None:
        window = measured
    if window is not None:
        keys.entry["contextWindow"] = window
    is_native_ollama = facts is not None and facts.protocol is Protocol.OLLAMA
    # To Ollama's own API it is sent as `num_ctx`: only what was sent in the run is.
    if facts is not None and facts.window:
        keys.entry["contextTokens"] = facts.window
    elif measured is not None and not is_native_ollama:
        keys.entry["contextTokens"] = measured


def _add_ollama(keys: ModelKeys, facts: RequestFacts, level: str | None) -> None:
    params: dict[str, Any] = {}
    if facts.window:
        params["num_ctx"] = facts.window
    if facts.keep_alive is not None:
        params["keep_alive"] = facts.keep_alive
    if params:
        keys.entry["params"] = params
    if level == "max" and facts.thinking != "think high":
        keys.notes.append("OpenClaw sends high to Ollama's own API where max was measured")


def _add_chat(keys: ModelKeys, evidence: Evidence) -> None:
    """Effort by its own key; all else that was sent, as it was sent."""
    body = evidence.sent.body if evidence.sent is not None else {}
    level = evidence.target.thinking_level
    effort = body.get("reasoning_effort")
    if level is not None and isinstance(effort, str):
        keys.entry["compat"] = {
            "supportsReasoningEffort": True,
            "supportedReasoningEfforts": list(_EFFORTS),
        }
    extra_body: dict[str, Any] = {}
    for name, value in body.items():
        if name == "chat_template_kwargs" and isinstance(value, dict):
            keys.params["chat_template_kwargs"] = value
        elif name not in _ORDINARY_CHAT_MEMBERS:
            extra_body[name] = value
    if MASK in str(extra_body):
        keys.notes.append(
            f"{evidence.label} was sent settings that are not recorded: put them into extra_body"
        )
    elif extra_body:
        keys.params["extra_body"] = extra_body


def _add_messages(keys: ModelKeys, evidence: Evidence, facts: RequestFacts) -> None:
    body = evidence.sent.body if evidence.sent is not None else {}
    thinking = body.get("thinking")
    if isinstance(thinking, dict) and "budget_tokens" in thinking and facts.output_limit:
        # The budget lies inside the limit, and OpenClaw cuts it to what that leaves.
        keys.entry["maxTokens"] = facts.output_limit


def find_provider_keys(evidence: Sequence[Evidence]) -> dict[str, Any]:
    """What stands in the entry of a provider, for all of its models together."""
    keys: dict[str, Any] = {}
    timeouts = [find_timeout_s(measured) for measured in evidence]
    known = [timeout for timeout in timeouts if timeout is not None]
    if known:
        keys["timeoutSeconds"] = max(known)
    for measured in evidence:
        provider_type = find_type(measured.provider_type)
        facts = measured_request(measured)
        is_chat = facts is not None and facts.protocol is Protocol.CHAT
        if provider_type.is_ollama and is_chat:
            keys[_NO_WINDOW_OVER_CHAT] = False
    return keys


def find_timeout_s(evidence: Evidence) -> int | None:
    """How long OpenClaw is to wait for a model: twice its slowest answers and a load."""
    p99_ms = evidence.group.latency_ms.p99
    if p99_ms is None:
        return None
    needed_ms = _TIMEOUT_FACTOR * p99_ms + (evidence.load_ms or 0.0)
    return max(MIN_TIMEOUT_S, math.ceil(needed_ms / 1000))


def word_timeout(evidence: Sequence[Evidence]) -> str:
    """Why a provider's time limit is what it is."""
    slowest = None
    for measured in evidence:
        timeout_s = find_timeout_s(measured)
        if timeout_s is None:
            continue
        if slowest is None or timeout_s > (find_timeout_s(slowest) or 0):
            slowest = measured
    if slowest is None:
        return ""
    load = f" and {format_ms(slowest.load_ms)} to load" if slowest.load_ms else ""
    p99 = format_ms(slowest.group.latency_ms.p99)
    return f"time limit: twice the p99 of {p99}{load}, at least {MIN_TIMEOUT_S} s"


def find_cost(evidence: Evidence) -> dict[str, Any] | None:
    """Dollars per million tokens, as far as they are known; None where they are not."""
    price = evidence.price
    if price is None:
        return None
    cost: dict[str, Any] = {
        "input": _plain_number(price.input),
        "output": _plain_number(price.output),
    }
    if price.cached_input is not None:
        cost["cacheRead"] = _plain_number(price.cached_input)
    return cost


def local_key(api: str) -> str:
    """A key text with which OpenClaw calls a server that wants no key."""
    return LOCAL_KEY_MARKER if api in _MARKER_APIS else NO_KEY_NEEDED


def find_runtime(evidence: Evidence) -> str | None:
    """The runtime that keeps OpenClaw at the API that was measured; None where it has no other."""
    is_openai = find_type(evidence.provider_type).vendor is OPENAI
    is_responses = (
        evidence.sent is not None and find_protocol(evidence.sent.path) is Protocol.RESPONSES
    )
    return "openclaw" if is_openai and is_responses else None


def is_marker_useless(provider: Mapping[str, Any]) -> bool:
    """Whether OpenClaw makes no call with the key text of a provider's entry."""
    return provider.get("apiKey") == LOCAL_KEY_MARKER and provider.get("api") not in _MARKER_APIS


def _plain_number(value: float) -> float | int:
    return int(value) if value == int(value) else value
