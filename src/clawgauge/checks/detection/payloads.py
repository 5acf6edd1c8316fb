"""What stands behind an opening mark, and where it ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import msgspec

from clawgauge.checks.detection.shell import is_number, read_name
from clawgauge.checks.json import try_json

# A name as it may stand between marks; `read_tool_name` decides what is a tool's name.
WRITTEN_NAME = r"[^\s<>{}()\[\]`\"'|｜=]{1,200}"
# The namespace in which chat servers list the tools on offer; it is no part of a tool's name.
_NAMESPACE = "functions."


class WrittenCall(msgspec.Struct, frozen=True, gc=False):
    """A call as written: its name, its arguments decoded.

    One whose arguments do not decode is not valid, and keeps their text.
    """

    name: str
    arguments: Any = None
    valid: bool = True


class Reading(msgspec.Struct, frozen=True, gc=False):
    """The calls behind a mark, the format they are in, and where the text goes on."""

    end: int
    format: str
    calls: list[WrittenCall]


Mark: TypeAlias = re.Match[str]
Pattern: TypeAlias = re.Pattern[str]
# Given the text, the opening mark in it, and the pattern of what ends the payload: the closing mark
# or, with no width, the next opening one. None: the mark is only mentioned, and the text goes on
# right behind it.
Reader: TypeAlias = Callable[[str, Mark, Pattern], Reading | None]


def read_tool_name(written: str) -> str | None:
    """The tool that a written name means, in lower case, or None if it can be no tool's name."""
    name = read_name(written.strip().removeprefix(_NAMESPACE))
    if name is None or is_number(name):
        return None
    return name.lower()


def skip(pattern: Pattern, text: str, position: int) -> int:
    """Past a match of `pattern` at `position`, or `position` itself."""
    match = pattern.match(text, position)
    return match.end() if match else position


skip_space = partial(skip, re.compile(r"\s*+"))


def find_stop(text: str, start: int, stop: Pattern) -> tuple[int, int]:
    """Where the text from `start` ends, and where the mark that ends it does.

    Both are the end of the text where no mark follows.
    """
    mark = stop.search(text, start)
    return mark.span() if mark else (len(text), len(text))


_BETWEEN_BRACKETS = re.compile(
    r'(?:[\s,:]++|"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+"'
    r"|-?[0-9][-+0-9.eE]*+|true|false|null|-?Infinity|NaN)*+"
)


def scan_json(text: str, start: int) -> tuple[int, bool]:
    """Where the object or array at `start` ends, by its brackets, and whether it is whole.

    One that is not breaks off there.
    """
    depth = 0
    position = start
    while position < len(text) and text[position] in "[{]}":
        depth += 1 if text[position] in "[{" else -1
        if depth == 0:
            return position + 1, True
        position = skip(_BETWEEN_BRACKETS, text, position + 1)
    return position, False


# Some models put a code fence around the payload, inside the marks; one family has it in its
# template.
_BEFORE_PAYLOAD = re.compile(r"\s*+(?:```[A-Za-z_]*+\s*+)?")
_BEHIND_PAYLOAD = re.compile(r"\s*+(?:```\s*+)?")
_BETWEEN_VALUES = re.compile(r"\s*+(?P<sign>[;,]\s*+)?(?=[\[{])")


class Payload(NamedTuple):
    """Values of JSON, or None if they cannot be read; their text; and where the text goes on."""

    values: list[Any] | None
    text: str
    end: int


def read_payload(text: str, start: int, stop: Pattern, *, most: int | None = None) -> Payload:
    """The values from `start` up to a closing mark; at most so many.

    Where the closing mark is left out, they are the first value and those joined to it by a comma
    or semicolon. What cannot be read ends at `stop`, or with the text. A closing mark inside a
    JSON string closes nothing.
    """
    start = skip(_BEFORE_PAYLOAD, text, start)
    values, ends, n_joined = _read_values(text, start, most)
    values_end = ends[-1] if ends else start
    tail_start = skip(_BEHIND_PAYLOAD, text, values_end)
    mark = stop.search(text, tail_start)
    is_closed = mark is not None and mark.end() > mark.start()
    if mark is not None and mark.start() == tail_start and (is_closed or not values):
        return Payload(values, text[start:values_end], mark.end())
    if values and not is_closed:
        joined_end = ends[n_joined - 1]
        return Payload(values[:n_joined], text[start:joined_end], joined_end)
    if values:
        search_start = tail_start
    else:
        # Where the brackets close, though what they hold is no JSON, no mark inside them counts.
        brackets_end, is_whole = scan_json(text, start)
        search_start = brackets_end if is_whole else start
    payload_end, end = find_stop(text, search_start, stop)
    return Payload(None, text[start:payload_end].strip(), end)


class _Values(NamedTuple):
    """Values that follow on each other, where each ends, and how many are joined to the first."""

    values: list[Any]
    ends: list[int]
    n_joined: int


def _read_values(text: str, start: int, most: int | None) -> _Values:
    """The values that can be read from `start`, with a comma, a semicolon or space between them."""
    values: list[Any] = []
    ends: list[int] = []
    n_joined = None
    position = start
    while len(values) != most and text[position : position + 1] in ("[", "{"):
        end, _ = scan_json(text, position)
        value, is_json = try_json(text[position:end])
        if not is_json:
            break
        values.append(value)
        ends.append(end)
        between = _BETWEEN_VALUES.match(text, end)
        is_joined_to_next = between is not None and between["sign"] is not None
        if n_joined is None and not is_joined_to_next:
            n_joined = len(values)
        position = between.end() if between else end
    if n_joined is None:
        n_joined = len(values)
    return _Values(values, ends, n_joined)
