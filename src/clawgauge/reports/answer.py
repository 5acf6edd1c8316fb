"""The answer at first glance: a line a model, which of them to take for which job, the run that
would tell more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clawgauge.figures import INDICATIVE, Style, format_cell, read_figure
from clawgauge.figures.values import Amount
from clawgauge.prices import host_of, is_free, settings_of
from clawgauge.proxies import is_loopback
from clawgauge.records import GroupSummary, JobVerdict, RunConfig, RunSummary
from clawgauge.reports.columns import ModelColumn
from clawgauge.reports.document import Column, Commands, Part, Prose, Section, Table
from clawgauge.reports.words import LEGEND, context_rows, name_models
from clawgauge.verdict import BUILT_IN, best_first, order_targets, word_run
from clawgauge.verdict.jobs import PLAIN_JOBS, find_suites
from clawgauge.verdict.states import FitState
from clawgauge.verdict.wording import word_behind, word_state
from clawgauge.words import ABSENT, format_bytes, format_money, list_names, plural

MARKS = {"yes": "✓", "no": "✗", "cannot_tell": "?"}
CANNOT_TELL = "cannot tell yet"
NOBODY = "none of these"
NOBODY_ASKED = "none that was asked"
_JOBS_TITLE = "which model for which job"
_FREE = "free"
_MAX_NAMED = 3
_MAX_HEADLINES = 8
_FIGURES = (
    ModelColumn.short("answered"),
    ModelColumn.short("tier"),
    ModelColumn.short("passed_of_asked", Style.WITH_PERCENT),
    ModelColumn.short("tool_use_rate"),
    ModelColumn("argument_accuracy", "args"),
    ModelColumn.short("restraint"),
    ModelColumn.short("tasks"),
    ModelColumn.short("agreement"),
    ModelColumn.short("p50_ms"),
    ModelColumn.short("p95_ms"),
    ModelColumn("ttft_p50_ms", "first token", Style.WITH_UNIT),
    ModelColumn.short("output_tps_p50"),
    ModelColumn.short("cost_per_call_usd"),
    ModelColumn("peak_memory_bytes", "machine"),
    ModelColumn.short("energy_j"),
)
# Where answers decided what was asked, a rate over all of it says how a model came through the
# questions that were put to it, and not how good it is: there each need has its own. Of a list the
# pass rate is the headline.
_OF_LISTS = frozenset({"passed_of_asked"})
_OF_DECISIONS = frozenset({"argument_accuracy"})
# The columns a person misses least; what decides the jobs goes last.
_YIELDING = (
    "energy",
    "machine",
    "tok/s",
    "p50 ms",
    "first token",
    "cost",
    "p95 ms",
    "tier",
    "agrees",
    "args",
    "restraint",
    "tools",
    "tasks",
)


class Choice(NamedTuple):
    """Whom to take for a job, and why: `use` is a name, names that tie, or that there is none."""

    job: str
    use: str
    why: str


def choose(jobs: Sequence[JobVerdict]) -> list[Choice]:
    """Whom to take for each job that has a model to judge."""
    names = name_models(order_targets(jobs))
    return [_choose_for(job, names) for job in find_asked(jobs)]


def find_asked(jobs: Sequence[JobVerdict]) -> list[JobVerdict]:
    """The jobs of which the run tells something of some model."""
    asked = []
    for job in jobs:
        if any(fit.state != FitState.NOT_ASKED for fit in job.ranking):
            asked.append(job)
    return asked


def _choose_for(job: JobVerdict, names: Mapping[str, str]) -> Choice:
    first = job.ranking[0]
    if first.fit == "yes":
        return _choose_best(job, names)
    if first.state == FitState.NOT_ASKED:
        # Of others something is known.
        asked = [fit for fit in job.ranking if fit.state != FitState.NOT_ASKED]
        first = asked[0]
    # What is said of several alike is said of none by name.
    reasons = [fit.why for fit in job.ranking if fit.fit == first.fit]
    why = first.why
    if len(reasons) > 1 and reasons.count(first.why) == 1:
        why = f"{names[first.target]}: {first.why}"
    use = CANNOT_TELL
    if first.fit == "no":
        use = NOBODY if first is job.ranking[0] else NOBODY_ASKED
    if first.fit == "cannot_tell" and first.state is not None:
        use = f"{names[first.target]}: {word_state(first)}"
        why = first.why
    return Choice(job.job, use, why)


def _choose_best(job: JobVerdict, names: Mapping[str, str]) -> Choice:
    first = job.ranking[0]
    best = [fit for fit in job.ranking if fit.tie] or [first]
    order = list(names)
    # By the job's own figures; of those that are alike in them, by who is better in the other jobs.
    best.sort(key=lambda fit: (fit.place, order.index(fit.target)))
    use = [names[fit.target] for fit in best]
    if len(use) > _MAX_NAMED + 1:
        n_more = len(use) - _MAX_NAMED
        use = [*use[:_MAX_NAMED], f"{n_more} others"]
    text = use[-1]
    if len(use) > 1:
        text = f"{', '.join(use[:-1])} or {use[-1]}"
    why = f"a tie: {best[0].why}" if first.tie else best[0].why
    behind = _word_behind(job, names)
    return Choice(job.job, text, f"{why}; {behind}" if behind else why)


def _word_behind(job: JobVerdict, names: Mapping[str, str]) -> str:
    """Who else is fit, and behind by more than luck, with the least sure of their p-values."""
    labels = []
    p_values = []
    for fit in job.ranking:
        if fit.behind_p is not None:
            labels.append(names[fit.target])
            p_values.append(fit.behind_p)
    if not labels:
        return ""
    verb = "is" if len(labels) == 1 else "are"
    return f"{list_names(labels, _MAX_NAMED)} {verb} {word_behind(max(p_values))}"


def describe_jobs(jobs: Sequence[JobVerdict], by: str = "") -> Section:
    """A line a job; `by` says what it rests on where that is not one run."""
    columns = [Column("job"), Column("take", narrow="wrapped"), Column("why", narrow="wrapped")]
    parts: list[Part] = []
    choices = choose(jobs)
    if choices:
        parts.append(Table(columns, choices, bare=True))
    not_asked = _describe_not_asked(jobs)
    if not_asked:
        parts.append(Prose([not_asked]))
    return Section(f"{_JOBS_TITLE}{by}" if choices else "", parts)


def _describe_not_asked(jobs: Sequence[JobVerdict]) -> str:
    """The jobs of which the run tells nothing, in one line, with the runs that would."""
    asked = {job.job for job in find_asked(jobs)}
    if not asked and any(job.ranking for job in jobs):
        return f"{_JOBS_TITLE}: not told by these prompts (clawgauge run tells)"
    names_by_command: dict[str, list[str]] = {}
    for job in jobs:
        if not job.ranking or job.job in asked:
            continue
        command = ""
        suites = job.suites
        if not suites and job.job in BUILT_IN:
            # None of these models may be fit for it: others may.
            suites = list(find_suites(BUILT_IN[job.job]))
        if job.job in PLAIN_JOBS:
            command = " (clawgauge run)"
        elif suites:
            command = f" (clawgauge run {' '.join(f'-s {suite}' for suite in suites)})"
        names_by_command.setdefault(command, []).append(job.job)
    parts = []
    for command, names in names_by_command.items():
        parts.append(f"{list_names(names, len(names))}{command}")
    return f"not asked: {'; '.join(parts)}" if parts else ""


def decides_jobs(config: RunConfig | None) -> bool:
    """Whether a run asked until jobs were decided: its headline is for how many a model is fit."""
    return config is not None and config.decision is not None and bool(config.decision.jobs)


def word_headlines(summary: RunSummary, config: RunConfig | None) -> list[str]:
    """`steady: fit for 4 of 4 jobs`, for each model of a run that decided jobs; else nothing."""
    if config is None or config.decision is None or not config.decision.jobs:
        return []
    decided_jobs = [job for job in summary.jobs if job.job in config.decision.jobs]
    names = name_models(order_targets(summary.jobs))
    n_fit = dict.fromkeys(names, 0)
    for job in decided_jobs:
        for fit in job.ranking:
            n_fit[fit.target] += fit.fit == "yes"
    n_jobs = plural(len(decided_jobs), "job")
    lines = []
    for target, name in names.items():
        lines.append(f"{name}: fit for {n_fit[target]} of {n_jobs}")
    if len(lines) > _MAX_HEADLINES:
        n_more = plural(len(lines) - _MAX_HEADLINES, "other model")
        lines = [*lines[:_MAX_HEADLINES], f"and {n_more}"]
    return lines


def describe_models(
    groups: Sequence[GroupSummary],
    jobs: Sequence[JobVerdict],
    config: RunConfig | None = None,
    *,
    is_decision: bool = False,
    again: str = "",
) -> Section:
    """One line a model, the best first; a column nobody has a figure for is left out.

    With `is_decision` rates are those of single needs. `again` is the command that shows it
    again."""
    groups = best_first(groups, jobs)
    jobs = find_asked(jobs)
    names = name_models(group.target.label for group in groups)
    figures = _choose_figures(groups, config, is_decision=is_decision)
    rows = []
    for row_number, group in enumerate(groups):
        label = group.target.label
        name = f"{names[label]} !" if group.tool_use.caution else names[label]
        marks = [_mark_of(job, label) for job in jobs]
        cells = [column_cells[row_number] for column_cells in figures.values()]
        rows.append([name, *marks, *cells])
    columns = [
        Column("model", narrow="name"),
        *(Column(job.column, narrow="mark") for job in jobs),
        *(Column(heading, "right") for heading in figures),
    ]
    # In the narrowest terminal the jobs give way from the last to the first: the list below has
    # them all.
    yielding = (*_YIELDING, *(job.column for job in reversed(jobs)))
    legend = {}
    if jobs:
        legend[jobs[0].column] = "✓ fit, ✗ not fit, ? not decided"
    passing = []
    if any(group.attempted < group.n_scheduled for group in groups):
        passing.append("of the prompts that were asked")
    if "answered" in figures:
        passing.append("unanswered prompts count as not passed")
    if passing:
        legend["pass"] = f"pass: {'; '.join(passing)}"
    legend["tier"] = "tier: how well it uses tools, from 1 (best) to 3; ? not decided"
    legend["machine"] = "machine: the most memory in use on it meanwhile, by all that ran there"
    legend[INDICATIVE] = LEGEND
    legend[" !"] = "! with a caution"
    return Section("", [Table(columns, rows, yielding, ruled=True, legend=legend, again=again)])


def _mark_of(job: JobVerdict, label: str) -> str:
    for fit in job.ranking:
        if fit.target == label:
            return MARKS[fit.fit]
    raise KeyError(label)


def _choose_figures(
    groups: Sequence[GroupSummary], config: RunConfig | None, *, is_decision: bool
) -> dict[str, list[str]]:
    """The cells of every column that tells something, by its heading."""
    left_out = _OF_LISTS if is_decision else _OF_DECISIONS
    figures = {}
    for column in _FIGURES:
        if column.figure in left_out:
            continue
        cells = [_cell(column, group, settings_of(config, group.target)) for group in groups]
        if set(cells) <= {ABSENT, _FREE}:
            continue
        if column.figure == "answered" and all(group.n_ok == group.attempted for group in groups):
            continue
        figures[column.heading] = cells
    return figures


def _cell(column: ModelColumn, group: GroupSummary, settings: Mapping[str, Any]) -> str:
    if column.figure == "cost_per_call_usd":
        return _cost(group, settings)
    if column.figure == "peak_memory_bytes":
        return _machine(group, settings)
    return column.cell(group)


def _cost(group: GroupSummary, settings: Mapping[str, Any]) -> str:
    usd = read_figure("cost_per_call_usd", group).value
    if usd is not None:
        return f"{format_money(usd)} a call"
    return _FREE if is_free(settings) else ABSENT


def _machine(group: GroupSummary, settings: Mapping[str, Any]) -> str:
    """Of the machine the model runs on; nothing where that is another one, or may be, or did
    nothing."""
    host = host_of(settings.get("base_url"))
    is_here = is_free(settings) and (not host or is_loopback(host))
    if not is_here or not group.n_ok:
        return ABSENT
    vram = read_figure("peak_vram_bytes", group).value
    memory = read_figure("peak_memory_bytes", group).value
    return format_bytes(vram or memory)


def describe_context(summary: RunSummary) -> Section:
    """What the user's own context costs each model."""
    columns = [
        Column("model", narrow="name"),
        Column("what"),
        Column("bare", "right"),
        Column("in context", "right"),
        Column("change", narrow="wrapped"),
    ]
    notes = []
    if summary.context:
        private = "this run holds your own prompt, its files are readable by you alone"
        notes.append(f"asked in {summary.context}: {private}")
    table = Table(columns, context_rows(summary), ruled=True)
    return Section("in your own context", [table, Prose(notes)])


def describe_next(jobs: Sequence[JobVerdict]) -> list[Part]:
    """The run that would tell who is fit for the jobs that are still open; nothing where there
    is none."""
    still_open = [job for job in find_asked(jobs) if job.suites]
    if not still_open:
        return []
    open_targets: set[str] = set()
    suites: list[str] = []
    for job in still_open:
        open_targets.update(job.targets)
        for suite in job.suites:
            if suite not in suites:
                suites.append(suite)
    targets = [target for target in order_targets(jobs) if target in open_targets]
    *pieces, last = word_run(targets, suites)
    command = [f"{piece} \\" for piece in pieces]
    command.append(last)
    names = list_names([job.job for job in still_open], len(still_open))
    return [Prose([f"To tell who is fit for {names}, run:"]), Commands(command)]


def word_tier_mark(tier: int | None, *, decided: bool) -> str:
    """`1`, and `1?` of a tier that is not decided."""
    return format_cell(Amount(tier, is_provisional=not decided), "tier")
