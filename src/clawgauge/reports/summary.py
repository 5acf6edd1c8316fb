"""A run's summary for a person: summary.md, and the same figures in fewer columns for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clawgauge.records import GroupSummary, Percentiles, Resources, RunConfig, RunSummary
from clawgauge.reports.clean import one_line
from clawgauge.reports.document import Column, Commands, Part, Points, Prose, Section, Table, as_markdown
from clawgauge.reports.findings import is_passing, pace_ms, word_median
from clawgauge.reports.words import (
    INDICATIVE,
    LEGEND,
    MAX_HINT,
    MIN_SAMPLES_P95,
    format_measure,
    format_percentile,
    word_balance,
    word_beside,
    word_channels,
    word_clock,
    word_cost,
    word_failure,
    word_money,
    word_options,
    word_recommendation,
    word_repeats,
    word_source,
    word_suites,
    word_temperatures,
    word_tier,
    word_unreadable,
)
from clawgauge.summary.recommendation import word_evidence_command, word_lacking
from clawgauge.words import (
    ABSENT,
    format_bytes,
    format_duration,
    format_number,
    format_percent,
    format_rate,
    plural,
)

_MAX_NAME = 120
_MAX_EXAMPLE = 160
_TERMINAL_COLUMNS = (
    Column("model", narrow="name"),
    *(
        Column(heading, "right")
        for heading in (
            "answered", "passed", "of all", "n", "p50 ms", "p95 ms", "p99 ms", "ttft p50", "ttft p95", "tok/s",
        )
    ),
)  # fmt: skip
# The figures a person misses least.
_YIELDING = ("ttft p95", "p99 ms", "tok/s", "ttft p50", "p95 ms", "n", "of all")


def render_markdown(summary: RunSummary, config: RunConfig | None = None, *, refill: str | None = None) -> str:
    """The whole of summary.md. `refill` is the command that asks again what was not answered."""
    groups = summary.models
    sections = [
        Section("", [Prose([_verdict(summary)])]),
        Section("", [Prose([_set_up(config)] if config else [])]),
        _models(groups),
        _tool_use(groups),
        _beside_the_tier(groups),
        _times(groups),
        _suites(groups),
        _categories(groups),
        _failures(summary, refill),
        Section("Clock", [Points(_clocks(groups))]),
        _resources(groups),
        Section("Notes", [Points(_notes(summary))]),
    ]
    return as_markdown(f"clawgauge run {_cut(summary.run_id)}", sections)


def _cut(text: str) -> str:
    return one_line(text, _MAX_NAME)


def _title(group: GroupSummary) -> str:
    return _cut(group.target.label)


def _headings(*headings: str, left: Sequence[str] = ()) -> list[Column]:
    """The model first, figures to the right, the columns named in `left` to the left."""
    return [Column("Model"), *(Column(text, "left" if text in left else "right") for text in headings)]


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
    lacking = [
        f"{_title(g)} ({word_lacking(g.tool_use.needs)})"
        for g in groups
        if g.tool_use.tier == 1 and g.tool_use.decided and not g.tool_use.recommended_for_subagents
    ]
    if lacking:
        sentences.append(f"Tier 1, which alone is not enough: {', '.join(lacking)}.")
    if provisional:
        named = ", ".join(f"{_title(g)} ({g.tool_use.k}/{g.tool_use.n})" for g in provisional)
        sentences.append(f"Tier 1 so far, but not decided: {named}.")
    if len(timed := [g for g in groups if g.latency_ms.p50 is not None]) > 1:
        fastest = min([g for g in timed if is_passing(g)] or timed, key=pace_ms)
        which = "Fastest that passes" if is_passing(fastest) else "Fastest, though none passes"
        sentences.append(f"{which}: {_title(fastest)}, {word_median(fastest)}.")
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
    suites = f"Suites: {word_suites(config)}; " if config.suites else ""
    return f"{suites}{word_options(config.options)}; clawgauge {_cut(config.clawgauge_version)}."


def _models(groups: Sequence[GroupSummary]) -> Section:
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
    return Section("Models", [Table(columns, rows)])


def _tier(group: GroupSummary) -> str:
    use = group.tool_use
    if use.tier is None:
        return ABSENT
    stopped = ", stopped early" if group.stopped_early else ""
    mark = "" if use.decided and not stopped else f" ({'decided' if use.decided else 'provisional'}{stopped})"
    return f"{use.tier}{mark} · {use.k}/{use.n}{' · caution' if use.caution else ''}"


def _tool_use(groups: Sequence[GroupSummary]) -> Section:
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
    lines = [_tier_line(group) for group in groups]
    return Section("Tool use", [Table(columns, rows), Points(lines), *_way_to_tell(groups)])


def _tier_line(group: GroupSummary) -> str:
    use = group.tool_use
    line = f"{_title(group)}: {use.label}"
    if use.n:
        line += f"; judged on {_cut(word_source(use))}; {_cut(word_channels(use))}"
    return line + (f". Caution: {use.caution}." if use.caution else ".")


def _beside_the_tier(groups: Sequence[GroupSummary]) -> Section:
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
    said = [f"{_title(group)}: {words}." for group in measured if (words := word_balance(group.call_balance))]
    return Section("Beside the tier", [Table(columns, rows), Points(said)])


def _times(groups: Sequence[GroupSummary]) -> Section:
    columns = _headings("Measure", "n", "p50", "p95", "p99", "mean", "Timeouts", left=["Measure"])
    return Section("Times", [Table(columns, [row for group in groups for row in _time_rows(group)])])


def _time_rows(group: GroupSummary) -> list[list[str]]:
    """The whole call always, so that timeouts are told of a model that answered nothing; the rest where measured."""
    measures: list[tuple[str, Percentiles | None, int]] = [
        ("whole call, ms", group.latency_censored_ms or group.latency_all_ms, 0),
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


def _suites(groups: Sequence[GroupSummary]) -> Section:
    columns = _headings(
        "Suite", "Answered", "Pass rate", "Pass of scheduled", "p50 ms", "p95 ms", "Timeouts", left=["Suite"]
    )
    rows = [
        [
            _title(group),
            _cut(suite.suite) or ABSENT,
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
    return Section("By suite", [Table(columns, rows)])


def _categories(groups: Sequence[GroupSummary]) -> Section:
    """The suites whose prompts are of several kinds, or lengths; one model a row would not fit, one kind does."""
    rows = [
        [_title(group), _cut(suite.suite) or ABSENT, _cut(category), format_rate(rate.k, rate.n, rate.ci95)]
        for group in groups
        for suite in group.suites
        if len(suite.by_category) > 1
        for category, rate in suite.by_category.items()
    ]
    return Section(
        "By category", [Table(_headings("Suite", "Category", "Pass rate", left=["Suite", "Category"]), rows)]
    )


def _failures(summary: RunSummary, refill: str | None) -> Section:
    words = ["Status", "Reason", "In its words", "What to do"]
    columns = _headings("Status", "Reason", "Cells", "In its words", "What to do", left=words)
    rows = [
        [
            _title(group),
            failure.availability_status,
            failure.failure_type,
            f"{failure.n}/{group.n_total}",
            one_line(failure.example or ABSENT, _MAX_EXAMPLE),
            failure.hint or ABSENT,
        ]
        for group in summary.models
        for failure in group.failures
    ]
    heading = "What was not answered, and what to do"
    if not rows:
        return Section(heading, [Prose(["Every recorded cell was answered."])])
    again = [refill] if refill else []
    lead = Prose(["To ask these cells again:"] if refill else [])
    return Section(heading, [Table(columns, rows), lead, Commands(again)])


def _clocks(groups: Sequence[GroupSummary]) -> list[str]:
    watched = [(group, group.clock) for group in groups if group.clock is not None]
    said = [(group, "; ".join(filter(None, (word_clock(clock), word_cost(clock))))) for group, clock in watched]
    return [f"{_title(group)}: {words}." for group, words in said]


def _resources(groups: Sequence[GroupSummary]) -> Section:
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
    return Section("Resources", [Table(columns, rows)])


def _notes(summary: RunSummary) -> list[str]:
    notes = [
        f"{LEGEND}.",
        "Times cover the successful calls (the k of Success); of whole calls also the timeouts, each longer than any "
        "answer: a percentile among them is only known to be longer than the deadline.",
        "A pass rate covers the successful calls with a verdict; of scheduled cells, it counts unanswered ones too.",
        "Intervals are 95%: Wilson's for rates, by order statistics for percentiles, none where n is too small, and "
        "valid at any time for what was asked until decided. Repeats and variants of a prompt count for what they are "
        "worth (Worth n).",
        "A tier is decided at 95% probability. A recommendation for subagents needs native calls (Tier 1, decided), "
        "right arguments and restraint (interval from 70% up each), and tasks done (from 50% up) without harm.",
    ]
    for group in summary.models:
        if words := _repeats(group):
            notes.append(f"{_title(group)}: {words}.")
        notes += [f"{_title(group)}: {text}." for text in group.warnings]
    return [*notes, f"{word_unreadable(n)}."] if (n := summary.n_unreadable_lines) else notes


def _repeats(group: GroupSummary) -> str:
    return "" if group.repeatability is None else word_repeats(group.repeatability)


def describe_summary(summary: RunSummary) -> list[Section]:
    """What a terminal shows: models, tiers, clock, cost, and what went wrong."""
    groups = summary.models
    priced = [f"{_title(group)}: {word_money(group.cost)}" for group in groups if group.cost is not None]
    return [
        Section("", [Prose([f"run {summary.run_id}"])]),
        _models_at_a_glance(groups),
        Section("tool use", [Prose([line for group in groups for line in _tier_lines(group)]), *_way_to_tell(groups)]),
        Section("", [Prose(_clock_lines(groups))]),
        Section("cost", [Points(priced)]),
        Section("worth knowing", [Points(_worth_knowing(summary))]),
    ]


def describe_ending(summary: RunSummary, path: Path, refill: str, *, interrupted: bool) -> list[Section]:
    """The last words of `run`: the summary, what is missing, and the way to fill it."""
    unasked = sum(max(0, group.n_scheduled - group.n_total) for group in summary.models)
    failed = sum(group.n_total - group.n_ok for group in summary.models)
    what = [f"{plural(failed, 'call')} not answered"] if failed else []
    what += [f"{plural(unasked, 'call')} not made"] if unasked else []
    missing = [f"{', '.join(what)}; go on with:"] if what else []
    ending: list[Part] = [
        Prose([*(["interrupted: what was recorded stands"] if interrupted else []), *missing]),
        Commands([refill] if what else []),
        Prose([f"everything is in {path}"]),
    ]
    return [*describe_summary(summary), Section("", ending)]


def _models_at_a_glance(groups: Sequence[GroupSummary]) -> Section:
    rows = []
    for group in groups:
        latency = group.latency_censored_ms or group.latency_all_ms or Percentiles(n=group.n_success)
        rows.append(
            [
                _title(group),
                f"{group.n_ok}/{group.n_scheduled}",
                format_rate(group.n_passed, group.n_judged, group.objective_pass_ci95),
                f"{group.n_passed}/{group.n_scheduled_judged}" if group.n_scheduled_judged else ABSENT,
                str(latency.n),
                *(format_measure(latency, name, interval=False) for name in ("p50", "p95", "p99")),
                *(format_measure(group.ttft_ms, name, interval=False) for name in ("p50", "p95")),
                format_number(group.output_tps.p50),
            ]
        )
    said = ["of all: passes of all scheduled cells with a verdict, answered or not"]
    said += [LEGEND] if any(INDICATIVE in cell for row in rows for cell in row) else []
    for group in groups:
        timeouts = f"{plural(group.n_timeouts, 'timeout')}, longer than any answer" if group.n_timeouts else ""
        if words := "; ".join(filter(None, (timeouts, word_temperatures(group), _repeats(group)))):
            said.append(f"{_title(group)}: {words}")
    return Section("", [Table(_TERMINAL_COLUMNS, rows, _YIELDING, ruled=True), Prose(said)])


def _tier_lines(group: GroupSummary) -> list[str]:
    use = group.tool_use
    lines = [f"  {_title(group)}: {use.label}{'; stopped early' if group.stopped_early else ''}"]
    lines += [f"      caution: {use.caution}"] if use.caution else []
    if use.n:
        lines.append(f"      {word_tier(use)}")
        lines.append(f"      {word_source(use)}: {word_channels(use)}")
    lines += [f"      {beside}" for beside in (word_beside(group), word_balance(group.call_balance)) if beside]
    lines += [f"      {word_recommendation(use)}"] if group.n_ok else []
    return lines


def _way_to_tell(groups: Sequence[GroupSummary]) -> list[Part]:
    """The run that would show what a recommendation needs, of the models that could still have one."""
    open_yet = [group.target for group in groups if group.n_ok and group.tool_use.evidence_command]
    if not open_yet:
        return []
    *broken, last = word_evidence_command(open_yet)
    return [Prose(["To tell who may be a subagent, run:"]), Commands([*(f"{piece} \\" for piece in broken), last])]


def _clock_lines(groups: Sequence[GroupSummary]) -> list[str]:
    said = [(group, word_clock(group.clock)) for group in groups if group.clock is not None]
    return [f"clock{'' if len(groups) == 1 else f', {_title(group)}'}: {words}" for group, words in said if words]


def _worth_knowing(summary: RunSummary) -> list[str]:
    lines = []
    for group in summary.models:
        lines += [f"{_title(group)}: {word_failure(failure)}" for failure in group.failures]
        lines += [f"{_title(group)}: {one_line(warning, MAX_HINT)}" for warning in group.warnings]
    return [*lines, word_unreadable(n)] if (n := summary.n_unreadable_lines) else lines
