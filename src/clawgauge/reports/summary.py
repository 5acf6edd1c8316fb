"""A run's summary for a person: summary.md, and the same figures in fewer columns for a
terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from clawgauge.figures import (
    INDICATIVE,
    MODEL_FIGURES,
    ModelOrSuite,
    Rate,
    Style,
    Unit,
    format_cell,
    format_percentile,
    read_figure,
    read_percentile,
)
from clawgauge.records import SERVER_PARTS, TOOLS_REFUSED, GroupSummary, RunConfig, RunSummary
from clawgauge.records.summary import ClockTrust, CostSummary, Repeatability, ToolUse
from clawgauge.reports import words
from clawgauge.reports.agents import describe_agents
from clawgauge.reports.answer import (
    decides_jobs,
    describe_context,
    describe_jobs,
    describe_models,
    describe_next,
    word_headlines,
)
from clawgauge.reports.capacity import describe_capacity
from clawgauge.reports.clean import one_line
from clawgauge.reports.columns import ModelColumn, model_cell
from clawgauge.reports.document import (
    Column,
    Commands,
    Part,
    Points,
    Prose,
    Section,
    Table,
    as_markdown,
)
from clawgauge.reports.grid import NO_GRID
from clawgauge.reports.words import LEGEND, MAX_EXAMPLE, MAX_HINT
from clawgauge.run_data.evidence import TEXT_CALLS
from clawgauge.run_data.resume import show_command
from clawgauge.verdict.jobs import best_first
from clawgauge.words import (
    ABSENT,
    format_duration,
    format_money,
    format_ms,
    format_percent,
    list_names,
    plural,
    rounded,
)

_MAX_NAME = 120
_MAX_WARNINGS = 3
_MAX_NAMED = 3
_TOLERATED_SHARE = 0.05

# summary.md: a table each, and in it a row a model or a suite.
_MODELS = (
    ModelColumn.long("answered", Style.COUNTS),
    ModelColumn.long("success_rate_ok", Style.FULL),
    ModelColumn.long("objective_pass_rate", Style.FULL),
    ModelColumn.long("passed_of_asked", Style.FULL),
)
_CALLS = (
    ModelColumn.long("n_native_calls"),
    ModelColumn.long("n_text_calls"),
    ModelColumn.long("n_malformed_calls"),
    ModelColumn.long("n_mentions"),
    ModelColumn.long("n_without_call"),
)
_BESIDE_THE_TIER = (
    ModelColumn.long("argument_accuracy", Style.FULL),
    ModelColumn.long("restraint", Style.FULL),
    ModelColumn.long("tasks", Style.FULL),
    ModelColumn.long("agreement", Style.FULL),
    ModelColumn.long("turns_per_task", digits=1),
    ModelColumn.long("tokens_per_task"),
)
_ANATOMY = (
    *(ModelColumn.short(f"server_{part}_ms") for part in SERVER_PARTS),
    ModelColumn.short("longest_load_ms", Style.WITH_UNIT),
)
_SUITES = (
    ModelColumn.long("answered", Style.COUNTS),
    ModelColumn.long("objective_pass_rate", Style.FULL),
    ModelColumn.long("passed_of_asked", Style.FULL),
    ModelColumn.short("p50_ms"),
    ModelColumn.short("p95_ms"),
    ModelColumn.long("n_timeouts"),
)
_RESOURCES = (
    ModelColumn.long("peak_memory_bytes"),
    ModelColumn.long("peak_vram_bytes"),
)
# A terminal, with --verbose.
_GLANCE = (
    ModelColumn.short("answered", Style.COUNTS),
    ModelColumn.short("objective_pass_rate", Style.FULL),
    ModelColumn("passed_of_asked", "of all"),
    ModelColumn.short("n_timed"),
    ModelColumn.short("p50_ms"),
    ModelColumn.short("p95_ms"),
    ModelColumn.short("p99_ms"),
    ModelColumn.short("ttft_p50_ms"),
    ModelColumn.short("ttft_p95_ms"),
    ModelColumn.short("output_tps_p50"),
)
# The figures a person misses least.
_YIELDING = ("first token p95", "p99 ms", "tok/s", "first token p50", "p95 ms", "n", "of all")


class _Measure(NamedTuple):
    """A row of the table of times. `figures` names its percentiles, with `{}` where the
    percentile goes."""

    title: str
    figures: str
    unit: Unit
    digits: int = 0


_WHOLE_CALL = _Measure("whole call, ms", "{}_ms", "ms")
_COLD = _Measure("· cold, ms", "cold_{}_ms", "ms")
_WARM = _Measure("· warm, ms", "warm_{}_ms", "ms")
_FIRST_TOKEN = _Measure("first token, ms", "ttft_{}_ms", "ms")
_FIRST_ANSWER_TOKEN = _Measure("first answer, ms", "ttfa_{}_ms", "ms")
_TOKENS_PER_S = _Measure("tokens/s", "output_tps_{}", "tps", digits=1)


def render_markdown(
    summary: RunSummary, config: RunConfig | None = None, *, refill: str | None = None
) -> str:
    """The whole of summary.md. `refill` is the command that asks again what was not answered."""
    groups = best_first(summary.models, summary.jobs)
    answers = []
    for finding in words.find_answers(summary, Counter()):
        answers.append(f"{finding.question} {finding.answer}")
    set_up = []
    if config:
        suites = f"Suites: {words.word_suites(config)}; " if config.suites else ""
        version = config.clawgauge_version[:_MAX_NAME]
        set_up.append(f"{suites}{words.word_options(config.options)}; clawgauge {version}.")
    clocks = []
    for group in groups:
        if group.clock:
            clocks.append(f"{_title(group)}: {_word_clock(group.clock, with_cost=True)}.")
    tier_lines = [line for group in groups for line in _tier_lines(group)]
    sections = [
        Section(
            "",
            [
                Prose([f"{words.describe_run(summary)}."]),
                Points(word_headlines(summary, config)),
                Prose(answers),
                Prose(set_up),
            ],
        ),
        *describe_capacity(summary),
        describe_jobs(summary.jobs),
        describe_context(summary),
        describe_agents(summary),
        Section("", describe_next(summary.jobs)),
        Section("Models", [_models_table(groups)]),
        Section("Tool use", [_tool_use_table(groups), Points(tier_lines)]),
        Section("Beside the tier", [_beside_table(groups)]),
        Section("Times", [_times_table(groups)]),
        _anatomy(groups),
        Section("By suite", [_suites_table(groups)]),
        Section("By category", [_categories_table(groups)]),
        Section("What was not answered, and what to do", _failures(groups, refill)),
        Section("Clock", [Points(clocks)]),
        Section("Resources", [_resources_table(groups)]),
        Section("Notes", [Points(_notes(summary))]),
    ]
    return as_markdown(f"clawgauge run {one_line(summary.run_id, _MAX_NAME)}", sections)


def _title(group: GroupSummary) -> str:
    return one_line(group.target.label, _MAX_NAME)


def _name(text: str) -> str:
    return one_line(text, _MAX_NAME)


def _headings(*headings: str, left: Sequence[str] = ()) -> list[Column]:
    """The model and other columns; those named in `left` lean to the left."""
    columns = [Column("Model")]
    for heading in headings:
        columns.append(Column(heading, "left" if heading in left else "right"))
    return columns


def _headings_of(columns: Iterable[ModelColumn]) -> list[str]:
    return [column.heading for column in columns]


def _cells(columns: Iterable[ModelColumn], part: ModelOrSuite) -> list[str]:
    return [column.cell(part) for column in columns]


def _models_table(groups: Sequence[GroupSummary]) -> Table:
    headings = _headings(*_headings_of(_MODELS), "Tool tier", left=["Tool tier"])
    rows = [[_title(group), *_cells(_MODELS, group), _word_tier(group)] for group in groups]
    return Table(headings, rows)


def _word_tier(group: GroupSummary) -> str:
    """`1 · 54/68`, `2 (provisional, stopped early) · 30/40 · caution`."""
    use = group.tool_use
    if use.tier is None:
        return ABSENT
    marks = []
    if not use.decided:
        marks.append("provisional")
    elif group.stopped_early:
        marks.append("decided")
    if group.stopped_early:
        marks.append("stopped early")
    mark = f" ({', '.join(marks)})" if marks else ""
    caution = " · caution" if use.caution else ""
    return f"{use.tier}{mark} · {use.k}/{use.n}{caution}"


def _tool_use_table(groups: Sequence[GroupSummary]) -> Table:
    calls = ModelColumn.long("tool_use_rate", Style.FULL)
    worth = MODEL_FIGURES["tool_use_n_eff"].titles.long
    headings = _headings(calls.heading, worth, "P(1) / P(2) / P(3)", *_headings_of(_CALLS))
    rows = []
    for group in groups:
        cells = [calls.cell(group), _worth(group), _chances(group), *_cells(_CALLS, group)]
        rows.append([_title(group), *cells])
    return Table(headings, rows)


def _worth(group: GroupSummary) -> str:
    n_eff = group.tool_use.n_eff
    is_whole = n_eff is None or n_eff.is_integer()
    return model_cell("tool_use_n_eff", group, digits=0 if is_whole else 1)


def _chances(group: GroupSummary) -> str:
    if group.tool_use.p_tier is None:
        return ABSENT
    return " / ".join(
        format_percent(read_figure(f"tier_{tier}_probability", group).value) for tier in (1, 2, 3)
    )


def _beside_table(groups: Sequence[GroupSummary]) -> Table:
    """Of the models that have one of its rates."""
    rows = []
    for group in groups:
        values = [read_figure(column.figure, group) for column in _BESIDE_THE_TIER]
        if any(isinstance(value, Rate) and value.n for value in values):
            rows.append([_title(group), *_cells(_BESIDE_THE_TIER, group)])
    return Table(_headings(*_headings_of(_BESIDE_THE_TIER)), rows)


def _times_table(groups: Sequence[GroupSummary]) -> Table:
    timeouts = MODEL_FIGURES["n_timeouts"].titles.long
    headings = ("Measure", "n", "p50", "p95", "p99", "mean", timeouts)
    rows = []
    for group in groups:
        for measure in _measures(group):
            rows.append([_title(group), *_measure_cells(measure, group)])
    return Table(_headings(*headings, left=["Measure"]), rows)


def _measures(group: GroupSummary) -> list[_Measure]:
    """The whole call always, so that timeouts are told of a model that answered nothing; the
    rest where measured."""
    measures = [_WHOLE_CALL]
    if group.latency_cold_ms.n:
        measures.append(_COLD)
        if group.latency_warm_ms.n:
            measures.append(_WARM)
    if group.ttft_ms.n:
        measures.append(_FIRST_TOKEN)
    if group.ttfa_ms.n and group.ttfa_ms != group.ttft_ms:
        measures.append(_FIRST_ANSWER_TOKEN)
    if group.output_tps.n:
        measures.append(_TOKENS_PER_S)
    return measures


def _measure_cells(measure: _Measure, group: GroupSummary) -> list[str]:
    cells = [measure.title]
    for name in ("p50", "p95", "p99"):
        percentile = read_percentile(measure.figures.format(name), group)
        if name == "p50":
            cells.append(str(percentile.n))
        cells.append(format_percentile(percentile, measure.digits, with_interval=True))
    mean = read_figure(measure.figures.format("mean"), group)
    cells.append(format_cell(mean, measure.unit, digits=measure.digits))
    cells.append(model_cell("n_timeouts", group))
    return cells


def _anatomy(groups: Sequence[GroupSummary]) -> Section:
    """Of the servers that tell: what a call's time was spent on, the mean of the calls that went
    well."""
    rows = []
    for group in groups:
        load = group.server_ms.get("load")
        if load is not None:
            rows.append([_title(group), str(load.n), *_cells(_ANATOMY, group)])
    table = Table(_headings("n", *_headings_of(_ANATOMY)), rows)
    return Section("Where the time goes", [table])


def _suites_table(groups: Sequence[GroupSummary]) -> Table:
    rows = []
    for group in groups:
        for suite in group.suites:
            rows.append([_title(group), _name(suite.suite) or ABSENT, *_cells(_SUITES, suite)])
    return Table(_headings("Suite", *_headings_of(_SUITES), left=["Suite"]), rows)


def _categories_table(groups: Sequence[GroupSummary]) -> Table:
    """Of the suites whose prompts are of several kinds, or lengths; one model a row would not
    fit, one kind does."""
    rows = []
    for group in groups:
        for suite in group.suites:
            if len(suite.by_category) < 2:
                continue
            for category, recorded in suite.by_category.items():
                rate = format_cell(Rate.of(recorded), "rate", Style.FULL)
                rows.append([_title(group), _name(suite.suite) or ABSENT, _name(category), rate])
    return Table(_headings("Suite", "Category", "Pass rate", left=["Suite", "Category"]), rows)


def _failures(groups: Sequence[GroupSummary], refill: str | None) -> list[Part]:
    headings = ("Status", "Reason", "Prompts", "Not asked", "In its words", "What to do")
    left = ("Status", "Reason", "In its words", "What to do")
    rows = []
    for group in groups:
        for failure in group.failures:
            row = [
                _title(group),
                failure.availability_status,
                failure.failure_type,
                f"{failure.n_attempted}/{group.attempted}",
                str(failure.n_not_asked),
                one_line(failure.example or ABSENT, MAX_EXAMPLE),
                failure.hint or ABSENT,
            ]
            rows.append(row)
    if not rows:
        return [Prose(["Every recorded prompt was answered."])]
    parts: list[Part] = [Table(_headings(*headings, left=left), rows)]
    if refill:
        parts += [Prose(["To ask these again:"]), Commands([refill])]
    return parts


def _resources_table(groups: Sequence[GroupSummary]) -> Table:
    headings = _headings(
        MODEL_FIGURES["wall_clock_ms"].titles.long,
        "Machine's memory before / after",
        *_headings_of(_RESOURCES),
        "Tokens in / out",
        MODEL_FIGURES["cached_tokens"].titles.long,
        MODEL_FIGURES["cost_usd"].titles.long,
        MODEL_FIGURES["energy_j"].titles.long,
    )
    rows = []
    for group in groups:
        row = [
            _title(group),
            format_duration(read_figure("wall_clock_ms", group).value),
            _two_figures("memory_before_bytes", "memory_after_bytes", group),
            *_cells(_RESOURCES, group),
            _two_figures("input_tokens", "output_tokens", group),
            model_cell("cached_tokens", group),
            word_money(group.cost),
            model_cell("energy_j", group, Style.FULL),
        ]
        rows.append(row)
    return Table(headings, rows)


def _two_figures(first: str, second: str, group: GroupSummary) -> str:
    return f"{model_cell(first, group)} / {model_cell(second, group)}"


def _notes(summary: RunSummary) -> list[str]:
    notes = [
        f"{LEGEND}.",
        "Times cover the successful calls (the k of Success); of whole calls also the timeouts, "
        "each longer than any answer: a percentile among them is only known to be longer than "
        "the deadline.",
        "A pass rate covers the successful calls with a verdict; of the prompts asked, it counts "
        "unanswered ones too.",
        "Intervals are 95%: Wilson's for rates, by order statistics for percentiles, none where n "
        "is too small, and valid at any time for what was asked until decided. Repeats and "
        "variants of a prompt count for what they are worth (Worth n).",
        "A tier is decided at 95% probability. A recommendation for subagents needs native calls "
        "(Tier 1, decided), right arguments and restraint (interval from 70% up each), and tasks "
        "done (from 50% up) without harm.",
    ]
    for group in best_first(summary.models, summary.jobs):
        repeats = word_repeats(group.repeatability)
        if repeats:
            notes.append(f"{_title(group)}: {repeats}.")
        for warning in group.warnings:
            notes.append(f"{_title(group)}: {warning}.")
    if summary.n_unreadable_lines:
        notes.append(f"{words.word_unreadable(summary.n_unreadable_lines)}.")
    return notes


def word_repeats(repeats: Repeatability | None) -> str:
    """pass@k and pass^k in words; empty where no prompt was judged that often."""
    if repeats is None or not repeats.n_prompts:
        return ""
    k = repeats.k
    any_passes = format_percent(repeats.pass_at_k)
    all_pass = format_percent(repeats.pass_hat_k)
    over = f"over {plural(repeats.n_prompts, 'prompt')} asked {k} times"
    return f"{over}, one of {k} passes in {any_passes} (pass@{k}), all {k} in {all_pass} (pass^{k})"


def word_money(cost: CostSummary | None) -> str:
    """What the calls cost: `$0.1320 ($0.0020 a call, n=66; $0.0041 a pass)`."""
    if cost is None:
        return ABSENT
    per_pass = ""
    if cost.per_pass_usd is not None:
        per_pass = f"; {format_money(cost.per_pass_usd)} a pass"
    per_call = format_money(cost.per_call_usd)
    return f"{format_money(cost.usd)} ({per_call} a call, n={cost.n_priced}{per_pass})"


def _word_clock(clock: ClockTrust, *, with_cost: bool = False) -> str:
    """How far the clock can be trusted; `with_cost`, what watching it took."""
    parts = []
    lag = clock.lag_p99_ms
    if lag is not None:
        parts.append(f"loop lag p99 {rounded(lag, 1 if lag >= 0.05 else 2)} ms")
    if clock.n_watched:
        watched = plural(clock.n_watched, "call")
        parts.append(f"{clock.n_flagged} of {watched} could be off by more than 1 ms or 1%")
    if clock.n_retried:
        retried = plural(clock.n_retried, "call")
        parts.append(f"{retried} tried again, {format_duration(clock.retry_wait_ms)} waited")
    load = ""
    if clock.load_1m is not None:
        cores = "" if clock.cores is None else f" on {plural(clock.cores, 'core')}"
        load = f"load {rounded(clock.load_1m, 1)}{cores}"
    if clock.busy:
        parts.append(f"the machine was busy before the first call ({load})")
    if with_cost:
        if clock.resolution_ns is not None:
            parts.append(f"clock resolution {clock.resolution_ns} ns")
        if clock.client_cpu_s is not None:
            parts.append(f"clawgauge used {rounded(clock.client_cpu_s, 1)} s of CPU")
        if load and not clock.busy:
            parts.append(load)
    return "; ".join(parts)


def _tier_lines(group: GroupSummary) -> list[str]:
    """The tier of a model, and further in what it rests on."""
    use = group.tool_use
    below = []
    if use.caution:
        below.append(f"caution: {use.caution}")
    if use.n:
        below += [words.word_tier(use), _word_source(use)]
    below += [_word_beside(group), words.word_balance(group.call_balance)]
    if group.n_ok:
        below.append(words.word_recommendation(use))
    stopped = "; stopped early" if group.stopped_early else ""
    return [f"{_title(group)}: {use.label}{stopped}", *(f"    {line}" for line in below if line)]


def _word_source(use: ToolUse) -> str:
    """Which prompts a tier rests on, and how the calls came, kinds that did not occur left out:
    `prompts that offer tools in agent; calls seen: 5 text (5 xml); 1 answer without any`. An
    answer may hold several."""
    is_native = use.source == "native"
    prompts = "prompts that offer tools" if is_native else "text prompts"
    if any(use.suites):
        prompts = f"{prompts} in {', '.join(use.suites)}"
    formats = ", ".join(f"{n} {name}" for name, n in use.formats.items())
    channels = use.channels
    # Where no tool is offered, a command in prose or code is the call that is asked for.
    mentioned = "mentioned only" if is_native else "in prose or code"
    counts = [
        (channels.native, "native"),
        (channels.text, f"text ({formats})" if formats else "text"),
        (channels.malformed, "malformed"),
        (channels.mention, mentioned),
    ]
    calls = ", ".join(f"{n} {name}" for n, name in counts if n)
    parts = [prompts]
    if calls:
        parts.append(f"calls seen: {calls}")
    if channels.none:
        parts.append(f"{plural(channels.none, 'answer')} without any")
    if use.rescued:
        parts.append(f"{plural(use.rescued, 'answer')} rescued from text")
    return "; ".join(parts)


def _word_beside(group: GroupSummary) -> str:
    """The rates beside the tier that were measured: `arguments right 83% · 5/6 · 44–97%;
    restraint …`."""
    parts = []
    for figure in ("argument_accuracy", "restraint", "tasks", "agreement"):
        rate = model_cell(figure, group, Style.FULL)
        if rate == ABSENT:
            continue
        title = MODEL_FIGURES[figure].titles.long.lower()
        effort = _word_effort(group) if figure == "tasks" else ""
        parts.append(f"{title} {rate}{effort}")
    return "; ".join(parts)


def _word_effort(group: GroupSummary) -> str:
    """What a task took: `, 4.0 turns and 120 tokens each`."""
    turns = model_cell("turns_per_task", group, digits=1)
    tokens = model_cell("tokens_per_task", group)
    text = "" if turns == ABSENT else f", {turns} turns"
    if tokens != ABSENT:
        text += f" and {tokens} tokens each"
    return text


def describe_summary(
    summary: RunSummary,
    config: RunConfig | None = None,
    *,
    grid: Section = NO_GRID,
    verbose: bool = False,
    unfinished: bool = False,
    path: Path | None = None,
) -> list[Section]:
    """What a terminal shows of the run at `path`: the `grid` of a small run, what went wrong, the
    answer for each job and what to do next. A line a model comes last, where a small screen still
    shows it.

    The rest, `verbose`: how each tier came about, the clock, what was paid, every warning. Of a
    run that is `unfinished` no other run is proposed: it may tell by itself."""
    headlines = word_headlines(summary, config)
    title = Section("", [Prose([f"run {summary.run_id}"]), Prose(headlines)])
    again = "" if path is None else show_command(path)
    if summary.capacity:
        return [title, *describe_capacity(summary, again)]
    groups = best_first(summary.models, summary.jobs)
    if verbose:
        middle = _details(groups)
    else:
        cautions = []
        for group in groups:
            if group.tool_use.caution:
                cautions.append(f"{_title(group)}: {group.tool_use.caution}")
        middle = [Section("caution", [Points(cautions)]), Section("", [_timing(groups)])]
    return [
        title,
        grid,
        Section("worth knowing", [Points(_worth_knowing(summary, groups, verbose=verbose))]),
        describe_context(summary),
        describe_agents(summary),
        *middle,
        describe_jobs(summary.jobs),
        Section("", [] if unfinished else describe_next(summary.jobs)),
        describe_models(
            groups,
            summary.jobs,
            config,
            is_decision=decides_jobs(config),
            again=again,
        ),
    ]


def _worth_knowing(
    summary: RunSummary, groups: Sequence[GroupSummary], *, verbose: bool
) -> list[str]:
    """How calls failed, and the warnings of the run; only the first of these where not
    `verbose`."""
    notes = []
    titles_by_warning: dict[str, list[str]] = {}
    for group in groups:
        for failure in group.failures:
            notes.append(f"{_title(group)}: {words.word_failure(failure)}")
        text_calls = _word_text_calls(group)
        if text_calls:
            notes.append(f"{_title(group)}: {text_calls}")
        for warning in group.warnings:
            titles_by_warning.setdefault(one_line(warning, MAX_HINT), []).append(_title(group))
    # What is said of several alike is said once.
    warnings = []
    for warning, titles in titles_by_warning.items():
        warnings.append(f"{list_names(titles, _MAX_NAMED)}: {warning}")
    shown = warnings if verbose else warnings[:_MAX_WARNINGS]
    notes += shown
    if summary.n_unreadable_lines:
        notes.append(words.word_unreadable(summary.n_unreadable_lines))
    n_left_out = len(warnings) - len(shown)
    if n_left_out:
        notes.append(f"{plural(n_left_out, 'more note')}: clawgauge show {summary.run_id} -v")
    return notes


def _word_text_calls(group: GroupSummary) -> str:
    """How a model that takes no tools writes calls as text; nothing of any other."""
    seen = group.tool_use.tools_seen
    if seen is None or not seen.unseen or group.evidence is None:
        return ""
    tallies = group.evidence.get(TEXT_CALLS, ())
    n = sum(tally.answers * tally.n for tally in tallies)
    k = sum(tally.passes * tally.n for tally in tallies)
    return f"asked without tools, it wrote the call as text in {k} of {n}" if n else ""


def _timing(groups: Sequence[GroupSummary]) -> Prose:
    """How rough the timings are; nothing where they are sound."""
    clocks = [group.clock for group in groups if group.clock is not None and group.n_success]
    n_flagged = sum(clock.n_flagged for clock in clocks)
    n_watched = sum(clock.n_watched for clock in clocks)
    is_busy = any(clock.busy for clock in clocks)
    if not is_busy and n_flagged <= _TOLERATED_SHARE * n_watched:
        return Prose([])
    lag_ms = max((clock.lag_p99_ms or 0.0 for clock in clocks), default=0.0)
    why = "the machine was busy" if is_busy else "this program was held up"
    error = f" (±{rounded(lag_ms)} ms)" if lag_ms >= 1 else ""
    return Prose([f"timing: rough, {why}{error}"])


def _details(groups: Sequence[GroupSummary]) -> list[Section]:
    columns = [Column("model", narrow="target")]
    columns += [Column(column.heading, "right") for column in _GLANCE]
    rows = [[_title(group), *_cells(_GLANCE, group)] for group in groups]
    legend = {"of all": "of all: unanswered prompts count as not passed", INDICATIVE: LEGEND}
    table = Table(columns, rows, _YIELDING, ruled=True, legend=legend)
    notes = []
    clocks = []
    priced = []
    for group in groups:
        note = _word_calls(group)
        if note:
            notes.append(f"{_title(group)}: {note}")
        clock = "" if group.clock is None else _word_clock(group.clock)
        if clock:
            of_model = "" if len(groups) == 1 else f", {_title(group)}"
            clocks.append(f"clock{of_model}: {clock}")
        if group.cost is not None:
            priced.append(f"{_title(group)}: {word_money(group.cost)}")
    tier_lines = [line for group in groups for line in _tier_lines(group)]
    return [
        Section("", [table, Prose(notes)]),
        _anatomy(groups),
        Section("tool use", [Points(tier_lines)]),
        Section("", [Prose(clocks)]),
        Section("cost", [Points(priced)]),
    ]


def _word_calls(group: GroupSummary) -> str:
    """Timeouts, cold calls and repeats, as far as there were any."""
    parts = []
    if group.n_timeouts:
        parts.append(f"{plural(group.n_timeouts, 'timeout')}, longer than any answer")
    cold = group.latency_cold_ms
    warm = group.latency_warm_ms
    if cold.n:
        cold_p50 = format_ms(read_figure("cold_p50_ms", group).value)
        apart = f"cold calls p50 {cold_p50} (n={cold.n})"
        if warm.n:
            warm_p50 = format_ms(read_figure("warm_p50_ms", group).value)
            apart += f", warm calls p50 {warm_p50} (n={warm.n})"
        parts.append(apart)
    repeats = word_repeats(group.repeatability)
    if repeats:
        parts.append(repeats)
    return "; ".join(parts)


def _may_go_on(group: GroupSummary) -> bool:
    """Whether a target can be asked more where the answers decide what is asked."""
    return group.asking_ended in (None, "budget_spent")


def count_unanswered(group: GroupSummary) -> int:
    """How many calls had no answer, and may have one when they are asked again: not those that
    were refused because the model takes no tools."""
    n_refused = 0
    for failure in group.failures:
        if failure.failure_type == TOOLS_REFUSED:
            n_refused += failure.n_attempted
    return group.attempted - group.n_ok - n_refused


def describe_ending(
    summary: RunSummary,
    config: RunConfig | None,
    path: Path,
    refill: str,
    *,
    interrupted: bool,
    grid: Section = NO_GRID,
    verbose: bool = False,
) -> list[Section]:
    """What a terminal shows as a run ends. `refill` is the command that goes on with it."""
    lacking = []
    n_failed = sum(count_unanswered(group) for group in summary.models)
    if n_failed:
        lacking.append(f"{plural(n_failed, 'call')} not answered")
    # How many, and why, is said among what is worth knowing.
    if any(group.attempted < group.n_scheduled for group in summary.models):
        lacking.append("not all was asked")
    if summary.asked == "decision" and any(_may_go_on(group) for group in summary.models):
        lacking.append("not all is decided")
    is_lacking = bool(lacking) and not summary.capacity
    sentences = []
    if interrupted:
        sentences.append("interrupted: what was recorded stands")
    if is_lacking:
        sentences.append(f"{', '.join(lacking)}; go on with:")
    ending = [
        Prose(sentences),
        Commands([refill] if is_lacking else []),
        Prose([f"everything is in {path}; clawgauge view shows it in a browser"]),
    ]
    sections = describe_summary(
        summary,
        config,
        grid=grid,
        verbose=verbose,
        unfinished=interrupted and is_lacking,
        path=path,
    )
    return [*sections, Section("", ending)]
