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

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from clawgauge.reports.clean import clean_cell, clean_lines, clean_terminal
from clawgauge.reports.document import Column, Commands, Part, Points, Section, Table, display_width, pad, shown
from clawgauge.words import ABSENT, list_names, plural

_PROSE_WIDTH, _NARROWEST, _UNBOUNDED = 100, 40, 10_000
_CUT_TO = {"cut": 12, "wrapped": 12, "name": 24}
_LONGEST_WORD, _GAP = 32, 2
_GUTTER = " │ "
_MAX_ANSWER_LINES = 40
# Our own signs, for streams that have no such characters.
_PLAIN = str.maketrans({"✓": "+", "✗": "x", "†": "*", "–": "-", "─": "-", "×": "x", "·": "/", "→": "->", "…": "...",
                        "±": "+-"})  # fmt: skip
_TONES = {"✓": 32, "✗|none of these": 31, r"(?<=\s)\?(?=\s)|cannot tell yet": 33}


def paint(text: str, stream: TextIO, environ: Mapping[str, str]) -> str:
    """The marks in colour where a person looks at a terminal that has some; each mark says the same without it."""
    if not (stream.encoding or "utf-8").lower().startswith("utf"):
        text = text.translate(_PLAIN)
    if not stream.isatty() or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return text
    for mark, colour in _TONES.items():
        text = re.sub(mark, f"\x1b[{colour}m\\g<0>\x1b[0m", text)
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
    """A line broken between words, what follows two columns further in. Names and paths are to be typed: never cut."""
    own = " " * (len(line) - len(line.lstrip(" ")))
    wrapper = textwrap.TextWrapper(room, own, f"{own}  ", break_long_words=False, break_on_hyphens=False)
    return wrapper.fill(clean_cell(line))


def _table(table: Table, room: int) -> Iterator[str]:
    indent = "" if table.ruled else "    " if table.grouped else "  "
    places = [n for n, column in enumerate(table.columns) if column.narrow != "below" and n >= table.grouped]
    columns = [table.columns[place] for place in places]
    rows = [[clean_cell(row[place]) for place in places] for row in table.rows]
    columns, rows, left_out = _fitted(table, columns, rows, room - len(indent))
    lines = _laid_out(columns, rows, room - len(indent), bare=table.bare)
    if not table.bare:
        yield f"{indent}{lines.pop(0)}"
    if table.ruled:
        yield "─" * max(map(display_width, lines))
    below = [place for place, column in enumerate(table.columns) if column.narrow == "below"]
    yield from _rows(table, lines, below, indent, room)
    told = table.explain(columns, rows)
    if left_out:
        told.append(f"no room for {list_names(left_out, len(left_out))}: COLUMNS=200 before the command shows all")
    yield from (wrap(f"{indent[:2]}{line}", room) for line in told)


def _rows(table: Table, lines: Sequence[str], below: Sequence[int], indent: str, room: int) -> Iterator[str]:
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
) -> tuple[list[Column], list[list[str]], list[str]]:
    """Without the columns that must yield, and names without what can be spared of them; and who yielded."""
    labels = [row[0] for row in rows] if columns[0].narrow == "name" else []
    if labels:
        # Target labels cut down to their models, unless two would then be called alike.
        bare = [label.partition(":")[2] or label for label in labels]
        rows = [[name, *row[1:]] for name, row in zip(bare, rows, strict=True)] if len(set(bare)) == len(bare) else rows
    left_out = []
    for leaving in table.yielding:
        if sum(_least_widths(columns, rows)) + _GAP * (len(columns) - 1) <= room:
            break
        left_out += [column.heading for column in columns if column.heading == leaving]
        kept = [place for place, column in enumerate(columns) if column.heading != leaving]
        columns, rows = [columns[place] for place in kept], [[row[place] for place in kept] for row in rows]
    whole = [[label, *row[1:]] for label, row in zip(labels, rows, strict=True)] if labels else rows
    fits = sum(_widths(columns, whole)) + _GAP * (len(columns) - 1) <= room
    return columns, whole if fits else rows, left_out


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    lines = [[column.heading for column in columns], *rows]
    return [max(map(display_width, cells)) for cells in zip(*lines, strict=True)]


def _least_widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """What each column cannot do with less of: one that wraps needs room for its longest word, within reason."""
    least = []
    for place, (column, width) in enumerate(zip(columns, _widths(columns, rows), strict=True)):
        words = [word for row in rows for word in row[place].split()] if column.narrow == "wrapped" else []
        needed = max(_CUT_TO.get(column.narrow, width), min(max(map(display_width, words), default=0), _LONGEST_WORD))
        least.append(min(width, needed))
    return least


def _laid_out(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int, *, bare: bool) -> list[str]:
    laid = RichTable(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_header=not bare, header_style="")
    least = _least_widths(columns, rows)
    for column, width in zip(columns, least, strict=True):
        fixed = column.narrow == "fixed"
        laid.add_column(Text(column.heading, no_wrap=True), justify=column.align, no_wrap=fixed, min_width=width)
    for row in rows:
        cells = zip(row, columns, strict=True)
        wraps = [(cell, column.narrow == "wrapped") for cell, column in cells]
        laid.add_row(*(Text(cell or " ", no_wrap=not w, overflow="fold" if w else "ellipsis") for cell, w in wraps))
    out = io.StringIO()
    # What a terminal would be asked is answered here: this is text for whoever reads it.
    room = max(room, sum(least) + _GAP * (len(columns) - 1))
    console = Console(file=out, width=room, color_system=None, force_terminal=False, legacy_windows=False, _environ={})
    console.print(laid, crop=False, soft_wrap=False)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def side_by_side(left: str, right: str, width: int) -> str:
    column = max(20, (width - len(_GUTTER)) // 2)
    rows = zip_longest(_fold(left, column), _fold(right, column), fillvalue="")
    return "\n".join(f"{pad(a, column)}{_GUTTER}{b}".rstrip() for a, b in rows)


def _fold(text: str, column: int) -> list[str]:
    """The lines in pieces of at most `column` columns. Words are cut: an answer's exact form is what is looked at."""
    pieces: list[str] = []
    for line in clean_terminal(text).replace("\t", "    ").split("\n"):
        pieces.append("")
        room = column
        for character in line:
            # The widths that the columns are reckoned with: those of `rich` are others where nobody has named one.
            width = display_width(character)
            if width > room:
                pieces.append("")
                room = column
            pieces[-1] += character
            room -= width
    more = len(pieces) - _MAX_ANSWER_LINES
    return pieces if more <= 0 else [*pieces[:_MAX_ANSWER_LINES], f"… {plural(more, 'more line')}"]
