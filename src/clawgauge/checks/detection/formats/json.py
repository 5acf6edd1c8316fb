"""Calls as JSON, between marks or bare: values in running text, which of them are calls, whose marks they bear."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from clawgauge.checks.detection.formats.readings import (
    WRITTEN_NAME,
    Reading,
    WrittenCall,
    find_stop,
    read_tool_name,
    skip,
)
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.prose import Block, scan_blocks
from clawgauge.checks.json import JsonRefused, decode_strictly

_BETWEEN_BRACKETS = lazy_pattern(
    r'(?:[\s,:]++|"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+"|-?[0-9][-+0-9.eE]*+|true|false|null|-?Infinity|NaN)*+'
)
# Some models put a code fence around the payload, inside the marks; one family has it in its template.
_BEFORE_PAYLOAD = lazy_pattern(r"\s*+(?:```[A-Za-z_]*+\s*+)?")
_BEHIND_PAYLOAD = lazy_pattern(r"\s*+(?:```\s*+)?")
_BRACKETS = ("[", "{")
_BETWEEN_VALUES = lazy_pattern(r"\s*+(?P<sign>[;,]\s*+)?(?=[\[{])")


def scan_json(text: str, start: int) -> tuple[int, bool]:
    """Where the object or array that opens at `start` ends, and whether it is whole, or else breaks off there.

    Only its brackets are counted, not yet matched.
    """
    depth = 0
    at = start
    while at < len(text):
        mark = text[at]
        if mark in "[{":
            depth += 1
        elif mark in "]}":
            depth -= 1
        else:
            break
        if depth == 0:
            return at + 1, True
        filler = _BETWEEN_BRACKETS.match(text, at + 1)
        at = filler.end() if filler else at + 1
    return at, False


def read_payload(
    text: str, start: int, stop: re.Pattern[str], *, most: int | None = None
) -> tuple[list[Any] | None, str, int]:
    """The values from `start` up to a closing mark (None where it is not JSON), their text, and where the mark ends.

    `stop` matches the closing mark or, with no width, the next opening one.

    Where the closing mark is left out, the payload is the first value and those joined to it by a comma or semicolon.
    One that cannot be read ends at `stop` or with the text. A closing mark inside a JSON string closes nothing.
    """
    start = skip(_BEFORE_PAYLOAD, text, start)
    values: list[Any] = []
    ends: list[int] = []
    n_joined = 0
    position = start
    while len(values) != most and text[position : position + 1] in _BRACKETS:
        end, _ = scan_json(text, position)
        try:
            values.append(decode_strictly(text[position:end]))
        except JsonRefused:
            break
        ends.append(end)
        between = _BETWEEN_VALUES.match(text, end)
        if not n_joined and not (between and between["sign"]):
            n_joined = len(values)
        position = between.end() if between else end
    end = ends[-1] if ends else start
    tail = skip(_BEHIND_PAYLOAD, text, end)
    found = stop.search(text, tail)
    is_closed = found is not None and found.end() > found.start()
    if found and found.start() == tail and (is_closed or not values):
        return values, text[start:end], found.end()
    if is_closed or not values:
        # Where the brackets close, though what they hold is no JSON, no mark inside them is looked for.
        whole_end, is_whole = scan_json(text, start)
        payload_end, end = find_stop(text, tail if values else whole_end if is_whole else start, stop)
        return None, text[start:payload_end].strip(), end
    n_joined = n_joined or len(values)
    end = ends[n_joined - 1]
    return values[:n_joined], text[start:end], end


_NAME_KEYS = ("name", "tool_name")
_ARGUMENT_KEYS = ("arguments", "parameters")
_RULE_WORDS = frozenset(("type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf"))
_SCHEMA_WORDS = _RULE_WORDS | {"properties", "required", "additionalProperties", "title", "description", "$schema"}
_NAME_MEMBER = lazy_pattern(r"(?<![A-Za-z0-9_])(?:tool_)?name[\"']?\s*+:\s*+[\"']([^\"'\\\n]{1,200}+)[\"']")
_FIRST_KEY = lazy_pattern(r"[\"']([^\"'\\\n]{1,200}+)[\"']\s*+:")


def _unwrapped(value: Any) -> Iterator[Any]:
    """The objects of a value, out of the list and the members that some servers' own formats put around calls."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    for item in value if isinstance(value, list) else [value]:
        is_wrapped = isinstance(item, dict) and isinstance(item.get("function"), dict)
        yield item["function"] if is_wrapped else item


def _read_meant(item: Any) -> WrittenCall:
    """The call that `item` is meant to be; its arguments must be an object, or the text of one, or left out."""
    name = next((item[key] for key in _NAME_KEYS if key in item), None) if isinstance(item, dict) else None
    if not isinstance(name, str):
        return WrittenCall("", item, valid=False)
    if not any(key in item for key in _ARGUMENT_KEYS):
        return WrittenCall(name)
    given = decoded = _given(item)
    if given is None or given == "":
        return WrittenCall(name, {})
    if isinstance(given, str):
        try:
            decoded = decode_strictly(given)
        except JsonRefused:
            decoded = None
    is_object = isinstance(decoded, dict)
    return WrittenCall(name, decoded if is_object else given, is_object)


def _given(item: dict[str, Any]) -> Any:
    return next((item[key] for key in _ARGUMENT_KEYS if key in item), None)


def _is_definition(item: dict[str, Any]) -> bool:
    """Whether `item` describes a tool, and its `parameters` arguments, rather than being some."""
    schema = item.get("parameters")
    if "description" in item or not isinstance(schema, dict):
        return "description" in item
    if schema.get("type") == "object" and schema.keys() <= _SCHEMA_WORDS:
        return True
    rules = schema.get("properties")
    return isinstance(rules, dict) and all(
        isinstance(rule, dict) and _RULE_WORDS & rule.keys() for rule in rules.values()
    )


_PAYLOAD = lazy_pattern(r"(?=\s*+(?:```[A-Za-z_]*+\s*+)?(?:\{|\[\s*+[\[{\]\"]))")


def read_json(
    format_id: str, text: str, mark: re.Match[str], stop: re.Pattern[str], *, keyed: bool = False
) -> Reading | None:
    """The calls behind a mark, malformed ones included.

    `keyed` where an object's keys are the names and its values the arguments: `[{"f": {"a": 1}}]`.
    """
    if _PAYLOAD.match(text, mark.end()) is None:
        return None
    values, written, end = read_payload(text, mark.end(), stop)
    if values is None:
        # Under the name it seems to have.
        member = (_FIRST_KEY if keyed else _NAME_MEMBER).search(written)
        return Reading(end, format_id, [WrittenCall(member[1] if member else "", written, valid=False)])
    calls: list[WrittenCall] = []
    for item in (item for value in values for item in _unwrapped(value)):
        if keyed and isinstance(item, dict) and not any(isinstance(item.get(key), str) for key in _NAME_KEYS):
            calls += [WrittenCall(name, given, isinstance(given, dict)) for name, given in item.items()]
        else:
            calls.append(_read_meant(item))
    return Reading(end, format_id, calls)


# DeepSeek's bars and blanks are characters of their own, which some servers turn into ASCII; Kimi's always are ASCII.
CALL_BEGIN = r"<[｜|]tool[▁_]call[▁_]begin[｜|]>"
CALL_END = r"<[｜|]tool[▁_]calls?[▁_](?:section[▁_])?end[｜|]>"
_SEPARATOR = r"<[｜|]tool[▁_]sep[｜|]>"
MISTRAL_HEAD = lazy_pattern(
    rf"\s*+(?P<name>{WRITTEN_NAME})(?:\[CALL_ID\][^\s\[\]{{}}]{{1,100}})?\s*+(?:\[ARGS\]|(?=\{{))"
)
DEEPSEEK_HEAD = lazy_pattern(
    rf"\s*+(?:function\s*+{_SEPARATOR})?\s*+(?P<name>{WRITTEN_NAME})\s*+(?:{_SEPARATOR}|(?=```|\{{))"
)
KIMI_HEAD = lazy_pattern(rf"\s*+(?P<name>{WRITTEN_NAME}?)(?::[0-9]+)?\s*+<\|tool_call_argument_begin\|>")


def read_named(
    format_id: str, head: re.Pattern[str], text: str, mark: re.Match[str], stop: re.Pattern[str]
) -> Reading | None:
    """One call behind a mark: its `head`, which has the name, then the object of its arguments."""
    found = head.match(text, mark.end())
    if found is None:
        return None
    call, end = read_named_arguments(text, found.end(), stop, found["name"])
    return Reading(end, format_id, [call])


def read_named_arguments(text: str, start: int, stop: re.Pattern[str], name: str) -> tuple[WrittenCall, int]:
    """The call of `name` with the object at `start` as its arguments, and where it ends."""
    values, written, end = read_payload(text, start, stop, most=1)
    if values is None:
        return WrittenCall(name, written, valid=False), end
    arguments = values[0] if values else {}
    return WrittenCall(name, arguments, isinstance(arguments, dict)), end


BARE_OPENING = r"\{(?=\s*+\")|\[(?=\s*+\{\s*+\")"
_NEXT_OBJECT = lazy_pattern(r"[^\S\n]*+(?:[;,][^\S\n]*+)?(?=[\[{])")
# A fence squeezed into one line closes right behind the object.
_LINE_END = lazy_pattern(r"[^\S\n]*+(?:```++[^\S\n]*+)?(?:\n|\Z)")
_JSON_BLOCKS = frozenset(
    ("", "json", "jsonc", "json5", "jsonl", "tool_call", "tool_calls", "tool_use", "function_call")
)


class BareJson:
    """The reader of one text. What it has looked at once it does not look at again, so that it stays linear."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._seen_until = 0

    def read(self, start: int) -> Reading | None:
        """The calls in a run of objects that starts there, if it is one."""
        if start < self._seen_until:
            return None
        calls: list[WrittenCall] = []
        at = start
        while found := self._read_object(at):
            calls += found
            end = self._seen_until
            following = _NEXT_OBJECT.match(self._text, end)
            if following is None:
                is_last = _LINE_END.match(self._text, end) is not None
                return Reading(end, "json", calls) if is_last and self._may_hold_calls(start) else None
            at = following.end()
        return None

    def _read_object(self, at: int) -> list[WrittenCall]:
        """The calls in the object or list at `at`; none where it is broken, or any object of it is data."""
        self._seen_until, is_whole = scan_json(self._text, at)
        written = self._text[at : self._seen_until]
        if not is_whole or 'name"' not in written:
            return []
        try:
            value = decode_strictly(written)
        except JsonRefused:
            return []
        calls = []
        for item in _unwrapped(value):
            if not isinstance(item, dict) or _is_definition(item) or not isinstance(_given(item), dict | str):
                return []
            call = _read_meant(item)
            if not call.valid or _given(item) == "" or read_tool_name(call.name) is None:
                return []
            calls.append(call)
        return calls

    def _may_hold_calls(self, at: int) -> bool:
        place = bisect_right(self._blocks, at, key=lambda block: block.start)
        block = self._blocks[place - 1] if place else None
        return block is None or at >= block.end or block.info in _JSON_BLOCKS

    @cached_property
    def _blocks(self) -> list[Block]:
        return list(scan_blocks(self._text))
