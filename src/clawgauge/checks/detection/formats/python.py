"""Calls in Python's notation: `[f(a=1), g()]` as a whole message, or such calls between marks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from clawgauge.characters import well_formed
from clawgauge.checks.detection.formats.json import LFM2_START, PYTHON_TAG, read_lfm2_json, read_python_tag_json
from clawgauge.checks.detection.formats.readings import Format, Reader, Reading, WrittenCall, find_stop, first_of
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.json import MAX_DIGITS

MAX_DEPTH = 64

_SPACE = lazy_pattern(r"\s*+")
_STRING = lazy_pattern(
    r"'''(?P<long_single>(?:[^'\\]++|\\.|'(?!''))*+)'''"
    r'|"""(?P<long_double>(?:[^"\\]++|\\.|"(?!""))*+)"""'
    r"|'(?P<single>(?:[^'\\\n]++|\\.)*+)'"
    r'|"(?P<double>(?:[^"\\\n]++|\\.)*+)"',
    re.DOTALL,
)
_ESCAPE = lazy_pattern(
    r"\\(?:(?P<sign>[abfnrtv\\'\"])|(?:x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>000[0-9a-fA-F]{5}))"
    r"|(?P<octal>[0-3]?[0-7]{1,2})|(?P<joined>\n))"
)
_SIGNS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"'}
_NUMBER = lazy_pattern(
    r"[-+]?(?:(?:0|[1-9][0-9]*+)(?P<fraction>\.[0-9]*+)?|(?P<point>\.[0-9]++))(?P<exponent>[eE][-+]?[0-9]++)?(?![\w.])"
)
_CONSTANT = lazy_pattern(r"(?:True|true|False|false|None|null)(?!\w)")
_CONSTANTS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}


ReadKey = Callable[[str, int], tuple[str, int]]
ReadValue = Callable[[str, int, int], tuple[Any, int]]


class LiteralRefused(ValueError):
    """Text that is no literal."""


def read_literal(text: str, at: int, depth: int = 0) -> tuple[Any, int]:
    """The value that starts at `at`, and where it ends."""
    mark = text[at : at + 1]
    if mark in ("[", "{"):
        return read_container(text, at, depth, _read_key, read_literal)
    if mark in ("'", '"'):
        return read_string(text, at)
    constant = _CONSTANT.match(text, at)
    if constant:
        return _CONSTANTS[constant[0]], constant.end()
    return _read_number(text, at)


def skip_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def read_string(text: str, at: int) -> tuple[str, int]:
    string = _STRING.match(text, at)
    if string is None or string.lastgroup is None:
        raise LiteralRefused
    inside = string[string.lastgroup]
    return (well_formed(_ESCAPE.sub(_unescaped, inside)) if "\\" in inside else inside), string.end()


def _unescaped(escape: re.Match[str]) -> str:
    kind = escape.lastgroup or ""
    if kind == "joined":
        return ""
    return _SIGNS[escape["sign"]] if kind == "sign" else chr(int(escape[kind], 8 if kind == "octal" else 16))


def _read_number(text: str, at: int) -> tuple[int | float, int]:
    number = _NUMBER.match(text, at)
    if number is None or len(number[0]) > MAX_DIGITS:
        raise LiteralRefused
    if not (number["fraction"] or number["point"] or number["exponent"]):
        return int(number[0]), number.end()
    value = float(number[0])
    if math.isinf(value):
        raise LiteralRefused
    return value, number.end()


def read_container(text: str, at: int, depth: int, read_key: ReadKey, read_value: ReadValue) -> tuple[Any, int]:
    """The list or object that opens at `at`, inside `depth` others."""
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
    key, at = read_string(text, at)
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


_CALL = lazy_pattern(r"(?P<name>[A-Za-z_][A-Za-z0-9_.:-]{0,199})\(")
_STARTS_LIKE_CALLS = lazy_pattern(r"\s*+\[?\s*+(?P<name>[A-Za-z_][A-Za-z0-9_.:-]{0,199})\(")
_KEYWORD = lazy_pattern(r"(?P<key>[A-Za-z_][A-Za-z0-9_-]{0,199})\s*+=(?!=)\s*+")
_BETWEEN = lazy_pattern(r"\s*+[,;]?\s*+")
_FORMAT = "pythonic"
# Llama's built-in tools are called by their method of that name.
_METHOD = ".call"


def read_whole_message(text: str, start: int) -> Reading | None:
    """The calls of a message that is, from `start`, one list of calls; None for every other message."""
    start = skip_space(text, start)
    end = len(text.rstrip())
    if not text.startswith("[", start) or not text.endswith("]", start, end):
        return None
    try:
        calls, list_end = _read_calls(text, start + 1)
    except LiteralRefused:
        return None
    return Reading(end, _FORMAT, calls) if calls and list_end == end else None


def _read_call(text: str, at: int) -> tuple[WrittenCall, int]:
    head = _CALL.match(text, at)
    if head is None:
        raise LiteralRefused
    arguments: dict[str, Any] = {}
    at = skip_space(text, head.end())
    while text[at : at + 1] != ")":
        keyword = _KEYWORD.match(text, at)
        if keyword is None:
            raise LiteralRefused
        arguments[keyword["key"]], at = read_literal(text, keyword.end())
        at = skip_comma(text, at, ")")
    return WrittenCall(head["name"], arguments), at + 1


def _read_calls(text: str, at: int) -> tuple[list[WrittenCall], int]:
    calls: list[WrittenCall] = []
    at = skip_space(text, at)
    while text[at : at + 1] != "]":
        call, at = _read_call(text, at)
        calls.append(call)
        at = skip_comma(text, at, "]")
    return calls, at + 1


def _read_lines(text: str, at: int) -> tuple[list[WrittenCall], int]:
    """Calls without brackets around them, one a line."""
    calls: list[WrittenCall] = []
    end = at
    while _CALL.match(text, at):
        call, end = _read_call(text, at)
        calls.append(call)
        between = _BETWEEN.match(text, end)
        at = between.end() if between else end
    return calls, end


def _marked(format_id: str, opening: str, closing: str, *, method: str = "") -> Reader:
    stop = lazy_pattern(f"{closing}|(?={opening})")

    def read(text: str, mark: re.Match[str]) -> Reading | None:
        head = _STARTS_LIKE_CALLS.match(text, mark.end())
        if head is None:
            return None
        start = skip_space(text, mark.end())
        try:
            calls, end = _read_calls(text, start + 1) if text[start] == "[" else _read_lines(text, start)
        except LiteralRefused:
            return broken(text, start, head["name"])
        tail = skip_space(text, end)
        found = stop.search(text, tail)
        if found and found.start() == tail:
            end = found.end()
        elif found and found.end() > found.start():
            return broken(text, start, head["name"])
        return Reading(end, format_id, [WrittenCall(call.name.removesuffix(method), call.arguments) for call in calls])

    def broken(text: str, start: int, name: str) -> Reading:
        payload_end, end = find_stop(text, start, stop)
        written = text[start:payload_end].strip()
        return Reading(end, format_id, [WrittenCall(name.removesuffix(method), written, valid=False)])

    return read


PYTHONIC_FORMATS: tuple[Format, ...] = (
    (r"<function_calls>", _marked("olmo", r"<function_calls>", r"</function_calls>")),
    (r"<\|python_start\|>", _marked(_FORMAT, r"<\|python_start\|>", r"<\|python_end\|>")),
    (LFM2_START, first_of(read_lfm2_json, _marked("lfm2", LFM2_START, r"<\|tool_call_end\|>"))),
    (
        PYTHON_TAG,
        first_of(read_python_tag_json, _marked(_FORMAT, PYTHON_TAG, r"<\|eo[mt]_id\|>", method=_METHOD)),
    ),
)
