"""What a node may send, and how much of it: every bound on a stranger's machine is in this module.

A node that goes beyond one of them is heard no further. `Bounds` keeps count of one conversation; what a record may
say, whoever measured it, is in `find_implausible` and `has_long_text`."""

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
    """Of one kind of message: the bytes of its line, how deep it nests, and how many there may be in a conversation.

    Where `most` is None, as many as were asked for, or as the work can have."""

    max_bytes: int
    depth: int
    most: int | None = None


MESSAGES: Mapping[str, MessageLimit] = {
    "hello": MessageLimit(_MIB, depth=8, most=1),
    "pong": MessageLimit(_KIB, depth=8),  # one for each ping
    "seen": MessageLimit(_MIB, depth=32),  # one for each look
    "refused": MessageLimit(_MIB, depth=8, most=1),
    "said": MessageLimit(64 * _KIB, depth=8, most=1_000),
    # An answer and its thinking are kept to 64 KiB each, a transcript to 128; escaped, six times as much.
    "result": MessageLimit(4 * _MIB, depth=LINE_LIMITS.depth or 0),
    "event": MessageLimit(_MIB, depth=32),
    "file": MessageLimit(8 * _MIB, depth=8),  # each of the work's files once
    "end": MessageLimit(_KIB, depth=8),
    "left": MessageLimit(_KIB, depth=8),
    "late": MessageLimit(_KIB, depth=8),  # one for each mark
}
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
"""How much longer than its longest call a node may take for a record: it loads models, and takes snapshots."""

# Before the work, and beside what its cells come to.
_MAX_BYTES_BESIDE = 64 * _MIB
_MAX_BYTES_OF_CELL = _MIB
_MAX_RECORDS_BESIDE = 100

MAX_TEXT_CHARS = 128 * _KIB
"""No text of a record or of a look, wherever it stands in it, is longer: an answer is kept to half of that."""
MAX_COUNT = 1 << 53
"""No time, no count and no measure is beyond what every reader of JSON can hold."""
MAX_DURATION_S = 100 * 86_400.0  # the most turns of a task, each with the longest timeout there is
_MAX_COST_USD = 1e15  # the most tokens that are counted, at the highest price that is taken
# Figures that may be below nothing, or are another's word: bounded by `MAX_COUNT` alone.
_SIGNED = ("world_seed", "due_us")
_OTHERS_WORD = ("retry_after_s", "server_us", "started_at_ms", "ended_at_ms")
# What a model or a machine made up: no figure of it is used.
_FREE = ("parsed_output", "arguments", "detail", "described")


class Bounds:
    """What one node may still send in one conversation. Its methods say in words which bound was broken, else None."""

    def __init__(self) -> None:
        self._n_heard: Counter[str] = Counter()
        self._n_asked: Counter[str] = Counter()
        self._max_bytes = _MAX_BYTES_BESIDE
        self._n_bytes = 0

    def ask(self, kind: str) -> None:
        """One more message of this kind is asked for."""
        self._n_asked[kind] += 1

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
        self._n_heard[kind] += 1
        if limit.most is not None and self._n_heard[kind] > limit.most:
            return f"it sent more than {limit.most:,} messages of one kind ({kind})"
        if kind in ("pong", "seen", "late") and self._n_heard[kind] > self._n_asked[kind]:
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
    """How many records so many cells may be told in: some of them again, after a connection was lost."""
    return 2 * n_cells + _MAX_RECORDS_BESIDE


def idle_s(timeout_s: float, n_turns: int, max_wait_s: float) -> float:
    """How long a node may go without a record, an event or a file of its work, however often it answers a ping."""
    return timeout_s * n_turns + max_wait_s + SLACK_S


def find_implausible(value: Any, name: str = "") -> str | None:
    """A number in a record that no measurement gives, in words; None where all may be. What is free is passed over."""
    inner: list[tuple[str, Any]] = []
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            if field not in _FREE:
                # The parts of a record of times are named without their unit, which it has in its own name.
                inner.append(
                    (f"{name}.{field}" if name == "timings_us" else field, getattr(value, field))
                )
    elif isinstance(value, dict):
        inner = [(name, item) for item in value.values()]
    elif isinstance(value, list) and value and set(map(type, value)) == {int}:
        # Thousands of gaps in one record: the extremes tell of all.
        inner = [(name, min(value)), (name, max(value))]
    elif isinstance(value, list | tuple):
        inner = [(name, item) for item in value]
    elif (
        isinstance(value, int | float) and not isinstance(value, bool) and not _may_be(name, value)
    ):
        return f"{name.replace('timings_us.', '') or 'a count'} of {value:g}"
    for inner_name, item in inner:
        problem = find_implausible(item, inner_name)
        if problem is not None:
            return problem
    return None


def has_long_text(value: Any) -> bool:
    """Whether a text, key or value, is longer than any of ours: in what a model made up as well."""
    if isinstance(value, str):
        return len(value) > MAX_TEXT_CHARS
    if isinstance(value, msgspec.Struct):
        return any(has_long_text(getattr(value, field)) for field in value.__struct_fields__)
    if isinstance(value, dict):
        return any(has_long_text(key) or has_long_text(one) for key, one in value.items())
    if isinstance(value, list | tuple):
        return any(has_long_text(one) for one in value)
    return False


def _may_be(name: str, value: float) -> bool:
    if not math.isfinite(value) or abs(value) > MAX_COUNT:
        # Another's word may be any number that is one.
        return name == "retry_after_s" and math.isfinite(value) and value >= 0
    if name in _SIGNED:
        return True
    highest = float(MAX_COUNT)
    if name in _OTHERS_WORD:
        pass
    elif name == "cost_usd":
        highest = _MAX_COST_USD
    elif name.startswith("timings_us.") or name.endswith("_us"):
        highest = MAX_DURATION_S * 1e6
    elif name.endswith("_ms"):
        highest = MAX_DURATION_S * 1e3
    return 0 <= value <= highest
