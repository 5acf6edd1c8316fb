"""What one request says of its settings, in the same terms for every protocol.

Read from what a run recorded of its own request, and from what another program is seen to send.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

_GEMINI_METHODS = (":streamGenerateContent", ":generateContent")


class Protocol(Enum):
    """What a request speaks, by its path."""

    OLLAMA = "/api/chat"
    CHAT = "/chat/completions"
    RESPONSES = "/responses"
    MESSAGES = "/messages"
    GEMINI = "Gemini"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """The settings of one request; None is what it does not say."""

    protocol: Protocol
    model: str | None
    thinking: str | None
    """`think high`, `reasoning_effort none`, `thinking enabled, budget 16,384`."""
    is_thinking_off: bool
    """Whether the model is told not to think."""
    window: int | None
    output_limit: int | None
    temperature: float | None
    keep_alive: str | None
    is_streamed: bool
    top_p: float | None = None
    cache_key: bool = False
    n_cache_marks: int = 0
    truncate: bool | None = None
    shift: bool | None = None


def find_protocol(path: str) -> Protocol:
    """The protocol of a request to this path, whatever stands before it."""
    plain_path = path.partition("?")[0]
    if plain_path.endswith(_GEMINI_METHODS):
        return Protocol.GEMINI
    for protocol in (Protocol.OLLAMA, Protocol.CHAT, Protocol.RESPONSES, Protocol.MESSAGES):
        if plain_path.endswith(protocol.value):
            return protocol
    return Protocol.UNKNOWN


def read_request(path: str, body: Mapping[str, Any]) -> RequestFacts:
    """The settings in a request's body."""
    protocol = find_protocol(path)
    options = body
    if protocol is Protocol.GEMINI:
        options = _object(body.get("generationConfig"))
    elif protocol is Protocol.OLLAMA:
        options = _object(body.get("options"))
    thinking, is_off = _read_thinking(protocol, body)
    return RequestFacts(
        protocol=protocol,
        model=_text(body.get("model")),
        thinking=thinking,
        is_thinking_off=is_off,
        window=_whole(_object(body.get("options")).get("num_ctx")),
        output_limit=_read_limit(options),
        temperature=_number(options.get("temperature")),
        keep_alive=_label(body.get("keep_alive")),
        is_streamed=body.get("stream") is True or ":stream" in path,
        top_p=_number(options.get("top_p", options.get("topP"))),
        cache_key="prompt_cache_key" in body,
        n_cache_marks=_count_marks(body),
        truncate=_flag(body.get("truncate")),
        shift=_flag(body.get("shift")),
    )


def _read_limit(options: Mapping[str, Any]) -> int | None:
    names = (
        "num_predict",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "maxOutputTokens",
    )
    for name in names:
        limit = _whole(options.get(name))
        if limit is not None:
            return limit
    return None


def _read_thinking(protocol: Protocol, body: Mapping[str, Any]) -> tuple[str | None, bool]:
    """What a request says of thinking, and whether it says that there is to be none."""
    match protocol:
        case Protocol.OLLAMA:
            think = body.get("think")
            if think is None:
                return None, False
            return f"think {_label(think)}", think is False
        case Protocol.RESPONSES:
            effort = _text(_object(body.get("reasoning")).get("effort"))
            if effort is None:
                return None, False
            return f"reasoning effort {effort}", effort == "none"
        case Protocol.MESSAGES:
            return _read_anthropic_thinking(body)
        case Protocol.GEMINI:
            config = _object(_object(body.get("generationConfig")).get("thinkingConfig"))
            if "thinkingBudget" in config:
                budget = config["thinkingBudget"]
                return f"thinking budget {_label(budget)}", budget == 0
            level = _text(config.get("thinkingLevel"))
            return (None, False) if level is None else (f"thinking level {level}", False)
        case _:
            return _read_chat_thinking(body)


def _read_chat_thinking(body: Mapping[str, Any]) -> tuple[str | None, bool]:
    parts = []
    is_off = False
    effort = _text(body.get("reasoning_effort"))
    if effort is not None:
        parts.append(f"reasoning_effort {effort}")
        is_off = effort == "none"
    enabled = _object(body.get("chat_template_kwargs")).get("enable_thinking")
    if enabled is None:
        enabled = body.get("enable_thinking")
    if isinstance(enabled, bool):
        parts.append(f"enable_thinking {_label(enabled)}")
        is_off = not enabled
    for name in ("thinking_budget_tokens", "thinking_token_budget"):
        budget = _whole(body.get(name))
        if budget is not None:
            parts.append(f"budget {budget:,}")
    thinking_type = _text(_object(body.get("thinking")).get("type"))
    if thinking_type is not None:
        parts.append(f"thinking {thinking_type}")
        is_off = thinking_type == "disabled"
    return ", ".join(parts) or None, is_off


def _read_anthropic_thinking(body: Mapping[str, Any]) -> tuple[str | None, bool]:
    thinking = _object(body.get("thinking"))
    kind = _text(thinking.get("type"))
    parts = []
    if kind is not None:
        parts.append(f"thinking {kind}")
    budget = _whole(thinking.get("budget_tokens"))
    if budget is not None:
        parts.append(f"budget {budget:,}")
    effort = _text(_object(body.get("output_config")).get("effort"))
    if effort is not None:
        parts.append(f"effort {effort}")
    return ", ".join(parts) or None, kind == "disabled"


def _count_marks(body: Mapping[str, Any]) -> int:
    """How many parts of a request are marked for the cache. Not by recursion: how deep it goes is
    its sender's choice."""
    n_marks = 0
    unread: list[Any] = [body]
    while unread:
        value = unread.pop()
        if isinstance(value, dict):
            n_marks += "cache_control" in value
            unread += value.values()
        elif isinstance(value, list):
            unread += value
    return n_marks


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None or number != int(number) else int(number)


def _label(value: Any) -> str | None:
    """A plain value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    number = _number(value)
    return None if number is None else f"{number:g}"
