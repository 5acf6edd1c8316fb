"""Calls in Python's notation, as `[get_weather(city="Oslo"), get_time()]`."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from clawgauge.checks.detection.literals import LiteralRefused, read_literal, require, skip_comma
from clawgauge.checks.detection.payloads import (
    Mark,
    Pattern,
    Reader,
    Reading,
    WrittenCall,
    find_stop,
    skip,
    skip_space,
)

_CALL = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_.:-]{0,199})\(")
_STARTS_LIKE_CALLS = re.compile(r"\s*+\[?\s*+(?P<name>[A-Za-z_][A-Za-z0-9_.:-]{0,199})\(")
_KEYWORD = re.compile(r"(?P<key>[A-Za-z_][A-Za-z0-9_-]{0,199})\s*+=(?!=)\s*+")
_BETWEEN = re.compile(r"\s*+[,;]?\s*+")


def read_whole_message(text: str, start: int) -> Reading | None:
    """The calls of a message that is, from `start`, one list of calls; None for every other."""
    start = skip_space(text, start)
    end = len(text.rstrip())
    if not text.startswith("[", start) or not text.endswith("]", start, end):
        return None
    try:
        calls, list_end = _read_list(text, start)
    except LiteralRefused:
        return None
    if not calls or list_end != end:
        return None
    return Reading(end, "pythonic", calls)


def python_reader(format_id: str, *, method: str = "") -> Reader:
    """A reader of calls between marks; `method` is what ends a name without being part of it."""
    return partial(_read_marked, format_id, method)


def _read_marked(
    format_id: str, method: str, text: str, mark: Mark, stop: Pattern
) -> Reading | None:
    head = _STARTS_LIKE_CALLS.match(text, mark.end())
    if head is None:
        return None
    start = skip_space(text, mark.end())
    try:
        calls, end = _read_up_to(text, start, stop)
    except LiteralRefused:
        payload_end, end = find_stop(text, start, stop)
        calls = [WrittenCall(head["name"], text[start:payload_end].strip(), valid=False)]
    named_calls = []
    for call in calls:
        name = call.name.removesuffix(method)
        named_calls.append(WrittenCall(name, call.arguments, call.valid))
    return Reading(end, format_id, named_calls)


def _read_up_to(text: str, start: int, stop: Pattern) -> tuple[list[WrittenCall], int]:
    """The calls from `start`, and where the closing mark ends, or else they do.

    Raises `LiteralRefused` if there is anything but calls before the closing mark.
    """
    calls, end = _read_calls(text, start)
    tail_start = skip_space(text, end)
    mark = stop.search(text, tail_start)
    if mark is None:
        return calls, end
    if mark.start() == tail_start:
        return calls, mark.end()
    is_closing = mark.end() > mark.start()
    if is_closing:
        raise LiteralRefused
    return calls, end


def _read_calls(text: str, start: int) -> tuple[list[WrittenCall], int]:
    """The calls in the list that opens at `start`; without brackets around them, one a line."""
    if text[start] == "[":
        return _read_list(text, start)
    calls = list[WrittenCall]()
    position = start
    end = start
    while _CALL.match(text, position):
        call, end = _read_call(text, position)
        calls.append(call)
        position = skip(_BETWEEN, text, end)
    return calls, end


def _read_list(text: str, start: int) -> tuple[list[WrittenCall], int]:
    calls = list[WrittenCall]()
    position = skip_space(text, start + 1)
    while text[position : position + 1] != "]":
        call, position = _read_call(text, position)
        calls.append(call)
        position = skip_comma(text, position, "]")
    return calls, position + 1


def _read_call(text: str, start: int) -> tuple[WrittenCall, int]:
    head = require(_CALL.match(text, start))
    arguments: dict[str, Any] = {}
    position = skip_space(text, head.end())
    while text[position : position + 1] != ")":
        keyword = require(_KEYWORD.match(text, position))
        arguments[keyword["key"]], position = read_literal(text, keyword.end())
        position = skip_comma(text, position, ")")
    return WrittenCall(head["name"], arguments), position + 1
