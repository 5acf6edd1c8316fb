"""What is in a message as OpenClaw stores it: its text, its calls, whether a call failed.

A store may be anyone's: every value is looked at before it is used.
"""

from __future__ import annotations

import math
from typing import Any

from clawgauge.checks.agreement import Call, unwrap
from clawgauge.checks.tool_schema import listed
from clawgauge.own_work.rules import RULES
from clawgauge.own_work.stores import Record, decode, look_up

# OpenClaw sends an image in its own turn and while three later ones follow; then this stands in its
# place.
PAST_IMAGE = "[image data removed - already processed by model]"
# Of arguments: a suite may be 64 deep, and a schema is twice as deep as what it describes.
_MAX_DEPTH = 24
_UNHELD_CALL = Call("", {})


def message_of(record: Record) -> Record:
    """The message of a record; an empty one where it holds none."""
    message = record.get("message")
    return message if isinstance(message, dict) else {}


def text_of(message: Record) -> str:
    """The text of a message, thinking and calls left out."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    texts = []
    for block in listed(content, dict):
        text = PAST_IMAGE if block.get("type") == "image" else block.get("text")
        if isinstance(text, str):
            texts.append(text)
    return "\n".join(texts)


def has_image(message: Record) -> bool:
    return any(block.get("type") == "image" for block in listed(message.get("content"), dict))


def calls_of(message: Record) -> dict[str, Call]:
    """The calls of an assistant's message by their ids, those through tool search unwrapped.

    A call that a suite cannot hold has no name.
    """
    calls = {}
    for block in listed(message.get("content"), dict):
        if block.get("type") != "toolCall":
            continue
        call = unwrap(str(block.get("name")), block.get("arguments"))
        calls[str(block.get("id"))] = call if _fits(call.arguments) else _UNHELD_CALL
    return calls


def _fits(value: Any, depth: int = 0) -> bool:
    """Whether a suite can hold a value.

    TOML has no null, and its numbers and depths have their bounds.
    """
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return depth < _MAX_DEPTH and all(_fits(item, depth + 1) for item in items)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return value is not None


def has_failed(result: Record) -> bool:
    """Whether a call came to nothing, by the message with its result.

    `isError` says little: an exit code of 2 is no error to some releases.
    """
    if result.get("isError") is True:
        return True
    details = result.get("details")
    reports = (details, look_up(details, "result", "details"), decode(text_of(result)))
    return any(_reports_failure(report) for report in reports)


def _reports_failure(report: Any) -> bool:
    if look_up(report, "status") in RULES["failures"] or look_up(report, "error"):
        return True
    return look_up(report, "exitCode") not in (None, 0)
