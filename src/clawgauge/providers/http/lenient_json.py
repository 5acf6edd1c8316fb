"""JSON as servers really send it, for where a strict decoder has refused: one bad byte must not cost an answer.

Reads lone surrogates, stray bytes (as lone surrogates, which the record shows as U+FFFD), raw control characters in
strings and absurdly long numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec

from clawgauge.errors import CallFailure

MAX_VALUES = 250_000
# Python turns no more than 4,300 digits into an integer, and nothing we read has more than a few.
_MAX_DIGITS = 100
S = TypeVar("S", bound=msgspec.Struct)


def decode_lenient(data: bytes) -> dict[str, Any] | None:
    """The object `data` holds; None for anything else."""
    if _is_crowded(data):
        return None
    try:
        try:
            text = data.decode(json.detect_encoding(data), "surrogatepass")
        except UnicodeDecodeError:
            text = data.decode("utf-8", "surrogateescape")
        value = json.loads(text, strict=False, parse_int=lambda word: int(word) if len(word) <= _MAX_DIGITS else None)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def refuse_crowded(data: bytes) -> None:
    """Raise where decoding would swell: 16 MiB of `{},` become more than a gigabyte of objects."""
    if _is_crowded(data):
        raise CallFailure("error", "response_too_large", f"the reply holds more than {MAX_VALUES} JSON values")


def _is_crowded(data: bytes) -> bool:
    # A value stands behind a comma, or is the first in a list or an object: no other can begin.
    return len(data) > MAX_VALUES and sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES


def fit(kind: type[S], fields: Mapping[str, Any]) -> S:
    """A struct of what fits in `fields`: a member of another type is as if it were left out."""
    fitted = {field.name: _fitted(field.type, fields.get(field.encode_name)) for field in msgspec.structs.fields(kind)}
    return kind(**{name: value for name, value in fitted.items() if value is not None})


def _fitted(annotation: Any, value: Any) -> Any:
    """`value` where it is of that type, else None. msgspec itself stumbles over half a character in a wrong place."""
    kind, inner = get_origin(annotation) or annotation, get_args(annotation)
    if kind in (Union, UnionType):
        return next((fitted for option in inner if (fitted := _fitted(option, value)) is not None), None)
    if kind is Any:
        return value
    if kind is list and isinstance(value, list):
        return [fitted for one in value if (fitted := _fitted(inner[0], one)) is not None]
    if issubclass(kind, msgspec.Struct):
        return fit(kind, value) if isinstance(value, dict) else None
    return value if isinstance(value, kind) and not isinstance(value, bool) else None
