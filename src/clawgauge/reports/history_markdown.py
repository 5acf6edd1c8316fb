"""A folder's history as Markdown.

Owns: the order of the sections. Refuses: figures of its own; everything that is not ours goes through `escape_cell`.
"""

from __future__ import annotations

from clawgauge.history import History
from clawgauge.reports.history_phrases import (
    RUN_HEADINGS,
    TREND_HEADINGS,
    closing_notes,
    coverage_sentence,
    drift_sentences,
    fill_lines,
    run_row,
    trend_rows,
)
from clawgauge.reports.phrases import clean_lines
from clawgauge.reports.sanitize import escape_cell
from clawgauge.reports.tables import Column, render_table

_MAX_CELL = 200


def render_history_markdown(history: History) -> str:
    """Runs, models, drift, coverage, and what could not be read."""
    sections = [
        f"# Runs in {escape_cell(history.runs_dir)}",
        _table(RUN_HEADINGS, [run_row(run) for run in history.runs]),
        _titled("Models", _table(TREND_HEADINGS, trend_rows(history))),
        _titled("Drift", _bullets(drift_sentences(history))),
        _titled("Coverage", _bullets([f"{part.target}: {coverage_sentence(part)}" for part in history.coverage])),
        _titled("Could not be read", _bullets(closing_notes(history))),
        _titled("To fill what is missing", _commands(fill_lines(history))),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _titled(title: str, body: str) -> str:
    return f"## {title}\n\n{body}" if body else ""


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    columns = [Column(heading.capitalize()) for heading in headings]
    return render_table(columns, [[escape_cell(cell, limit=_MAX_CELL) for cell in row] for row in rows])


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {escape_cell(line, limit=2 * _MAX_CELL)}" for line in lines)


def _commands(lines: list[str]) -> str:
    """A code block. A name in a command may hold back-ticks, so the fence is longer than any run of them."""
    if not lines:
        return ""
    text = clean_lines("\n".join(lines))
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}sh\n{text}{fence}"
