"""A run's summary for a person: summary.md, and the same figures in fewer columns for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from clawgauge import words as say
from clawgauge.records import SERVER_PARTS, GroupSummary, Percentiles, Resources, RunConfig, RunSummary, SuiteBreakdown
from clawgauge.records.summary import ClockTrust, CostSummary, RateWithInterval, Repeatability, TaskSummary, ToolUse
from clawgauge.reports import words
from clawgauge.reports.answer import describe_context, describe_jobs, describe_models, describe_next
from clawgauge.reports.capacity import describe_capacity
from clawgauge.reports.clean import one_line
from clawgauge.reports.document import Column, Commands, Part, Points, Prose, Section, Table, as_markdown
from clawgauge.reports.words import INDICATIVE, LEGEND, MAX_EXAMPLE, MAX_HINT, format_measure
from clawgauge.stats.quantiles import mark_few
from clawgauge.verdict.jobs import best_first, rate_answers
from clawgauge.words import ABSENT, format_bytes, format_duration, format_ms, format_number, format_percent, format_rate

_MAX_NAME = 120
_MAX_WARNINGS = _MAX_NAMED = 3
_TOLERATED_SHARE = 0.05
# The figures a person misses least.
_YIELDING = ("ttft p95", "p99 ms", "tok/s", "ttft p50", "p95 ms", "n", "of all")
# Headings, and what stands under each of a model, or of a part of it.
Figures: TypeAlias = Mapping[str, Callable[[Any], str]]


def render_markdown(summary: RunSummary, config: RunConfig | None = None, *, refill: str | None = None) -> str:
    """The whole of summary.md. `refill` is the command that asks again what was not answered."""
    groups, jobs = best_first(summary.models, summary.jobs), summary.jobs
    answers = [f"{found.question} {found.answer}" for found in words.find_answers(summary, Counter())]
    set_up = []
    if config:
        suites = f"Suites: {words.word_suites(config)}; " if config.suites else ""
        set_up = [f"{suites}{words.word_options(config.options)}; clawgauge {config.clawgauge_version[:_MAX_NAME]}."]
    clocks = [f"{_title(group)}: {_clock(group.clock, with_cost=True)}." for group in groups if group.clock]
    rates = [(g, (g.restraint, g.tasks, g.agreement, g.argument_accuracy)) for g in groups]
    beside = [group for group, measured in rates if any(rate and rate.n for rate in measured)]
    sections = [
        Section("", [Prose([f"{words.describe_run(summary)}."]), Prose(answers), Prose(set_up)]),
        *describe_capacity(summary),
        describe_jobs(jobs),
        describe_context(summary),
        Section("", describe_next(jobs)),
        Section("Models", [_table(groups, _MODELS, left=["Tool tier"])]),
        Section("Tool use", [_table(groups, _TOOL_USE), Points([line for g in groups for line in _tier_lines(g)])]),
        Section("Beside the tier", [_table(beside, _BESIDE_THE_TIER)]),
        Section("Times", [_table(groups, _TIMES, ["Measure"], _measures)]),
        _anatomy(groups),
        Section("By suite", [_table(groups, _SUITES, ["Suite"], lambda group: group.suites)]),
        Section("By category", [_table(groups, _CATEGORIES, ["Suite", "Category"], _categories)]),
        Section("What was not answered, and what to do", _failures(groups, refill)),
        Section("Clock", [Points(clocks)]),
        Section("Resources", [_table(groups, _RESOURCES)]),
        Section("Notes", [Points(_notes(summary))]),
    ]
    return as_markdown(f"clawgauge run {one_line(summary.run_id, _MAX_NAME)}", sections)


def _title(group: GroupSummary) -> str:
    return one_line(group.target.label, _MAX_NAME)


def _table(
    groups: Sequence[GroupSummary],
    figures: Figures,
    left: Sequence[str] = (),
    parts: Callable[[GroupSummary], Iterable[Any]] = lambda group: [group],
) -> Table:
    """A row for each part of a model, by default the whole; columns named in `left` lean to the left."""
    columns = [Column("Model"), *(Column(heading, "left" if heading in left else "right") for heading in figures)]
    rows = [[_title(group), *(read(part) for read in figures.values())] for group in groups for part in parts(group)]
    return Table(columns, rows)


def _tier(group: GroupSummary) -> str:
    use = group.tool_use
    if use.tier is None:
        return ABSENT
    stopped = ", stopped early" if group.stopped_early else ""
    mark = "" if use.decided and not stopped else f" ({'decided' if use.decided else 'provisional'}{stopped})"
    return f"{use.tier}{mark} · {use.k}/{use.n}{' · caution' if use.caution else ''}"


def _channel(kind: str, group: GroupSummary) -> str:
    return str(getattr(group.tool_use.channels, kind))


def _memory(group: GroupSummary) -> str:
    states = [s if isinstance(s, Resources) else None for s in (group.resources_before, group.resources_after)]
    return " / ".join(format_bytes(state.memory_used_bytes if state else None) for state in states)


def _rate(rate: RateWithInterval | TaskSummary | ToolUse | None) -> str:
    return format_rate(rate.k, rate.n, rate.ci95) if rate else ABSENT


def _source(use: ToolUse) -> str:
    """Which prompts a tier rests on, and how the calls came, kinds that did not occur left out: `prompts that offer
    tools in agent; calls seen: 5 text (5 xml); 1 answer without any`. An answer may hold several."""
    channels, kind = use.channels, "prompts that offer tools" if use.source == "native" else "text prompts"
    formats = ", ".join(f"{n} {name}" for name, n in use.formats.items())
    counts = {
        "native": channels.native,
        f"text ({formats})" if formats else "text": channels.text,
        "malformed": channels.malformed,
        # Where no tool is offered, a command in prose or code is the call that is asked for.
        "mentioned only" if use.source == "native" else "in prose or code": channels.mention,
    }
    said = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
    parts = [
        f"{kind} in {', '.join(use.suites)}" if any(use.suites) else kind,
        f"calls seen: {said}" if said else "",
        f"{say.plural(channels.none, 'answer')} without any" if channels.none else "",
        f"{say.plural(use.rescued, 'answer')} rescued from text" if use.rescued else "",
    ]
    return "; ".join(filter(None, parts))


def _beside(group: GroupSummary) -> str:
    tasks, accuracy = group.tasks, group.argument_accuracy
    turns = "" if tasks.mean_turns is None else f", {say.rounded(tasks.mean_turns, 1)} turns"
    tokens = "" if tasks.mean_tokens is None else f" and {say.rounded(tasks.mean_tokens)} tokens each"
    parts = [
        f"arguments right {_rate(accuracy)}" if accuracy and accuracy.n else "",
        f"restraint {_rate(group.restraint)}" if group.restraint.n else "",
        f"tasks done {_rate(tasks)}{turns}{tokens}" if tasks.n else "",
        f"agreement with the incumbent {_rate(group.agreement)}" if group.agreement else "",
    ]
    return "; ".join(filter(None, parts))


def word_repeats(repeats: Repeatability | None) -> str:
    """pass@k and pass^k in words; empty where no prompt was judged that often."""
    if repeats is None or not repeats.n_prompts:
        return ""
    k, one, every = repeats.k, format_percent(repeats.pass_at_k), format_percent(repeats.pass_hat_k)
    of = f"over {say.plural(repeats.n_prompts, 'prompt')} asked {k} times"
    return f"{of}, one of {k} passes in {one} (pass@{k}), all {k} in {every} (pass^{k})"


def _clock(clock: ClockTrust, *, with_cost: bool = False) -> str:
    watched, retried = say.plural(clock.n_watched, "call"), say.plural(clock.n_retried, "call")
    lag = clock.lag_p99_ms
    load = f"load {say.rounded(clock.load_1m, 1)}" if clock.load_1m is not None else ""
    load += f" on {say.plural(clock.cores, 'core')}" if load and clock.cores is not None else ""
    parts = [
        "" if lag is None else f"loop lag p99 {say.rounded(lag, 1 if lag >= 0.05 else 2)} ms",
        f"{clock.n_flagged} of {watched} could be off by more than 1 ms or 1%" if clock.n_watched else "",
        f"{retried} tried again, {format_duration(clock.retry_wait_ms)} waited" if clock.n_retried else "",
        f"the machine was busy before the first call ({load})" if clock.busy else "",
    ]
    if with_cost:
        parts += [
            "" if clock.resolution_ns is None else f"clock resolution {clock.resolution_ns} ns",
            "" if clock.client_cpu_s is None else f"clawgauge used {say.rounded(clock.client_cpu_s, 1)} s of CPU",
            "" if clock.busy else load,
        ]
    return "; ".join(filter(None, parts))


def word_money(cost: CostSummary | None) -> str:
    """What the calls cost: `$0.1320 ($0.0020 a call, n=66; $0.0041 a pass)`."""
    if cost is None:
        return ABSENT
    per_pass = "" if cost.per_pass_usd is None else f"; {say.format_money(cost.per_pass_usd)} a pass"
    return f"{say.format_money(cost.usd)} ({say.format_money(cost.per_call_usd)} a call, n={cost.n_priced}{per_pass})"


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


def _share(part: str, group: GroupSummary) -> str:
    means = {name: times.mean or 0.0 for name, times in group.server_ms.items()}
    return f"{format_ms(means.get(part))} ({format_percent(means.get(part, 0.0) / (sum(means.values()) or 1.0))})"


def _anatomy(groups: Sequence[GroupSummary]) -> Section:
    """Of the servers that tell: what a call's time was spent on, the mean of the calls that went well."""
    return Section("Where the time goes", [_table([group for group in groups if "load" in group.server_ms], _ANATOMY)])


def _percentile(measure: str, name: str, group: GroupSummary) -> str:
    return format_measure(getattr(group, measure), name, interval=False)


def _suite_time(name: str, suite: SuiteBreakdown) -> str:
    return format_measure(mark_few(suite.timed_ms), name, interval=False)


def _categories(group: GroupSummary) -> Iterator[tuple[str, str, RateWithInterval]]:
    """Of the suites whose prompts are of several kinds, or lengths; one model a row would not fit, one kind does."""
    for suite in group.suites:
        if len(suite.by_category) > 1:
            yield from ((suite.suite, category, rate) for category, rate in suite.by_category.items())


_MODELS: Figures = {
    "Answered": lambda group: f"{group.n_ok}/{group.attempted}",
    "Success": lambda group: format_rate(group.n_success, group.n_ok),
    "Pass rate": lambda group: format_rate(*rate_answers(group)),
    "Pass of asked": lambda group: format_rate(*group.passes),
    "Tool tier": _tier,
}
_CHANNELS = {
    "Native calls": "native", "Calls in text": "text", "Malformed calls": "malformed", "Mentions": "mention",
    "No call": "none",
}  # fmt: skip
_TOOL_USE: Figures = {
    "Answers with a call": lambda group: _rate(group.tool_use),
    "Worth n": lambda group: format_number(n := group.tool_use.n_eff, 0 if n is None or n.is_integer() else 1),
    "P(1) / P(2) / P(3)": lambda group: " / ".join(map(format_percent, group.tool_use.p_tier or ())) or ABSENT,
    **{heading: partial(_channel, kind) for heading, kind in _CHANNELS.items()},
}
_BESIDE_THE_TIER: Figures = {
    "Arguments right": lambda group: _rate(group.argument_accuracy),
    "Restraint": lambda group: _rate(group.restraint),
    "Tasks done": lambda group: _rate(group.tasks),
    "Agreement with the incumbent": lambda group: _rate(group.agreement),
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
_ANATOMY: Figures = {
    "n": lambda group: str(group.server_ms["load"].n),
    **{part: partial(_share, part) for part in SERVER_PARTS},
    "longest load": lambda group: format_ms(group.server_ms["load"].max),
}
_SUITES: Figures = {
    "Suite": lambda suite: one_line(suite.suite, _MAX_NAME) or ABSENT,
    "Answered": lambda suite: f"{suite.n_ok}/{suite.attempted}",
    "Pass rate": lambda suite: format_rate(*rate_answers(suite)),
    "Pass of asked": lambda suite: format_rate(*suite.passes),
    "p50 ms": partial(_suite_time, "p50"),
    "p95 ms": partial(_suite_time, "p95"),
    "Timeouts": lambda suite: str(suite.n_timeouts),
}
_CATEGORIES: Figures = {
    "Suite": lambda found: one_line(found[0], _MAX_NAME) or ABSENT,
    "Category": lambda found: one_line(found[1], _MAX_NAME),
    "Pass rate": lambda found: _rate(found[2]),
}
_FAILURES: Figures = {
    "Status": lambda found: found[1].availability_status,
    "Reason": lambda found: found[1].failure_type,
    "Prompts": lambda found: f"{found[1].n_attempted}/{found[0]}",
    "Not asked": lambda found: str(found[1].n_not_asked),
    "In its words": lambda found: one_line(found[1].example or ABSENT, MAX_EXAMPLE),
    "What to do": lambda found: found[1].hint or ABSENT,
}
_RESOURCES: Figures = {
    "Suite took": lambda group: format_duration(group.wall_clock_ms),
    "Machine's memory before / after": _memory,
    "Its peak": lambda group: format_bytes(group.peak_memory_bytes),
    "Peak VRAM": lambda group: format_bytes(group.peak_vram_bytes),
    "Tokens in / out": lambda group: f"{format_number(group.input_tokens)} / {format_number(group.output_tokens)}",
    "Cached": lambda group: format_number(group.cached_tokens),
    "Cost": lambda group: word_money(group.cost),
    "Energy": lambda group: ABSENT if group.energy_j is None else f"{say.rounded(group.energy_j)} J",
}
_GLANCE: Figures = {
    "answered": lambda group: f"{group.n_ok}/{group.attempted}",
    "passed": lambda group: format_rate(*rate_answers(group)),
    "of all": lambda group: "{}/{}".format(*group.passes) if group.passes[1] else ABSENT,
    "n": lambda group: str(group.timed_ms.n),
    **{f"{name} ms": partial(_percentile, "timed_ms", name) for name in ("p50", "p95", "p99")},
    **{f"ttft {name}": partial(_percentile, "ttft_ms", name) for name in ("p50", "p95")},
    "tok/s": lambda group: format_number(group.output_tps.p50),
}


def _failures(groups: Sequence[GroupSummary], refill: str | None) -> list[Part]:
    left = ["Status", "Reason", "In its words", "What to do"]
    table = _table(groups, _FAILURES, left, lambda group: [(group.attempted, failure) for failure in group.failures])
    if not table.rows:
        return [Prose(["Every recorded prompt was answered."])]
    return [table, *([Prose(["To ask these again:"]), Commands([refill])] if refill else [])]


def _notes(summary: RunSummary) -> list[str]:
    notes = [
        f"{LEGEND}.",
        "Times cover the successful calls (the k of Success); of whole calls also the timeouts, each longer than any "
        "answer: a percentile among them is only known to be longer than the deadline.",
        "A pass rate covers the successful calls with a verdict; of the prompts asked, it counts unanswered ones too.",
        "Intervals are 95%: Wilson's for rates, by order statistics for percentiles, none where n is too small, and "
        "valid at any time for what was asked until decided. Repeats and variants of a prompt count for what they are "
        "worth (Worth n).",
        "A tier is decided at 95% probability. A recommendation for subagents needs native calls (Tier 1, decided), "
        "right arguments and restraint (interval from 70% up each), and tasks done (from 50% up) without harm.",
    ]
    for group in best_first(summary.models, summary.jobs):
        told = [*filter(None, [word_repeats(group.repeatability)]), *group.warnings]
        notes += [f"{_title(group)}: {text}." for text in told]
    return [*notes, f"{words.word_unreadable(n)}."] if (n := summary.n_unreadable_lines) else notes


def describe_summary(
    summary: RunSummary, config: RunConfig | None = None, *, verbose: bool = False, unfinished: bool = False
) -> list[Section]:
    """What a terminal shows: a line a model, the answer for each job, what went wrong, what to do next.

    The rest, `verbose`: how each tier came about, the clock, what was paid, every warning. Of a run that is
    `unfinished` no other run is proposed: it may tell by itself."""
    if summary.capacity:
        return [Section("", [Prose([f"run {summary.run_id}"])]), *describe_capacity(summary)]
    groups = best_first(summary.models, summary.jobs)
    failures = [f"{_title(group)}: {words.word_failure(failure)}" for group in groups for failure in group.failures]
    told: dict[str, list[str]] = {}
    for group in groups:
        for text in group.warnings:
            told.setdefault(one_line(text, MAX_HINT), []).append(_title(group))
    # What is said of several alike is said once.
    warnings = [f"{say.list_names(titles, _MAX_NAMED)}: {text}" for text, titles in told.items()]
    left_out = 0 if verbose else max(0, len(warnings) - _MAX_WARNINGS)
    notes = [*failures, *warnings[: len(warnings) - left_out]]
    notes += [words.word_unreadable(n)] if (n := summary.n_unreadable_lines) else []
    notes += [f"{say.plural(left_out, 'more note')}: clawgauge show {summary.run_id} -v"] if left_out else []
    cautions = [f"{_title(group)}: {group.tool_use.caution}" for group in groups if group.tool_use.caution]
    return [
        Section("", [Prose([f"run {summary.run_id}"])]),
        describe_models(groups, summary.jobs, config),
        describe_jobs(summary.jobs),
        describe_context(summary),
        *(_details(groups) if verbose else [Section("caution", [Points(cautions)]), Section("", [_timing(groups)])]),
        Section("worth knowing", [Points(notes)]),
        Section("", [] if unfinished else describe_next(summary.jobs)),
    ]


def _timing(groups: Sequence[GroupSummary]) -> Prose:
    clocks = [group.clock for group in groups if group.clock is not None and group.n_success]
    flagged, watched = sum(clock.n_flagged for clock in clocks), sum(clock.n_watched for clock in clocks)
    busy = any(clock.busy for clock in clocks)
    if not busy and flagged <= _TOLERATED_SHARE * watched:
        return Prose([])
    lag_ms = max((clock.lag_p99_ms or 0.0 for clock in clocks), default=0.0)
    why = "the machine was busy" if busy else "this program was held up"
    return Prose([f"timing: rough, {why}{f' (±{say.rounded(lag_ms)} ms)' if lag_ms >= 1 else ''}"])


def _details(groups: Sequence[GroupSummary]) -> list[Section]:
    timed = [(group, _clock(group.clock)) for group in groups if group.clock is not None]
    clocks = [f"clock{'' if len(groups) == 1 else f', {_title(group)}'}: {said}" for group, said in timed if said]
    priced = [f"{_title(group)}: {word_money(group.cost)}" for group in groups if group.cost is not None]
    columns = [Column("model", narrow="target"), *(Column(heading, "right") for heading in _GLANCE)]
    legend, said = {"of all": "of all: unanswered prompts count as not passed", INDICATIVE: LEGEND}, []
    for group in groups:
        cold, warm = group.latency_cold_ms, group.latency_warm_ms
        apart = f"cold calls p50 {format_ms(cold.p50)} (n={cold.n})"
        apart += f", warm calls p50 {format_ms(warm.p50)} (n={warm.n})" if warm.n else ""
        timeouts = f"{say.plural(group.n_timeouts, 'timeout')}, longer than any answer" if group.n_timeouts else ""
        told = (timeouts, apart if cold.n else "", word_repeats(group.repeatability))
        said += [f"{_title(group)}: {'; '.join(filter(None, told))}"] if any(told) else []
    glance = Table(columns, _table(groups, _GLANCE).rows, _YIELDING, ruled=True, legend=legend)
    return [
        Section("", [glance, Prose(said)]),
        _anatomy(groups),
        Section("tool use", [Points([line for group in groups for line in _tier_lines(group)])]),
        Section("", [Prose(clocks)]),
        Section("cost", [Points(priced)]),
    ]


def describe_ending(
    summary: RunSummary, config: RunConfig | None, path: Path, refill: str, *, interrupted: bool, verbose: bool = False
) -> list[Section]:
    failed = sum(group.attempted - group.n_ok for group in summary.models)
    what = [f"{say.plural(failed, 'call')} not answered"] if failed else []
    # How many, and why, is said among what is worth knowing.
    if any(group.attempted < group.n_scheduled for group in summary.models):
        what.append("not all was asked")
    missing = [f"{', '.join(what)}; go on with:"] if what and not summary.capacity else []
    first = Prose([*(["interrupted: what was recorded stands"] if interrupted else []), *missing])
    ending = [first, Commands([refill] if missing else []), Prose([f"everything is in {path}"])]
    unfinished = interrupted and bool(missing)
    return [*describe_summary(summary, config, verbose=verbose, unfinished=unfinished), Section("", ending)]


def _tier_lines(group: GroupSummary) -> list[str]:
    use = group.tool_use
    under = [f"caution: {use.caution}" if use.caution else ""]
    if use.n:
        under += [words.word_tier(use), _source(use)]
    recommended = words.word_recommendation(use) if group.n_ok else ""
    under += [_beside(group), words.word_balance(group.call_balance), recommended]
    stopped = "; stopped early" if group.stopped_early else ""
    return [f"{_title(group)}: {use.label}{stopped}", *(f"    {line}" for line in under if line)]
