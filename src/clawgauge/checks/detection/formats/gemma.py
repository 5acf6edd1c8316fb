"""Calls in Gemma's notation: `call:f{city:<escape>Paris<escape>,days:3}` between marks.

Owns: the notation of FunctionGemma and of Gemma 4, which differ in their marks alone. Keys are bare, text stands
between two marks of its own, everything else is as in JSON. Refuses: marks without `call:` behind them.
"""

from __future__ import annotations

import re
from typing import Any

from clawgauge.checks.detection.formats.python_literals import (
    MAX_DEPTH,
    LiteralRefused,
    read_literal,
    skip_comma,
    skip_space,
)
from clawgauge.checks.detection.formats.readings import (
    WRITTEN_NAME,
    Format,
    Reader,
    Reading,
    WrittenCall,
    find_stop,
)
from clawgauge.checks.detection.lazy_pattern import lazy_pattern

_HEAD = lazy_pattern(rf"\s*+call:\s*+(?P<name>{WRITTEN_NAME})\s*+\{{")
_TEXT_MARK = lazy_pattern(r"<escape>|<\|\"\|>")
_KEY = lazy_pattern(r"(?:<escape>|<\|\"\|>|\")?(?P<key>[^\s<>{}\[\],:\"|]{1,200})(?:<escape>|<\|\"\|>|\")?\s*+:\s*+")
_BARE = lazy_pattern(r"[^\s,{}\[\]<>\"'][^,{}\[\]<>\n]*+")


def _read_value(text: str, at: int, depth: int) -> tuple[Any, int]:
    mark = _TEXT_MARK.match(text, at)
    if mark:
        end = text.find(mark[0], mark.end())
        if end < 0:
            raise LiteralRefused
        return text[mark.end() : end], end + len(mark[0])
    if text[at : at + 1] in ("{", "["):
        if depth == MAX_DEPTH:
            raise LiteralRefused
        return (_read_members if text[at] == "{" else _read_items)(text, at + 1, depth + 1)
    bare = _BARE.match(text, at)
    return (_read_bare(bare[0].rstrip()), bare.end()) if bare else read_literal(text, at)


def _read_bare(word: str) -> Any:
    """A number or a constant; whatever else stands without marks is text that lost its own."""
    try:
        value, end = read_literal(word, 0)
    except LiteralRefused:
        return word
    return value if end == len(word) else word


def _read_members(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    at = skip_space(text, at)
    while text[at : at + 1] != "}":
        key = _KEY.match(text, at)
        if key is None:
            raise LiteralRefused
        members[key["key"]], at = _read_value(text, key.end(), depth)
        at = skip_comma(text, at, "}")
    return members, at + 1


def _read_items(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    at = skip_space(text, at)
    while text[at : at + 1] != "]":
        item, at = _read_value(text, at, depth)
        items.append(item)
        at = skip_comma(text, at, "]")
    return items, at + 1


def _reader(opening: str, closing: str) -> Reader:
    stop = lazy_pattern(f"{closing}|(?={opening})")

    def read(text: str, mark: re.Match[str]) -> Reading | None:
        calls: list[WrittenCall] = []
        end = mark.end()
        while head := _HEAD.match(text, end):
            try:
                arguments, end = _read_members(text, head.end(), 0)
            except LiteralRefused:
                payload_end, end = find_stop(text, head.end(), stop)
                written = text[head.end() : payload_end].strip()
                return Reading(end, "gemma", [*calls, WrittenCall(head["name"], written, valid=False)])
            calls.append(WrittenCall(head["name"], arguments))
        closed = stop.match(text, skip_space(text, end))
        return Reading(closed.end() if closed else end, "gemma", calls) if calls else None

    return read


FORMATS = (
    Format(r"<start_function_call>", _reader(r"<start_function_call>", r"<end_function_call>")),
    Format(r"<\|tool_call>", _reader(r"<\|tool_call>", r"<tool_call\|>")),
)
