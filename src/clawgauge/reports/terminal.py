"""A report as plain text: tables that fit the terminal, sentences broken between words, answers side by side.

Apart from the rest because `rich`, which lays the tables out, takes a tenth of a second to load.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TextIO

from rich.cells import chop_cells
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from clawgauge.reports.clean import clean_cell, clean_lines, clean_terminal
from clawgauge.reports.document import Column, Commands, Part, Points, Section, Table, display_width, pad, shown
from clawgauge.words import ABSENT, plural

_PROSE_WIDTH = 100
_NARROWEST = 40
_UNBOUNDED = 10_000
_CUT_TO = {"cut": 12, "wrapped": 12, "name": 24}
_GAP = 2
_RULE = "─"
_GUTTER = " │ "
_MIN_COLUMN = 20
_MAX_ANSWER_LINES = 40
_TAB = "    "


_TONES = (
    (re.compile("✓"), 32),
    (re.compile("✗|none of these"), 31),
    (re.compile(r"(?<=\s)\?(?=\s)|cannot tell yet"), 33),
)


def paint(text: str, stream: TextIO, environ: Mapping[str, str]) -> str:
    """The marks in colour where a person looks at a terminal that has some; each mark says the same without it."""
    if not stream.isatty() or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return text
    for mark, colour in _TONES:
        text = mark.sub(f"\x1b[{colour}m\\g<0>\x1b[0m", text)
    return text


def as_text(sections: Sequence[Section], width: int | None = None) -> str:
    """The sections in a terminal of `width` columns; without one, tables and lists are as wide as they are."""
    room = None if width is None else max(_NARROWEST, width)
    blocks = []
    for title, parts in shown(sections):
        lines = [clean_cell(title)] if title else []
        for part in parts:
            lines += _part(part, room)
        blocks.append("\n".join(lines).rstrip("\n"))
    return clean_lines("\n\n".join(blocks))


def _part(part: Part, room: int | None) -> Iterator[str]:
    if isinstance(part, Table):
        yield from _table(part, _UNBOUNDED if room is None else room)
    elif isinstance(part, Commands):
        yield from (f"  {clean_cell(line)}" for line in part.lines)
    elif isinstance(part, Points):
        yield from (wrap(f"  {line}", room or _UNBOUNDED) for line in part.lines)
    else:
        yield from (wrap(line, min(room or _PROSE_WIDTH, _PROSE_WIDTH)) for line in part.lines)


def wrap(line: str, room: int) -> str:
    """A line broken between words, what follows two columns further in. Names and paths are there to be typed: they
    are never cut.
    """
    own = " " * (len(line) - len(line.lstrip(" ")))
    return textwrap.fill(
        clean_cell(line),
        room,
        initial_indent=own,
        subsequent_indent=f"{own}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table(table: Table, room: int) -> Iterator[str]:
    indent = "" if table.ruled else "    " if table.grouped else "  "
    places = [n for n, column in enumerate(table.columns) if column.narrow != "below" and n >= table.grouped]
    columns = [table.columns[place] for place in places]
    rows = [[clean_cell(row[place]) for place in places] for row in table.rows]
    columns, rows = _fitted(table, columns, rows, room - len(indent))
    lines = _laid_out(columns, rows, room - len(indent), bare=table.bare)
    if not table.bare:
        yield f"{indent}{lines.pop(0)}"
    if table.ruled:
        yield _RULE * max(map(display_width, lines))
    below = [place for place, column in enumerate(table.columns) if column.narrow == "below"]
    if not table.grouped and not below:
        yield from (f"{indent}{line}" for line in lines)
        return
    before = None
    for row, line in zip(table.rows, lines, strict=True):
        if table.grouped and row[0] != before:
            before = row[0]
            yield wrap(f"  {before}", room)
        yield f"{indent}{line}"
        cells = [(table.columns[place].heading, row[place]) for place in below]
        if len(cells) == 2:
            left, right = (f"{heading}\n{text}" for heading, text in cells)
            yield from (side_by_side(left, right, min(room, _PROSE_WIDTH)), "")
        else:
            yield from (wrap(f"     {heading}: {text}", room) for heading, text in cells if text != ABSENT)


def _fitted(
    table: Table, columns: list[Column], rows: list[list[str]], room: int
) -> tuple[list[Column], list[list[str]]]:
    """Without the columns that must yield for the others to fit, and names without what can be spared of them."""
    whole = rows
    if columns[0].narrow == "name":
        # Target labels cut down to their models, unless two would then be called alike.
        names = [row[0].partition(":")[2] or row[0] for row in rows]
        if len(set(names)) == len(names):
            rows = [[name, *row[1:]] for name, row in zip(names, rows, strict=True)]
    for leaving in table.yielding:
        if sum(map(_least, columns, _widths(columns, rows))) + _GAP * len(columns) <= room:
            break
        kept = [place for place, column in enumerate(columns) if column.heading != leaving]
        columns, rows, whole = (
            [columns[place] for place in kept],
            [[row[place] for place in kept] for row in rows],
            [[row[place] for place in kept] for row in whole],
        )
    fits = sum(_widths(columns, whole)) + _GAP * (len(columns) - 1) <= room
    return columns, whole if fits else rows


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    lines = [[column.heading for column in columns], *rows]
    return [max(map(display_width, cells)) for cells in zip(*lines, strict=True)]


def _least(column: Column, width: int) -> int:
    return min(width, _CUT_TO.get(column.narrow, width))


def _laid_out(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int, *, bare: bool) -> list[str]:
    laid = RichTable(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_header=not bare, header_style="")
    widths = _widths(columns, rows)
    for column, width in zip(columns, widths, strict=True):
        fixed = column.narrow == "fixed"
        laid.add_column(
            Text(column.heading, no_wrap=True), justify=column.align, no_wrap=fixed, min_width=_least(column, width)
        )
    for row in rows:
        cells = zip(row, columns, strict=True)
        laid.add_row(
            *(Text(cell or " ", no_wrap=column.narrow != "wrapped", overflow="ellipsis") for cell, column in cells)
        )
    out = io.StringIO()
    # What a terminal would be asked is answered here: this is text for whoever reads it.
    room = max(room, sum(map(_least, columns, widths)) + _GAP * len(columns))
    console = Console(file=out, width=room, color_system=None, force_terminal=False, legacy_windows=False, _environ={})
    console.print(laid, crop=False, soft_wrap=False)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def side_by_side(left: str, right: str, width: int) -> str:
    """`left` and `right` beside each other in `width` terminal columns; each is cut after forty lines."""
    column = max(_MIN_COLUMN, (width - len(_GUTTER)) // 2)
    rows = zip_longest(_fold(left, column), _fold(right, column), fillvalue="")
    return "\n".join(f"{pad(a, column)}{_GUTTER}{b}".rstrip() for a, b in rows)


def _fold(text: str, column: int) -> list[str]:
    """The lines in pieces of at most `column` columns. Words are cut: an answer's exact form is what is looked at."""
    lines = clean_terminal(text).replace("\t", _TAB).split("\n")
    pieces = [piece for line in lines for piece in chop_cells(line, column) or [line]]
    more = len(pieces) - _MAX_ANSWER_LINES
    return pieces if more <= 0 else [*pieces[:_MAX_ANSWER_LINES], f"… {plural(more, 'more line')}"]
