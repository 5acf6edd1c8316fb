"""A folder's history as plain text for a terminal.

Owns: the order of the sections, and which columns give way in a narrow terminal. Refuses: figures of its own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from clawgauge.history import History, Trend
from clawgauge.reports.history_phrases import (
    RUN_HEADINGS,
    TREND_HEADINGS,
    closing_notes,
    coverage_sentence,
    drift_sentences,
    fill_lines,
    run_row,
    say_prompts,
    series_rows,
    trend_rows,
)
from clawgauge.reports.phrases import clean_lines, one_line
from clawgauge.reports.tables import display_width
from clawgauge.reports.wording import INDICATIVE, plural

_DEFAULT_WIDTH = 120
_MAX_CELL = 60
_MIN_CELL = 12
_MAX_SERIES = 20


def render_history_text(history: History, width: int | None = None) -> str:
    """Runs, models, how they moved, coverage, and what could not be read."""
    width = width or _DEFAULT_WIDTH
    if not history.runs and not history.unreadable:
        return clean_lines(f"no run in {history.runs_dir} fits: make one with clawgauge run, or name its --runs-dir")
    parts = [
        _section(f"{plural(len(history.runs), 'run')} in {history.runs_dir}", _runs(history, width)),
        _section("models", _models(history, width)),
        _section("run by run", [line for trend in history.trends for line in _series(trend, width)]),
        _section("drift", [_wrap(sentence, width) for sentence in drift_sentences(history)]),
        _section("coverage", _coverage(history, width)),
        _section("could not be read", [_wrap(note, width) for note in closing_notes(history)]),
        _section("to fill what is missing", [f"  {line}" for line in fill_lines(history)]),
    ]
    return clean_lines("\n".join(part for part in parts if part))


def _section(heading: str, lines: Sequence[str]) -> str:
    return "\n".join([heading, *lines]) + "\n" if lines else ""


def _runs(history: History, width: int) -> list[str]:
    return _table([RUN_HEADINGS, *(run_row(run) for run in history.runs)], width, right=(2, 3))


def _models(history: History, width: int) -> list[str]:
    rows = trend_rows(history)
    if not rows:
        return []
    # The model's name stands above its rows: it is long, and as a column it would squeeze the figures.
    heading, *table = _table([row[1:] for row in (TREND_HEADINGS, *rows)], width - 2, right=(1, 5, 6))
    lines = [f"  {heading}"]
    for place, line in enumerate(table):
        if place == 0 or rows[place][0] != rows[place - 1][0]:
            lines.append(f"  {one_line(rows[place][0], width - 2)}")
        lines.append(f"  {line}")
    if any(INDICATIVE in row[-1] for row in rows):
        lines.append(f"  {INDICATIVE} from fewer than 59 calls: indicative only")
    return lines


def _series(trend: Trend, width: int) -> list[str]:
    """Only what has moved through more than one run is a series."""
    if len(trend.points) < 2:
        return []
    rows = series_rows(trend)
    earlier = [f"    … {len(rows) - _MAX_SERIES} earlier"] if len(rows) > _MAX_SERIES else []
    table = _table([("run", "answered", "passed", "p50"), *rows[-_MAX_SERIES:]], width - 2, right=(1, 3))
    return [f"  {one_line(trend.target, _MAX_CELL)} on {say_prompts(trend)}", *earlier, *(f"  {row}" for row in table)]


def _coverage(history: History, width: int) -> list[str]:
    lines = []
    for target in dict.fromkeys(part.target for part in history.coverage):
        lines.append(f"  {one_line(target, width - 2)}")
        parts = [part for part in history.coverage if part.target == target]
        lines += [_wrap(f"  {coverage_sentence(part)}", width) for part in parts]
    return lines


def _table(rows: Sequence[tuple[str, ...]], width: int, *, right: tuple[int, ...]) -> list[str]:
    """Aligned columns; where the terminal is too narrow, the widest columns of names give way."""
    cells = [[one_line(cell, _MAX_CELL) for cell in row] for row in rows]
    widths = [max(display_width(row[column]) for row in cells) for column in range(len(cells[0]))]
    while 2 + sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > _MIN_CELL:
        widths[widths.index(max(widths))] -= 1
    lines = []
    for row in cells:
        fitted = [one_line(cell, room) for cell, room in zip(row, widths, strict=True)]
        padded = [_pad(cell, widths[place], right=place in right) for place, cell in enumerate(fitted)]
        lines.append(f"  {'  '.join(padded)}".rstrip())
    return lines


def _pad(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - display_width(cell))
    return space + cell if right else cell + space


def _wrap(text: str, width: int) -> str:
    own = len(text) - len(text.lstrip()) + 2
    return textwrap.fill(text.strip(), width, initial_indent=" " * own, subsequent_indent=" " * (own + 2))
