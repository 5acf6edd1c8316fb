"""What stands between marks: JSON values in running text, and those of Python's and Gemma's notation."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from clawgauge.characters import well_formed
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.json import MAX_DIGITS, try_json

MAX_DEPTH = 64
_BETWEEN_BRACKETS = lazy_pattern(
    r'(?:[\s,:]++|"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+"|-?[0-9][-+0-9.eE]*+|true|false|null|-?Infinity|NaN)*+'
)
# Some models put a code fence around the payload, inside the marks; one family has it in its template.
_BEFORE_PAYLOAD = lazy_pattern(r"\s*+(?:```[A-Za-z_]*+\s*+)?")
_BEHIND_PAYLOAD = lazy_pattern(r"\s*+(?:```\s*+)?")
_BETWEEN_VALUES = lazy_pattern(r"\s*+(?P<sign>[;,]\s*+)?(?=[\[{])")


def skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


skip_space = partial(skip, lazy_pattern(r"\s*+"))


def find_stop(text: str, start: int, stop: re.Pattern[str]) -> tuple[int, int]:
    """Where the text from `start` ends and where the mark that ends it does: at `stop`, or with the whole text."""
    found = stop.search(text, start)
    return found.span() if found else (len(text), len(text))


def scan_json(text: str, start: int) -> tuple[int, bool]:
    """Where the object or array that opens at `start` ends, and whether it is whole, or else breaks off there.

    Only its brackets are counted, not yet matched.
    """
    depth = 0
    at = start
    while at < len(text) and text[at] in "[{]}":
        depth += 1 if text[at] in "[{" else -1
        if depth == 0:
            return at + 1, True
        at = skip(_BETWEEN_BRACKETS, text, at + 1)
    return at, False


def read_payload(
    text: str, start: int, stop: re.Pattern[str], *, most: int | None = None
) -> tuple[list[Any] | None, str, int]:
    """The values from `start` up to a closing mark (None where it is not JSON), their text, and where the mark ends.

    `stop` matches the closing mark or, with no width, the next opening one.

    Where the closing mark is left out, the payload is the first value and those joined to it by a comma or semicolon.
    One that cannot be read ends at `stop` or with the text. A closing mark inside a JSON string closes nothing.
    """
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
        payload_end, end = find_stop(text, tail if values else whole_end if is_whole else start, stop)
        return None, text[start:payload_end].strip(), end
    n_joined = n_joined or len(values)
    end = ends[n_joined - 1]
    return values[:n_joined], text[start:end], end


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
_SIGNS = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True))
_NUMBER = lazy_pattern(
    r"[-+]?(?:(?:0|[1-9][0-9]*+)(?P<fraction>\.[0-9]*+)?|(?P<point>\.[0-9]++))(?P<exponent>[eE][-+]?[0-9]++)?(?![\w.])"
)
_CONSTANT = lazy_pattern(r"(?:True|true|False|false|None|null)(?!\w)")
_CONSTANTS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}


ReadKey = Callable[[str, int], tuple[str, int]]
ReadValue = Callable[[str, int, int], tuple[Any, int]]


class LiteralRefused(ValueError):
    """Text that is no literal."""


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


_TEXT_MARK = lazy_pattern(r"<escape>|<\|\"\|>")
_KEY = lazy_pattern(r"(?:<escape>|<\|\"\|>|\")?(?P<key>[^\s<>{}\[\],:\"|]{1,200})(?:<escape>|<\|\"\|>|\")?\s*+:\s*+")
_BARE = lazy_pattern(r"[^\s,{}\[\]<>\"'][^,{}\[\]<>\n]*+")


def read_gemma_value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if mark := _TEXT_MARK.match(text, at):
        end = text.find(mark[0], mark.end())
        if end < 0:
            raise LiteralRefused
        return text[mark.end() : end], end + len(mark[0])
    if text[at : at + 1] in ("{", "["):
        return read_container(text, at, depth, _read_gemma_key, read_gemma_value)
    bare = _BARE.match(text, at)
    if bare is None:
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
