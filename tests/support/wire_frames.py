"""The smallest parts of a reply: JSON as servers write it, and one server-sent event as one frame.

Owns the marks by which a reply can be cut: a frame either carries a piece of the answer (`token`), or comes after the
last piece (`closing`), or neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as it goes on the wire."""

    data: bytes
    token: bool = False
    closing: bool = False


def dump_json(value: Any) -> bytes:
    """Compact JSON with raw UTF-8, as the real servers write it; a lone surrogate can only go out escaped."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def data_event(value: Any) -> bytes:
    """An event without a name, the only kind the chat protocol has."""
    return b"data: " + dump_json(value) + b"\n\n"


def named_event(value: dict[str, Any]) -> bytes:
    """An event named after its own `type`, as the Responses and Messages protocols send them."""
    return b"event: " + value["type"].encode() + b"\ndata: " + dump_json(value) + b"\n\n"


def opening(frames: Iterable[Frame], token_count: int) -> Iterator[Frame]:
    """The frames before the next token after the given number of them: the stream as it stood when it was cut."""
    sent = 0
    for frame in frames:
        if frame.closing or (frame.token and sent == token_count):
            return
        yield frame
        sent += frame.token
