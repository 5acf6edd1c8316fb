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
from clawgauge.reports.sanitize import clean_cell
from clawgauge.reports.tables import display_width
from clawgauge.reports.wording import INDICATIVE, plural

_DEFAULT_WIDTH = 120
_MAX_CELL = 60
_MIN_CELL = 12
_MAX_ID = 255
_MAX_SERIES = 20
# What gives way in a narrow terminal, the first first. A run's id never does: it is there to be typed.
_RUNS_YIELD = ("targets", "suites", "passed", "answered", "started")
_MODELS_YIELD = ("p95", "runs", "tier", "prompts", "p50", "latest")
_SERIES_YIELD = ("p50", "answered")
_MAY_BE_CUT = frozenset({"targets", "suites", "prompts"})


def render_history_text(history: History, width: int | None = None) -> str:
    """Runs, models, how they moved, coverage, and what could not be read."""
    width = width or _DEFAULT_WIDTH
    if not history.runs and not history.unreadable:
        return clean_lines(f"no run in {history.runs_dir} fits: make one with clawgauge run, or name its --runs-dir")
    parts = [
        _section(clean_cell(f"{plural(len(history.runs), 'run')} in {history.runs_dir}"), _runs(history, width)),
        _section("models", _models(history, width)),
        _section("run by run", [line for trend in history.trends for line in _series(trend, width)]),
        _section("drift", [_wrap(sentence, width) for sentence in drift_sentences(history)]),
        _section("coverage", _coverage(history, width)),
        _section("could not be read", [_wrap(note, width) for note in closing_notes(history)]),
        _section("to fill what is missing", [f"  {' '.join(line.splitlines())}" for line in fill_lines(history)]),
    ]
    return clean_lines("\n".join(part for part in parts if part))


def _section(heading: str, lines: Sequence[str]) -> str:
    return "\n".join([heading, *lines]) + "\n" if lines else ""


def _runs(history: History, width: int) -> list[str]:
    return _table(
        RUN_HEADINGS, [run_row(run) for run in history.runs], width, right=("answered", "passed"), yielding=_RUNS_YIELD
    )


def _models(history: History, width: int) -> list[str]:
    rows = trend_rows(history)
    if not rows:
        return []
    # The model's name stands above its rows: it is long, and as a column it would squeeze the figures.
    figures = [row[1:] for row in rows]
    heading, *table = _table(
        TREND_HEADINGS[1:], figures, width - 2, right=("runs", "p50", "p95"), yielding=_MODELS_YIELD
    )
    lines = [f"  {heading}"]
    for place, line in enumerate(table):
        if place == 0 or rows[place][0] != rows[place - 1][0]:
            lines.append(f"  {one_line(rows[place][0], width - 2)}")
        lines.append(f"  {line}")
    if any(INDICATIVE in line for line in table):
        lines.append(f"  {INDICATIVE} from fewer than 59 calls: indicative only")
    return lines


def _series(trend: Trend, width: int) -> list[str]:
    """Only what has moved through more than one run is a series."""
    if len(trend.points) < 2:
        return []
    rows = series_rows(trend)
    earlier = [f"    … {len(rows) - _MAX_SERIES} earlier"] if len(rows) > _MAX_SERIES else []
    headings = ("run", "answered", "passed", "p50")
    table = _table(headings, rows[-_MAX_SERIES:], width - 2, right=("answered", "p50"), yielding=_SERIES_YIELD)
    return [f"  {one_line(trend.target, _MAX_CELL)} on {say_prompts(trend)}", *earlier, *(f"  {row}" for row in table)]


def _coverage(history: History, width: int) -> list[str]:
    lines = []
    for target in dict.fromkeys(part.target for part in history.coverage):
        lines.append(f"  {one_line(target, width - 2)}")
        parts = [part for part in history.coverage if part.target == target]
        lines += [_wrap(f"  {coverage_sentence(part)}", width) for part in parts]
    return lines


def _table(
    headings: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    width: int,
    *,
    right: Sequence[str],
    yielding: Sequence[str],
) -> list[str]:
    """Aligned columns; in a narrow terminal names are cut, then the columns in `yielding` are left out one by one."""
    columns = {
        heading: [heading, *(one_line(row[place], _MAX_ID) for row in rows)] for place, heading in enumerate(headings)
    }
    columns = {name: _cut(cells, _MAX_CELL) if name in _MAY_BE_CUT else cells for name, cells in columns.items()}
    for leaving in (None, *yielding):
        if leaving is not None:
            del columns[leaving]
        if _shrink(columns, width):
            break
    padded = [_padded(cells, right=name in right) for name, cells in columns.items()]
    return [f"  {'  '.join(line)}".rstrip() for line in zip(*padded, strict=True)]


def _shrink(columns: dict[str, list[str]], width: int) -> bool:
    """Cut what may be cut, as little as it takes; False, and nothing cut, where even that does not fit the width."""
    excess = sum(2 + _width(cells) for cells in columns.values()) - width
    rooms = {name: _width(cells) for name, cells in columns.items() if name in _MAY_BE_CUT}
    while excess > 0 and rooms and max(rooms.values()) > _MIN_CELL:
        rooms[max(rooms, key=lambda name: rooms[name])] -= 1
        excess -= 1
    if excess > 0:
        return False
    columns.update({name: _cut(columns[name], room) for name, room in rooms.items()})
    return True


def _cut(cells: Sequence[str], room: int) -> list[str]:
    return [one_line(cell, room) for cell in cells]


def _width(cells: Sequence[str]) -> int:
    return max(map(display_width, cells))


def _padded(cells: Sequence[str], *, right: bool) -> list[str]:
    return [_pad(cell, _width(cells), right=right) for cell in cells]


def _pad(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - display_width(cell))
    return space + cell if right else cell + space


def _wrap(text: str, width: int) -> str:
    own = len(text) - len(text.lstrip()) + 2
    return textwrap.fill(
        text.strip(),
        width,
        initial_indent=" " * own,
        subsequent_indent=" " * (own + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
