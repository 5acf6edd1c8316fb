"""The rules a `json_keys` validator puts on single values.

Owns: what each rule type accepts. JSON's own kinds are kept apart: `true` is not a number, 1 is not `true`, and an
`integer` is written without fraction or exponent, so `1.0` is a number but not an integer. Refuses: coercion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from clawgauge.checks.answer import quoted
from clawgauge.checks.patterns import matches_fully
from clawgauge.checks.spec_keys import kind_of, refuse, require, require_number, require_pattern
from clawgauge.errors import SuiteError


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
_RULE_KEYS: dict[str, frozenset[str]] = {
    "one_of": frozenset({"type", "values"}),
    "number": frozenset({"type", "min", "max"}),
    "integer": frozenset({"type", "min", "max"}),
    "string": frozenset({"type", "pattern"}),
    **{name: frozenset({"type"}) for name in ("boolean", "array", "object", "null")},
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
