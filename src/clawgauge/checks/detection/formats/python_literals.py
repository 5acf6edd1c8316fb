"""Literals of Python that have a place in JSON.

Owns: reading one value in running text: strings, numbers, lists, dictionaries with text keys, and the constants, in
Python's spelling and in JSON's. Refuses: names, expressions, calls and every other literal; nothing is evaluated.
"""

from __future__ import annotations

import math
import re
from typing import Any

from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.strict_json import MAX_DIGITS
from clawgauge.checks.well_formed import well_formed

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


class LiteralRefused(ValueError):
    """Text that is no literal."""


def read_literal(text: str, at: int, depth: int = 0) -> tuple[Any, int]:
    """The value that starts at `at`, and where it ends."""
    mark = text[at : at + 1]
    if mark in ("[", "{"):
        if depth == MAX_DEPTH:
            raise LiteralRefused
        return _read_list(text, at + 1, depth + 1) if mark == "[" else _read_dictionary(text, at + 1, depth + 1)
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
    if escape["joined"]:
        return ""
    if escape["sign"]:
        return _SIGNS[escape["sign"]]
    if escape["octal"]:
        return chr(int(escape["octal"], 8))
    code = int(escape["x"] or escape["u"] or escape["U"], 16)
    return chr(code)


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


def _read_list(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    at = skip_space(text, at)
    while text[at : at + 1] != "]":
        item, at = read_literal(text, at, depth)
        items.append(item)
        at = skip_comma(text, at, "]")
    return items, at + 1


def _read_dictionary(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    at = skip_space(text, at)
    while text[at : at + 1] != "}":
        key, at = read_string(text, at)
        at = skip_space(text, at)
        if text[at : at + 1] != ":":
            raise LiteralRefused
        members[key], at = read_literal(text, skip_space(text, at + 1), depth)
        at = skip_comma(text, at, "}")
    return members, at + 1


def skip_comma(text: str, at: int, closing: str) -> int:
    """Past the comma behind an item; at `closing`, where the items end."""
    at = skip_space(text, at)
    if text[at : at + 1] == ",":
        return skip_space(text, at + 1)
    if text[at : at + 1] != closing:
        raise LiteralRefused
    return at
