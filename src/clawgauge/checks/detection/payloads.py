"""What stands behind an opening mark: values of JSON, of Python's and Gemma's notation, and the calls in them.

A reader goes on from the mark to what matches the closing one or, with no width, the next opening one. None: the mark
is only mentioned, and the text goes on right behind it."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import msgspec

from clawgauge.characters import well_formed
from clawgauge.checks.detection.prose import Block, scan_blocks
from clawgauge.checks.detection.shell import is_number, read_name
from clawgauge.checks.json import MAX_DIGITS, try_json

# A name as it may stand between marks; what is a tool's name and what is not is decided in `read_tool_name`.
WRITTEN_NAME = r"[^\s<>{}()\[\]`\"'|｜=]{1,200}"
# The namespace in which chat servers list the tools on offer; it is no part of a tool's name.
_NAMESPACE = "functions."


class WrittenCall(msgspec.Struct, frozen=True, gc=False):
    """A call as written: its name, its arguments decoded. One that does not decode is not valid and keeps its text."""

    name: str
    arguments: Any = None
    valid: bool = True


class Reading(msgspec.Struct, frozen=True, gc=False):
    end: int
    format: str
    calls: list[WrittenCall]


Mark = re.Match[str]
Pattern = re.Pattern[str]
Reader = Callable[[str, Mark, Pattern], Reading | None]


def read_tool_name(written: str) -> str | None:
    name = read_name(written.strip().removeprefix(_NAMESPACE))
    return None if name is None or is_number(name) else name.lower()


# --- values ---------------------------------------------------------------------------------------------------------

MAX_DEPTH = 64
_BETWEEN_BRACKETS = re.compile(
    r'(?:[\s,:]++|"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+"|-?[0-9][-+0-9.eE]*+|true|false|null|-?Infinity|NaN)*+'
)
# Some models put a code fence around the payload, inside the marks; one family has it in its template.
_BEFORE_PAYLOAD = re.compile(r"\s*+(?:```[A-Za-z_]*+\s*+)?")
_BEHIND_PAYLOAD = re.compile(r"\s*+(?:```\s*+)?")
_BETWEEN_VALUES = re.compile(r"\s*+(?P<sign>[;,]\s*+)?(?=[\[{])")


def skip(pattern: Pattern, text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


skip_space = partial(skip, re.compile(r"\s*+"))


def find_stop(text: str, start: int, stop: Pattern) -> tuple[int, int]:
    """Where the text from `start` ends and where the mark that ends it does: at `stop`, or with the whole text."""
    found = stop.search(text, start)
    return found.span() if found else (len(text), len(text))


def scan_json(text: str, start: int) -> tuple[int, bool]:
    """Where the object or array at `start` ends, by its brackets, and whether it is whole or else breaks off there."""
    depth, at = 0, start
    while at < len(text) and text[at] in "[{]}":
        depth += 1 if text[at] in "[{" else -1
        if depth == 0:
            return at + 1, True
        at = skip(_BETWEEN_BRACKETS, text, at + 1)
    return at, False


def read_payload(
    text: str, start: int, stop: Pattern, *, most: int | None = None
) -> tuple[list[Any] | None, str, int]:
    """The values from `start` up to a closing mark (None where it is not JSON), their text, and where the mark ends.

    Where the closing mark is left out, the payload is the first value and those joined to it by a comma or semicolon.
    One that cannot be read ends at `stop` or with the text. A closing mark inside a JSON string closes nothing."""
    start = position = skip(_BEFORE_PAYLOAD, text, start)
    values: list[Any] = []
    ends: list[int] = []
    n_joined = 0
    while len(values) != most and text[position : position + 1] in ("[", "{"):
        end, _ = scan_json(text, position)
        value, is_json = try_json(text[position:end])
        if not is_json:
            break
        values.append(value)
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
        payload_end, end = find_stop(
            text, tail if values else whole_end if is_whole else start, stop
        )
        return None, text[start:payload_end].strip(), end
    n_joined = n_joined or len(values)
    end = ends[n_joined - 1]
    return values[:n_joined], text[start:end], end


_STRING = re.compile(
    r"(?s)'''(?P<long_single>(?:[^'\\]++|\\.|'(?!''))*+)'''"
    r'|"""(?P<long_double>(?:[^"\\]++|\\.|"(?!""))*+)"""'
    r"|'(?P<single>(?:[^'\\\n]++|\\.)*+)'"
    r'|"(?P<double>(?:[^"\\\n]++|\\.)*+)"'
)
_ESCAPE = re.compile(
    r"\\(?:(?P<sign>[abfnrtv\\'\"])|(?:x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>000[0-9a-fA-F]{5}))"
    r"|(?P<octal>[0-3]?[0-7]{1,2})|(?P<joined>\n))"
)
_SIGNS = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True))
_NUMBER = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]*+)(?P<fraction>\.[0-9]*+)?|(?P<point>\.[0-9]++))(?P<exponent>[eE][-+]?[0-9]++)?(?![\w.])"
)
_CONSTANT = re.compile(r"(?:True|true|False|false|None|null)(?!\w)")
_CONSTANTS = {
    "True": True,
    "true": True,
    "False": False,
    "false": False,
    "None": None,
    "null": None,
}
ReadKey = Callable[[str, int], tuple[str, int]]
ReadValue = Callable[[str, int, int], tuple[Any, int]]


class LiteralRefused(ValueError): ...


def require(found: re.Match[str] | None) -> re.Match[str]:
    if found is None:
        raise LiteralRefused
    return found


def read_literal(text: str, at: int, depth: int = 0) -> tuple[Any, int]:
    mark = text[at : at + 1]
    if mark in ("[", "{"):
        return read_container(text, at, depth, _read_key, read_literal)
    if mark in ("'", '"'):
        return _read_string(text, at)
    if constant := _CONSTANT.match(text, at):
        return _CONSTANTS[constant[0]], constant.end()
    number = require(_NUMBER.match(text, at))
    is_float = number["fraction"] or number["point"] or number["exponent"]
    if len(number[0]) > MAX_DIGITS or (is_float and math.isinf(float(number[0]))):
        raise LiteralRefused
    return float(number[0]) if is_float else int(number[0]), number.end()


def _read_string(text: str, at: int) -> tuple[str, int]:
    string = require(_STRING.match(text, at))
    inside = string[string.lastgroup or 0]
    return (
        well_formed(_ESCAPE.sub(_unescaped, inside)) if "\\" in inside else inside
    ), string.end()


def _unescaped(escape: re.Match[str]) -> str:
    kind = escape.lastgroup or ""
    if kind in ("joined", "sign"):
        return _SIGNS.get(escape["sign"], "")
    return chr(int(escape[kind], 8 if kind == "octal" else 16))


def read_container(
    text: str, at: int, depth: int, read_key: ReadKey, read_value: ReadValue
) -> tuple[Any, int]:
    if depth == MAX_DEPTH:
        raise LiteralRefused
    closing = "]" if text[at] == "[" else "}"
    items: list[Any] = []
    members: dict[str, Any] = {}
    at = skip_space(text, at + 1)
    while text[at : at + 1] != closing:
        if closing == "]":
            item, at = read_value(text, at, depth + 1)
            items.append(item)
        else:
            key, at = read_key(text, at)
            members[key], at = read_value(text, at, depth + 1)
        at = skip_comma(text, at, closing)
    return items if closing == "]" else members, at + 1


def _read_key(text: str, at: int) -> tuple[str, int]:
    key, at = _read_string(text, at)
    at = skip_space(text, at)
    if text[at : at + 1] != ":":
        raise LiteralRefused
    return key, skip_space(text, at + 1)


def skip_comma(text: str, at: int, closing: str) -> int:
    """Past the comma behind an item; at `closing`, where the items end."""
    at = skip_space(text, at)
    if text[at : at + 1] == ",":
        return skip_space(text, at + 1)
    if text[at : at + 1] != closing:
        raise LiteralRefused
    return at


_TEXT_MARK = re.compile(r"<escape>|<\|\"\|>")
_KEY = re.compile(
    r"(?:<escape>|<\|\"\|>|\")?(?P<key>[^\s<>{}\[\],:\"|]{1,200})(?:<escape>|<\|\"\|>|\")?\s*+:\s*+"
)
_BARE = re.compile(r"[^\s,{}\[\]<>\"'][^,{}\[\]<>\n]*+")


def read_gemma_value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if mark := _TEXT_MARK.match(text, at):
        end = text.find(mark[0], mark.end())
        if end < 0:
            raise LiteralRefused
        return text[mark.end() : end], end + len(mark[0])
    if text[at : at + 1] in ("{", "["):
        return read_container(text, at, depth, _read_gemma_key, read_gemma_value)
    if (bare := _BARE.match(text, at)) is None:
        return read_literal(text, at)
    # A number or a constant; whatever else stands without marks is text that lost its own.
    word = bare[0].rstrip()
    try:
        value, end = read_literal(word, 0)
    except LiteralRefused:
        return word, bare.end()
    return value if end == len(word) else word, bare.end()


def _read_gemma_key(text: str, at: int) -> tuple[str, int]:
    key = require(_KEY.match(text, at))
    return key["key"], key.end()


# --- JSON ------------------------------------------------------------------------------------------------------------

_NAME_KEYS = ("name", "tool_name")
_ARGUMENT_KEYS = ("arguments", "parameters")
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


def _unwrapped(value: Any) -> Iterator[Any]:
    """The objects of a value, out of the list and the members that some servers' own formats put around calls."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    for item in value if isinstance(value, list) else [value]:
        is_wrapped = isinstance(item, dict) and isinstance(item.get("function"), dict)
        yield item["function"] if is_wrapped else item


def _read_meant(item: Any) -> WrittenCall:
    """The call that `item` is meant to be; its arguments must be an object, or the text of one, or left out."""
    name = (
        next((item[key] for key in _NAME_KEYS if key in item), None)
        if isinstance(item, dict)
        else None
    )
    if not isinstance(name, str):
        return WrittenCall("", item, valid=False)
    if not any(key in item for key in _ARGUMENT_KEYS):
        return WrittenCall(name)
    if (given := _given(item)) in (None, ""):
        return WrittenCall(name, {})
    decoded = try_json(given)[0] if isinstance(given, str) else given
    is_object = isinstance(decoded, dict)
    return WrittenCall(name, decoded if is_object else given, is_object)


def _given(item: dict[str, Any]) -> Any:
    return next((item[key] for key in _ARGUMENT_KEYS if key in item), None)


def _is_definition(item: dict[str, Any]) -> bool:
    schema = item.get("parameters")
    if "description" in item or not isinstance(schema, dict):
        return "description" in item
    if schema.get("type") == "object" and schema.keys() <= _SCHEMA_WORDS:
        return True
    rules = schema.get("properties")
    told = rules.values() if isinstance(rules, dict) else [None]
    return all(isinstance(rule, dict) and _RULE_WORDS & rule.keys() for rule in told)


def read_json(
    format_id: str, text: str, mark: Mark, stop: Pattern, *, keyed: bool = False
) -> Reading | None:
    """The calls behind a mark, malformed ones too. `keyed`: an object's keys are the names, `[{"f": {"a": 1}}]`."""
    if _PAYLOAD.match(text, mark.end()) is None:
        return None
    values, written, end = read_payload(text, mark.end(), stop)
    if values is None:
        # Under the name it seems to have.
        member = (_FIRST_KEY if keyed else _NAME_MEMBER).search(written)
        return Reading(
            end, format_id, [WrittenCall(member[1] if member else "", written, valid=False)]
        )
    calls: list[WrittenCall] = []
    for item in (item for value in values for item in _unwrapped(value)):
        if (
            keyed
            and isinstance(item, dict)
            and not any(isinstance(item.get(key), str) for key in _NAME_KEYS)
        ):
            calls += [
                WrittenCall(name, given, isinstance(given, dict)) for name, given in item.items()
            ]
        else:
            calls.append(_read_meant(item))
    return Reading(end, format_id, calls)


def read_object(format_id: str, text: str, start: int, stop: Pattern, name: str) -> Reading:
    values, written, end = read_payload(text, start, stop, most=1)
    arguments = written if values is None else values[0] if values else {}
    return Reading(end, format_id, [WrittenCall(name, arguments, isinstance(arguments, dict))])


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
    """The reader of one text. What it has looked at once it does not look at again, so that it stays linear."""

    def __init__(self, text: str) -> None:
        self._text, self._seen_until = text, 0

    @cached_property
    def _blocks(self) -> list[Block]:
        return list(scan_blocks(self._text))

    def read(self, start: int) -> Reading | None:
        if start < self._seen_until:
            return None
        calls: list[WrittenCall] = []
        at = start
        while found := self._read_object(at):
            calls += found
            if (following := _NEXT_OBJECT.match(self._text, self._seen_until)) is None:
                if _LINE_END.match(self._text, self._seen_until) is None:
                    return None
                place = bisect_right(self._blocks, start, key=lambda block: block.start)
                block = self._blocks[place - 1] if place else None
                may_hold_calls = block is None or start >= block.end or block.info in _JSON_BLOCKS
                return Reading(self._seen_until, "json", calls) if may_hold_calls else None
            at = following.end()
        return None

    def _read_object(self, at: int) -> list[WrittenCall]:
        """The calls in the object or list at `at`; none where it is broken, or any object of it is data."""
        self._seen_until, is_whole = scan_json(self._text, at)
        written = self._text[at : self._seen_until]
        if not is_whole or 'name"' not in written:
            return []
        value, is_json = try_json(written)
        calls = []
        for item in _unwrapped(value) if is_json else []:
            if (
                not isinstance(item, dict)
                or _is_definition(item)
                or not isinstance(_given(item), dict | str)
            ):
                return []
            call = _read_meant(item)
            if not call.valid or _given(item) == "" or read_tool_name(call.name) is None:
                return []
            calls.append(call)
        return calls


# --- Python's notation -----------------------------------------------------------------------------------------------

_CALL = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_.:-]{0,199})\(")
_STARTS_LIKE_CALLS = re.compile(r"\s*+\[?\s*+(?P<name>[A-Za-z_][A-Za-z0-9_.:-]{0,199})\(")
_KEYWORD = re.compile(r"(?P<key>[A-Za-z_][A-Za-z0-9_-]{0,199})\s*+=(?!=)\s*+")
_BETWEEN = re.compile(r"\s*+[,;]?\s*+")


def read_whole_message(text: str, start: int) -> Reading | None:
    """The calls of a message that is, from `start`, one list of calls; None for every other message."""
    start, end = skip_space(text, start), len(text.rstrip())
    if not text.startswith("[", start) or not text.endswith("]", start, end):
        return None
    try:
        calls, list_end = _read_calls(text, start)
    except LiteralRefused:
        return None
    return Reading(end, "pythonic", calls) if calls and list_end == end else None


def read_marked(
    format_id: str, text: str, mark: Mark, stop: Pattern, *, method: str = ""
) -> Reading | None:
    """Calls between marks; `method` is what ends a name without being part of it."""
    if (head := _STARTS_LIKE_CALLS.match(text, mark.end())) is None:
        return None
    start = skip_space(text, mark.end())
    try:
        calls, end = _read_calls(text, start)
        tail = skip_space(text, end)
        found = stop.search(text, tail)
        if found and found.start() == tail:
            end = found.end()
        elif found and found.end() > found.start():
            raise LiteralRefused
    except LiteralRefused:
        payload_end, end = find_stop(text, start, stop)
        calls = [WrittenCall(head["name"], text[start:payload_end].strip(), valid=False)]
    named = [
        WrittenCall(call.name.removesuffix(method), call.arguments, call.valid) for call in calls
    ]
    return Reading(end, format_id, named)


def _read_calls(text: str, at: int) -> tuple[list[WrittenCall], int]:
    """The calls in the list that opens at `at`; without brackets around them, one a line."""
    calls, end = list[WrittenCall](), at
    if text[at] == "[":
        at = skip_space(text, at + 1)
        while text[at : at + 1] != "]":
            call, at = _read_call(text, at)
            calls.append(call)
            at = skip_comma(text, at, "]")
        return calls, at + 1
    while _CALL.match(text, at):
        call, end = _read_call(text, at)
        calls.append(call)
        at = skip(_BETWEEN, text, end)
    return calls, end


def _read_call(text: str, at: int) -> tuple[WrittenCall, int]:
    head = require(_CALL.match(text, at))
    arguments: dict[str, Any] = {}
    at = skip_space(text, head.end())
    while text[at : at + 1] != ")":
        keyword = require(_KEYWORD.match(text, at))
        arguments[keyword["key"]], at = read_literal(text, keyword.end())
        at = skip_comma(text, at, ")")
    return WrittenCall(head["name"], arguments), at + 1
