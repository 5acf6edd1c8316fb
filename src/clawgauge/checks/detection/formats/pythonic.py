"""Calls in Python's notation: `[f(a=1), g()]` as a whole message, or such calls between marks.

Owns: the notation. Arguments are named and their values literals; nothing is evaluated. Without marks the message must
be one list of calls and nothing else, for prose has brackets, too. Refuses: arguments without a name; no tool could
take them.
"""

from __future__ import annotations

import re
from typing import Any

from clawgauge.checks.detection.formats.json_envelopes import (
    LFM2_START,
    PYTHON_TAG,
    read_lfm2_json,
    read_python_tag_json,
)
from clawgauge.checks.detection.formats.python_literals import (
    LiteralRefused,
    read_literal,
    skip_comma,
    skip_space,
)
from clawgauge.checks.detection.formats.readings import Format, Reader, Reading, WrittenCall, find_stop
from clawgauge.checks.detection.lazy_pattern import lazy_pattern

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
        calls, list_end = _read_list(text, start + 1)
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


def _read_list(text: str, at: int) -> tuple[list[WrittenCall], int]:
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
            calls, end = _read_list(text, start + 1) if text[start] == "[" else _read_lines(text, start)
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


_read_lfm2_calls = _marked("lfm2", LFM2_START, r"<\|tool_call_end\|>")
_read_builtin = _marked(_FORMAT, PYTHON_TAG, r"<\|eo[mt]_id\|>", method=_METHOD)


def _read_lfm2(text: str, mark: re.Match[str]) -> Reading | None:
    return read_lfm2_json(text, mark) or _read_lfm2_calls(text, mark)


def _read_python_tag(text: str, mark: re.Match[str]) -> Reading | None:
    return read_python_tag_json(text, mark) or _read_builtin(text, mark)


FORMATS = (
    Format(r"<function_calls>", _marked("olmo", r"<function_calls>", r"</function_calls>")),
    Format(r"<\|python_start\|>", _marked(_FORMAT, r"<\|python_start\|>", r"<\|python_end\|>")),
    Format(LFM2_START, _read_lfm2),
    Format(PYTHON_TAG, _read_python_tag),
)
