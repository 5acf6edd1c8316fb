"""JSON from a model, read strictly (what two readers could read differently is none), and the `json_keys` validator."""

from __future__ import annotations

import json
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from types import NoneType
from typing import Any

from clawgauge.characters import repair_value
from clawgauge.checks import spec as shape
from clawgauge.checks.answer import Verdict, failed, passed, quoted

MAX_DEPTH, MAX_DIGITS = 200, 4300
# A string that never ends must still match, up to the end of the text: a failed match would be tried again at every
# escaped quote inside it, which is quadratic.
_DEPTH_MARKS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)
_DEEPER = {"[": 1, "{": 1, "]": -1, "}": -1}
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_FENCED = re.compile(r"(?P<fence>`{3,}+|~{3,}+)[^\n`]*\n(?P<body>.*)(?P=fence)", re.DOTALL)


class JsonRefused(ValueError):
    """Text that is not strict JSON. `code` is the violation it becomes."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.detail = code, detail


def decode_strictly(text: str) -> Any:
    depth = 0
    for mark in _DEPTH_MARKS.finditer(text):
        depth += _DEEPER.get(mark[0], 0)
        if depth > MAX_DEPTH:
            raise JsonRefused("json_parse_error", f"nested deeper than {MAX_DEPTH} levels")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        why = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise JsonRefused("json_parse_error", why) from None
    return repair_value(value)[0] if _SURROGATE_ESCAPE.search(text) else value


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
        shown = literal if len(literal) <= 40 else literal[:40] + "…"
        raise JsonRefused("json_non_finite_number", f"{shown} overflows")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant,
    parse_float=partial(_read_number, float), parse_int=partial(_read_number, int),
)  # fmt: skip
_TYPES: dict[str, Any] = {"number": int | float, "integer": int, "string": str, "boolean": bool}
_TYPES |= {"array": list, "object": dict, "null": NoneType}


def is_type(value: Any, wanted: str) -> bool:
    """Whether `value` is of this type of JSON Schema; of one that is not known it always is."""
    is_bool = isinstance(value, bool) and wanted in ("number", "integer")
    return isinstance(value, _TYPES.get(wanted, object)) and not is_bool


def _find_crossed(rule: Mapping[str, Any]) -> tuple[str, str] | None:
    crossed = "min" in rule and "max" in rule and rule["min"] > rule["max"]
    return ("min", f"is {rule['min']}, above 'max', which is {rule['max']}") if crossed else None


_BOUNDS = shape.Fields({}, dict.fromkeys(("min", "max"), shape.finite_number), also=_find_crossed)
_RULES = dict.fromkeys(("number", "integer", "string", "boolean", "array", "object", "null"), shape.Fields({}))
_RULES |= {"number": _BOUNDS, "integer": _BOUNDS, "string": shape.Fields({}, {"pattern": shape.re2_pattern})}
_RULES |= {"one_of": shape.Fields({"values": shape.ListOf(shape.anything, "values to accept")})}
_MAY: dict[str, shape.Shape] = dict.fromkeys(("strict", "closed"), shape.true_or_false)
_MAY["key_rules"] = shape.Named(shape.ByType(_RULES, "a rule", short=True), "rules")
JSON_KEYS = shape.Fields({"required_keys": shape.ListOf(shape.some_text, "texts", least=0)}, _MAY, closed=False)


def same_value(value: Any, wanted: Any, fits_text: Callable[[str, Any], bool] = operator.eq) -> bool:
    """Equality that keeps JSON's kinds apart: numbers by value, texts as `fits_text` has it, the rest kind by kind."""
    if isinstance(value, str):
        return fits_text(value, wanted)
    if shape.is_number(value) and shape.is_number(wanted):
        return bool(value == wanted)
    if isinstance(value, list) and isinstance(wanted, list):
        pairs = zip(value, wanted, strict=False)
        return len(value) == len(wanted) and all(same_value(*pair, fits_text) for pair in pairs)
    if isinstance(value, dict) and isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(same_value(value[key], wanted[key], fits_text) for key in wanted)
    return type(value) is type(wanted) and bool(value == wanted)


def shown(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if not shape.is_number(value):
        return shape.kind_of(value)
    is_long = isinstance(value, int) and value.bit_length() > 64
    return f"a whole number of {value.bit_length()} bits" if is_long else str(value)


def find_fault(rule: Any, value: Any) -> tuple[str, str] | None:
    rule = {"type": rule} if isinstance(rule, str) else rule
    wanted = rule["type"]
    if wanted == "one_of":
        if any(same_value(value, allowed) for allowed in rule["values"]):
            return None
        return "value_not_allowed", f"got {shown(value)}"
    if not is_type(value, wanted):
        return "wrong_type", f"wanted {wanted}, got {shape.kind_of(value)}"
    if "min" in rule and value < rule["min"]:
        return "below_min", f"got {shown(value)}, minimum {rule['min']}"
    if "max" in rule and value > rule["max"]:
        return "above_max", f"got {shown(value)}, maximum {rule['max']}"
    if "pattern" in rule and not shape.matches_fully(rule["pattern"], value):
        return "pattern_mismatch", f"got {shown(value)}, wanted {quoted(rule['pattern'])}"
    return None


def judge_json_keys(spec: Mapping[str, Any], text: str) -> Verdict:
    # One fenced block that is the whole of the answer.
    block = None if spec.get("strict", False) else _FENCED.fullmatch(text)
    try:
        value = decode_strictly(block["body"] if block else text)
    except JsonRefused as error:
        return failed(error.code, error.detail, None)
    if not isinstance(value, dict):
        return failed("json_not_object", f"the top level is {shape.kind_of(value)}", None)
    if missing := [key for key in spec["required_keys"] if key not in value]:
        return failed("missing_key", ", ".join(missing), value)
    rules = spec.get("key_rules", {})
    others = [key for key in value if key not in rules and key not in spec["required_keys"]]
    if others and spec.get("closed", False):
        return failed("unexpected_key", ", ".join(others), value)
    for key, rule in rules.items():
        if fault := find_fault(rule, value[key]) if key in value else None:
            return failed(fault[0], f"{key}: {fault[1]}", value)
    return passed(value)
