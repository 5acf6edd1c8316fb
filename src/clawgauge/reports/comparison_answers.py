"""Two answers side by side in a terminal.

Owns: cutting two texts into columns of equal width by display width. Refuses: trusting them; both are made inert first.
"""

from __future__ import annotations

from itertools import zip_longest

from clawgauge.reports.sanitize import clean_terminal
from clawgauge.reports.tables import display_width

_GUTTER = " │ "
_MIN_COLUMN = 20
_MAX_LINES = 40
_TAB = "    "


def side_by_side(left: str, right: str, width: int) -> str:
    """`left` and `right` beside each other in `width` terminal columns; each is cut after forty lines."""
    column = max(_MIN_COLUMN, (width - len(_GUTTER)) // 2)
    rows = zip_longest(_fold(left, column), _fold(right, column), fillvalue="")
    return "\n".join(f"{_padded(a, column)}{_GUTTER}{b}".rstrip() for a, b in rows)


def _fold(text: str, column: int) -> list[str]:
    lines = [piece for line in clean_terminal(text).split("\n") for piece in _pieces(line.replace("\t", _TAB), column)]
    return lines if len(lines) <= _MAX_LINES else [*lines[:_MAX_LINES], f"… {len(lines) - _MAX_LINES} lines more"]


def _pieces(line: str, column: int) -> list[str]:
    """One line in pieces of at most `column` columns. Words are cut: an answer's exact form is what is looked at."""
    if display_width(line) <= column:
        return [line]
    pieces, piece, used = [], "", 0
    for character in line:
        taken = display_width(character)
        if used + taken > column:
            pieces.append(piece)
            piece, used = "", 0
        piece += character
        used += taken
    return [*pieces, piece]


def _padded(line: str, column: int) -> str:
    return line + " " * (column - display_width(line))
