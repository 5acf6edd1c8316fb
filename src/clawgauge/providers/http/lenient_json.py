"""JSON as servers really send it, for where a strict decoder has refused: one bad byte must not cost an answer.

Reads lone surrogates, stray bytes (as lone surrogates, which the record shows as U+FFFD), raw control characters in
strings and absurdly long numbers.
"""

from __future__ import annotations

import json
from typing import Any

from clawgauge.errors import CallFailure

MAX_VALUES = 250_000
# Python turns no more than 4,300 digits into an integer, and nothing we read has more than a few.
_MAX_DIGITS = 100


def decode_lenient(data: bytes) -> dict[str, Any] | None:
    """The object `data` holds; None for anything else."""
    if _is_crowded(data):
        return None
    try:
        value = json.loads(_decode_text(data), strict=False, parse_int=_read_int)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def refuse_crowded(data: bytes) -> None:
    """Raise where decoding would swell: 16 MiB of `{},` become more than a gigabyte of objects."""
    if len(data) > MAX_VALUES and _is_crowded(data):
        raise CallFailure("error", "response_too_large", f"the reply holds more than {MAX_VALUES} JSON values")


def _is_crowded(data: bytes) -> bool:
    # A value stands behind a comma, or is the first in a list or an object: no other can begin.
    return len(data) > MAX_VALUES and sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES


def _decode_text(data: bytes) -> str:
    try:
        return data.decode(json.detect_encoding(data), "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape")


def _read_int(digits: str) -> int | None:
    return int(digits) if len(digits) <= _MAX_DIGITS else None
