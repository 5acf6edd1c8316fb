"""The two ends of a call: its arguments, and the answer a model is shown, each with its bound.

Arguments past the bounds under which a record keeps them are not acted on, so that a call replayed from its record does
what it did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from clawgauge.world.refusals import Refusal

MAX_ARGUMENTS_BYTES = 65_536
MAX_ALL_ARGUMENTS_BYTES = 262_144
MAX_ANSWER_BYTES = 16_384


def encoded_size(value: Any) -> int | None:
    """How many bytes `value` takes on disk, or None where it cannot be written."""
    if value is None:
        return 0
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


class ArgumentsBudget:
    """What is left of the room for arguments over a series of calls."""

    def __init__(self) -> None:
        self._room = MAX_ALL_ARGUMENTS_BYTES

    def admit(self, arguments: Any) -> bool:
        """Whether the next call's arguments still fit; those that do not take no room."""
        size = encoded_size(arguments)
        if size is None or size > min(self._room, MAX_ARGUMENTS_BYTES):
            return False
        self._room -= size
        return True


class Arguments:
    """The arguments of one call; every fault is a refusal that tells the model what to send."""

    def __init__(self, tool: str, values: Mapping[str, Any]) -> None:
        self._tool = tool
        self._values = values

    def text(self, key: str, default: str | None = None) -> str:
        value = self._values.get(key, default)
        if value is None:
            raise Refusal(f"{self._tool}: the argument '{key}' is missing")
        if not isinstance(value, str):
            raise Refusal(f"{self._tool}: the argument '{key}' must be a string")
        return value

    def whole(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        value = self._values.get(key, default)
        if value is None:
            raise Refusal(f"{self._tool}: the argument '{key}' is missing")
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise Refusal(f"{self._tool}: the argument '{key}' must be a whole number, {least} or more")
        return value

    def action(self, *actions: str) -> str:
        value = self.text("action")
        if value not in actions:
            raise Refusal(f"{self._tool}: the argument 'action' must be one of {', '.join(actions)}")
        return value


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The text a model is shown after a call, and whether the call failed."""

    text: str
    is_error: bool = False


def bounded_answer(text: str, *, is_error: bool = False) -> ToolAnswer:
    """An answer of at most 16 KB: of a longer one the head and the tail are kept, and the cut is said."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= MAX_ANSWER_BYTES:
        return ToolAnswer(encoded.decode(), is_error)
    notice = f"\n[… {len(encoded)} bytes in all; the middle is left out …]\n"
    half = (MAX_ANSWER_BYTES - len(notice.encode())) // 2
    head = encoded[:half].decode("utf-8", "ignore")
    tail = encoded[-half:].decode("utf-8", "ignore")
    return ToolAnswer(f"{head}{notice}{tail}", is_error)
