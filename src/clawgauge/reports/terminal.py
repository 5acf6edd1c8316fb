"""A report as plain text: tables that fit the terminal, sentences broken between words, answers side by side.

Apart from the rest because `rich`, which lays the tables out, takes a tenth of a second to load."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest
from typing import Any, TextIO, TypeAlias

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from clawgauge.reports.clean import clean_cell, clean_lines, clean_terminal, display_width, wrap
from clawgauge.reports.document import (
    Column,
    Commands,
    Part,
    Points,
    Prose,
    Section,
    Table,
    pad,
    shown,
)
from clawgauge.reports.words import short_names
from clawgauge.words import ABSENT, list_names, plural

_PROSE_WIDTH, _NARROWEST, _UNBOUNDED = 100, 40, 10_000
_CUT_TO = {"cut": 12, "wrapped": 12, "name": 24, "target": 24}
_LONGEST_WORD, _GAP = 32, 2
_GUTTER = " │ "
_MAX_ANSWER_LINES = 40
# Our own signs, for streams that have no such characters.
_PLAIN = str.maketrans({"✓": "+", "✗": "x", "†": "*", "–": "-", "─": "-", "×": "x", "·": "/", "→": "->", "…": "...",
                        "±": "+-", "−": "-"})  # fmt: skip
_PLAIN_LINES = str.maketrans("─│…", "-|~")  # what laying out adds, in as many columns
# A column and its cells.
_Lane: TypeAlias = tuple[Column, Sequence[str]]
_TONES = {"✓": 32, "✗|none of these": 31, r"(?<=\s)\?(?=\s)|cannot tell yet": 33}


def paint(text: str, stream: TextIO, environ: Mapping[str, str]) -> str:
    """The marks in colour where a person looks at a terminal that has some; each mark says the same without it."""
    if not (stream.encoding or "utf-8").lower().startswith("utf"):
        text = text.translate(_PLAIN_LINES)
    if not stream.isatty() or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return text
    for mark, colour in _TONES.items():
        text = re.sub(mark, f"\x1b[{colour}m\\g<0>\x1b[0m", text)
    return text


def _spelt(one: Any, encoding: str) -> Any:
    """All text in `one` with what `encoding` has: our own signs in plainer ones, other characters as escapes."""
    if isinstance(one, str):
        return one.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    if isinstance(one, Mapping):
        return {_spelt(key, encoding): _spelt(value, encoding) for key, value in one.items()}
    if isinstance(one, Table | Prose):
        return replace(one, **_spelt(vars(one), encoding))
    if isinstance(one, Sequence):
        spelt = [_spelt(part, encoding) for part in one]
        return type(one)(*spelt) if isinstance(one, Column | Section) else spelt
    return one


def as_text(sections: Sequence[Section], width: int | None = None, encoding: str = "utf-8") -> str:
    """The sections in a terminal of `width` columns; without one, tables and lists are as wide as they are."""
    room = None if width is None else max(_NARROWEST, width)
    # Before anything is measured: an escape is longer than what it stands for.
    known = sections if encoding.lower().startswith("utf") else _spelt(sections, encoding)
    blocks = []
    for title, parts in shown(known):
        lines = [clean_cell(title)] if title else []
        for part in parts:
            lines += _part(part, room)
        blocks.append("\n".join(lines).rstrip("\n"))
    return clean_lines("\n\n".join(blocks))


def _part(part: Part, room: int | None) -> Iterator[str]:
    if isinstance(part, Table):
        yield from _table(part, _UNBOUNDED if room is None else room)
    elif isinstance(part, Commands):
        yield from (f"  {line}" for line in _continued(part.lines, (room or _UNBOUNDED) - 2))
    elif isinstance(part, Points):
        yield from (wrap(f"  {line}", room or _UNBOUNDED) for line in part.lines)
    else:
        yield from (wrap(line, min(room or _PROSE_WIDTH, _PROSE_WIDTH)) for line in part.lines)


def _continued(lines: Sequence[str], room: int) -> Iterator[str]:
    """Lines to be copied. One that goes on in the next takes it in where there is room."""
    line = ""
    for piece in map(clean_cell, lines):
        if line and display_width(line + piece) > min(room, _PROSE_WIDTH):
            yield f"{line}\\"
            line = ""
        line += piece.removesuffix("\\")
        if not piece.endswith("\\"):
            yield line
            line = ""


def _table(table: Table, room: int) -> Iterator[str]:
    indent = "" if table.ruled else "    " if table.grouped else "  "
    places = [
        n
        for n, column in enumerate(table.columns)
        if column.narrow != "below" and n >= table.grouped
    ]
    lanes: list[_Lane] = [
        (table.columns[place], [clean_cell(row[place]) for row in table.rows]) for place in places
    ]
    lanes, left_out = _fitted(table, lanes, room - len(indent))
    lines = _laid_out(_joined(lanes), room - len(indent), bare=table.bare)
    if not table.bare:
        yield f"{indent}{lines.pop(0)}"
    if table.ruled:
        yield "─" * max(map(display_width, lines))
    below = [place for place, column in enumerate(table.columns) if column.narrow == "below"]
    yield from _rows(table, lines, below, indent, room)
    told = table.explain([column for column, _ in lanes], [cells for _, cells in lanes])
    if left_out:
        told.append(
            f"no room for {list_names(left_out, len(left_out))}: COLUMNS=200 before the command shows all"
        )
    yield from (wrap(f"{indent[:2]}{line}", room) for line in told)


def _rows(
    table: Table, lines: Sequence[str], below: Sequence[int], indent: str, room: int
) -> Iterator[str]:
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
            yield from (
                wrap(f"     {heading}: {text}", room) for heading, text in cells if text != ABSENT
            )


def _fitted(table: Table, lanes: Sequence[_Lane], room: int) -> tuple[list[_Lane], list[str]]:
    """As many of the columns that yield as there is room for, names as short as they must be; and who yielded."""
    short = {column.heading: (column, cells) for column, cells in lanes}
    for column, cells in lanes:
        if column.narrow == "target":
            # Without their providers, unless two would then be called alike.
            short[column.heading] = column, list(map(short_names(cells).__getitem__, cells))
    kept = short.keys() - set(table.yielding)
    for heading in reversed(table.yielding):
        if (
            _total([lane for name, lane in short.items() if name in {*kept, heading}], _least_width)
            <= room
        ):
            kept |= {heading} & short.keys()
    left_out = [heading for heading in table.yielding if heading in short.keys() - kept]
    fitting = [(column, cells) for column, cells in lanes if column.heading in kept]
    if _total(fitting, _width) > room:
        fitting = [short[column.heading] for column, _ in fitting]
        spare = room - _total(fitting, _width)
        named = ("name", "target")
        fitting = [
            _cut_names(lane, _width(lane) + spare) if lane[0].narrow in named else lane
            for lane in fitting
        ]
    return fitting, left_out


def _cut_names(lane: _Lane, room: int) -> _Lane:
    """Names without their middles, for what tells models apart may be either end; whole where two would be alike."""
    (column, names), shorter, room = lane, [], max(room, _CUT_TO["name"])
    for name in names:
        n, cut = min(len(name), room), name
        while display_width(cut) > room:
            n -= 1
            cut = f"{name[: n - n // 2]}…{name[len(name) - n // 2 :]}"
        shorter.append(cut)
    alike = len(set(shorter)) < len(set(names))
    return column._replace(narrow="fixed"), names if alike else shorter


def _joined(lanes: Sequence[_Lane]) -> list[_Lane]:
    """Columns of marks beside each other as one: a blank between them is enough."""
    joined: list[_Lane] = []
    for column, cells in lanes:
        if joined and column.narrow == joined[-1][0].narrow == "mark":
            before, filled = joined.pop()
            filled = [
                f"{pad(left, len(before.heading))} {cell}"
                for left, cell in zip(filled, cells, strict=True)
            ]
            column, cells = column._replace(heading=f"{before.heading} {column.heading}"), filled
        joined.append((column, cells))
    return joined


def _total(lanes: Sequence[_Lane], width: Callable[[_Lane], int]) -> int:
    close = sum(left[0].narrow == right[0].narrow == "mark" for left, right in pairwise(lanes))
    return sum(map(width, lanes)) + _GAP * (len(lanes) - 1) - close


def _width(lane: _Lane) -> int:
    return max(map(display_width, (lane[0].heading, *lane[1])))


def _narrowest(lane: _Lane) -> int:
    return min(_width(lane), _CUT_TO.get(lane[0].narrow, sys.maxsize))


def _least_width(lane: _Lane) -> int:
    """What a column should not do with less of: one that wraps needs room for its longest word, within reason."""
    words = (
        [word for cell in lane[1] for word in cell.split()] if lane[0].narrow == "wrapped" else []
    )
    return max(_narrowest(lane), min(max(map(display_width, words), default=0), _LONGEST_WORD))


def _laid_out(lanes: Sequence[_Lane], room: int, *, bare: bool) -> list[str]:
    laid = RichTable(
        box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_header=not bare, header_style=""
    )
    least = _least_width if _total(lanes, _least_width) <= room else _narrowest
    widths, lowest = list(map(_width, lanes)), list(map(least, lanes))
    # The widest that has some to spare gives first; `rich` would take as much from who has none.
    for _ in range(min(_total(lanes, _width) - room, sum(widths) - sum(lowest))):
        widest = max(
            range(len(lanes)), key=lambda place: widths[place] * (widths[place] > lowest[place])
        )
        widths[widest] -= 1
    for (column, _), width in zip(lanes, widths, strict=True):
        laid.add_column(
            Text(column.heading, no_wrap=True), justify=column.align, no_wrap=True, width=width
        )
    wraps = [column.narrow == "wrapped" for column, _ in lanes]
    for row in zip(*(cells for _, cells in lanes), strict=True):
        cells = zip(row, wraps, strict=True)
        laid.add_row(
            *(
                Text(cell or " ", no_wrap=not w, overflow="fold" if w else "ellipsis")
                for cell, w in cells
            )
        )
    out = io.StringIO()
    # What a terminal would be asked is answered here: this is text for whoever reads it.
    room = sum(widths) + _GAP * len(widths)
    console = Console(
        file=out,
        width=room,
        color_system=None,
        force_terminal=False,
        legacy_windows=False,
        _environ={},
    )
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
