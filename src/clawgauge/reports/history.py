"""A folder's history in words, as plain text and as Markdown."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from clawgauge.history import Coverage, History, Point, RunLine, Trend
from clawgauge.reports.clean import clean_cell, clean_lines, escape_cell
from clawgauge.reports.table import Column, display_width, render_table
from clawgauge.reports.words import ABSENT, INDICATIVE, MIN_SAMPLES_P95, format_interval, one_line, plural

RUN_HEADINGS = ("run", "started", "answered", "passed", "suites", "targets")
TREND_HEADINGS = ("model", "prompts", "runs", "latest", "best", "tier", "p50", "p95")
_MAX_IDS = 8
_MAX_TARGETS = 3
_DEFAULT_WIDTH = 120
_MAX_CELL_TEXT = 60
_MIN_CELL = 12
_MAX_ID = 255
_MAX_SERIES = 20
# What gives way in a narrow terminal, the first first. A run's id never does: it is there to be typed.
_RUNS_YIELD = ("targets", "suites", "passed", "answered", "started")
_MODELS_YIELD = ("p95", "runs", "tier", "prompts", "p50", "latest")
_SERIES_YIELD = ("p50", "answered")
_MAY_BE_CUT = frozenset({"targets", "suites", "prompts"})
_MAX_CELL = 200


def run_row(run: RunLine) -> tuple[str, ...]:
    """One run: when, how much was answered, how much of it passed."""
    names = run.targets[:_MAX_TARGETS]
    more = [f"and {len(run.targets) - _MAX_TARGETS} more"] if len(run.targets) > _MAX_TARGETS else []
    return (
        run.run_id,
        datetime.fromtimestamp(run.started_at_ms / 1000).strftime("%Y-%m-%d %H:%M"),
        f"{run.n_ok}/{run.n_scheduled}",
        f"{run.n_passed}/{run.n_judged}" if run.n_judged else ABSENT,
        ", ".join(run.suites) or ABSENT,
        ", ".join([*names, *more]) or ABSENT,
    )


def trend_rows(history: History) -> list[tuple[str, ...]]:
    """One row per target and set of prompts; two sets that look alike get their form's hash."""
    looks = Counter((trend.target, say_prompts(trend)) for trend in history.trends)
    return [_trend_row(trend, alike=looks[trend.target, say_prompts(trend)] > 1) for trend in history.trends]


def _trend_row(trend: Trend, *, alike: bool) -> tuple[str, ...]:
    latest = trend.latest
    mark = INDICATIVE if latest.n_timed < MIN_SAMPLES_P95 else ""
    return (
        trend.target,
        f"{say_prompts(trend)} #{trend.form}" if alike else say_prompts(trend),
        str(len(trend.points)),
        say_pass_rate(latest),
        f"{trend.best.pass_rate:.0%} ({trend.best.run_id})" if trend.best.pass_rate is not None else ABSENT,
        str(latest.tier) if latest.tier is not None else ABSENT,
        _milliseconds(latest.p50_ms),
        f"{_milliseconds(latest.p95_ms)}{mark if latest.p95_ms is not None else ''}",
    )


def say_prompts(trend: Trend) -> str:
    """`core (36)`: the suites and how many prompts."""
    return f"{'+'.join(trend.suites) or 'first harness'} ({trend.n_prompts})"


def say_pass_rate(point: Point) -> str:
    """The pass rate with its n and interval."""
    if point.pass_rate is None:
        return ABSENT
    interval = "" if point.stopped_early or point.pass_ci95 is None else f" {format_interval(point.pass_ci95)}"
    return f"{point.pass_rate:.0%} {point.n_passed}/{point.n_judged}{interval}"


def _milliseconds(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.0f} ms"


def coverage_sentence(part: Coverage) -> str:
    """`core 9/9 answered`, what is missing, and what was never asked."""
    words = [f"{part.suite or 'first harness'} {part.n_answered}/{part.n_prompts} answered"]
    if part.missing:
        more = f" and {len(part.missing) - _MAX_IDS} more" if len(part.missing) > _MAX_IDS else ""
        words.append(f"missing {', '.join(part.missing[:_MAX_IDS])}{more}")
    if part.n_outdated:
        words.append(f"{part.n_outdated} of them answered in an earlier content")
    if part.n_in_suite is not None and part.n_in_suite > part.n_prompts:
        words.append(f"{plural(part.n_in_suite - part.n_prompts, 'further prompt')} of the suite never asked of anyone")
    return "; ".join(words)


def drift_sentences(history: History) -> list[str]:
    """What changed over time, each with the command that looks closer."""
    return [
        f"{trend.target} on {say_prompts(trend)}: {sentence} "
        f"(clawgauge compare {trend.points[-2].run_id} {trend.latest.run_id})"
        for trend in history.trends
        for sentence in trend.drift
    ]


def series_rows(trend: Trend) -> list[tuple[str, ...]]:
    """A trend run by run."""
    return [
        (point.run_id, f"{point.n_ok}/{point.n_scheduled}", say_pass_rate(point), _milliseconds(point.p50_ms))
        for point in trend.points
    ]


def fill_lines(history: History) -> list[str]:
    """The commands that would fill what is missing, each with how many cells it fills."""
    if history.fill is None:
        return []
    lines = [f"{step.command}    # {plural(len(step.cells), 'cell')}" for step in history.fill]
    if not lines and not history.n_not_fillable:
        lines.append("# nothing is missing")
    if history.n_not_fillable:
        cells = plural(history.n_not_fillable, "cell")
        lines.append(f"# {cells} cannot be planned: the folders of an older harness do not hold their prompts")
    return lines


def closing_notes(history: History) -> list[str]:
    """What could not be read."""
    notes = [f"{run.path}: {run.reason}" for run in history.unreadable]
    notes += [
        f"{run.run_id}: {plural(run.n_unreadable_lines, 'line')} could not be read and counted in nothing"
        for run in history.runs
        if run.n_unreadable_lines
    ]
    return notes


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
    return _text_table(
        RUN_HEADINGS, [run_row(run) for run in history.runs], width, right=("answered", "passed"), yielding=_RUNS_YIELD
    )


def _models(history: History, width: int) -> list[str]:
    rows = trend_rows(history)
    if not rows:
        return []
    # The model's name stands above its rows: it is long, and as a column it would squeeze the figures.
    figures = [row[1:] for row in rows]
    heading, *table = _text_table(
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
    table = _text_table(headings, rows[-_MAX_SERIES:], width - 2, right=("answered", "p50"), yielding=_SERIES_YIELD)
    return [f"  {one_line(trend.target, _MAX_CELL)} on {say_prompts(trend)}", *earlier, *(f"  {row}" for row in table)]


def _coverage(history: History, width: int) -> list[str]:
    lines = []
    for target in dict.fromkeys(part.target for part in history.coverage):
        lines.append(f"  {one_line(target, width - 2)}")
        parts = [part for part in history.coverage if part.target == target]
        lines += [_wrap(f"  {coverage_sentence(part)}", width) for part in parts]
    return lines


def _text_table(
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
    columns = {name: _cut(cells, _MAX_CELL_TEXT) if name in _MAY_BE_CUT else cells for name, cells in columns.items()}
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


def render_history_markdown(history: History) -> str:
    """Runs, models, drift, coverage, and what could not be read."""
    sections = [
        f"# Runs in {escape_cell(history.runs_dir)}",
        _markdown_table(RUN_HEADINGS, [run_row(run) for run in history.runs]),
        _titled("Models", _markdown_table(TREND_HEADINGS, trend_rows(history))),
        _titled("Drift", _bullets(drift_sentences(history))),
        _titled("Coverage", _bullets([f"{part.target}: {coverage_sentence(part)}" for part in history.coverage])),
        _titled("Could not be read", _bullets(closing_notes(history))),
        _titled("To fill what is missing", _commands(fill_lines(history))),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _titled(title: str, body: str) -> str:
    return f"## {title}\n\n{body}" if body else ""


def _markdown_table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
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
