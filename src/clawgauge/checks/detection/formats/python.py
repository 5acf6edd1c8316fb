"""Calls in Python's notation: `[f(a=1), g()]` as a whole message, or such calls between marks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from clawgauge.characters import well_formed
from clawgauge.checks.detection.formats.readings import Reading, WrittenCall, find_stop, skip
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.json import MAX_DIGITS

MAX_DEPTH = 64

skip_space = partial(skip, lazy_pattern(r"\s*+"))
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
    if constant := _CONSTANT.match(text, at):
        return _CONSTANTS[constant[0]], constant.end()
    number = _NUMBER.match(text, at)
    if number is None or len(number[0]) > MAX_DIGITS:
        raise LiteralRefused
    if not (number["fraction"] or number["point"] or number["exponent"]):
        return int(number[0]), number.end()
    value = float(number[0])
    if math.isinf(value):
        raise LiteralRefused
    return value, number.end()


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


def read_whole_message(text: str, start: int) -> Reading | None:
    """The calls of a message that is, from `start`, one list of calls; None for every other message."""
    start = skip_space(text, start)
    end = len(text.rstrip())
    if not text.startswith("[", start) or not text.endswith("]", start, end):
        return None
    try:
        calls, list_end = _read_calls(text, start)
    except LiteralRefused:
        return None
    return Reading(end, "pythonic", calls) if calls and list_end == end else None


def read_marked(
    format_id: str, text: str, mark: re.Match[str], stop: re.Pattern[str], *, method: str = ""
) -> Reading | None:
    """Calls between marks; `method` is what ends a name without being part of it."""
    head = _STARTS_LIKE_CALLS.match(text, mark.end())
    if head is None:
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
    named = [WrittenCall(call.name.removesuffix(method), call.arguments, call.valid) for call in calls]
    return Reading(end, format_id, named)


def _read_calls(text: str, at: int) -> tuple[list[WrittenCall], int]:
    """The calls in the list that opens at `at`; without brackets around them, one a line."""
    calls: list[WrittenCall] = []
    end = at
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
