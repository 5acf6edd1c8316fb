"""What was measured and what would be sent, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from clawgauge.routing.request_facts import Protocol, RequestFacts

_PROTOCOL_NAMES = {
    Protocol.OLLAMA: "Ollama's own API",
    Protocol.CHAT: "chat completions",
    Protocol.RESPONSES: "the Responses API",
    Protocol.MESSAGES: "the Messages API",
    Protocol.GEMINI: "the Gemini API",
    Protocol.UNKNOWN: "another API",
}
NOTHING = "nothing"
"""What is said where a request does not have a setting."""


class Setting(Enum):
    """A setting that is compared."""

    API = "API"
    MODEL = "model"
    THINKING = "thinking"
    WINDOW = "window"
    OUTPUT_LIMIT = "output limit"
    TEMPERATURE = "temperature"
    KEEP_ALIVE = "kept in memory"
    STREAM = "streaming"


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting that does not arrive as it was measured."""

    setting: Setting
    measured: str
    would_send: str


@dataclass(slots=True)
class Comparison:
    """What became of the settings of one request."""

    same: list[str] = field(default_factory=list)
    """The settings that were measured and arrive, as text."""
    differences: list[Difference] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What is not the same to the letter, and does the same."""


def compare_requests(
    measured: RequestFacts,
    seen: RequestFacts,
    *,
    has_reasoned: bool,
    compares_limit: bool,
    has_own_sampling: bool = False,
) -> Comparison:
    """Lay a request of OpenClaw's beside the one that was measured.

    `has_reasoned`: answers came with reasoning, so that a model told nothing thinks.
    `compares_limit`: the limit of the output is part of what was measured, as where it holds the
    thinking; elsewhere it bounds a measurement. `has_own_sampling`: OpenClaw has a temperature and
    a limit of its own for what it does there, whatever is configured.
    """
    comparison = Comparison()
    if measured.protocol is not seen.protocol:
        names = (_PROTOCOL_NAMES[measured.protocol], _PROTOCOL_NAMES[seen.protocol])
        comparison.differences.append(Difference(Setting.API, *names))
        return comparison
    if measured.model != seen.model and measured.protocol is not Protocol.GEMINI:
        models = (measured.model or NOTHING, seen.model or NOTHING)
        comparison.differences.append(Difference(Setting.MODEL, *models))
    _compare_thinking(comparison, measured, seen, has_reasoned)
    _compare_window(comparison, measured, seen)
    if has_own_sampling:
        _add_own_sampling(comparison, seen)
    elif compares_limit:
        _compare(
            comparison,
            Setting.OUTPUT_LIMIT,
            _format(measured.output_limit),
            _format(seen.output_limit),
        )
    if not has_own_sampling:
        _compare_temperature(comparison, measured, seen)
    kept = measured.keep_alive
    if kept != seen.keep_alive:
        keeps = (kept or "the server's own time", seen.keep_alive or NOTHING)
        comparison.differences.append(Difference(Setting.KEEP_ALIVE, *keeps))
    elif kept is not None:
        comparison.same.append(f"kept {kept}")
    if measured.is_streamed and not seen.is_streamed:
        comparison.differences.append(Difference(Setting.STREAM, "a stream", "no stream"))
    _add_remarks(comparison, measured, seen)
    return comparison


def _add_own_sampling(comparison: Comparison, seen: RequestFacts) -> None:
    if seen.output_limit is not None:
        comparison.remarks.append(f"at most {_format(seen.output_limit)} tokens, its own limit")
    if seen.temperature is not None:
        comparison.remarks.append(f"temperature {seen.temperature:g}, its own")


def _compare_thinking(
    comparison: Comparison, measured: RequestFacts, seen: RequestFacts, has_reasoned: bool
) -> None:
    before = _fold_adaptive(measured.thinking)
    now = _fold_adaptive(seen.thinking)
    if before == now:
        if measured.thinking is not None:
            comparison.same.append(measured.thinking)
        return
    is_off_twice = measured.is_thinking_off and seen.is_thinking_off
    is_quiet_model = before is None and seen.is_thinking_off and not has_reasoned
    if is_off_twice or is_quiet_model:
        comparison.remarks.append(f"{seen.thinking} for a model that did not think")
        return
    texts = (measured.thinking or NOTHING, seen.thinking or NOTHING)
    comparison.differences.append(Difference(Setting.THINKING, *texts))


def _fold_adaptive(thinking: str | None) -> str | None:
    """Adaptive thinking without an effort is thinking with the default effort."""
    return "thinking adaptive, effort high" if thinking == "thinking adaptive" else thinking


def _compare_window(comparison: Comparison, measured: RequestFacts, seen: RequestFacts) -> None:
    if measured.protocol is Protocol.CHAT and measured.window is None and seen.window is not None:
        # Ollama's /v1 has no such field in its requests.
        comparison.remarks.append(f"num_ctx {_format(seen.window)}, which /v1 does not read")
        return
    _compare(comparison, Setting.WINDOW, _format(measured.window), _format(seen.window))


def _compare_temperature(
    comparison: Comparison, measured: RequestFacts, seen: RequestFacts
) -> None:
    before = None if measured.temperature is None else f"{measured.temperature:g}"
    now = None if seen.temperature is None else f"{seen.temperature:g}"
    _compare(comparison, Setting.TEMPERATURE, before, now)


def _compare(
    comparison: Comparison, setting: Setting, measured: str | None, seen: str | None
) -> None:
    if measured != seen:
        texts = (measured or NOTHING, seen or NOTHING)
        comparison.differences.append(Difference(setting, *texts))
    elif measured is not None:
        comparison.same.append(f"{setting.value} {measured}")


def _add_remarks(comparison: Comparison, measured: RequestFacts, seen: RequestFacts) -> None:
    if seen.top_p is not None and seen.top_p != measured.top_p:
        comparison.remarks.append(f"top_p {seen.top_p:g} beside it")
    if seen.truncate is False or seen.shift is False:
        comparison.remarks.append(
            "too long a prompt is an error there (truncate, shift), and was cut here"
        )
    if seen.n_cache_marks != measured.n_cache_marks:
        comparison.remarks.append(
            f"{seen.n_cache_marks} marks for the cache, {measured.n_cache_marks} when measured"
        )
    if seen.cache_key != measured.cache_key:
        sent = "a key" if seen.cache_key else "no key"
        comparison.remarks.append(f"{sent} for the prompt cache")


def _format(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


@dataclass(frozen=True, slots=True)
class Size:
    """What of a request is not compared, as sizes."""

    n_system_chars: int
    n_tools: int
    n_messages: int


def measure_size(body: Mapping[str, Any]) -> Size:
    """How much system text, how many tools and messages a request has."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        messages = body.get("input")
    n_chars = _count_chars(body.get("system")) + _count_chars(body.get("instructions"))
    n_messages = 0
    for message in messages if isinstance(messages, list) else ():
        n_messages += 1
        if isinstance(message, dict) and message.get("role") in ("system", "developer"):
            n_chars += _count_chars(message.get("content"))
    tools = body.get("tools")
    n_tools = len(tools) if isinstance(tools, list) else 0
    return Size(n_chars, n_tools, n_messages)


def _count_chars(content: Any) -> int:
    if isinstance(content, str):
        return len(content)
    n_chars = 0
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            n_chars += len(part["text"])
    return n_chars
