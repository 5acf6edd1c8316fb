"""Tables of answers for the detection of tool calls.

A row holds an answer, the calls in it, and the tools the prompt expects.
"""

from __future__ import annotations

from collections.abc import Callable

from clawgauge.checks.detection import detect_tools
from support.rows import Test, every_row

Row = tuple[str, list[str]] | tuple[str, list[str], list[str]]


def rows(*table: Row) -> Callable[[Test], Test]:
    filled = [(text, names, expected[0] if expected else []) for text, names, *expected in table]
    return every_row(("text", "names", "expected"), filled)


def names_in(text: str, expected: list[str]) -> list[str]:
    return [call.name for call in detect_tools(text, expected)]
