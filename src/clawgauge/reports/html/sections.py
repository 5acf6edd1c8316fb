"""The sections of any report as HTML. Where two answers stand beside each other, what differs is
marked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from html import escape

from clawgauge.reports.clean import clean_cell, clean_terminal
from clawgauge.reports.document import Commands, Part, Points, Section, Table, shown

_PIECES = re.compile(r"\s+|\w+|[^\w\s]")
# To find what differs takes the square of the length.
_MAX_MARKED_PIECES = 2_000


def as_html(sections: Sequence[Section]) -> str:
    """One `<section>` each. All text in them is escaped: it may come from a model or a server."""
    blocks = []
    for title, parts in shown(sections):
        heading = f"<h2>{text(title)}</h2>" if title else ""
        content = "".join(_part(part) for part in parts)
        blocks.append(f"<section>{heading}{content}</section>")
    return "\n".join(blocks)


def text(plain: str) -> str:
    """`plain` as one line of HTML text."""
    return escape(clean_cell(plain))


def _part(part: Part) -> str:
    if isinstance(part, Table):
        return _TableWriter(part).write()
    if isinstance(part, Points):
        points = "".join(_point(line) for line in part.lines)
        return f"<ul>{points}</ul>"
    if isinstance(part, Commands):
        lines = "\n".join(clean_cell(line) for line in part.lines)
        return f"<pre>{escape(lines)}</pre>"
    return "".join(f"<p>{text(line.strip())}</p>" for line in part.lines)


def _point(line: str) -> str:
    is_within = line.startswith(" ")
    return f"<li{' class=within' if is_within else ''}>{text(line)}</li>"


class _TableWriter:
    """A table as HTML. Columns that are `below` in a terminal have a row of their own here too."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._headings = [column.heading for column in table.columns]
        # The columns by their numbers: those of the table itself, and those under each row.
        self._beside: list[int] = []
        self._below: list[int] = []
        for number, column in enumerate(table.columns):
            if column.narrow == "below":
                self._below.append(number)
            else:
                self._beside.append(number)

    def write(self) -> str:
        table = self._table
        head = "" if table.bare else f"<thead>{self._line('th', self._headings)}</thead>"
        rows = []
        for row in table.rows:
            rows.append(self._line("td", row))
            if len(self._below) == 2:
                rows.append(self._line_below(row))
        body = f"<tbody>{''.join(rows)}</tbody>"
        legend_lines = table.explain(table.columns, table.rows)
        legend = "".join(f"<p>{text(line)}</p>" for line in legend_lines)
        kind = ""
        if len(self._beside) > 2:
            kind = ' class="bare"' if table.bare else ' class="many"'
        return f'<div class="wide"><table{kind}>{head}{body}</table></div>{legend}'

    def _line(self, tag: str, cells: Sequence[str]) -> str:
        line = []
        for number in self._beside:
            align = self._table.columns[number].align
            # Where there is no room for columns each figure stands beside its heading.
            label = text(self._headings[number])
            shown = text(cells[number])
            # A heading without a word names nothing: it is no heading then.
            element = "td" if tag == "th" and not shown else tag
            line.append(f'<{element} class="{align}" data-label="{label}">{shown}</{element}>')
        return f"<tr>{''.join(line)}</tr>"

    def _line_below(self, row: Sequence[str]) -> str:
        left, right = self._below
        marked_left, marked_right = mark_differences(row[left], row[right])
        columns = [
            f"<div><h3>{text(self._headings[left])}</h3><pre>{marked_left}</pre></div>",
            f"<div><h3>{text(self._headings[right])}</h3><pre>{marked_right}</pre></div>",
        ]
        content = f'<div class="beside">{"".join(columns)}</div>'
        return f'<tr><td colspan="{len(self._beside)}">{content}</td></tr>'


def mark_differences(left: str, right: str) -> tuple[str, str]:
    """Both texts escaped, with `<mark>` around what the other one does not have there.

    Long texts are not compared: nothing is marked in them."""
    left = clean_terminal(left)
    right = clean_terminal(right)
    left_pieces = _PIECES.findall(left)
    right_pieces = _PIECES.findall(right)
    if max(len(left_pieces), len(right_pieces)) > _MAX_MARKED_PIECES:
        return escape(left), escape(right)
    marked_left = []
    marked_right = []
    matcher = difflib.SequenceMatcher(None, left_pieces, right_pieces, autojunk=False)
    for kind, left_start, left_end, right_start, right_end in matcher.get_opcodes():
        is_equal = kind == "equal"
        marked_left.append(_mark(left_pieces[left_start:left_end], is_equal=is_equal))
        marked_right.append(_mark(right_pieces[right_start:right_end], is_equal=is_equal))
    return "".join(marked_left), "".join(marked_right)


def _mark(pieces: Sequence[str], *, is_equal: bool) -> str:
    escaped = escape("".join(pieces))
    if is_equal or not escaped:
        return escaped
    return f"<mark>{escaped}</mark>"
