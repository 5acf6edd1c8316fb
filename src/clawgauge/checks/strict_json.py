"""JSON from a model, read strictly: one value, no duplicates, no infinities, no surprises.

Owns: the decoding of untrusted JSON text into plain values, in linear time and bounded depth, and the exact reason
where it is refused. Refuses: repairing. Prose around the value, trailing commas and comments are parse errors.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from clawgauge.checks.well_formed import well_formed_value

MAX_DEPTH = 200
MAX_DIGITS = 4300

# A string that never ends must still match, up to the end of the text: a failed match would be tried again at every
# escaped quote inside it, which is quadratic.
_DEPTH_MARKS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class JsonRefused(ValueError):
    """Text that is not strict JSON. `code` is the violation it becomes."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


def decode_strictly(text: str) -> Any:
    """The value `text` holds; raises `JsonRefused`, and nothing else, where it holds none."""
    _refuse_deep_nesting(text)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        detail = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise JsonRefused("json_parse_error", detail) from None
    return well_formed_value(value) if _SURROGATE_ESCAPE.search(text) else value


def _refuse_deep_nesting(text: str) -> None:
    depth = 0
    for mark in _DEPTH_MARKS.finditer(text):
        kind = mark[0][0]
        if kind in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise JsonRefused("json_parse_error", f"nested deeper than {MAX_DEPTH} levels")
        elif kind in "]}":
            depth -= 1


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise JsonRefused("json_duplicate_key", repr(key))
            seen.add(key)
    return members


def _refuse_constant(literal: str) -> Any:
    raise JsonRefused("json_non_finite_number", f"{literal} is not JSON")


def _refuse_long(literal: str) -> None:
    if len(literal) > MAX_DIGITS and sum(map(str.isdigit, literal)) > MAX_DIGITS:
        raise JsonRefused("json_parse_error", f"a number of more than {MAX_DIGITS} digits")


def _read_int(literal: str) -> int:
    _refuse_long(literal)
    return int(literal)


def _read_float(literal: str) -> float:
    _refuse_long(literal)
    number = float(literal)
    if math.isinf(number):
        shown = literal if len(literal) <= 40 else literal[:40] + "…"
        raise JsonRefused("json_non_finite_number", f"{shown} overflows")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates,
    parse_constant=_refuse_constant,
    parse_float=_read_float,
    parse_int=_read_int,
)
