"""A report as plain text: tables that fit the terminal, sentences broken between words, answers
side by side.

Apart from the rest because `rich`, which lays the tables out, takes a tenth of a second to load."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, zip_longest
from typing import Literal, TextIO

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from clawgauge.reports.clean import clean_cell, clean_lines, clean_terminal, display_width, wrap
from clawgauge.reports.document import (
    Column,
    Commands,
    Part,
    Points,
    Section,
    Table,
    pad,
    shown,
)
from clawgauge.reports.words import short_names
from clawgauge.words import ABSENT, list_names, plural

_PROSE_WIDTH = 100
_NARROWEST = 40
_UNBOUNDED = 10_000
# How short the cells of a column may become.
_CUT_TO = {"cut": 12, "wrapped": 12, "name": 24, "target": 24}
_LONGEST_WORD = 32
_GAP = 2
_GUTTER = " │ "
_MIN_SIDE = 20
_MAX_ANSWER_LINES = 40
# Our own signs, for streams that have no such characters.
_PLAIN = str.maketrans(
    {
        "✓": "+",
        "✗": "x",
        "†": "*",
        "–": "-",
        "─": "-",
        "×": "x",
        "·": "/",
        "→": "->",
        "…": "...",
        "±": "+-",
        "−": "-",
    }
)
# What laying out adds, in as many columns.
_PLAIN_LINES = str.maketrans("─│…", "-|~")
_GREEN = 32
_RED = 31
_YELLOW = 33
_COLOURS_BY_MARK = {
    "✓": _GREEN,
    "✗|none of these|none that was asked": _RED,
    r"(?<=\s)\?(?=\s)|cannot tell yet": _YELLOW,
}


def paint(text: str, stream: TextIO, environ: Mapping[str, str]) -> str:
    """`text` with its marks in colour, where a person looks at a terminal that has some.

    Each mark says the same without it."""
    if not _is_unicode(stream.encoding or "utf-8"):
        text = text.translate(_PLAIN_LINES)
    if not stream.isatty() or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return text
    for mark, colour in _COLOURS_BY_MARK.items():
        text = re.sub(mark, f"\x1b[{colour}m\\g<0>\x1b[0m", text)
    return text


def _is_unicode(encoding: str) -> bool:
    return encoding.lower().startswith("utf")


def as_text(sections: Sequence[Section], width: int | None = None, encoding: str = "utf-8") -> str:
    """The sections in a terminal of `width` columns.

    Without a width, tables and lists are as wide as they are."""
    room = None if width is None else max(_NARROWEST, width)
    if not _is_unicode(encoding):
        # Before anything is measured: an escape is longer than what it stands for.
        spell = partial(_spell, encoding=encoding)
        sections = [section.spelled(spell) for section in sections]
    blocks = []
    for title, parts in shown(sections):
        lines = []
        if title:
            lines.append(clean_cell(title))
        for part in parts:
            lines.extend(_part_lines(part, room))
        blocks.append("\n".join(lines).rstrip("\n"))
    return clean_lines("\n\n".join(blocks))


def _spell(text: str, encoding: str) -> str:
    """`text` with the characters that `encoding` has: our own signs in plainer ones, others as
    escapes."""
    return text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)


def _part_lines(part: Part, room: int | None) -> Iterator[str]:
    list_room = room or _UNBOUNDED
    if isinstance(part, Table):
        yield from _table_lines(part, list_room)
    elif isinstance(part, Commands):
        for line in _join_continued(part.lines, list_room - 2):
            yield f"  {line}"
    elif isinstance(part, Points):
        for line in part.lines:
            yield wrap(f"  {line}", list_room)
    else:
        for line in part.lines:
            yield wrap(line, min(list_room, _PROSE_WIDTH))


def _join_continued(lines: Sequence[str], room: int) -> Iterator[str]:
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


@dataclass(frozen=True, slots=True)
class _Lane:
    """A column and its cells, which are cleaned."""

    column: Column
    cells: Sequence[str]

    @property
    def is_mark(self) -> bool:
        return self.column.narrow == "mark"

    @property
    def is_name(self) -> bool:
        return self.column.narrow in ("name", "target")

    @property
    def wraps(self) -> bool:
        return self.column.narrow == "wrapped"

    @property
    def width(self) -> int:
        """What it takes as it is."""
        return max(map(display_width, (self.column.heading, *self.cells)))

    @property
    def narrowest(self) -> int:
        """What it takes with its cells cut or wrapped as far as may be."""
        return min(self.width, _CUT_TO.get(self.column.narrow, sys.maxsize))

    @property
    def least_width(self) -> int:
        """What it should not do with less of: one that wraps needs room for its longest word,
        within reason."""
        longest = 0
        if self.wraps:
            for cell in self.cells:
                for word in cell.split():
                    longest = max(longest, display_width(word))
        return max(self.narrowest, min(longest, _LONGEST_WORD))


def _total(lanes: Sequence[_Lane], widths: Sequence[int]) -> int:
    """What lanes of these widths take together, with the gaps between them."""
    n_close = sum(left.is_mark and right.is_mark for left, right in pairwise(lanes))
    return sum(widths) + _GAP * (len(lanes) - 1) - n_close


def _total_width(lanes: Sequence[_Lane]) -> int:
    return _total(lanes, [lane.width for lane in lanes])


def _total_least_width(lanes: Sequence[_Lane]) -> int:
    return _total(lanes, [lane.least_width for lane in lanes])


def _table_lines(table: Table, room: int) -> Iterator[str]:
    indent = _indent_of(table)
    lanes = []
    below = []
    for number, column in enumerate(table.columns):
        if column.narrow == "below":
            below.append(number)
        elif not (table.grouped and number == 0):
            lanes.append(_Lane(column, [clean_cell(row[number]) for row in table.rows]))
    fitting = _choose_lanes(table, lanes, room - len(indent))
    headings = {lane.column.heading for lane in fitting}
    left_out = []
    for heading in table.yielding:
        if heading not in headings and any(lane.column.heading == heading for lane in lanes):
            left_out.append(heading)
    lines = _lay_out(_join_marks(fitting), room - len(indent), bare=table.bare)
    if not table.bare:
        yield f"{indent}{lines.pop(0)}"
    if table.ruled:
        yield "─" * max(map(display_width, lines))
    yield from _row_lines(table, lines, below, indent, room)
    notes = table.explain([lane.column for lane in fitting], [lane.cells for lane in fitting])
    if left_out:
        names = list_names(left_out, len(left_out))
        if table.again:
            notes.append(f"no room for {names} ({table.again} | less -S)")
        else:
            notes.append(f"no room for {names}: COLUMNS=200 before the command shows all")
    for note in notes:
        yield wrap(f"{indent[:2]}{note}", room)


def _indent_of(table: Table) -> str:
    if table.ruled:
        return ""
    return "    " if table.grouped else "  "


def _row_lines(
    table: Table, lines: Sequence[str], below: Sequence[int], indent: str, room: int
) -> Iterator[str]:
    """The rows, each under its group and above the cells of the columns that are `below`."""
    if not table.grouped and not below:
        for line in lines:
            yield f"{indent}{line}"
        return
    group = None
    for row, line in zip(table.rows, lines, strict=True):
        if table.grouped and row[0] != group:
            group = row[0]
            yield wrap(f"  {group}", room)
        yield f"{indent}{line}"
        if len(below) == 2:
            left, right = (f"{table.columns[number].heading}\n{row[number]}" for number in below)
            yield side_by_side(left, right, min(room, _PROSE_WIDTH))
            yield ""
            continue
        for number in below:
            if row[number] != ABSENT:
                yield wrap(f"     {table.columns[number].heading}: {row[number]}", room)


def _choose_lanes(table: Table, lanes: Sequence[_Lane], room: int) -> list[_Lane]:
    """As many of the columns that yield as there is room for, names as short as they must be."""
    short_lanes = [_without_providers(lane) for lane in lanes]
    kept = {lane.column.heading for lane in lanes} - set(table.yielding)
    for heading in reversed(table.yielding):
        candidates = []
        for lane in short_lanes:
            if lane.column.heading in kept or lane.column.heading == heading:
                candidates.append(lane)
        if _total_least_width(candidates) <= room:
            kept.add(heading)
    fitting = [lane for lane in lanes if lane.column.heading in kept]
    if _total_width(fitting) <= room:
        return fitting
    fitting = [lane for lane in short_lanes if lane.column.heading in kept]
    spare = room - _total_width(fitting)
    shortened = []
    for lane in fitting:
        shortened.append(_cut_names(lane, lane.width + spare) if lane.is_name else lane)
    return shortened


def _without_providers(lane: _Lane) -> _Lane:
    """Targets by their models alone, unless two would then be called alike."""
    if lane.column.narrow != "target":
        return lane
    names = short_names(lane.cells)
    return _Lane(lane.column, [names[label] for label in lane.cells])


def _cut_names(lane: _Lane, room: int) -> _Lane:
    """Names without their middles, for what tells models apart may be either end.

    They stay whole where two would be alike."""
    room = max(room, _CUT_TO["name"])
    shortened = []
    for name in lane.cells:
        n_kept = min(len(name), room)
        cut_name = name
        while display_width(cut_name) > room:
            n_kept -= 1
            n_at_end = n_kept // 2
            cut_name = f"{name[: n_kept - n_at_end]}…{name[len(name) - n_at_end :]}"
        shortened.append(cut_name)
    are_alike = len(set(shortened)) < len(set(lane.cells))
    return _Lane(lane.column._replace(narrow="fixed"), lane.cells if are_alike else shortened)


def _join_marks(lanes: Sequence[_Lane]) -> list[_Lane]:
    """Columns of marks beside each other as one: a blank between them is enough."""
    joined: list[_Lane] = []
    for lane in lanes:
        if not joined or not (lane.is_mark and joined[-1].is_mark):
            joined.append(lane)
            continue
        before = joined.pop()
        heading = before.column.heading
        cells = []
        for left, right in zip(before.cells, lane.cells, strict=True):
            cells.append(f"{pad(left, len(heading))} {right}")
        column = lane.column._replace(heading=f"{heading} {lane.column.heading}")
        joined.append(_Lane(column, cells))
    return joined


def _fit_widths(lanes: Sequence[_Lane], room: int) -> list[int]:
    """The width of each lane, together at most `room` where that is possible."""
    least_widths = [lane.least_width for lane in lanes]
    if _total(lanes, least_widths) > room:
        least_widths = [lane.narrowest for lane in lanes]
    widths = [lane.width for lane in lanes]
    # The widest that has some to spare gives first; `rich` would take as much from one that has
    # none.
    for _ in range(_total(lanes, widths) - room):
        shrinkable = [n for n in range(len(lanes)) if widths[n] > least_widths[n]]
        if not shrinkable:
            break
        widest = max(shrinkable, key=lambda n: widths[n])
        widths[widest] -= 1
    return widths


def _lay_out(lanes: Sequence[_Lane], room: int, *, bare: bool) -> list[str]:
    """The heading, unless `bare`, and the rows; a row whose cells wrap takes several lines."""
    grid = RichTable(
        box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_header=not bare, header_style=""
    )
    widths = _fit_widths(lanes, room)
    for lane, width in zip(lanes, widths, strict=True):
        heading = Text(lane.column.heading, no_wrap=True)
        grid.add_column(heading, justify=lane.column.align, no_wrap=True, width=width)
    for row in zip(*(lane.cells for lane in lanes), strict=True):
        cells = []
        for lane, cell in zip(lanes, row, strict=True):
            overflow: Literal["fold", "ellipsis"] = "fold" if lane.wraps else "ellipsis"
            cells.append(Text(cell or " ", no_wrap=not lane.wraps, overflow=overflow))
        grid.add_row(*cells)
    out = io.StringIO()
    # What a terminal would be asked is answered here: this is text for whoever reads it.
    console = Console(
        file=out,
        width=sum(widths) + _GAP * len(widths),
        color_system=None,
        force_terminal=False,
        legacy_windows=False,
        _environ={},
    )
    console.print(grid, crop=False, soft_wrap=False)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def side_by_side(left: str, right: str, width: int) -> str:
    """Two texts beside each other, their lines folded; long ones lose their end."""
    side = max(_MIN_SIDE, (width - len(_GUTTER)) // 2)
    rows = []
    for left_line, right_line in zip_longest(_fold(left, side), _fold(right, side), fillvalue=""):
        rows.append(f"{pad(left_line, side)}{_GUTTER}{right_line}".rstrip())
    return "\n".join(rows)


def _fold(text: str, width: int) -> list[str]:
    """The lines in pieces of at most `width` columns.

    Words are cut: an answer's exact form is what is looked at."""
    pieces: list[str] = []
    for line in clean_terminal(text).replace("\t", "    ").split("\n"):
        pieces.append("")
        room = width
        for character in line:
            # As columns are measured here: `rich` has other widths where nobody has named one.
            character_width = display_width(character)
            if character_width > room:
                pieces.append("")
                room = width
            pieces[-1] += character
            room -= character_width
    n_left_out = len(pieces) - _MAX_ANSWER_LINES
    if n_left_out <= 0:
        return pieces
    return [*pieces[:_MAX_ANSWER_LINES], f"… {plural(n_left_out, 'more line')}"]
