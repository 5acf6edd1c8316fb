"""summary.md: one run for a person, readable as plain text and rendered.

Owns: the order of the sections and what each table shows. Refuses: figures of its own; all come from the summary.
Everything that is not ours (model names, error words, suite names) goes through `escape_cell`.
"""

from __future__ import annotations

from collections.abc import Iterable

from clawgauge.records import GroupSummary, Resources, RunConfig, RunSummary
from clawgauge.reports.sanitize import clean_terminal, escape_cell
from clawgauge.reports.tables import Column, render_table
from clawgauge.reports.wording import (
    ABSENT,
    INDICATIVE,
    MIN_SAMPLES_P95,
    MIN_SAMPLES_P99,
    format_bytes,
    format_duration,
    format_number,
    format_percent,
    format_percentile,
    format_rate,
    format_spread,
    name_target,
    plural,
)

_MAX_EXAMPLE = 160
_MAX_NAME = 120


def render_markdown(summary: RunSummary, config: RunConfig | None = None, *, refill: str | None = None) -> str:
    """The whole of summary.md. `refill` is the command that asks again what was not answered."""
    sections = [
        f"# clawgauge run {_name(summary.run_id)}",
        _verdict(summary),
        _set_up(config) if config else "",
        _models(summary.models),
        _tool_use(summary.models),
        _suites(summary.models),
        _failures(summary, refill),
        _resources(summary.models),
        _notes(summary),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _name(text: str) -> str:
    return escape_cell(text, limit=_MAX_NAME)


def _title(group: GroupSummary) -> str:
    return _name(name_target(group))


def _verdict(summary: RunSummary) -> str:
    groups = summary.models
    n_total, n_ok = sum(g.n_total for g in groups), sum(g.n_ok for g in groups)
    sentences = [
        f"{plural(len(groups), 'model')}, {plural(n_total, 'cell')} recorded, {format_rate(n_ok, n_total)} answered."
    ]
    recommended = [_title(g) for g in groups if g.tool_use.recommended_for_subagents]
    provisional = [g for g in groups if g.tool_use.tier == 1 and not g.tool_use.decided]
    if recommended:
        sentences.append(f"Recommended for subagents with full tool access: {', '.join(recommended)}.")
    else:
        sentences.append("No model is recommended for subagents with full tool access yet.")
    if provisional:
        named = ", ".join(f"{_title(g)} ({g.tool_use.k}/{g.tool_use.n})" for g in provisional)
        sentences.append(f"Tier 1 so far, but not decided: {named}.")
    timed = [(g.latency_ms.p50, g) for g in groups if g.latency_ms.p50 is not None]
    if len(timed) > 1:
        p50, fastest = min(timed, key=lambda pair: pair[0])
        sentences.append(f"Fastest median: {_title(fastest)}, {p50:.0f} ms over {plural(fastest.n_success, 'call')}.")
    silent = [_title(g) for g in groups if g.n_ok == 0]
    if silent:
        sentences.append(f"Not answered at all: {', '.join(silent)}.")
    if summary.run_wall_clock_ms is not None:
        sentences.append(f"The run took {format_duration(summary.run_wall_clock_ms)}.")
    return " ".join(sentences)


def _set_up(config: RunConfig) -> str:
    options = config.options
    suites = ", ".join(f"{_name(s.name)} {_name(s.version)} ({plural(s.n_prompts, 'prompt')})" for s in config.suites)
    parts = [
        f"Suites: {suites}" if suites else "",
        f"repeats {options.repeats}",
        f"concurrency {options.concurrency}",
        f"timeout {options.timeout_s:g} s",
        "streaming" if options.stream else "no streaming",
        f"clawgauge {_name(config.clawgauge_version)}",
    ]
    return "; ".join(part for part in parts if part) + "."


def _models(groups: Iterable[GroupSummary]) -> str:
    columns = [
        Column("Model"),
        Column("Answered", "right"),
        Column("Success", "right"),
        Column("Pass rate", "right"),
        Column("Pass of scheduled", "right"),
        Column("Tool tier"),
        Column("p50 ms", "right"),
        Column("p95 ms", "right"),
        Column("p99 ms", "right"),
        Column("mean ms", "right"),
        Column("Timeouts", "right"),
        Column("TTFT ms p50 / p95", "right"),
        Column("tok/s p50", "right"),
    ]
    return "## Models\n\n" + render_table(columns, [_model_row(group) for group in groups])


def _model_row(group: GroupSummary) -> list[str]:
    latency, n = group.latency_ms, group.n_success
    tps = group.output_tps
    return [
        _title(group),
        f"{group.n_ok}/{group.n_total}",
        format_rate(group.n_success, group.n_ok),
        format_rate(group.n_passed, group.n_judged, group.objective_pass_ci95),
        format_rate(group.n_passed, group.n_scheduled_judged),
        _tier(group),
        format_percentile(latency.p50, n),
        format_percentile(latency.p95, n, MIN_SAMPLES_P95),
        format_percentile(latency.p99, n, MIN_SAMPLES_P99),
        format_number(latency.mean),
        str(group.n_timeouts),
        format_spread(group.ttft_ms),
        f"{format_number(tps.p50, 1)} (n={tps.n})" if tps.n else ABSENT,
    ]


def _tier(group: GroupSummary) -> str:
    use = group.tool_use
    if use.tier is None:
        return ABSENT
    sure = "" if use.p_tier is None else f" · {format_percent(use.p_tier[use.tier - 1])} sure"
    return f"{use.tier}{'' if use.decided else ' (provisional)'} · {use.k}/{use.n}{sure}"


def _tool_use(groups: Iterable[GroupSummary]) -> str:
    columns = [
        Column("Model"),
        Column("Tier"),
        Column("Calls made", "right"),
        Column("Judged on"),
        Column("Worth n", "right"),
        Column("P(1) / P(2) / P(3)", "right"),
        *(Column(kind, "right") for kind in ("Native", "Text", "Malformed", "Mention", "None")),
        Column("Restraint", "right"),
        Column("Tasks", "right"),
    ]
    rows = []
    for group in groups:
        use = group.tool_use
        channels = use.channels
        rows.append(
            [
                _title(group),
                escape_cell(use.label),
                format_rate(use.k, use.n, use.ci95),
                use.source or ABSENT,
                format_number(use.n_eff, 0 if use.n_eff is None or use.n_eff.is_integer() else 1),
                " / ".join(format_percent(p) for p in use.p_tier) if use.p_tier else ABSENT,
                *(
                    str(n)
                    for n in (channels.native, channels.text, channels.malformed, channels.mention, channels.none)
                ),
                format_rate(group.restraint.k, group.restraint.n, group.restraint.ci95),
                format_rate(group.tasks.k, group.tasks.n, group.tasks.ci95),
            ]
        )
    return "## Tool use\n\n" + render_table(columns, rows)


def _suites(groups: Iterable[GroupSummary]) -> str:
    columns = [
        Column("Model"),
        Column("Suite"),
        Column("Answered", "right"),
        Column("Success", "right"),
        Column("Pass rate", "right"),
        Column("p50 ms", "right"),
        Column("p95 ms", "right"),
    ]
    rows = [
        [
            _title(group),
            _name(suite.suite) or ABSENT,
            f"{suite.n_ok}/{suite.n_total}",
            format_rate(suite.n_success, suite.n_ok),
            format_rate(suite.n_passed, suite.n_judged, suite.ci95),
            format_percentile(suite.latency_ms.p50, suite.n_success),
            format_percentile(suite.latency_ms.p95, suite.n_success, MIN_SAMPLES_P95),
        ]
        for group in groups
        for suite in group.suites
    ]
    return "## By suite\n\n" + render_table(columns, rows) if rows else ""


def _failures(summary: RunSummary, refill: str | None) -> str:
    columns = [
        Column("Model"),
        Column("Status"),
        Column("Reason"),
        Column("Cells", "right"),
        Column("In its words"),
        Column("What to do"),
    ]
    rows = [
        [
            _title(group),
            escape_cell(failure.availability_status),
            escape_cell(failure.failure_type),
            f"{failure.n}/{group.n_total}",
            escape_cell(failure.example or ABSENT, limit=_MAX_EXAMPLE),
            escape_cell(failure.hint or ABSENT),
        ]
        for group in summary.models
        for failure in group.failures
    ]
    heading = "## What was not answered, and what to do\n\n"
    if not rows:
        return heading + "Every recorded cell was answered."
    # An indented block is shown as it stands, so that it can be copied.
    again = f"\n\nTo ask these cells again:\n\n    {' '.join(clean_terminal(refill).split())}" if refill else ""
    return heading + render_table(columns, rows) + again


def _resources(groups: Iterable[GroupSummary]) -> str:
    columns = [
        Column("Model"),
        Column("Suite took", "right"),
        Column("Memory before", "right"),
        Column("Memory after", "right"),
        Column("Peak memory", "right"),
        Column("Peak VRAM", "right"),
        Column("Load before", "right"),
        Column("Load after", "right"),
        Column("Tokens in / out", "right"),
        Column("Cost USD", "right"),
    ]
    rows = []
    for group in groups:
        before = group.resources_before if isinstance(group.resources_before, Resources) else None
        after = group.resources_after if isinstance(group.resources_after, Resources) else None
        rows.append(
            [
                _title(group),
                format_duration(group.wall_clock_ms),
                format_bytes(before.memory_used_bytes if before else None),
                format_bytes(after.memory_used_bytes if after else None),
                format_bytes(group.peak_memory_bytes),
                format_bytes(group.peak_vram_bytes),
                format_number(before.load_1m if before else None, 2),
                format_number(after.load_1m if after else None, 2),
                f"{format_number(group.input_tokens)} / {format_number(group.output_tokens)}",
                format_number(group.cost_usd, 4),
            ]
        )
    return "## Resources\n\n" + render_table(columns, rows)


def _notes(summary: RunSummary) -> str:
    notes = [
        f"{INDICATIVE} indicative only: p95 under {MIN_SAMPLES_P95} calls, p99 under {MIN_SAMPLES_P99}.",
        "Latencies cover the successful calls (the k of Success). A timeout is a latency cut off at the deadline and "
        "stands in no percentile, so read the two together.",
        "A pass rate covers the successful calls with a verdict; of scheduled cells, it counts unanswered ones too.",
        "Intervals are 95% (Wilson). Repeats of a prompt count for what they are worth (Worth n).",
        "A tier is decided at 95% probability; only a decided Tier 1 is recommended.",
    ]
    notes += [
        f"{_title(group)}: cold calls p50 {format_number(group.latency_cold_ms.p50)} ms (n={group.latency_cold_ms.n}), "
        f"warm calls p50 {format_number(group.latency_warm_ms.p50)} ms (n={group.latency_warm_ms.n})."
        for group in summary.models
        if group.latency_cold_ms.n
    ]
    notes += [f"{_title(group)}: {escape_cell(text)}." for group in summary.models for text in group.warnings]
    if summary.n_unreadable_lines:
        lines = plural(summary.n_unreadable_lines, "line")
        notes.append(f"{lines} of results.jsonl could not be read and count in no figure.")
    return "## Notes\n\n" + "\n".join(f"- {note}" for note in notes)
