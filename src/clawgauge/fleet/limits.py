"""What a node may send, and how much of it: every bound on a stranger's machine is in this module.

A node that goes beyond one of them is heard no further. `Bounds` keeps count of one conversation;
what a record may say, whoever measured it, is in `find_implausible` and `has_long_text`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from clawgauge.json_limits import LINE_LIMITS, Limits, find_excess

_KIB = 1 << 10
_MIB = 1 << 20


class MessageLimit(NamedTuple):
    """What one kind of message may be."""

    max_bytes: int
    """Of its line."""
    depth: int
    """How deep it nests."""
    most: int | None = None
    """In a conversation; None where there may be as many as were asked for, or as the work can
    have."""


MESSAGES: Mapping[str, MessageLimit] = {
    "hello": MessageLimit(_MIB, depth=8, most=1),
    "pong": MessageLimit(_KIB, depth=8),  # one for each ping
    "seen": MessageLimit(_MIB, depth=32),  # one for each `look`
    "refused": MessageLimit(_MIB, depth=8, most=1),
    "said": MessageLimit(64 * _KIB, depth=8, most=1_000),
    # An answer and its thinking are kept to 64 KiB each, a transcript to 128; escaped, six times as
    # much.
    "result": MessageLimit(4 * _MIB, depth=LINE_LIMITS.depth or 0),
    "event": MessageLimit(_MIB, depth=32),
    "file": MessageLimit(8 * _MIB, depth=8),  # each of the work's files once
    "end": MessageLimit(_KIB, depth=8),
    "left": MessageLimit(_KIB, depth=8),
    "late": MessageLimit(_KIB, depth=8),  # one for each `mark`
}
"""By the names of `NodeMessage` on the wire."""
# Those of which there may be one for each that was asked for.
_ANSWERS = ("pong", "seen", "late")
MAX_LINE_BYTES = max(limit.max_bytes for limit in MESSAGES.values())
DOCUMENT = Limits(LINE_LIMITS.values, depth=32)
"""What a file of the work may be, where it is JSON."""

READY_S = 180.0
"""How long a node may talk before its work."""
LEAVE_S = 60.0
"""How long it may take to end its load."""
SILENCE_S = 60.0
"""Who hears nothing at all for so long takes the other for gone."""
SLACK_S = 900.0
"""How much longer than its longest call a node may take for a record: it loads models, and takes
snapshots."""

# Before the work, and beside what its cells come to.
_MAX_BYTES_BESIDE = 64 * _MIB
_MAX_BYTES_OF_CELL = _MIB
_MAX_RECORDS_BESIDE = 100

MAX_TEXT_CHARS = 128 * _KIB
"""No text of a record, or of what a node tells of its providers, is longer, wherever it stands in
it: an answer is kept to half of that."""
MAX_COUNT = 1 << 53
"""No time, no count and no measure is beyond what every reader of JSON can hold."""
MAX_DURATION_S = 100 * 86_400.0  # the most turns of a task, each with the longest timeout there is
_MAX_COST_USD = 1e15  # the most tokens that are counted, at the highest price that is taken
# Figures that may be below zero, or are reported by somebody else: bounded by `MAX_COUNT` alone.
_SIGNED = ("world_seed", "due_us")
_REPORTED = ("retry_after_s", "server_us", "started_at_ms", "ended_at_ms")
# What a model or a machine made up: no figure of it is used.
_UNCHECKED = ("parsed_output", "arguments", "detail", "described")


class Bounds:
    """What one node may still send in one conversation.

    Its methods return a sentence that says which bound was broken, or None.
    """

    def __init__(self) -> None:
        self._n_received: Counter[str] = Counter()
        self._n_expected: Counter[str] = Counter()
        self._max_bytes = _MAX_BYTES_BESIDE
        self._n_bytes = 0

    def expect(self, kind: str) -> None:
        """One more message of this kind is asked for."""
        self._n_expected[kind] += 1

    def allow(self, max_bytes: int) -> None:
        """The work that was handed out comes to so many bytes more."""
        self._max_bytes += max_bytes

    def measure(self, line: bytes) -> str | None:
        """Before a line is decoded."""
        excess = find_excess(line, LINE_LIMITS)
        return None if excess is None else f"it sent a message of {excess}"

    def count(self, kinds: list[str], line: bytes) -> str | None:
        """Once it is known what a line says."""
        if len(kinds) != 1:
            return "it sent a message that says nothing, or several things at once"
        [kind] = kinds
        limit = MESSAGES[kind]
        if len(line) > limit.max_bytes:
            return f"it sent more than {limit.max_bytes:,} bytes in one message ({kind})"
        excess = find_excess(line, Limits(LINE_LIMITS.values, limit.depth))
        if excess is not None:
            return f"it sent a message ({kind}) of {excess}"
        self._n_received[kind] += 1
        if limit.most is not None and self._n_received[kind] > limit.most:
            return f"it sent more than {limit.most:,} messages of one kind ({kind})"
        if kind in _ANSWERS and self._n_received[kind] > self._n_expected[kind]:
            return f"it answered what was not asked ({kind})"
        if kind != "pong":
            self._n_bytes += len(line)
        if self._n_bytes > self._max_bytes:
            return f"it sent more than {self._max_bytes:,} bytes in all"
        return None


def bytes_of_cells(n_cells: int) -> int:
    """What the records and events of so many cells may come to, all in all."""
    return _MAX_BYTES_OF_CELL * n_cells


def records_of_cells(n_cells: int) -> int:
    """How many records so many cells may be sent in: some of them again, after a connection was
    lost."""
    return 2 * n_cells + _MAX_RECORDS_BESIDE


def idle_s(timeout_s: float, n_turns: int, max_wait_s: float) -> float:
    """How long a node may go without a record, an event or a file of its work, however often it
    answers a ping."""
    return timeout_s * n_turns + max_wait_s + SLACK_S


def find_implausible(value: Any, name: str = "") -> str | None:
    """A sentence about a number in `value` that no measurement gives; None where all may be.

    What a model or a machine made up is passed over.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if _is_plausible(name, value):
            return None
        return f"{name.replace('timings_us.', '') or 'a count'} of {value:g}"
    for inner_name, inner_value in _list_parts(value, name):
        problem = find_implausible(inner_value, inner_name)
        if problem is not None:
            return problem
    return None


def _list_parts(value: Any, name: str) -> list[tuple[str, Any]]:
    """What is to be checked in a value, each with the name that its figures go by."""
    if isinstance(value, msgspec.Struct):
        return _list_fields(value, name)
    if isinstance(value, dict):
        return [(name, item) for item in value.values()]
    if isinstance(value, list) and value and set(map(type, value)) == {int}:
        # Thousands of gaps in one record: the extremes tell of all.
        return [(name, min(value)), (name, max(value))]
    if isinstance(value, list | tuple):
        return [(name, item) for item in value]
    return []


def _list_fields(record: msgspec.Struct, name: str) -> list[tuple[str, Any]]:
    fields = []
    for field in record.__struct_fields__:
        if field in _UNCHECKED:
            continue
        # The parts of a record of times are named without their unit, which is in its own name.
        full_name = f"{name}.{field}" if name == "timings_us" else field
        fields.append((full_name, getattr(record, field)))
    return fields


def has_long_text(value: Any) -> bool:
    """Whether a text, key or value, is longer than any of ours: in what a model made up as well."""
    if isinstance(value, str):
        return len(value) > MAX_TEXT_CHARS
    if isinstance(value, msgspec.Struct):
        return any(has_long_text(getattr(value, field)) for field in value.__struct_fields__)
    if isinstance(value, dict):
        return any(has_long_text(key) or has_long_text(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return any(has_long_text(item) for item in value)
    return False


def _is_plausible(name: str, value: float) -> bool:
    """Whether a figure of this name may have this value."""
    if not math.isfinite(value) or abs(value) > MAX_COUNT:
        # A server may tell to wait for any time that is one.
        return name == "retry_after_s" and math.isfinite(value) and value >= 0
    if name in _SIGNED:
        return True
    return 0 <= value <= _find_highest(name)


def _find_highest(name: str) -> float:
    if name in _REPORTED:
        return float(MAX_COUNT)
    if name == "cost_usd":
        return _MAX_COST_USD
    if name.startswith("timings_us.") or name.endswith("_us"):
        return MAX_DURATION_S * 1e6
    if name.endswith("_ms"):
        return MAX_DURATION_S * 1e3
    return float(MAX_COUNT)
