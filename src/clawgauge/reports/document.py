"""A report as a list of sections, said once: `as_markdown` is here, `terminal.as_text` lays the same out as text.

Whatever stands in a part may be a stranger's words: each renderer makes them harmless for its own place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from clawgauge.reports.clean import clean_cell, display_width, escape_cell, escape_line

_MIN_WIDTH = 3  # a delimiter row needs three dashes to be one everywhere
_MAX_CELL = 600
MAX_LISTED = 100  # rows of a table that could be of any length


class Column(NamedTuple):
    """A heading, the side its cells lean to, and what becomes of them in a terminal too narrow for the table.

    `fixed` cells are never touched, `cut` ones lose their end, `wrapped` ones take more lines, a `name` loses its
    middle, a `target` its provider first; a `mark` stands close to the next. A column `below` is none there: it stands
    under its row, two of them beside each other."""

    heading: str
    align: Literal["left", "right"] = "left"
    narrow: Literal["fixed", "cut", "wrapped", "name", "target", "mark", "below"] = "fixed"


@dataclass(frozen=True)
class Table:
    """Rows of plain text. The rest is for a terminal alone.

    `yielding` names the columns to leave out where it is narrow, the first first. A `grouped` table's first column
    stands above the rows that share it. `bare` has no headings, `ruled` a line under them. `legend` explains marks and
    columns, each where it is to be seen."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    yielding: Sequence[str] = ()
    grouped: bool = False
    bare: bool = False
    ruled: bool = False
    legend: Mapping[str, str] = field(default_factory=dict)

    def explain(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
        headings = {column.heading for column in columns}
        seen = (
            mark
            for mark in self.legend
            if mark in headings or any(mark in cell for row in rows for cell in row)
        )
        return [self.legend[mark] for mark in seen]


@dataclass(frozen=True)
class Prose:
    """Sentences, each on a line of its own."""

    lines: Sequence[str]


class Points(Prose):
    """A list. What is further in belongs to the line above it."""


class Commands(Prose):
    """Lines to be copied, never broken."""


Part: TypeAlias = Table | Prose


class Section(NamedTuple):
    """Parts under a title, which may be empty; one whose parts are all empty is not shown."""

    title: str
    parts: Sequence[Part]


def shown(sections: Sequence[Section]) -> list[Section]:
    filled = [
        (title, [p for p in parts if (p.rows if isinstance(p, Table) else p.lines)])
        for title, parts in sections
    ]
    return [Section(title, parts) for title, parts in filled if parts]


def as_markdown(title: str, sections: Sequence[Section]) -> str:
    """A whole document. Titles begin with a capital, except where they name a target."""
    blocks = [f"# {escape_cell(title)}"]
    for heading, parts in shown(sections):
        if heading:
            blocks.append(
                f"## {escape_cell(heading if ':' in heading else heading[0].upper() + heading[1:])}"
            )
        blocks += map(_part, parts)
    return "\n\n".join(blocks) + "\n"


def _part(part: Part) -> str:
    if isinstance(part, Table):
        rows = [[escape_cell(cell, limit=_MAX_CELL) for cell in row] for row in part.rows]
        legend = [Prose(lines)] if (lines := part.explain(part.columns, part.rows)) else []
        return "\n\n".join([render_table(part.columns, rows), *map(_part, legend)])
    if isinstance(part, Points):
        return "\n".join(
            f"{' ' * (len(line) - len(line.lstrip(' ')))}- {escape_line(line)}"
            for line in part.lines
        )
    if isinstance(part, Commands):
        # An indented block is shown as it stands, whatever back-ticks a name in it holds.
        return "\n".join(f"    {clean_cell(line)}" for line in part.lines)
    return "\\\n".join(map(escape_line, part.lines))


def pad(cell: str, width: int, align: Literal["left", "right"] = "left") -> str:
    space = " " * (width - display_width(cell))
    return space + cell if align == "right" else cell + space


def render_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """A GitHub-style table of escaped cells; its columns line up in a plain text editor too."""
    lines, aligns = (
        [[column.heading for column in columns], *rows],
        [column.align for column in columns],
    )
    widths = [max(_MIN_WIDTH, *map(display_width, cells)) for cells in zip(*lines, strict=True)]
    rule = [
        "-" * (w - 1) + (":" if align == "right" else "-")
        for w, align in zip(widths, aligns, strict=True)
    ]
    padded = [list(map(pad, line, widths, aligns)) for line in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [padded[0], rule, *padded[1:]])
