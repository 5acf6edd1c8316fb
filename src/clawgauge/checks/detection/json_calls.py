"""Calls written as objects of JSON, behind a mark and in running text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

from clawgauge.checks.detection.blocks import Block, scan_blocks
from clawgauge.checks.detection.payloads import (
    Mark,
    Pattern,
    Reader,
    Reading,
    WrittenCall,
    read_payload,
    read_tool_name,
    scan_json,
)
from clawgauge.checks.json import try_json

_NAME_KEYS = ("name", "tool_name")
_ARGUMENT_KEYS = ("arguments", "parameters")
# Of a JSON Schema: the words of a rule for one value, and all that a tool's definition may have.
_RULE_WORDS = frozenset(("type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf"))
_SCHEMA_WORDS = _RULE_WORDS | {
    "properties",
    "required",
    "additionalProperties",
    "title",
    "description",
    "$schema",
}
_NAME_MEMBER = re.compile(
    r"(?<![A-Za-z0-9_])(?:tool_)?name[\"']?\s*+:\s*+[\"']([^\"'\\\n]{1,200}+)[\"']"
)
_FIRST_KEY = re.compile(r"[\"']([^\"'\\\n]{1,200}+)[\"']\s*+:")
_PAYLOAD = re.compile(r"(?=\s*+(?:```[A-Za-z_]*+\s*+)?(?:\{|\[\s*+[\[{\]\"]))")


def _unwrap(value: Any) -> Iterator[Any]:
    """The objects of a value, out of the list and the members that servers may put around calls."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    items = value if isinstance(value, list) else [value]
    for item in items:
        is_wrapped = isinstance(item, dict) and isinstance(item.get("function"), dict)
        yield item["function"] if is_wrapped else item


def _first_member(item: dict[str, Any], keys: tuple[str, ...]) -> Any:
    """The value under the first of the keys that is there, or None."""
    for key in keys:
        if key in item:
            return item[key]
    return None


def _written_name(item: Any) -> str | None:
    name = _first_member(item, _NAME_KEYS) if isinstance(item, dict) else None
    return name if isinstance(name, str) else None


def _read_item(item: Any) -> WrittenCall:
    """The call that `item` is meant to be.

    Its arguments must be an object, or the text of one, or left out.
    """
    name = _written_name(item)
    if name is None:
        return WrittenCall("", item, valid=False)
    if not any(key in item for key in _ARGUMENT_KEYS):
        return WrittenCall(name)
    arguments = _first_member(item, _ARGUMENT_KEYS)
    if arguments is None or arguments == "":
        return WrittenCall(name, {})
    decoded = try_json(arguments)[0] if isinstance(arguments, str) else arguments
    if isinstance(decoded, dict):
        return WrittenCall(name, decoded)
    return WrittenCall(name, arguments, valid=False)


def json_reader(format_id: str, *, keyed: bool = False) -> Reader:
    """A reader of calls in JSON behind a mark.

    `keyed`: the keys of an object are the names, as in `[{"f": {"a": 1}}]`.
    """
    return partial(_read_json, format_id, keyed)


def _read_json(format_id: str, keyed: bool, text: str, mark: Mark, stop: Pattern) -> Reading | None:
    if _PAYLOAD.match(text, mark.end()) is None:
        return None
    payload = read_payload(text, mark.end(), stop)
    if payload.values is None:
        # Under the name it seems to have.
        member = (_FIRST_KEY if keyed else _NAME_MEMBER).search(payload.text)
        name = member[1] if member else ""
        return Reading(payload.end, format_id, [WrittenCall(name, payload.text, valid=False)])
    calls: list[WrittenCall] = []
    for value in payload.values:
        for item in _unwrap(value):
            if keyed and isinstance(item, dict) and not _has_name(item):
                calls += _read_members(item)
            else:
                calls.append(_read_item(item))
    return Reading(payload.end, format_id, calls)


def _has_name(item: dict[str, Any]) -> bool:
    return any(isinstance(item.get(key), str) for key in _NAME_KEYS)


def _read_members(item: dict[str, Any]) -> list[WrittenCall]:
    """The calls in an object whose keys are names."""
    calls = []
    for name, arguments in item.items():
        calls.append(WrittenCall(name, arguments, isinstance(arguments, dict)))
    return calls


def read_arguments(format_id: str, text: str, start: int, stop: Pattern, name: str) -> Reading:
    """The call of a tool whose name is known, and whose arguments stand at `start` in JSON."""
    payload = read_payload(text, start, stop, most=1)
    arguments: Any = payload.text
    if payload.values is not None:
        arguments = payload.values[0] if payload.values else {}
    call = WrittenCall(name, arguments, isinstance(arguments, dict))
    return Reading(payload.end, format_id, [call])


BARE_OPENING = r"\{(?=\s*+\")|\[(?=\s*+\{\s*+\")"
_NEXT_OBJECT = re.compile(r"[^\S\n]*+(?:[;,][^\S\n]*+)?(?=[\[{])")
# A fence squeezed into one line closes right behind the object.
_LINE_END = re.compile(r"[^\S\n]*+(?:```++[^\S\n]*+)?(?:\n|\Z)")
_JSON_BLOCKS = (
    "",
    "json",
    "jsonc",
    "json5",
    "jsonl",
    "tool_call",
    "tool_calls",
    "tool_use",
    "function_call",
)


class BareJson:
    """Reads the calls of one text that stand in JSON without any mark, at the end of a line.

    What it has looked at once it does not look at again, so that it stays linear.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._seen_until = 0

    def read(self, start: int) -> Reading | None:
        """The calls in the objects from `start`; None where they are data, or prose follows."""
        if start < self._seen_until:
            return None
        calls: list[WrittenCall] = []
        position = start
        while True:
            object_calls = self._read_object(position)
            if not object_calls:
                return None
            calls += object_calls
            next_object = _NEXT_OBJECT.match(self._text, self._seen_until)
            if next_object is None:
                break
            position = next_object.end()
        if _LINE_END.match(self._text, self._seen_until) is None:
            return None
        if not self._may_hold_calls(start):
            return None
        return Reading(self._seen_until, "json", calls)

    @cached_property
    def _blocks(self) -> list[Block]:
        return list(scan_blocks(self._text))

    def _may_hold_calls(self, position: int) -> bool:
        """Whether this is no block of code in some other language."""
        index = bisect_right(self._blocks, position, key=lambda block: block.start) - 1
        if index < 0:
            return True
        block = self._blocks[index]
        return position >= block.end or block.info in _JSON_BLOCKS

    def _read_object(self, start: int) -> list[WrittenCall]:
        """The calls in the object or list at `start`.

        There are none where it is broken, or where any object of it is data.
        """
        self._seen_until, is_whole = scan_json(self._text, start)
        written = self._text[start : self._seen_until]
        if not is_whole or 'name"' not in written:
            return []
        value, is_json = try_json(written)
        if not is_json:
            return []
        calls = []
        for item in _unwrap(value):
            call = _read_bare_item(item)
            if call is None:
                return []
            calls.append(call)
        return calls


def _read_bare_item(item: Any) -> WrittenCall | None:
    """The call that an object without a mark is; None if it is data."""
    if not isinstance(item, dict) or _is_definition(item):
        return None
    arguments = _first_member(item, _ARGUMENT_KEYS)
    if not isinstance(arguments, dict | str) or arguments == "":
        return None
    call = _read_item(item)
    if not call.valid or read_tool_name(call.name) is None:
        return None
    return call


def _is_definition(item: dict[str, Any]) -> bool:
    """Whether an object defines a tool rather than calling it."""
    if "description" in item:
        return True
    schema = item.get("parameters")
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "object" and schema.keys() <= _SCHEMA_WORDS:
        return True
    rules = schema.get("properties")
    if not isinstance(rules, dict):
        return False
    return all(isinstance(rule, dict) and _RULE_WORDS & rule.keys() for rule in rules.values())
