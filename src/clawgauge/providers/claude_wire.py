"""The lines Claude Code prints under `--output-format stream-json`, as typed structs.

Owns: which fields of that wire we rely on, and reading a line that is not quite JSON (half a surrogate pair, a byte
that is not UTF-8). Refuses: what a line means for the call; that is `claude_stream`. Fields that only feed the record
are `Any` and read with `count` and `number`: a strange value there costs that value, never the line.
"""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from clawgauge.records import MAX_TOKENS, as_count

SYNTHETIC_MODEL = "<synthetic>"


class Delta(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class ContentBlock(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class Message(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    content: list[ContentBlock] = []
    usage: Any = None


class ApiEvent(msgspec.Struct):
    """One event of the Messages API's own stream, passed on by the CLI."""

    type: str = ""
    index: int = 0
    message: Message | None = None
    content_block: ContentBlock | None = None
    delta: Delta | None = None
    usage: Any = None


class StreamLine(msgspec.Struct):
    event: ApiEvent
    parent_tool_use_id: str | None = None


class AssistantLine(msgspec.Struct):
    """A whole message, or one the CLI wrote itself to report an error (`error`, or a made-up model)."""

    message: Message
    parent_tool_use_id: str | None = None
    error: str | None = None
    is_api_error_message: bool = False

    @property
    def is_synthetic(self) -> bool:
        return self.error is not None or self.is_api_error_message or self.message.model == SYNTHETIC_MODEL


class ResultLine(msgspec.Struct):
    """The CLI's last word. `subtype` says "success" for API errors too, so it decides nothing about those."""

    is_error: bool = False
    subtype: str = ""
    result: str | None = None
    errors: list[str] = []
    api_error_status: int | None = None
    api_error: str | None = None
    terminal_reason: str | None = None
    stop_reason: str | None = None
    duration_api_ms: Any = None
    total_cost_usd: Any = None
    usage: Any = None
    model_usage: Any = msgspec.field(default=None, name="modelUsage")

    @property
    def turns_spent(self) -> bool:
        """Whether it stopped because `--max-turns` was reached: an error to the CLI, not to whoever set it."""
        return self.terminal_reason == "max_turns" or self.subtype == "error_max_turns"


class SystemLine(msgspec.Struct):
    """What the CLI has set up; `init` comes before the first request and names the tools the model will see."""

    subtype: str = ""
    tools: Any = None
    mcp_servers: Any = None


class LimitInfo(msgspec.Struct):
    status: str = ""
    resets_at: Any = msgspec.field(default=None, name="resetsAt")


class LimitLine(msgspec.Struct):
    """Where a subscription stands; `rejected` means that its usage limit refused the call."""

    rate_limit_info: LimitInfo


Line = StreamLine | AssistantLine | ResultLine | SystemLine | LimitLine


class _Kind(msgspec.Struct):
    type: str = ""


_SHAPES: dict[str, type[Line]] = {
    "stream_event": StreamLine,
    "assistant": AssistantLine,
    "result": ResultLine,
    "system": SystemLine,
    "rate_limit_event": LimitLine,
}
_KIND = msgspec.json.Decoder(_Kind)
_DECODERS: dict[str, msgspec.json.Decoder[Line]] = {
    kind: msgspec.json.Decoder(shape) for kind, shape in _SHAPES.items()
}


def decode_line(raw: bytes) -> list[Line]:
    """What a line of stdout holds: nothing for kinds we do not use. Raises `ValueError` for what cannot be read."""
    try:
        decoder = _DECODERS.get(_KIND.decode(raw).type)
        return [decoder.decode(raw)] if decoder else []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_leniently(raw)


def _decode_leniently(raw: bytes) -> list[Line]:
    """The standard library reads lone surrogates, and with `replace` any byte; `--output-format json` wraps a list."""
    try:
        value = json.loads(raw.decode("utf-8", "replace"))
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, dict) for item in items):
            raise ValueError("not an object")
        return [msgspec.convert(item, _SHAPES[item["type"]]) for item in items if item.get("type") in _SHAPES]
    except (msgspec.ValidationError, RecursionError, TypeError) as fault:
        raise ValueError(f"not a line of stream-json: {fault}") from fault


def count(holder: Any, name: str) -> int | None:
    """The token count of that name, where there is one."""
    return as_count(holder.get(name), MAX_TOKENS) if isinstance(holder, dict) else None


def number(value: Any) -> float | None:
    """A finite, non-negative number, or None."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return float(value)
    return None
