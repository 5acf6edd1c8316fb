"""A run's summary as plain text for a terminal: the same figures as summary.md, in fewer columns."""

from __future__ import annotations

from pathlib import Path

from clawgauge.records import GroupSummary, LatencyStats, Percentiles, RunSummary, Target
from clawgauge.reports.phrases import clean_lines, one_line
from clawgauge.reports.wording import plural

_RULE = "─"
_NAME_CHARS = 80
_SHORT_NAME_CHARS = 24
_DROPPED_FIRST = ("ttft p95", "p99", "tok/s", "ttft p50", "p95")
_EXAMPLE_CHARS = 160
_HINT_CHARS = 240


def render_summary(summary: RunSummary, width: int | None = None) -> str:
    """Models, tiers, and what went wrong. `width` is the terminal's: columns that do not fit are left out."""
    parts = [f"run {summary.run_id}\n", _models_table(summary, width), _tiers(summary), _not_answered(summary)]
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
        lines.append(f"{', '.join(what)}; go on with:\n  {refill}")
    lines.append(f"everything is in {path}")
    return clean_lines("\n".join(lines)) + "\n"


def _models_table(summary: RunSummary, width: int | None) -> str:
    header = ("model", "answered", "passed", "p50", "p95", "p99", "ttft p50", "ttft p95", "tok/s")
    rows: list[tuple[str, ...]] = [header]
    for group in summary.models:
        latency = group.latency_ms
        rows.append(
            (
                _label(group),
                f"{group.n_ok}/{group.n_scheduled}",
                _passed(group),
                _ms(latency.p50),
                _ms(latency.p95),
                _ms(latency.p99),
                _ms(group.ttft_ms.p50),
                _ms(group.ttft_ms.p95),
                _rate(group.output_tps),
            )
        )
    return _aligned(_fitted(rows, width)) + _thin_tails(summary)


def _fitted(rows: list[tuple[str, ...]], width: int | None) -> list[tuple[str, ...]]:
    """The table within the terminal: first long names give way, then the figures a person misses least."""
    kept = list(range(len(rows[0])))
    for dropped in (None, *_DROPPED_FIRST):
        kept = [column for column in kept if rows[0][column] != dropped]
        others = sum(max(len(row[column]) for row in rows) + 2 for column in kept[1:])
        if width is None or others + _SHORT_NAME_CHARS <= width:
            break
    names = _NAME_CHARS if width is None else max(_SHORT_NAME_CHARS, width - others)
    return [(one_line(row[0], names), *(row[column] for column in kept[1:])) for row in rows]


def _thin_tails(summary: RunSummary) -> str:
    """p95 of a few calls is a guess: say from how many."""
    fewest = min((group.n_success for group in summary.models if group.n_success), default=0)
    if not fewest or fewest >= 299:
        return ""
    which = "p95 and p99 are" if fewest < 59 else "p99 is"
    return f"{which} indicative only: from {fewest} calls\n"


def _label(group: GroupSummary) -> str:
    return one_line(Target(group.provider, group.model, group.thinking_level).label, _NAME_CHARS)


def _passed(group: GroupSummary) -> str:
    if group.objective_pass_rate is None:
        return "–"
    interval = group.objective_pass_ci95
    bounds = f" [{interval[0]:.0%}–{interval[1]:.0%}]" if interval else ""
    return f"{group.n_passed}/{group.n_judged} {group.objective_pass_rate:.0%}{bounds}"


def _tiers(summary: RunSummary) -> str:
    lines = ["tool use"]
    for group in summary.models:
        use = group.tool_use
        lines.append(f"  {_label(group)}: {use.label}")
        if not use.n:
            continue
        interval = f" [{use.ci95[0]:.0%}–{use.ci95[1]:.0%}]" if use.ci95 else ""
        how_sure = f", {use.p_tier[use.tier - 1]:.0%} sure" if use.p_tier and use.tier else ""
        source = f" ({use.source})" if use.source else ""
        advice = "recommended" if use.recommended_for_subagents else "not recommended"
        lines.append(f"      {use.k}/{use.n}{interval}{how_sure}{source}; {advice} for subagents with full tool access")
    return "\n".join(lines) + "\n"


def _not_answered(summary: RunSummary) -> str:
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


def _ms(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.1f} s"


def _rate(figures: Percentiles | LatencyStats) -> str:
    return f"{figures.p50:.0f}" if figures.p50 is not None else "–"


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
        if number == 0:
            lines.append(_RULE * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join(lines) + "\n"
