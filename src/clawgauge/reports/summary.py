"""A run's summary for a person: summary.md, and the same figures in fewer columns for a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from clawgauge.records import GroupSummary, Percentiles, Resources, RunConfig, RunSummary
from clawgauge.reports.clean import clean_cell, clean_lines, escape_cell
from clawgauge.reports.table import Column, render_table
from clawgauge.reports.words import (
    ABSENT,
    INDICATIVE,
    LEGEND,
    MIN_SAMPLES_P95,
    format_bytes,
    format_duration,
    format_interval,
    format_measure,
    format_number,
    format_percent,
    format_percentile,
    format_rate,
    name_target,
    one_line,
    plural,
    word_beside,
    word_channels,
    word_clock,
    word_cost,
    word_money,
    word_repeats,
    word_source,
    word_temperatures,
    word_tier,
)

_MAX_EXAMPLE = 160
_MAX_NAME = 120
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


def render_summary(summary: RunSummary, width: int | None = None) -> str:
    """Models, tiers, clock, and what went wrong. `width` is the terminal's: columns that do not fit are left out."""
    parts = [
        f"run {clean_cell(summary.run_id)}\n",
        _models_table(summary, width),
        _tiers(summary, width),
        _clock_lines(summary, width),
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


def _clock_lines(summary: RunSummary, width: int | None) -> str:
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
