"""A run's summary for a person: summary.md, and the same figures in fewer columns for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from clawgauge.records import (
    ClockTrust,
    CostSummary,
    GroupSummary,
    Percentiles,
    RateWithInterval,
    Repeatability,
    Resources,
    RunConfig,
    RunSummary,
    SuiteBreakdown,
    TaskSummary,
    ToolUse,
)
from clawgauge.reports.answer import describe_jobs, describe_models, describe_next
from clawgauge.reports.clean import one_line
from clawgauge.reports.document import Column, Commands, Part, Points, Prose, Section, Table, as_markdown
from clawgauge.reports.words import (
    INDICATIVE,
    LEGEND,
    MAX_EXAMPLE,
    MAX_HINT,
    MIN_SAMPLES_P95,
    format_measure,
    is_passing,
    pace_ms,
    word_balance,
    word_failure,
    word_median,
    word_options,
    word_recommendation,
    word_suites,
    word_tier,
    word_unreadable,
)
from clawgauge.summary.tool_use import word_evidence_command, word_lacking
from clawgauge.verdict import best_first
from clawgauge.words import (
    ABSENT,
    format_bytes,
    format_duration,
    format_money,
    format_ms,
    format_number,
    format_percent,
    format_rate,
    plural,
    rounded,
)

_MAX_NAME = 120
_MAX_WARNINGS = 3
_TOLERATED_SHARE = 0.05
# The figures a person misses least.
_YIELDING = ("ttft p95", "p99 ms", "tok/s", "ttft p50", "p95 ms", "n", "of all")


Figures: TypeAlias = Mapping[str, Callable[[Any], str]]
"""Headings, and what stands under each of a model, or of a part of it."""


def render_markdown(summary: RunSummary, config: RunConfig | None = None, *, refill: str | None = None) -> str:
    """The whole of summary.md. `refill` is the command that asks again what was not answered."""
    groups = summary.models
    set_up = []
    if config:
        suites = f"Suites: {word_suites(config)}; " if config.suites else ""
        set_up = [f"{suites}{word_options(config.options)}; clawgauge {_cut(config.clawgauge_version)}."]
    clocks = [f"{_title(group)}: {_clock(group.clock, with_cost=True)}." for group in groups if group.clock]
    beside = [g for g in groups if g.restraint.n or g.tasks.n or (g.argument_accuracy and g.argument_accuracy.n)]
    balances = [f"{_title(group)}: {words}." for group in beside if (words := word_balance(group.call_balance))]
    sections = [
        Section("", [Prose([_verdict(summary)])]),
        Section("", [Prose(set_up)]),
        describe_jobs(summary),
        Section("Models", [_table(groups, _MODELS, left=["Tool tier"])]),
        Section("Tool use", [_table(groups, _TOOL_USE), Points(list(map(_tier_line, groups))), *_way_to_tell(groups)]),
        Section("Beside the tier", [_table(beside, _BESIDE_THE_TIER), Points(balances)]),
        Section("Times", [_table(groups, _TIMES, ["Measure"], _measures)]),
        Section("By suite", [_table(groups, _SUITES, ["Suite"], lambda group: group.suites)]),
        Section("By category", [_table(groups, _CATEGORIES, ["Suite", "Category"], _categories)]),
        Section("What was not answered, and what to do", _failures(groups, refill)),
        Section("Clock", [Points(clocks)]),
        Section("Resources", [_table(groups, _RESOURCES)]),
        Section("Notes", [Points(_notes(summary))]),
    ]
    return as_markdown(f"clawgauge run {_cut(summary.run_id)}", sections)


def _cut(text: str) -> str:
    return one_line(text, _MAX_NAME)


def _title(group: GroupSummary) -> str:
    return _cut(group.target.label)


def _table(
    groups: Sequence[GroupSummary],
    figures: Figures,
    left: Sequence[str] = (),
    parts: Callable[[GroupSummary], Iterable[Any]] = lambda group: [group],
) -> Table:
    """A row for each part of a model, by default the whole; figures lean right, columns named in `left` to the left."""
    columns = [Column("Model"), *(Column(heading, "left" if heading in left else "right") for heading in figures)]
    rows = [[_title(group), *(read(part) for read in figures.values())] for group in groups for part in parts(group)]
    return Table(columns, rows)


def _verdict(summary: RunSummary) -> str:
    groups = summary.models
    n_total, n_ok = sum(g.n_total for g in groups), sum(g.n_ok for g in groups)
    sentences = [
        f"{plural(len(groups), 'model')}, {plural(n_total, 'cell')} recorded, {format_rate(n_ok, n_total)} answered."
    ]
    recommended = [
        f"{_title(g)} ({g.tool_use.k}/{g.tool_use.n}{', with a caution: see Tool use' if g.tool_use.caution else ''})"
        for g in groups
        if g.tool_use.recommended_for_subagents
    ]
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


def _tier(group: GroupSummary) -> str:
    use = group.tool_use
    if use.tier is None:
        return ABSENT
    stopped = ", stopped early" if group.stopped_early else ""
    mark = "" if use.decided and not stopped else f" ({'decided' if use.decided else 'provisional'}{stopped})"
    return f"{use.tier}{mark} · {use.k}/{use.n}{' · caution' if use.caution else ''}"


def _channel(kind: str) -> Callable[[GroupSummary], str]:
    return lambda group: str(getattr(group.tool_use.channels, kind.lower()))


def _memory(group: GroupSummary) -> str:
    states = [s if isinstance(s, Resources) else None for s in (group.resources_before, group.resources_after)]
    return " / ".join(format_bytes(state.memory_used_bytes if state else None) for state in states)


def _rate(rate: RateWithInterval | TaskSummary | ToolUse | None) -> str:
    return format_rate(rate.k, rate.n, rate.ci95) if rate else ABSENT


def _source(use: ToolUse) -> str:
    """Which prompts a tier rests on: `prompts that offer tools, in agent_tools`."""
    kind = "prompts that offer tools" if use.source == "native" else "text prompts"
    return f"{kind} in {', '.join(use.suites)}" if any(use.suites) else kind


def _channels(use: ToolUse) -> str:
    """How the calls came, kinds that did not occur left out: `5 text (5 xml), 1 none`."""
    channels = use.channels
    formats = ", ".join(f"{n} {name}" for name, n in use.formats.items())
    counts = {
        "native": channels.native,
        f"text ({formats})" if formats else "text": channels.text,
        "malformed": channels.malformed,
        # Where no tool is offered, a command in prose or code is the call that is asked for.
        "mentioned only" if use.source == "native" else "in prose or code": channels.mention,
        "none": channels.none,
    }
    said = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
    return said + (f"; {plural(use.rescued, 'answer')} rescued from text" if use.rescued else "")


def _beside(group: GroupSummary) -> str:
    """Arguments, restraint and tasks, those that were measured."""
    tasks, accuracy = group.tasks, group.argument_accuracy
    turns = "" if tasks.mean_turns is None else f", {tasks.mean_turns:.1f} turns"
    tokens = "" if tasks.mean_tokens is None else f" and {tasks.mean_tokens:.0f} tokens each"
    parts = [
        f"arguments right {_rate(accuracy)}" if accuracy and accuracy.n else "",
        f"restraint {_rate(group.restraint)}" if group.restraint.n else "",
        f"tasks done {_rate(tasks)}{turns}{tokens}" if tasks.n else "",
    ]
    return "; ".join(filter(None, parts))


def word_repeats(repeats: Repeatability | None) -> str:
    """pass@k and pass^k in words; empty where no prompt was judged that often."""
    if repeats is None or not repeats.n_prompts:
        return ""
    of = f"over {plural(repeats.n_prompts, 'prompt')} asked {repeats.k} times"
    one, all_of = format_percent(repeats.pass_at_k), format_percent(repeats.pass_hat_k)
    return (
        f"{of}, one of {repeats.k} passes in {one} (pass@{repeats.k}), all {repeats.k} in {all_of} (pass^{repeats.k})"
    )


def _temperatures(group: GroupSummary) -> str:
    """Cold calls apart from warm ones; empty where there was no cold call."""
    cold, warm = group.latency_cold_ms, group.latency_warm_ms
    if not cold.n:
        return ""
    said = f"cold calls p50 {format_ms(cold.p50)} (n={cold.n})"
    return said + (f", warm calls p50 {format_ms(warm.p50)} (n={warm.n})" if warm.n else "")


def _clock(clock: ClockTrust, *, with_cost: bool = False) -> str:
    """How far to trust the timings, what was waited for retries, and what the measuring itself took."""
    watched, retried = plural(clock.n_watched, "call"), plural(clock.n_retried, "call")
    lag = clock.lag_p99_ms
    load = f"load {clock.load_1m:.1f}" if clock.load_1m is not None else ""
    load += f" on {plural(clock.cores, 'core')}" if load and clock.cores is not None else ""
    parts = [
        "" if lag is None else f"loop lag p99 {lag:.{1 if lag >= 0.05 else 2}f} ms",
        f"{clock.n_flagged} of {watched} could be off by more than 1 ms or 1%" if clock.n_watched else "",
        f"{retried} tried again, {format_duration(clock.retry_wait_ms)} waited" if clock.n_retried else "",
        f"the machine was busy before the first call ({load})" if clock.busy else "",
    ]
    if with_cost:
        parts += [
            "" if clock.resolution_ns is None else f"clock resolution {clock.resolution_ns} ns",
            "" if clock.client_cpu_s is None else f"clawgauge used {clock.client_cpu_s:.1f} s of CPU",
            "" if clock.busy else load,
        ]
    return "; ".join(filter(None, parts))


def word_money(cost: CostSummary | None) -> str:
    """What the calls cost: `$0.1320 ($0.0020 a call, n=66; $0.0041 a pass)`."""
    if cost is None:
        return ABSENT
    per_pass = "" if cost.per_pass_usd is None else f"; {format_money(cost.per_pass_usd)} a pass"
    return f"{format_money(cost.usd)} ({format_money(cost.per_call_usd)} a call, n={cost.n_priced}{per_pass})"


def _measures(group: GroupSummary) -> list[tuple[str, Percentiles, int, int]]:
    """The whole call always, so that timeouts are told of a model that answered nothing; the rest where measured."""
    apart = [("· cold, ms", group.latency_cold_ms, 0), ("· warm, ms", group.latency_warm_ms, 0)]
    rest = [
        *(apart if group.latency_cold_ms.n else []),
        ("first token, ms", group.ttft_ms, 0),
        *([("first answer, ms", group.ttfa_ms, 0)] if group.ttfa_ms != group.ttft_ms else []),
        ("tokens/s", group.output_tps, 1),
    ]
    measures = [("whole call, ms", group.timed_ms, 0), *(measure for measure in rest if measure[1].n)]
    return [(*measure, group.n_timeouts) for measure in measures]


def _p95(suite: SuiteBreakdown) -> str:
    thin = suite.latency_censored_ms is None and suite.latency_ms.p95 is not None and suite.n_success < MIN_SAMPLES_P95
    return format_measure(suite.timed_ms, "p95", interval=False) + (INDICATIVE if thin else "")


def _categories(group: GroupSummary) -> Iterator[tuple[str, str, RateWithInterval]]:
    """Of the suites whose prompts are of several kinds, or lengths; one model a row would not fit, one kind does."""
    for suite in group.suites:
        if len(suite.by_category) > 1:
            yield from ((suite.suite, category, rate) for category, rate in suite.by_category.items())


_MODELS: Figures = {
    "Answered": lambda group: f"{group.n_ok}/{group.n_scheduled}",
    "Success": lambda group: format_rate(group.n_success, group.n_ok),
    "Pass rate": lambda group: format_rate(group.n_passed, group.n_judged, group.objective_pass_ci95),
    "Pass of scheduled": lambda group: format_rate(group.n_passed, group.n_scheduled_judged),
    "Tool tier": _tier,
}
_TOOL_USE: Figures = {
    "Calls made": lambda group: _rate(group.tool_use),
    "Worth n": lambda group: format_number(n := group.tool_use.n_eff, 0 if n is None or n.is_integer() else 1),
    "P(1) / P(2) / P(3)": lambda group: " / ".join(map(format_percent, group.tool_use.p_tier or ())) or ABSENT,
    **{kind: _channel(kind) for kind in ("Native", "Text", "Malformed", "Mention", "None")},
}
_BESIDE_THE_TIER: Figures = {
    "Arguments right": lambda group: _rate(group.argument_accuracy),
    "Restraint": lambda group: _rate(group.restraint),
    "Tasks done": lambda group: _rate(group.tasks),
    "Turns": lambda group: format_number(group.tasks.mean_turns, 1),
    "Tokens": lambda group: format_number(group.tasks.mean_tokens),
}
_TIMES: Figures = {
    "Measure": lambda measure: measure[0],
    "n": lambda measure: str(measure[1].n),
    "p50": lambda measure: format_measure(measure[1], "p50", measure[2]),
    "p95": lambda measure: format_measure(measure[1], "p95", measure[2]),
    "p99": lambda measure: format_measure(measure[1], "p99", measure[2]),
    "mean": lambda measure: format_number(measure[1].mean, measure[2]),
    "Timeouts": lambda measure: str(measure[3]),
}
_SUITES: Figures = {
    "Suite": lambda suite: _cut(suite.suite) or ABSENT,
    "Answered": lambda suite: f"{suite.n_ok}/{suite.n_scheduled}",
    "Pass rate": lambda suite: format_rate(suite.n_passed, suite.n_judged, suite.ci95),
    "Pass of scheduled": lambda suite: format_rate(suite.n_passed, suite.n_scheduled_judged),
    "p50 ms": lambda suite: format_measure(suite.timed_ms, "p50", interval=False),
    "p95 ms": _p95,
    "Timeouts": lambda suite: str(suite.n_timeouts),
}
_CATEGORIES: Figures = {
    "Suite": lambda found: _cut(found[0]) or ABSENT,
    "Category": lambda found: _cut(found[1]),
    "Pass rate": lambda found: _rate(found[2]),
}
_FAILURES: Figures = {
    "Status": lambda found: found[1].availability_status,
    "Reason": lambda found: found[1].failure_type,
    "Cells": lambda found: f"{found[1].n}/{found[0]}",
    "In its words": lambda found: one_line(found[1].example or ABSENT, MAX_EXAMPLE),
    "What to do": lambda found: found[1].hint or ABSENT,
}
_RESOURCES: Figures = {
    "Suite took": lambda group: format_duration(group.wall_clock_ms),
    "Memory before / after": _memory,
    "Peak": lambda group: format_bytes(group.peak_memory_bytes),
    "Peak VRAM": lambda group: format_bytes(group.peak_vram_bytes),
    "Tokens in / out": lambda group: f"{format_number(group.input_tokens)} / {format_number(group.output_tokens)}",
    "Cached": lambda group: format_number(group.cached_tokens),
    "Cost": lambda group: word_money(group.cost),
    "Energy": lambda group: ABSENT if group.energy_j is None else f"{group.energy_j:.0f} J",
}
_GLANCE: Figures = {
    "answered": lambda group: f"{group.n_ok}/{group.n_scheduled}",
    "passed": lambda group: format_rate(group.n_passed, group.n_judged, group.objective_pass_ci95),
    "of all": lambda group: f"{group.n_passed}/{group.n_scheduled_judged}" if group.n_scheduled_judged else ABSENT,
    "n": lambda group: str(group.timed_ms.n),
    "p50 ms": lambda group: format_measure(group.timed_ms, "p50", interval=False),
    "p95 ms": lambda group: format_measure(group.timed_ms, "p95", interval=False),
    "p99 ms": lambda group: format_measure(group.timed_ms, "p99", interval=False),
    "ttft p50": lambda group: format_measure(group.ttft_ms, "p50", interval=False),
    "ttft p95": lambda group: format_measure(group.ttft_ms, "p95", interval=False),
    "tok/s": lambda group: format_number(group.output_tps.p50),
}


def _tier_line(group: GroupSummary) -> str:
    use = group.tool_use
    line = f"{_title(group)}: {use.label}"
    if use.n:
        line += f"; judged on {_cut(_source(use))}; {_cut(_channels(use))}"
    return line + (f". Caution: {use.caution}." if use.caution else ".")


def _failures(groups: Sequence[GroupSummary], refill: str | None) -> list[Part]:
    left = ["Status", "Reason", "In its words", "What to do"]
    table = _table(groups, _FAILURES, left, lambda group: [(group.n_total, failure) for failure in group.failures])
    if not table.rows:
        return [Prose(["Every recorded cell was answered."])]
    return [table, *([Prose(["To ask these cells again:"]), Commands([refill])] if refill else [])]


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
        if words := word_repeats(group.repeatability):
            notes.append(f"{_title(group)}: {words}.")
        notes += [f"{_title(group)}: {text}." for text in group.warnings]
    return [*notes, f"{word_unreadable(n)}."] if (n := summary.n_unreadable_lines) else notes


def describe_summary(summary: RunSummary, *, verbose: bool = False) -> list[Section]:
    """What a terminal shows: a line a model, the answer for each job, what went wrong, what to do next.

    The rest, `verbose`: how each tier came about, the clock, what was paid, every warning.
    """
    groups = best_first(summary.models, summary.jobs)
    failures = [f"{_title(group)}: {word_failure(failure)}" for group in groups for failure in group.failures]
    warnings = [f"{_title(group)}: {one_line(warning, MAX_HINT)}" for group in groups for warning in group.warnings]
    left_out = 0 if verbose else max(0, len(warnings) - _MAX_WARNINGS)
    notes = [*failures, *warnings[: len(warnings) - left_out]]
    notes += [word_unreadable(n)] if (n := summary.n_unreadable_lines) else []
    notes += [f"{plural(left_out, 'more note')}: clawgauge show {summary.run_id} -v"] if left_out else []
    cautions = [f"{_title(group)}: {group.tool_use.caution}" for group in groups if group.tool_use.caution]
    return [
        Section("", [Prose([f"run {summary.run_id}"])]),
        describe_models(summary),
        describe_jobs(summary),
        *(_details(groups) if verbose else [Section("caution", [Points(cautions)]), Section("", [_timing(groups)])]),
        Section("worth knowing", [Points(notes)]),
        Section("", describe_next(summary)),
    ]


def _timing(groups: Sequence[GroupSummary]) -> Prose:
    """One sentence a run on how far its times can be trusted, where that is not all the way."""
    clocks = [group.clock for group in groups if group.clock is not None]
    flagged, watched = sum(clock.n_flagged for clock in clocks), sum(clock.n_watched for clock in clocks)
    busy = any(clock.busy for clock in clocks)
    if not busy and flagged <= _TOLERATED_SHARE * watched:
        return Prose([])
    lag_ms = max((clock.lag_p99_ms or 0.0 for clock in clocks), default=0.0)
    why = "the machine was busy" if busy else "this program was held up"
    return Prose([f"timing: rough, {why}{f' (±{rounded(lag_ms)} ms)' if lag_ms >= 1 else ''}"])


def _details(groups: Sequence[GroupSummary]) -> list[Section]:
    timed = [(group, _clock(group.clock)) for group in groups if group.clock is not None]
    clocks = [f"clock{'' if len(groups) == 1 else f', {_title(group)}'}: {words}" for group, words in timed if words]
    priced = [f"{_title(group)}: {word_money(group.cost)}" for group in groups if group.cost is not None]
    return [
        _models_at_a_glance(groups),
        Section("tool use", [Prose([line for group in groups for line in _tier_lines(group)])]),
        Section("", [Prose(clocks)]),
        Section("cost", [Points(priced)]),
    ]


def describe_ending(
    summary: RunSummary, path: Path, refill: str, *, interrupted: bool, verbose: bool = False
) -> list[Section]:
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
    return [*describe_summary(summary, verbose=verbose), Section("", ending)]


def _models_at_a_glance(groups: Sequence[GroupSummary]) -> Section:
    rows = _table(groups, _GLANCE).rows
    columns = [Column("model", narrow="name"), *(Column(heading, "right") for heading in _GLANCE)]
    said = ["of all: unanswered prompts count as failed"]
    said += [LEGEND] if any(INDICATIVE in cell for row in rows for cell in row) else []
    for group in groups:
        timeouts = f"{plural(group.n_timeouts, 'timeout')}, longer than any answer" if group.n_timeouts else ""
        if words := "; ".join(filter(None, (timeouts, _temperatures(group), word_repeats(group.repeatability)))):
            said.append(f"{_title(group)}: {words}")
    return Section("", [Table(columns, rows, _YIELDING, ruled=True), Prose(said)])


def _tier_lines(group: GroupSummary) -> list[str]:
    use = group.tool_use
    lines = [f"  {_title(group)}: {use.label}{'; stopped early' if group.stopped_early else ''}"]
    lines += [f"      caution: {use.caution}"] if use.caution else []
    if use.n:
        lines.append(f"      {word_tier(use)}")
        lines.append(f"      {_source(use)}: {_channels(use)}")
    lines += [f"      {beside}" for beside in (_beside(group), word_balance(group.call_balance)) if beside]
    lines += [f"      {word_recommendation(use)}"] if group.n_ok else []
    return lines


def _way_to_tell(groups: Sequence[GroupSummary]) -> list[Part]:
    """The run that would show what a recommendation needs, of the models that could still have one."""
    open_yet = [group.target for group in groups if group.n_ok and group.tool_use.evidence_command]
    if not open_yet:
        return []
    *broken, last = word_evidence_command(open_yet)
    return [Prose(["To tell who may be a subagent, run:"]), Commands([*(f"{piece} \\" for piece in broken), last])]
