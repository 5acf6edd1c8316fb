"""Which JSON values are calls.

Owns: the shapes of a call object, the difference between a call and a definition of a tool, and the name in a call
that does not decode. Between the marks of a format every value is meant as a call, so what is no call is a malformed
one. Elsewhere JSON is data, unless it is a call beyond doubt. Refuses: looking at text around the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clawgauge.checks.detection.formats.readings import WrittenCall
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.strict_json import JsonRefused, decode_strictly

_NAME_KEYS = ("name", "tool_name")
_ARGUMENT_KEYS = ("arguments", "parameters")
_RULE_WORDS = frozenset(("type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf"))
_SCHEMA_WORDS = _RULE_WORDS | {"properties", "required", "additionalProperties", "title", "description", "$schema"}
_NAME_MEMBER = lazy_pattern(r"(?<![A-Za-z0-9_])(?:tool_)?name[\"']?\s*+:\s*+[\"']([^\"'\\\n]{1,200}+)[\"']")
_FIRST_KEY = lazy_pattern(r"[\"']([^\"'\\\n]{1,200}+)[\"']\s*+:")


def read_meant_calls(value: Any) -> list[WrittenCall]:
    """The calls in a value that stands between the marks of a format, malformed ones included."""
    return [_read_meant(item) for item in _unwrapped(value)]


def read_keyed_calls(value: Any) -> list[WrittenCall]:
    """The same where an object's keys are the names and its values the arguments: `[{"f": {"a": 1}}]`."""
    calls: list[WrittenCall] = []
    for item in _unwrapped(value):
        if isinstance(item, dict) and not any(isinstance(item.get(key), str) for key in _NAME_KEYS):
            calls += [WrittenCall(name, given, isinstance(given, dict)) for name, given in item.items()]
        else:
            calls.append(_read_meant(item))
    return calls


def read_certain_calls(value: Any) -> list[WrittenCall]:
    """The calls in a value that stands anywhere: all of its objects are calls, or it is data and holds none."""
    calls = []
    for item in _unwrapped(value):
        if not isinstance(item, dict) or _is_definition(item) or not isinstance(_given(item), dict | str):
            return []
        call = _read_meant(item)
        if not call.valid or _given(item) == "":
            return []
        calls.append(call)
    return calls


def read_broken_call(written: str, *, keyed: bool = False) -> WrittenCall:
    """A malformed call from text that does not decode, under the name it seems to have."""
    member = (_FIRST_KEY if keyed else _NAME_MEMBER).search(written)
    return WrittenCall(member[1] if member else "", written, valid=False)


def _unwrapped(value: Any) -> Iterator[Any]:
    """The objects of a value, out of the list and the members that some servers' own formats put around calls."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    for item in value if isinstance(value, list) else [value]:
        is_wrapped = isinstance(item, dict) and isinstance(item.get("function"), dict)
        yield item["function"] if is_wrapped else item


def _read_meant(item: Any) -> WrittenCall:
    if not isinstance(item, dict):
        return WrittenCall("", item, valid=False)
    name = next((item[key] for key in _NAME_KEYS if key in item), None)
    arguments, decodes = _read_arguments(item)
    if not isinstance(name, str):
        return WrittenCall("", item, valid=False)
    return WrittenCall(name, arguments, decodes)


def _read_arguments(item: dict[str, Any]) -> tuple[Any, bool]:
    """The arguments, and whether they are what arguments must be: an object, or the text of one."""
    if not any(key in item for key in _ARGUMENT_KEYS):
        return None, True
    given = _given(item)
    if given is None or given == "":
        return {}, True
    if isinstance(given, str):
        try:
            decoded = decode_strictly(given)
        except JsonRefused:
            return given, False
        return (decoded, True) if isinstance(decoded, dict) else (given, False)
    return given, isinstance(given, dict)


def _given(item: dict[str, Any]) -> Any:
    return next((item[key] for key in _ARGUMENT_KEYS if key in item), None)


def _is_definition(item: dict[str, Any]) -> bool:
    return "description" in item or _is_schema(item.get("parameters"))


def _is_schema(value: Any) -> bool:
    """Whether `value` describes arguments rather than being some."""
    if not isinstance(value, dict):
        return False
    if value.get("type") == "object" and value.keys() <= _SCHEMA_WORDS:
        return True
    rules = value.get("properties")
    return isinstance(rules, dict) and all(
        isinstance(rule, dict) and _RULE_WORDS & rule.keys() for rule in rules.values()
    )
