"""Markdown tables whose columns line up in a plain text editor too."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

Alignment: TypeAlias = Literal["left", "right"]

_MIN_WIDTH = 3  # a delimiter row needs three dashes to be one everywhere


class Column(NamedTuple):
    """A heading and the side its cells lean to."""

    heading: str
    align: Alignment = "left"


def display_width(text: str) -> int:
    """How many terminal columns `text` takes."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def render_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """A GitHub-style table. Every row must have a cell for every column."""
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"a row of {len(row)} cells in a table of {len(columns)} columns")
    widths = [
        max(_MIN_WIDTH, *(display_width(cell) for cell in (column.heading, *(row[i] for row in rows))))
        for i, column in enumerate(columns)
    ]
    lines = [
        _line([_pad(c.heading, w, c.align) for c, w in zip(columns, widths, strict=True)]),
        _line([_rule(w, c.align) for c, w in zip(columns, widths, strict=True)]),
    ]
    for row in rows:
        cells = zip(row, columns, widths, strict=True)
        lines.append(_line([_pad(cell, width, column.align) for cell, column, width in cells]))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rule(width: int, align: Alignment) -> str:
    return "-" * (width - 1) + ":" if align == "right" else "-" * width


def _pad(cell: str, width: int, align: Alignment) -> str:
    space = " " * (width - display_width(cell))
    return space + cell if align == "right" else cell + space
