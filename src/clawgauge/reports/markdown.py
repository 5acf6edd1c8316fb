"""summary.md: one run for a person, readable as plain text and rendered.

Owns: the order of the sections and what each table shows. Refuses: figures of its own; all come from the summary.
Everything that is not ours (model names, error words, suite names) goes through `escape_cell`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from clawgauge.records import GroupSummary, Percentiles, Resources, RunConfig, RunSummary
from clawgauge.reports.evidence import (
    LEGEND,
    word_channels,
    word_clock,
    word_cost,
    word_money,
    word_repeats,
    word_source,
)
from clawgauge.reports.sanitize import clean_cell, escape_cell
from clawgauge.reports.tables import Column, render_table
from clawgauge.reports.wording import (
    ABSENT,
    MIN_SAMPLES_P95,
    format_bytes,
    format_duration,
    format_measure,
    format_number,
    format_percent,
    format_percentile,
    format_rate,
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
        _beside_the_tier(summary.models),
        _times(summary.models),
        _suites(summary.models),
        _failures(summary, refill),
        _clock(summary.models),
        _resources(summary.models),
        _notes(summary),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _name(text: str) -> str:
    return escape_cell(text, limit=_MAX_NAME)


def _title(group: GroupSummary) -> str:
    return _name(name_target(group))


def _headings(*headings: str, left: Sequence[str] = ()) -> list[Column]:
    """The model first, figures to the right, the columns named in `left` to the left."""
    return [Column("Model"), *(Column(text, "left" if text in left else "right") for text in headings)]


def _section(heading: str, columns: Sequence[Column], rows: Sequence[Sequence[str]], after: Sequence[str] = ()) -> str:
    table = f"## {heading}\n\n{render_table(columns, rows)}"
    return table + "\n\n" + "\n".join(f"- {line}." for line in after) if after else table


def _verdict(summary: RunSummary) -> str:
    groups = summary.models
    n_total, n_ok = sum(g.n_total for g in groups), sum(g.n_ok for g in groups)
    sentences = [
        f"{plural(len(groups), 'model')}, {plural(n_total, 'cell')} recorded, {format_rate(n_ok, n_total)} answered."
    ]
    recommended = [_recommended(g) for g in groups if g.tool_use.recommended_for_subagents]
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


def _recommended(group: GroupSummary) -> str:
    use = group.tool_use
    return f"{_title(group)} ({use.k}/{use.n}{', with a caution: see Tool use' if use.caution else ''})"


def _set_up(config: RunConfig) -> str:
    options = config.options
    asked = Counter(prompt.suite for prompt in config.prompts)
    suites = []
    for suite in config.suites:
        some = f"{asked[suite.name]} of " if asked[suite.name] != suite.n_prompts else ""
        suites.append(f"{_name(suite.name)} {_name(suite.version)} ({some}{plural(suite.n_prompts, 'prompt')})")
    parts = [
        f"Suites: {', '.join(suites)}" if suites else "",
        f"repeats {options.repeats}",
        f"concurrency {options.concurrency}",
        f"timeout {options.timeout_s:g} s",
        "streaming" if options.stream else "no streaming",
        "until decided" if options.until_decided else "",
        "unique prefixes" if options.unique_prefix else "",
        f"clawgauge {_name(config.clawgauge_version)}",
    ]
    return "; ".join(part for part in parts if part) + "."


def _models(groups: Sequence[GroupSummary]) -> str:
    columns = _headings("Answered", "Success", "Pass rate", "Pass of scheduled", "Tool tier", left=["Tool tier"])
    rows = [
        [
            _title(group),
            f"{group.n_ok}/{group.n_scheduled}",
            format_rate(group.n_success, group.n_ok),
            format_rate(group.n_passed, group.n_judged, group.objective_pass_ci95),
            format_rate(group.n_passed, group.n_scheduled_judged),
            _tier(group),
        ]
        for group in groups
    ]
    return _section("Models", columns, rows)


def _tier(group: GroupSummary) -> str:
    use = group.tool_use
    if use.tier is None:
        return ABSENT
    stopped = ", stopped early" if group.stopped_early else ""
    mark = "" if use.decided and not stopped else f" ({'decided' if use.decided else 'provisional'}{stopped})"
    return f"{use.tier}{mark} · {use.k}/{use.n}{' · caution' if use.caution else ''}"


def _tool_use(groups: Sequence[GroupSummary]) -> str:
    kinds = ("Native", "Text", "Malformed", "Mention", "None")
    columns = _headings("Calls made", "Worth n", "P(1) / P(2) / P(3)", *kinds)
    rows = []
    for group in groups:
        use, channels = group.tool_use, group.tool_use.channels
        counts = (channels.native, channels.text, channels.malformed, channels.mention, channels.none)
        rows.append(
            [
                _title(group),
                format_rate(use.k, use.n, use.ci95),
                format_number(use.n_eff, 0 if use.n_eff is None or use.n_eff.is_integer() else 1),
                " / ".join(format_percent(p) for p in use.p_tier) if use.p_tier else ABSENT,
                *(str(n) for n in counts),
            ]
        )
    return _section("Tool use", columns, rows, [_tier_line(group) for group in groups])


def _tier_line(group: GroupSummary) -> str:
    use = group.tool_use
    line = f"{_title(group)}: {escape_cell(use.label)}"
    if use.n:
        line += f"; judged on {_name(word_source(use))}; {_name(word_channels(use))}"
    return line + (f". Caution: {escape_cell(use.caution)}" if use.caution else "")


def _beside_the_tier(groups: Sequence[GroupSummary]) -> str:
    measured = [g for g in groups if g.restraint.n or g.tasks.n or (g.argument_accuracy and g.argument_accuracy.n)]
    columns = _headings("Arguments right", "Restraint", "Tasks done", "Turns", "Tokens")
    rows = []
    for group in measured:
        arguments, tasks = group.argument_accuracy, group.tasks
        rows.append(
            [
                _title(group),
                format_rate(arguments.k, arguments.n, arguments.ci95) if arguments else ABSENT,
                format_rate(group.restraint.k, group.restraint.n, group.restraint.ci95),
                format_rate(tasks.k, tasks.n, tasks.ci95),
                format_number(tasks.mean_turns, 1),
                format_number(tasks.mean_tokens),
            ]
        )
    return _section("Beside the tier", columns, rows) if rows else ""


def _times(groups: Sequence[GroupSummary]) -> str:
    columns = _headings("Measure", "n", "p50", "p95", "p99", "mean", "Timeouts", left=["Measure"])
    return _section("Times", columns, [row for group in groups for row in _time_rows(group)])


def _time_rows(group: GroupSummary) -> list[list[str]]:
    """The whole call always, so that timeouts are told of a model that answered nothing; the rest where measured."""
    measures: list[tuple[str, Percentiles | None, int]] = [
        ("whole call, ms", group.latency_all_ms, 0),
        ("· cold, ms", group.latency_cold_ms if group.latency_cold_ms.n else None, 0),
        ("· warm, ms", group.latency_warm_ms if group.latency_cold_ms.n else None, 0),
        ("first token, ms", group.ttft_ms, 0),
        ("first answer, ms", group.ttfa_ms if group.ttfa_ms != group.ttft_ms else None, 0),
        ("tokens/s", group.output_tps, 1),
    ]
    return [
        [
            _title(group),
            name,
            str(figures.n),
            *(format_measure(figures, percentile, digits) for percentile in ("p50", "p95", "p99")),
            format_number(figures.mean, digits),
            str(group.n_timeouts),
        ]
        for position, (name, figures, digits) in enumerate(measures)
        if figures is not None and (figures.n or position == 0)
    ]


def _suites(groups: Sequence[GroupSummary]) -> str:
    columns = _headings(
        "Suite", "Answered", "Pass rate", "Pass of scheduled", "p50 ms", "p95 ms", "Timeouts", left=["Suite"]
    )
    rows = [
        [
            _title(group),
            _name(suite.suite) or ABSENT,
            f"{suite.n_ok}/{suite.n_scheduled}",
            format_rate(suite.n_passed, suite.n_judged, suite.ci95),
            format_rate(suite.n_passed, suite.n_scheduled_judged),
            format_percentile(suite.latency_ms.p50, suite.n_success),
            format_percentile(suite.latency_ms.p95, suite.n_success, MIN_SAMPLES_P95),
            str(suite.n_timeouts),
        ]
        for group in groups
        for suite in group.suites
    ]
    return _section("By suite", columns, rows) if rows else ""


def _failures(summary: RunSummary, refill: str | None) -> str:
    words = ["Status", "Reason", "In its words", "What to do"]
    columns = _headings("Status", "Reason", "Cells", "In its words", "What to do", left=words)
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
    heading = "What was not answered, and what to do"
    if not rows:
        return f"## {heading}\n\nEvery recorded cell was answered."
    # An indented block is shown as it stands, so that it can be copied.
    again = f"\n\nTo ask these cells again:\n\n    {clean_cell(refill)}" if refill else ""
    return _section(heading, columns, rows) + again


def _clock(groups: Sequence[GroupSummary]) -> str:
    lines = []
    for group in groups:
        if group.clock is not None:
            said = "; ".join(part for part in (word_clock(group.clock), word_cost(group.clock)) if part)
            lines.append(f"- {_title(group)}: {said}.")
    return "## Clock\n\n" + "\n".join(lines) if lines else ""


def _resources(groups: Sequence[GroupSummary]) -> str:
    columns = _headings(
        "Suite took", "Memory before / after", "Peak", "Peak VRAM", "Tokens in / out", "Cached", "Cost", "Energy"
    )
    rows = []
    for group in groups:
        before = group.resources_before if isinstance(group.resources_before, Resources) else None
        after = group.resources_after if isinstance(group.resources_after, Resources) else None
        memory = [format_bytes(state.memory_used_bytes if state else None) for state in (before, after)]
        rows.append(
            [
                _title(group),
                format_duration(group.wall_clock_ms),
                " / ".join(memory),
                format_bytes(group.peak_memory_bytes),
                format_bytes(group.peak_vram_bytes),
                f"{format_number(group.input_tokens)} / {format_number(group.output_tokens)}",
                format_number(group.cached_tokens),
                word_money(group.cost),
                ABSENT if group.energy_j is None else f"{group.energy_j:.0f} J",
            ]
        )
    return _section("Resources", columns, rows)


def _notes(summary: RunSummary) -> str:
    notes = [
        f"{LEGEND}.",
        "Times cover the successful calls (the k of Success). A timeout is a latency cut off at the deadline and "
        "stands in no percentile, so read the two together.",
        "A pass rate covers the successful calls with a verdict; of scheduled cells, it counts unanswered ones too.",
        "Intervals are 95%: Wilson's for rates, by order statistics for percentiles, none where n is too small. "
        "Repeats of a prompt count for what they are worth (Worth n).",
        "A tier is decided at 95% probability; only a decided Tier 1 is recommended.",
    ]
    for group in summary.models:
        if group.repeatability is not None:
            notes.append(f"{_title(group)}: {escape_cell(word_repeats(group.repeatability))}.")
        notes += [f"{_title(group)}: {escape_cell(text)}." for text in group.warnings]
    if summary.n_unreadable_lines:
        lines = plural(summary.n_unreadable_lines, "line")
        notes.append(f"{lines} of results.jsonl could not be read and count in no figure.")
    return "## Notes\n\n" + "\n".join(f"- {note}" for note in notes)
