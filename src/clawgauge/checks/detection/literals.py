"""Values in the notations of Python and of Gemma.

Every function that reads one takes where it starts, and gives it and where it ends. It raises
`LiteralRefused` where there is none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from clawgauge.characters import well_formed
from clawgauge.checks.detection.payloads import skip_space
from clawgauge.checks.json import MAX_DIGITS

MAX_DEPTH = 64
_STRING = re.compile(
    r"(?s)'''(?P<long_single>(?:[^'\\]++|\\.|'(?!''))*+)'''"
    r'|"""(?P<long_double>(?:[^"\\]++|\\.|"(?!""))*+)"""'
    r"|'(?P<single>(?:[^'\\\n]++|\\.)*+)'"
    r'|"(?P<double>(?:[^"\\\n]++|\\.)*+)"'
)
_ESCAPE = re.compile(
    r"\\(?:(?P<sign>[abfnrtv\\'\"])"
    r"|(?:x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>000[0-9a-fA-F]{5}))"
    r"|(?P<octal>[0-3]?[0-7]{1,2})|(?P<joined>\n))"
)
_SIGNS = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
}
_NUMBER = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]*+)(?P<fraction>\.[0-9]*+)?|(?P<point>\.[0-9]++))"
    r"(?P<exponent>[eE][-+]?[0-9]++)?(?![\w.])"
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
ReadKey: TypeAlias = Callable[[str, int], tuple[str, int]]
ReadValue: TypeAlias = Callable[[str, int, int], tuple[Any, int]]


class LiteralRefused(ValueError):
    """There is no literal where one is looked for."""


def require(match: re.Match[str] | None) -> re.Match[str]:
    """The match. Raises `LiteralRefused` if there is none."""
    if match is None:
        raise LiteralRefused
    return match


def read_literal(text: str, start: int, depth: int = 0) -> tuple[Any, int]:
    """A literal of Python, with the constants of JSON beside its own."""
    first = text[start : start + 1]
    if first in ("[", "{"):
        return read_container(text, start, depth, _read_key, read_literal)
    if first in ("'", '"'):
        return _read_string(text, start)
    constant = _CONSTANT.match(text, start)
    if constant is not None:
        return _CONSTANTS[constant[0]], constant.end()
    return _read_number(text, start)


def _read_number(text: str, start: int) -> tuple[int | float, int]:
    number = require(_NUMBER.match(text, start))
    if len(number[0]) > MAX_DIGITS:
        raise LiteralRefused
    is_float = number["fraction"] or number["point"] or number["exponent"]
    if not is_float:
        return int(number[0]), number.end()
    value = float(number[0])
    if math.isinf(value):
        raise LiteralRefused
    return value, number.end()


def _read_string(text: str, start: int) -> tuple[str, int]:
    string = require(_STRING.match(text, start))
    inside = string[string.lastgroup or 0]
    if "\\" in inside:
        inside = well_formed(_ESCAPE.sub(_unescape, inside))
    return inside, string.end()


def _unescape(escape: re.Match[str]) -> str:
    kind = escape.lastgroup or ""
    if kind == "joined":
        return ""
    if kind == "sign":
        return _SIGNS[escape["sign"]]
    base = 8 if kind == "octal" else 16
    return chr(int(escape[kind], base))


def read_container(
    text: str, start: int, depth: int, read_key: ReadKey, read_value: ReadValue
) -> tuple[list[Any] | dict[str, Any], int]:
    """A list or an object; `start` is at its bracket."""
    if depth == MAX_DEPTH:
        raise LiteralRefused
    if text[start] == "[":
        return _read_list(text, start, depth, read_value)
    return _read_object(text, start, depth, read_key, read_value)


def _read_list(text: str, start: int, depth: int, read_value: ReadValue) -> tuple[list[Any], int]:
    items: list[Any] = []
    position = skip_space(text, start + 1)
    while text[position : position + 1] != "]":
        item, position = read_value(text, position, depth + 1)
        items.append(item)
        position = skip_comma(text, position, "]")
    return items, position + 1


def _read_object(
    text: str, start: int, depth: int, read_key: ReadKey, read_value: ReadValue
) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    position = skip_space(text, start + 1)
    while text[position : position + 1] != "}":
        key, position = read_key(text, position)
        members[key], position = read_value(text, position, depth + 1)
        position = skip_comma(text, position, "}")
    return members, position + 1


def _read_key(text: str, start: int) -> tuple[str, int]:
    """A key and the colon behind it."""
    key, position = _read_string(text, start)
    position = skip_space(text, position)
    if text[position : position + 1] != ":":
        raise LiteralRefused
    return key, skip_space(text, position + 1)


def skip_comma(text: str, position: int, closing: str) -> int:
    """Past the comma behind an item; at `closing`, where the items end."""
    position = skip_space(text, position)
    if text[position : position + 1] == ",":
        return skip_space(text, position + 1)
    if text[position : position + 1] != closing:
        raise LiteralRefused
    return position


_GEMMA_TEXT_MARK = re.compile(r"<escape>|<\|\"\|>")
_GEMMA_KEY = re.compile(
    r"(?:<escape>|<\|\"\|>|\")?(?P<key>[^\s<>{}\[\],:\"|]{1,200})"
    r"(?:<escape>|<\|\"\|>|\")?\s*+:\s*+"
)
_GEMMA_BARE = re.compile(r"[^\s,{}\[\]<>\"'][^,{}\[\]<>\n]*+")


def read_gemma_value(text: str, start: int, depth: int) -> tuple[Any, int]:
    """A value as Gemma writes it: a text stands between marks of its own."""
    mark = _GEMMA_TEXT_MARK.match(text, start)
    if mark is not None:
        end = text.find(mark[0], mark.end())
        if end < 0:
            raise LiteralRefused
        return text[mark.end() : end], end + len(mark[0])
    if text[start : start + 1] in ("{", "["):
        return read_container(text, start, depth, _read_gemma_key, read_gemma_value)
    bare = _GEMMA_BARE.match(text, start)
    if bare is None:
        return read_literal(text, start)
    return _read_bare(bare[0].rstrip()), bare.end()


def _read_bare(word: str) -> Any:
    """A number or a constant; whatever else stands without marks is text that lost its own."""
    try:
        value, end = read_literal(word, 0)
    except LiteralRefused:
        return word
    return value if end == len(word) else word


def _read_gemma_key(text: str, start: int) -> tuple[str, int]:
    key = require(_GEMMA_KEY.match(text, start))
    return key["key"], key.end()
