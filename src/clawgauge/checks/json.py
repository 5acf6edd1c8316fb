"""JSON from a model, read strictly: what two readers could read differently is no JSON."""

from __future__ import annotations

import json
import math
import operator
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import NoneType
from typing import Any

from clawgauge.characters import repair_value
from clawgauge.checks import spec as shape
from clawgauge.checks.answer import quoted

MAX_DEPTH = 200
MAX_DIGITS = 4300
_MAX_SHOWN_BITS = 64
_MAX_SHOWN_DIGITS = 40

# A string that never ends must still match, up to the end of the text: a failed match would be
# tried again at every escaped quote inside it, which is quadratic.
_DEPTH_MARKS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)
_DEPTH_CHANGES = {"[": 1, "{": 1, "]": -1, "}": -1}
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_FENCED = re.compile(r"(?P<fence>`{3,}+|~{3,}+)[^\n`]*\n(?P<body>.*)(?P=fence)", re.DOTALL)

_PYTHON_TYPES: dict[str, Any] = {
    "number": int | float,
    "integer": int,
    "string": str,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": NoneType,
}


class JsonRefused(ValueError):
    """Text that is not strict JSON. `code` is the violation it becomes."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


def decode_strictly(text: str) -> Any:
    """The value that `text` is in JSON. Raises `JsonRefused`."""
    depth = 0
    for mark in _DEPTH_MARKS.finditer(text):
        depth += _DEPTH_CHANGES.get(mark[0], 0)
        if depth > MAX_DEPTH:
            raise JsonRefused("json_parse_error", f"nested deeper than {MAX_DEPTH} levels")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        why = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise JsonRefused("json_parse_error", why) from None
    if _SURROGATE_ESCAPE.search(text):
        return repair_value(value)[0]
    return value


def decode_answer(text: str, *, strict: bool) -> Any:
    """The value of an answer that is JSON as a whole. Raises `JsonRefused`.

    One fenced block around it is taken off, unless `strict`.
    """
    block = None if strict else _FENCED.fullmatch(text)
    return decode_strictly(text if block is None else block["body"])


def try_json(text: str) -> tuple[Any, bool]:
    """The value and true; where `text` is not strict JSON, itself and false."""
    try:
        return decode_strictly(text), True
    except JsonRefused:
        return text, False


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise JsonRefused("json_duplicate_key", repr(key))
    return members


def _refuse_constant(literal: str) -> Any:
    raise JsonRefused("json_non_finite_number", f"{literal} is not JSON")


def _read_number(read: Callable[[str], float], literal: str) -> float:
    if len(literal) > MAX_DIGITS and sum(map(str.isdigit, literal)) > MAX_DIGITS:
        raise JsonRefused("json_parse_error", f"a number of more than {MAX_DIGITS} digits")
    number = read(literal)
    if number in (math.inf, -math.inf):
        is_long = len(literal) > _MAX_SHOWN_DIGITS
        shown_literal = literal[:_MAX_SHOWN_DIGITS] + "…" if is_long else literal
        raise JsonRefused("json_non_finite_number", f"{shown_literal} overflows")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates,
    parse_constant=_refuse_constant,
    parse_float=partial(_read_number, float),
    parse_int=partial(_read_number, int),
)


def is_type(value: Any, name: str) -> bool:
    """Whether `value` is of this type of JSON Schema; of one that is not known it always is."""
    if isinstance(value, bool) and name in ("number", "integer"):
        return False
    return isinstance(value, _PYTHON_TYPES.get(name, object))


def same_value(
    value: Any, wanted: Any, fits_text: Callable[[str, Any], bool] = operator.eq
) -> bool:
    """Equality that keeps JSON's kinds apart.

    Numbers are compared by value, texts as `fits_text` has it, the rest kind by kind.
    """
    if isinstance(value, str):
        return fits_text(value, wanted)
    if shape.is_number(value) and shape.is_number(wanted):
        return bool(value == wanted)
    if isinstance(value, list) and isinstance(wanted, list):
        if len(value) != len(wanted):
            return False
        pairs = zip(value, wanted, strict=True)
        return all(same_value(item, wanted_item, fits_text) for item, wanted_item in pairs)
    if isinstance(value, dict) and isinstance(wanted, dict):
        if value.keys() != wanted.keys():
            return False
        return all(same_value(value[key], wanted[key], fits_text) for key in wanted)
    return type(value) is type(wanted) and bool(value == wanted)


def shown(value: Any) -> str:
    """A value as a violation shows it: texts and numbers themselves, of others the kind."""
    if isinstance(value, str):
        return quoted(value)
    if not shape.is_number(value):
        return shape.kind_of(value)
    if isinstance(value, int) and value.bit_length() > _MAX_SHOWN_BITS:
        return f"a whole number of {value.bit_length()} bits"
    return str(value)
