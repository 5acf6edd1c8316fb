"""Formats with `%s` and `%d`, and texts with `\\n`, as the shell's printf and awk share them.

Owns: conversions and escapes. Refuses: `*` widths.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "r": "\r", "a": "", "b": "", "e": "", "0": "\0", '"': '"', "/": "/"}
_CONVERSION = re.compile(r"%(?P<flags>-?0?)(?P<width>\d{0,3})(?:\.(?P<precision>\d{1,2}))?(?P<kind>[sdif%])")
_NUMBER = re.compile(r"\s*-?\d{1,15}(?:\.\d{1,9})?")


def unescape(text: str) -> str:
    """`text` with its backslash escapes replaced; one that means nothing stays."""
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text)


def format_once(form: str, values: list[str]) -> str:
    """`form` filled from the end of `values`, which are taken off it; what is missing is empty or 0."""
    return _CONVERSION.sub(lambda found: _converted(found, values), form)


def format_values(texts: Sequence[str]) -> str:
    """The first text as a format for the others."""
    return format_once(texts[0], list(reversed(texts[1:]))) if texts else ""


def _converted(found: re.Match[str], values: list[str]) -> str:
    if found["kind"] == "%":
        return "%"
    value = values.pop() if values else ""
    if found["kind"] in "dif":
        number = float(text[0]) if (text := _NUMBER.match(value)) else 0.0
        value = f"{number:.{found['precision'] or 6}f}" if found["kind"] == "f" else str(int(number))
    elif found["precision"]:
        value = value[: int(found["precision"])]
    width = int(found["width"] or 0)
    if found["flags"].startswith("-"):
        return value.ljust(width)
    return value.rjust(width, "0" if "0" in found["flags"] else " ")
