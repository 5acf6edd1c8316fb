"""What the reader of a format finds, whatever the format.

Owns: the shapes that readers and their caller share. Refuses: knowing any format, and judging names; a reader hands
over the name as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

# A name as it may stand between marks; what is a tool's name and what is not is decided later, in one place.
WRITTEN_NAME = r"[^\s<>{}()\[\]`\"'|｜=]{1,200}"


class WrittenCall(msgspec.Struct, frozen=True, gc=False):
    """A call as written: its name, its arguments decoded. One that does not decode is not valid and keeps its text."""

    name: str
    arguments: Any = None
    valid: bool = True


class Reading(msgspec.Struct, frozen=True, gc=False):
    """A span that ends at `end`, the format it is in, and the calls in it; there may be none."""

    end: int
    format: str
    calls: list[WrittenCall]


# Reads on from an opening mark. None: the mark is only mentioned, and the text goes on right behind it.
Reader = Callable[[str, re.Match[str]], Reading | None]


class Format(msgspec.Struct, frozen=True, gc=False):
    """The pattern of an opening mark, free of groups, and what reads on from it."""

    opening: str
    read: Reader


def find_stop(text: str, start: int, stop: re.Pattern[str]) -> tuple[int, int]:
    """Where the text from `start` ends and where the mark that ends it does: at `stop`, or with the whole text."""
    found = stop.search(text, start)
    return found.span() if found else (len(text), len(text))
