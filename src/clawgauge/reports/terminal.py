"""A run's summary as plain text for a terminal: the same figures as summary.md, in fewer columns.

Owns: fitting a width; what does not fit is left out, the figures a person misses least first. Refuses: words that
summary.md says too; those are shared.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from clawgauge.records import GroupSummary, Percentiles, RunSummary
from clawgauge.reports.evidence import (
    LEGEND,
    word_beside,
    word_channels,
    word_clock,
    word_money,
    word_repeats,
    word_source,
    word_temperatures,
    word_tier,
)
from clawgauge.reports.phrases import clean_lines, one_line
from clawgauge.reports.sanitize import clean_cell
from clawgauge.reports.wording import ABSENT, INDICATIVE, format_interval, format_percent, name_target, plural

_RULE = "─"
_NAME_CHARS = 80
_SHORT_NAME_CHARS = 24
_DROPPED_FIRST = ("ttft p95", "p99 ms", "tok/s", "ttft p50", "p95 ms", "n")
_EXAMPLE_CHARS = 160
_HINT_CHARS = 240
_WIDEST = 100
_NARROWEST = 40
_INDENT = "  "
_DEEPER = "      "


def render_summary(summary: RunSummary, width: int | None = None) -> str:
    """Models, tiers, clock, and what went wrong. `width` is the terminal's: columns that do not fit are left out."""
    parts = [
        f"run {clean_cell(summary.run_id)}\n",
        _models_table(summary, width),
        _tiers(summary, width),
        _clock(summary, width),
        _costs(summary),
        _worth_knowing(summary),
    ]
    return clean_lines("\n".join(part for part in parts if part))


def render_ending(summary: RunSummary, path: Path, refill: str, *, interrupted: bool, width: int | None = None) -> str:
    """The last words of `run`: the summary, what is missing, and the way to fill it."""
    lines = ["", render_summary(summary, width).rstrip("\n"), ""]
    unasked = sum(max(0, group.n_scheduled - group.n_total) for group in summary.models)
    failed = sum(group.n_total - group.n_ok for group in summary.models)
    if interrupted:
        lines.append("interrupted: what was recorded stands")
    if unasked or failed:
        what = [f"{plural(failed, 'call')} not answered"] if failed else []
        what += [f"{plural(unasked, 'call')} not made"] if unasked else []
        lines.append(f"{', '.join(what)}; go on with:\n  {' '.join(refill.splitlines())}")
    lines.append(f"everything is in {clean_cell(str(path))}")
    return clean_lines("\n".join(lines)) + "\n"


def _models_table(summary: RunSummary, width: int | None) -> str:
    header = (
        "model",
        "answered",
        "passed",
        "of all",
        "n",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "ttft p50",
        "ttft p95",
        "tok/s",
    )
    rows: list[tuple[str, ...]] = [header]
    for group in summary.models:
        latency = group.latency_all_ms or Percentiles(n=group.n_success)
        rows.append(
            (
                _label(group),
                f"{group.n_ok}/{group.n_scheduled}",
                _passed(group),
                f"{group.n_passed}/{group.n_scheduled_judged}" if group.n_scheduled_judged else ABSENT,
                str(latency.n),
                *(_ms(latency, name) for name in ("p50", "p95", "p99")),
                *(_ms(group.ttft_ms, name) for name in ("p50", "p95")),
                ABSENT if group.output_tps.p50 is None else f"{group.output_tps.p50:.0f}",
            )
        )
    fitted = _fitted(rows, width)
    return _aligned(fitted) + _under_the_table(summary, fitted, width)


def _fitted(rows: list[tuple[str, ...]], width: int | None) -> list[tuple[str, ...]]:
    """The table within the terminal: first long names give way, then the figures a person misses least."""
    names = [row[0] for row in rows]
    if width is None:
        return rows
    short = _without_providers(names)
    least = min(_SHORT_NAME_CHARS, max(len(name) for name in short))
    kept = list(range(len(rows[0])))
    for dropped in (None, *_DROPPED_FIRST):
        kept = [column for column in kept if rows[0][column] != dropped]
        others = sum(max(len(row[column]) for row in rows) + 2 for column in kept[1:])
        if others + least <= width:
            break
    room = max(least, width - others)
    if max(len(name) for name in names) > room:
        names = [one_line(name, room) for name in short]
    return [(name, *(row[column] for column in kept[1:])) for name, row in zip(names, rows, strict=True)]


def _without_providers(names: list[str]) -> list[str]:
    """Target labels cut down to their models, unless two would then be called alike."""
    short = [name.partition(":")[2] or name for name in names]
    return short if len(set(short)) == len(names) else names


def _under_the_table(summary: RunSummary, shown: list[tuple[str, ...]], width: int | None) -> str:
    """What the columns mean, and what stands in no percentile."""
    lines = ["of all: passes of all scheduled cells with a verdict, answered or not"]
    if any(INDICATIVE in cell for row in shown for cell in row):
        lines.append(LEGEND)
    for group in summary.models:
        timeouts = f"{plural(group.n_timeouts, 'timeout')} in no percentile" if group.n_timeouts else ""
        repeats = word_repeats(group.repeatability) if group.repeatability is not None else ""
        if said := "; ".join(part for part in (timeouts, word_temperatures(group), repeats) if part):
            lines.append(f"{_label(group)}: {said}")
    return "".join(_wrapped(line, width, "", _INDENT) + "\n" for line in lines)


def _label(group: GroupSummary) -> str:
    return one_line(name_target(group), _NAME_CHARS)


def _share(k: int, n: int) -> str:
    return f"{k}/{n} {format_percent(k / n)}" if n else ABSENT


def _passed(group: GroupSummary) -> str:
    interval = group.objective_pass_ci95
    bounds = f" [{format_interval(interval)}]" if interval and group.n_judged else ""
    return _share(group.n_passed, group.n_judged) + bounds


def _tiers(summary: RunSummary, width: int | None) -> str:
    lines = ["tool use"]
    for group in summary.models:
        use = group.tool_use
        stopped = "; stopped early" if group.stopped_early else ""
        lines.append(_wrapped(f"{_label(group)}: {use.label}{stopped}", width, _INDENT, _DEEPER))
        said = []
        if use.caution:
            said.append(f"caution: {use.caution}")
        if use.n:
            advice = "recommended" if use.recommended_for_subagents else "not recommended"
            said.append(f"{word_tier(use)}; {advice} for subagents with full tool access")
            said.append(f"{word_source(use)}: {word_channels(use)}")
        if beside := word_beside(group):
            said.append(beside)
        lines += [_wrapped(one_line(line, 1000), width, _DEEPER, _DEEPER + _INDENT) for line in said]
    return "\n".join(lines) + "\n"


def _clock(summary: RunSummary, width: int | None) -> str:
    said = [(group, word_clock(group.clock)) for group in summary.models if group.clock is not None]
    lines = [
        _wrapped(f"clock: {words}" if len(summary.models) == 1 else f"clock, {_label(group)}: {words}", width, "", "  ")
        for group, words in said
        if words
    ]
    return "\n".join(lines) + "\n" if lines else ""


def _costs(summary: RunSummary) -> str:
    priced = [group for group in summary.models if group.cost is not None]
    if not priced:
        return ""
    return "\n".join(["cost", *(f"{_INDENT}{_label(group)}: {word_money(group.cost)}" for group in priced)]) + "\n"


def _worth_knowing(summary: RunSummary) -> str:
    lines = []
    for group in summary.models:
        for failure in group.failures:
            hint = f" → {one_line(failure.hint, _HINT_CHARS)}" if failure.hint else ""
            said = f": {one_line(failure.example, _EXAMPLE_CHARS)}" if failure.example else ""
            lines.append(f"  {_label(group)}: {failure.n} × {failure.failure_type}{said}{hint}")
        lines += [f"  {_label(group)}: {one_line(warning, _HINT_CHARS)}" for warning in group.warnings]
    if summary.n_unreadable_lines:
        lines.append(f"  {plural(summary.n_unreadable_lines, 'line')} of results.jsonl could not be read")
    return "\n".join(["worth knowing", *lines]) + "\n" if lines else ""


def _wrapped(text: str, width: int | None, first: str, following: str) -> str:
    """One paragraph within the terminal, at most 100 columns even where it is wider."""
    room = _WIDEST if width is None else max(_NARROWEST, min(width, _WIDEST))
    return textwrap.fill(text, room, initial_indent=first, subsequent_indent=following, break_on_hyphens=False)


def _ms(figures: Percentiles, name: str) -> str:
    value = getattr(figures, name)
    if value is None:
        return ABSENT
    mark = INDICATIVE if name in figures.indicative else ""
    return f"{value:.0f}{mark}"


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
        if number == 0:
            lines.append(_RULE * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join(lines) + "\n"
