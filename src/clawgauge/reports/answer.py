"""The answer at first glance: a line a model, which of them to take for which job, the run that would tell more."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from clawgauge.records import GroupSummary, JobVerdict, RunSummary
from clawgauge.reports.clean import one_line
from clawgauge.reports.document import Column, Commands, Part, Prose, Section, Table
from clawgauge.reports.words import INDICATIVE, LEGEND, format_measure, short_names
from clawgauge.verdict import best_first
from clawgauge.words import ABSENT, format_bytes, format_money, format_number, format_percent, list_names

MARKS = {"yes": "✓", "no": "✗", "cannot_tell": "?"}
CANNOT_TELL = "cannot tell yet"
NOBODY = "none of these"
_NAME_CHARS = 80
_MAX_NAMED = 3
_LEGEND = "✓ fit, ✗ not fit, ? cannot tell yet"
_WHICH = "which model for which job"
# The columns a person misses least.
_YIELDING = ("energy", "memory", "tok/s", "p50 ms", "restraint", "first ms", "cost", "p95 ms", "tools", "tasks", "pass")


class Choice(NamedTuple):
    """Whom to take for a job, and why: `use` is a name, names that tie, or that there is none."""

    job: str
    use: str
    why: str


def choose(summary: RunSummary) -> list[Choice]:
    """The answer for every job, in its order."""
    names = name_models(summary.models)
    return [_choice(job, names) for job in summary.jobs if job.ranking]


def name_models(groups: Sequence[GroupSummary]) -> dict[str, str]:
    """What the models are called, by label: as short as tells them apart."""
    names = short_names(group.target for group in groups)
    return {target.label: one_line(name, _NAME_CHARS) for target, name in names.items()}


def _choice(job: JobVerdict, names: Mapping[str, str]) -> Choice:
    first = job.ranking[0]
    if first.fit == "yes":
        best = [names[one.target] for one in job.ranking if one.tie][:_MAX_NAMED] or [names[first.target]]
        return Choice(job.job, " or ".join(best), f"{'a tie: ' if first.tie else ''}{first.why}")
    # What is said of all alike is said of none by name.
    of = f"{names[first.target]}: " if len({one.why for one in job.ranking if one.fit == first.fit}) > 1 else ""
    return Choice(job.job, NOBODY if first.fit == "no" else CANNOT_TELL, f"{of}{first.why}")


def describe_jobs(summary: RunSummary) -> Section:
    """A line a job."""
    columns = [Column("job"), Column("take", narrow="wrapped"), Column("why", narrow="wrapped")]
    return Section(_WHICH, [Table(columns, choose(summary), bare=True)])


def describe_models(summary: RunSummary) -> Section:
    """One line a model, the best first; a column nobody has a figure for is left out."""
    groups, jobs = best_first(summary.models, summary.jobs), [job for job in summary.jobs if job.ranking]
    marks = [{one.target: MARKS[one.fit] for one in job.ranking} for job in jobs]
    figures = {name: [read(group) for group in groups] for name, read in _FIGURES.items()}
    figures = {name: cells for name, cells in figures.items() if any(cell != ABSENT for cell in cells)}
    labels, names = [group.target.label for group in groups], name_models(groups)
    rows = [
        [names[label], *(of[label] for of in marks), *(cells[place] for cells in figures.values())]
        for place, label in enumerate(labels)
    ]
    columns = [Column("model", narrow="name"), *(Column(job.column) for job in jobs)]
    columns += [Column(name, "right") for name in figures]
    # In the narrowest terminal the jobs give way from the last to the first: the list below has them all.
    yielding = (*_YIELDING, *(job.column for job in reversed(jobs)))
    said = [_LEGEND] if jobs else []
    said += ["pass: unanswered prompts count as failed"] if "answered" in figures and "pass" in figures else []
    said += [LEGEND] if any(INDICATIVE in cell for row in rows for cell in row) else []
    return Section("", [Table(columns, rows, yielding, ruled=True), Prose(said)])


def describe_next(summary: RunSummary) -> list[Part]:
    """The one run that would tell what is not known yet."""
    words = [shlex.split(job.needs) for job in summary.jobs if job.needs]
    # Options with their values, each once, targets before suites.
    pairs = dict.fromkeys(pair for command in words for pair in zip(command[2::2], command[3::2], strict=True))
    if not pairs:
        return []
    targets, suites = (
        [f"{option} {shlex.quote(value)}" for option, value in pairs if option == kind] for kind in ("-t", "-s")
    )
    jobs = list_names([job.job for job in summary.jobs if job.needs], len(words))
    # In pieces as a shell reads on, so that it can be pasted whatever the terminal's width.
    pieces = ["clawgauge run", *targets, *(" ".join(suites[n : n + 3]) for n in range(0, len(suites), 3))]
    lines = [*(f"{piece} \\" for piece in pieces[:-1]), pieces[-1]]
    return [Prose([f"To tell who is fit for {jobs}, run:"]), Commands(lines)]


def _rate(k: int, n: int) -> str:
    return f"{format_percent(k / n)} {k}/{n}" if n else ABSENT


def _memory(group: GroupSummary) -> str:
    return format_bytes(group.peak_vram_bytes or group.peak_memory_bytes)


_FIGURES: Mapping[str, Callable[[GroupSummary], str]] = {
    "answered": lambda group: ABSENT if group.n_ok == group.n_scheduled else f"{group.n_ok}/{group.n_scheduled}",
    "tier": lambda group: ABSENT if (use := group.tool_use).tier is None else f"{use.tier}{'' if use.decided else '?'}",
    "pass": lambda group: _rate(group.n_passed, group.n_scheduled_judged),
    "tools": lambda group: _rate(group.tool_use.k, group.tool_use.n),
    "restraint": lambda group: _rate(group.restraint.k, group.restraint.n),
    "tasks": lambda group: _rate(group.tasks.k, group.tasks.n),
    "p50 ms": lambda group: format_measure(group.timed_ms, "p50", interval=False),
    "p95 ms": lambda group: format_measure(group.timed_ms, "p95", interval=False),
    "first ms": lambda group: format_measure(group.ttft_ms, "p50", interval=False),
    "tok/s": lambda group: format_number(group.output_tps.p50),
    "cost": lambda group: ABSENT if group.cost is None else f"{format_money(group.cost.per_call_usd)} a call",
    "memory": _memory,
    "energy": lambda group: ABSENT if group.energy_j is None else f"{group.energy_j / 1000:.1f} kJ",
}
