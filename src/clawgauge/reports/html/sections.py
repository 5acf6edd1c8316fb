"""The sections of any report as HTML; two answers that stand beside each other have what differs marked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from html import escape

from clawgauge.reports.clean import clean_cell, clean_terminal
from clawgauge.reports.document import Commands, Part, Points, Section, Table, shown

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
# To find what differs takes the square of the length.
_MAX_MARKED_WORDS = 2_000


def as_html(sections: Sequence[Section]) -> str:
    """One `<section>` each. Whatever stands in them may be a stranger's words: all of it is escaped."""
    blocks = []
    for title, parts in shown(sections):
        heading = f"<h2>{text(title)}</h2>" if title else ""
        blocks.append(f"<section>{heading}{''.join(map(_part, parts))}</section>")
    return "\n".join(blocks)


def text(words: str) -> str:
    return escape(clean_cell(words))


def _part(part: Part) -> str:
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Points):
        points = (
            f"<li{' class=within' if line.startswith(' ') else ''}>{text(line)}</li>"
            for line in part.lines
        )
        return f"<ul>{''.join(points)}</ul>"
    if isinstance(part, Commands):
        return f"<pre>{escape(chr(10).join(map(clean_cell, part.lines)))}</pre>"
    return "".join(f"<p>{text(line.strip())}</p>" for line in part.lines)


def _table(table: Table) -> str:
    below = [place for place, column in enumerate(table.columns) if column.narrow == "below"]
    beside = [place for place in range(len(table.columns)) if place not in below]
    headings = [column.heading for column in table.columns]
    # Where there is no room for columns each figure stands beside its heading.
    kinds = [
        f'class="{table.columns[place].align}" data-label="{text(headings[place])}"'
        for place in beside
    ]
    kind = f' class="{"bare" if table.bare else "many"}"' if len(beside) > 2 else ""

    def line(tag: str, cells: Sequence[str]) -> str:
        told = (
            f"<{tag} {kind}>{text(cells[place])}</{tag}>"
            for place, kind in zip(beside, kinds, strict=True)
        )
        return f"<tr>{''.join(told)}</tr>"

    head = "" if table.bare else f"<thead>{line('th', headings)}</thead>"
    rows = []
    for row in table.rows:
        rows.append(line("td", row))
        if len(below) == 2:
            pair = zip(below, mark_differences(*(row[place] for place in below)), strict=True)
            columns = [
                f"<div><h3>{text(headings[n])}</h3><pre>{marked}</pre></div>" for n, marked in pair
            ]
            rows.append(
                f'<tr><td colspan="{len(beside)}"><div class="beside">{"".join(columns)}</div></td></tr>'
            )
    legend = "".join(f"<p>{text(line)}</p>" for line in table.explain(table.columns, table.rows))
    return (
        f'<div class="wide"><table{kind}>{head}<tbody>{"".join(rows)}</tbody></table></div>{legend}'
    )


def mark_differences(left: str, right: str) -> tuple[str, str]:
    """Both texts escaped, with `<mark>` around the words that the other one does not have there."""
    texts = [clean_terminal(one) for one in (left, right)]
    a, b = (_WORDS.findall(one) for one in texts)
    if max(len(a), len(b)) > _MAX_MARKED_WORDS:
        return escape(texts[0]), escape(texts[1])
    marked: tuple[list[str], list[str]] = ([], [])
    for kind, a_from, a_to, b_from, b_to in difflib.SequenceMatcher(
        None, a, b, autojunk=False
    ).get_opcodes():
        for out, words in zip(marked, (a[a_from:a_to], b[b_from:b_to]), strict=True):
            said = escape("".join(words))
            out.append(said if kind == "equal" or not said else f"<mark>{said}</mark>")
    return "".join(marked[0]), "".join(marked[1])
