"""JSON values that stand in running text.

Owns: where a value ends, found in one pass that stops at the first character JSON has no use for, and the payload of a
format: one or more values up to a closing mark. Refuses: repairing; what does not decode strictly is handed over as
the text it is.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from clawgauge.checks.detection.formats.readings import find_stop
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.strict_json import JsonRefused, decode_strictly

_BETWEEN_BRACKETS = lazy_pattern(
    r'(?:[\s,:]++|"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+"|-?[0-9][-+0-9.eE]*+|true|false|null|-?Infinity|NaN)*+'
)
# Some models put a code fence around the payload, inside the marks; one family has it in its template.
_BEFORE_PAYLOAD = lazy_pattern(r"\s*+(?:```[A-Za-z_]*+\s*+)?")
_BEHIND_PAYLOAD = lazy_pattern(r"\s*+(?:```\s*+)?")
_BRACKETS = ("[", "{")
_BETWEEN_VALUES = lazy_pattern(r"\s*+(?P<sign>[;,]\s*+)?(?=[\[{])")


class JsonSpan(msgspec.Struct, frozen=True, gc=False):
    """Where an object or array ends; if it is not whole, where it breaks off."""

    end: int
    is_whole: bool


class Payload(msgspec.Struct, frozen=True, gc=False):
    """What stands between two marks: its values (None where it is not JSON), its text, and where its mark ends."""

    values: list[Any] | None
    written: str
    end: int


def scan_json(text: str, start: int) -> JsonSpan:
    """The extent of the object or array that opens at `start`; only its brackets are counted, not yet matched."""
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
            return JsonSpan(at + 1, True)
        filler = _BETWEEN_BRACKETS.match(text, at + 1)
        at = filler.end() if filler else at + 1
    return JsonSpan(at, False)


def read_payload(text: str, start: int, stop: re.Pattern[str], *, most: int | None = None) -> Payload:
    """The values from `start` up to a closing mark. `stop` matches that mark or, with no width, the next opening one.

    Where the closing mark is left out, the payload is the first value and those joined to it by a comma or semicolon.
    One that cannot be read ends at `stop` or with the text. A closing mark inside a JSON string closes nothing.
    """
    start = _skip(_BEFORE_PAYLOAD, text, start)
    values, ends, n_joined = _read_values(text, start, most)
    end = ends[-1] if ends else start
    tail = _skip(_BEHIND_PAYLOAD, text, end)
    found = stop.search(text, tail)
    is_closed = found is not None and found.end() > found.start()
    if found and found.start() == tail and (is_closed or not values):
        return Payload(values, text[start:end], found.end())
    if is_closed or not values:
        payload_end, end = find_stop(text, tail if values else _end_of_whole(text, start), stop)
        return Payload(None, text[start:payload_end].strip(), end)
    end = ends[n_joined - 1]
    return Payload(values[:n_joined], text[start:end], end)


def _read_values(text: str, start: int, most: int | None) -> tuple[list[Any], list[int], int]:
    """The values in a row, where each ends, and how many from the first on are joined; up to one that is broken."""
    values: list[Any] = []
    ends: list[int] = []
    n_joined = 0
    position = start
    while len(values) != most and text[position : position + 1] in _BRACKETS:
        span = scan_json(text, position)
        try:
            values.append(decode_strictly(text[position : span.end]))
        except JsonRefused:
            break
        ends.append(span.end)
        between = _BETWEEN_VALUES.match(text, span.end)
        if not n_joined and not (between and between["sign"]):
            n_joined = len(values)
        position = between.end() if between else span.end
    return values, ends, n_joined or len(values)


def _end_of_whole(text: str, start: int) -> int:
    """Where the brackets that open at `start` close, though what they hold is no JSON; `start` if they do not."""
    span = scan_json(text, start)
    return span.end if span.is_whole else start


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
