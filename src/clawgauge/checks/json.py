"""JSON from a model, read strictly, and the `json_keys` validator: keys, and rules on single values.

One value, no duplicate keys, no infinities, no surprises: what two readers could read differently is no JSON here."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from clawgauge.characters import repair_value
from clawgauge.checks.answer import Verdict, failed, passed, quoted
from clawgauge.checks.spec import (
    kind_of,
    matches_fully,
    refuse,
    require,
    require_flag,
    require_number,
    require_pattern,
    require_texts,
)
from clawgauge.errors import SuiteError

MAX_DEPTH = 200
MAX_DIGITS = 4300

# A string that never ends must still match, up to the end of the text: a failed match would be tried again at every
# escaped quote inside it, which is quadratic.
_DEPTH_MARKS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_RULE_KEYS: dict[str, frozenset[str]] = {
    "one_of": frozenset({"type", "values"}),
    "number": frozenset({"type", "min", "max"}),
    "integer": frozenset({"type", "min", "max"}),
    "string": frozenset({"type", "pattern"}),
    **{name: frozenset({"type"}) for name in ("boolean", "array", "object", "null")},
}
_FENCED = re.compile(r"(?P<fence>`{3,}+|~{3,}+)[^\n`]*\n(?P<body>.*)(?P=fence)", re.DOTALL)


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
    return repair_value(value)[0] if _SURROGATE_ESCAPE.search(text) else value


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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "number": _is_number,
    "integer": _is_integer,
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def check_rule(key: str, rule: Any) -> None:
    """Refuse a rule that cannot be applied; `key` is the JSON key it is for."""
    place = f"key_rules.{key}"
    rule = _spelled_out(rule)
    if not isinstance(rule, Mapping):
        raise refuse(place, 'a rule such as {"type": "number"} or "number"', rule)
    try:
        _check_members(rule)
    except SuiteError as error:
        raise SuiteError(f"key '{place}': {error}") from None


def find_fault(rule: Any, value: Any) -> tuple[str, str] | None:
    """Code and detail of what is wrong with `value`, or None."""
    rule = _spelled_out(rule)
    wanted = rule["type"]
    if wanted == "one_of":
        if any(_same(value, allowed) for allowed in rule["values"]):
            return None
        return "value_not_allowed", f"got {_shown(value)}"
    if not _TYPES[wanted](value):
        return "wrong_type", f"wanted {wanted}, got {kind_of(value)}"
    if "min" in rule and value < rule["min"]:
        return "below_min", f"got {_shown(value)}, minimum {rule['min']}"
    if "max" in rule and value > rule["max"]:
        return "above_max", f"got {_shown(value)}, maximum {rule['max']}"
    if "pattern" in rule and not matches_fully(rule["pattern"], value):
        return "pattern_mismatch", f"got {_shown(value)}, wanted {quoted(rule['pattern'])}"
    return None


def _spelled_out(rule: Any) -> Any:
    return {"type": rule} if isinstance(rule, str) else rule


def _check_members(rule: Mapping[str, Any]) -> None:
    known = ", ".join(sorted(_RULE_KEYS))
    if "type" not in rule:
        raise SuiteError(f"key 'type' is missing; it must be one of {known}")
    wanted = rule["type"]
    if not isinstance(wanted, str):
        raise refuse("type", f"one of {known}", wanted)
    if wanted not in _RULE_KEYS:
        raise SuiteError(f"key 'type' is '{wanted}'; it must be one of {known}")
    for name in rule:
        if name not in _RULE_KEYS[wanted]:
            accepted = ", ".join(sorted(_RULE_KEYS[wanted]))
            raise SuiteError(f"key '{name}' does not go with type '{wanted}', which takes {accepted}")
    if wanted == "one_of":
        _check_values(rule)
    bounds = [require_number(rule, name) for name in ("min", "max") if name in rule]
    if len(bounds) == 2 and bounds[0] > bounds[1]:
        raise SuiteError(f"key 'min' is {bounds[0]}, above 'max', which is {bounds[1]}")
    if "pattern" in rule:
        require_pattern(rule, "pattern")


def _check_values(rule: Mapping[str, Any]) -> None:
    wanted = "a list of one or more values to accept"
    values = require(rule, "values", wanted)
    if not isinstance(values, list):
        raise refuse("values", wanted, values)
    if not values:
        raise SuiteError(f"key 'values' is empty; it must be {wanted}")


def _same(value: Any, allowed: Any) -> bool:
    """Equality that keeps JSON's kinds apart: numbers by value, everything else by kind and value."""
    if _is_number(value) and _is_number(allowed):
        return bool(value == allowed)
    if isinstance(value, list) and isinstance(allowed, list):
        return len(value) == len(allowed) and all(map(_same, value, allowed))
    if isinstance(value, dict) and isinstance(allowed, dict):
        return value.keys() == allowed.keys() and all(_same(value[key], allowed[key]) for key in value)
    return type(value) is type(allowed) and bool(value == allowed)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return f"a whole number of {value.bit_length()} bits"
    return str(value) if _is_number(value) else kind_of(value)


def check_json_keys(spec: Mapping[str, Any]) -> None:
    require_texts(spec, "required_keys", may_be_empty=True)
    if "strict" in spec:
        require_flag(spec, "strict")
    rules = spec.get("key_rules", {})
    if not isinstance(rules, Mapping):
        raise refuse("key_rules", "an object of rules", rules)
    for key, rule in rules.items():
        check_rule(str(key), rule)


def judge_json_keys(spec: Mapping[str, Any], text: str) -> Verdict:
    if not spec.get("strict", False):
        text = _unfenced(text)
    try:
        value = decode_strictly(text)
    except JsonRefused as error:
        return failed(error.code, error.detail, None)
    if not isinstance(value, dict):
        return failed("json_not_object", f"the top level is {kind_of(value)}", None)
    missing = [key for key in spec["required_keys"] if key not in value]
    if missing:
        return failed("missing_key", ", ".join(missing), value)
    for key, rule in spec.get("key_rules", {}).items():
        fault = find_fault(rule, value[key]) if key in value else None
        if fault:
            code, detail = fault
            return failed(code, f"{key}: {detail}", value)
    return passed(value)


def _unfenced(text: str) -> str:
    """The inside of one fenced block that is the whole of `text`, else `text`."""
    block = _FENCED.fullmatch(text)
    return block["body"] if block else text
