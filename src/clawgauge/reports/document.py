"""A report as data: a list of sections, made once for every renderer.

`as_markdown` is here, `terminal.as_text` makes plain text of the same sections and
`html.sections.as_html` HTML. A part may hold text from models and servers: each renderer makes it
harmless for its own place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Self, TypeAlias

from clawgauge.reports.clean import clean_cell, display_width, escape_cell, escape_line

# Rows of a table that could be of any length.
MAX_LISTED = 100
# A delimiter row needs three dashes to be one everywhere.
_MIN_WIDTH = 3
_MAX_CELL = 600

Align: TypeAlias = Literal["left", "right"]


class Column(NamedTuple):
    """A heading, the side its cells lean to, and what becomes of them in a narrow terminal.

    - `fixed` cells are never touched.
    - `cut` cells lose their end.
    - `wrapped` cells take more lines.
    - A `name` loses its middle.
    - A `target` loses its provider, then its middle.
    - A `mark` stands close to the mark in the next column.
    - `below` is no column there: the cell stands under its row, two of them beside each other."""

    heading: str
    align: Align = "left"
    narrow: Literal["fixed", "cut", "wrapped", "name", "target", "mark", "below"] = "fixed"


@dataclass(frozen=True)
class Table:
    """Rows of plain text, and how a terminal shows them.

    `yielding` names the columns to leave out where there is little room, the first one first. In a
    `grouped` table the first column stands above the rows that share it. A `bare` one has no
    headings, a `ruled` one has a line under them. `legend` explains marks and columns, each where
    it is to be seen. `again` is the command that shows the table again."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    yielding: Sequence[str] = ()
    grouped: bool = False
    bare: bool = False
    ruled: bool = False
    legend: Mapping[str, str] = field(default_factory=dict)
    again: str = ""

    def explain(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
        """The lines of the legend for what is seen in these columns and rows."""
        headings = {column.heading for column in columns}
        cells = [cell for row in rows for cell in row]
        lines = []
        for mark, explanation in self.legend.items():
            if mark in headings or any(mark in cell for cell in cells):
                lines.append(explanation)
        return lines

    def spelled(self, spell: Callable[[str], str]) -> Table:
        """The same with `spell` applied to every text in it."""
        columns = []
        for column in self.columns:
            columns.append(column._replace(heading=spell(column.heading)))
        legend = {}
        for mark, explanation in self.legend.items():
            legend[spell(mark)] = spell(explanation)
        return replace(
            self,
            columns=columns,
            rows=[[spell(cell) for cell in row] for row in self.rows],
            yielding=[spell(heading) for heading in self.yielding],
            legend=legend,
            again=spell(self.again),
        )


@dataclass(frozen=True)
class Prose:
    """Sentences, each on a line of its own."""

    lines: Sequence[str]

    def spelled(self, spell: Callable[[str], str]) -> Self:
        """The same with `spell` applied to every line."""
        return replace(self, lines=[spell(line) for line in self.lines])


class Points(Prose):
    """A list. A line that is further in belongs to the line above it."""


class Commands(Prose):
    """Lines to be copied. They are never broken."""


Part: TypeAlias = Table | Prose


class Section(NamedTuple):
    """Parts under a title, which may be empty."""

    title: str
    parts: Sequence[Part]

    def spelled(self, spell: Callable[[str], str]) -> Section:
        """The same with `spell` applied to every text in it."""
        return Section(spell(self.title), [part.spelled(spell) for part in self.parts])


def shown(sections: Sequence[Section]) -> list[Section]:
    """The sections without empty parts; one whose parts are all empty is left out."""
    filled_sections = []
    for section in sections:
        filled_parts = [part for part in section.parts if not _is_empty(part)]
        if filled_parts:
            filled_sections.append(Section(section.title, filled_parts))
    return filled_sections


def _is_empty(part: Part) -> bool:
    if isinstance(part, Table):
        return not part.rows
    return not part.lines


def as_markdown(title: str, sections: Sequence[Section]) -> str:
    """A whole document. Titles begin with a capital, except where they name a target."""
    blocks = [f"# {escape_cell(title)}"]
    for heading, parts in shown(sections):
        if heading:
            is_target = ":" in heading
            capitalized = heading if is_target else heading[0].upper() + heading[1:]
            blocks.append(f"## {escape_cell(capitalized)}")
        for part in parts:
            blocks.append(_part(part))
    return "\n\n".join(blocks) + "\n"


def _part(part: Part) -> str:
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Points):
        return "\n".join(_point(line) for line in part.lines)
    if isinstance(part, Commands):
        # An indented block is shown as it stands, whatever back-ticks a name in it holds.
        return "\n".join(f"    {clean_cell(line)}" for line in part.lines)
    return "\\\n".join(escape_line(line) for line in part.lines)


def _table(table: Table) -> str:
    rows = []
    for row in table.rows:
        rows.append([escape_cell(cell, limit=_MAX_CELL) for cell in row])
    text = render_table(table.columns, rows)
    legend = table.explain(table.columns, rows)
    if legend:
        text += f"\n\n{_part(Prose(legend))}"
    return text


def _point(line: str) -> str:
    indent = " " * (len(line) - len(line.lstrip(" ")))
    return f"{indent}- {escape_line(line)}"


def pad(cell: str, width: int, align: Align = "left") -> str:
    """`cell` in `width` columns of a terminal."""
    space = " " * (width - display_width(cell))
    return space + cell if align == "right" else cell + space


def render_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """A GitHub-style table of escaped cells; its columns line up in a plain text editor too."""
    headings = [column.heading for column in columns]
    widths = []
    for cells in zip(headings, *rows, strict=True):
        widths.append(max(_MIN_WIDTH, *map(display_width, cells)))
    rule = []
    for column, width in zip(columns, widths, strict=True):
        end = ":" if column.align == "right" else "-"
        rule.append("-" * (width - 1) + end)
    lines = [_padded(headings, columns, widths), rule]
    for row in rows:
        lines.append(_padded(row, columns, widths))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _padded(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    padded = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        padded.append(pad(cell, width, column.align))
    return padded
