"""The answer at first glance: a line a model, which of them to take for which job, the run that would tell more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from clawgauge.prices import host_of, is_free, settings_of
from clawgauge.proxies import is_loopback
from clawgauge.records import GroupSummary, JobVerdict, RunConfig, RunSummary
from clawgauge.reports.document import Column, Commands, Part, Prose, Section, Table
from clawgauge.reports.words import INDICATIVE, LEGEND, context_rows, format_measure, name_models
from clawgauge.verdict import best_first, order_targets, word_run
from clawgauge.words import ABSENT, format_bytes, format_money, format_number, format_percent, list_names, rounded

MARKS = {"yes": "✓", "no": "✗", "cannot_tell": "?"}
CANNOT_TELL, NOBODY, _FREE = "cannot tell yet", "none of these", "free"
_MAX_NAMED = 3
# The columns a person misses least; what decides the jobs goes last.
_YIELDING = (
    "energy", "machine", "tok/s", "p50 ms", "first ms", "cost", "p95 ms", "answered", "pass", "tier", "agrees",
    "restraint", "tools", "tasks",
)  # fmt: skip


class Choice(NamedTuple):
    """Whom to take for a job, and why: `use` is a name, names that tie, or that there is none."""

    job: str
    use: str
    why: str


def choose(jobs: Sequence[JobVerdict]) -> list[Choice]:
    names = name_models(order_targets(jobs))
    return [_choice(job, names) for job in jobs if job.ranking]


def _choice(job: JobVerdict, names: Mapping[str, str]) -> Choice:
    first = job.ranking[0]
    if first.fit == "yes":
        best = [one for one in job.ranking if one.tie] or [first]
        # By the job's own figures; of those that are alike in them, who is better in the other jobs.
        order = list(names)
        best.sort(key=lambda one: (one.place, order.index(one.target)))
        named = [names[one.target] for one in best]
        if len(named) > _MAX_NAMED + 1:
            named[_MAX_NAMED:] = [f"{len(named) - _MAX_NAMED} others"]
        *others, last = named
        use = f"{', '.join(others)} or {last}" if others else last
        return Choice(job.job, use, f"{'a tie: ' if first.tie else ''}{best[0].why}")
    # What is said of several alike is said of none by name.
    whys = [one.why for one in job.ranking if one.fit == first.fit]
    of = f"{names[first.target]}: " if whys.count(first.why) < min(len(whys), 2) else ""
    return Choice(job.job, NOBODY if first.fit == "no" else CANNOT_TELL, f"{of}{first.why}")


def describe_jobs(jobs: Sequence[JobVerdict], by: str = "") -> Section:
    """A line a job; `by` says what it rests on where that is not one run."""
    columns = [Column("job"), Column("take", narrow="wrapped"), Column("why", narrow="wrapped")]
    return Section(f"which model for which job{by}", [Table(columns, choose(jobs), bare=True)])


def describe_models(
    groups: Sequence[GroupSummary], jobs: Sequence[JobVerdict], config: RunConfig | None = None
) -> Section:
    """One line a model, the best first; a column nobody has a figure for is left out."""
    groups, jobs = best_first(groups, jobs), [job for job in jobs if job.ranking]
    marks = [{one.target: MARKS[one.fit] for one in job.ranking} for job in jobs]
    settings = [settings_of(config, group.target) for group in groups]
    figures = {name: list(map(read, groups, settings)) for name, read in _FIGURES.items()}
    figures = {name: cells for name, cells in figures.items() if set(cells) - {ABSENT, _FREE}}
    if all(group.n_ok == group.attempted for group in groups):
        figures.pop("answered", None)
    labels = [group.target.label for group in groups]
    names = name_models(labels)
    names |= {(at := group.target.label): f"{names[at]} !" for group in groups if group.tool_use.caution}
    rows = [
        [names[label], *(of[label] for of in marks), *(cells[place] for cells in figures.values())]
        for place, label in enumerate(labels)
    ]
    columns = [Column("model", narrow="name"), *(Column(job.column, narrow="mark") for job in jobs)]
    columns += [Column(name, "right") for name in figures]
    # In the narrowest terminal the jobs give way from the last to the first: the list below has them all.
    yielding = (*_YIELDING, *(job.column for job in reversed(jobs)))
    legend = {job.column: "✓ fit, ✗ not fit, ? cannot tell yet" for job in jobs[:1]}
    unasked = any(group.attempted < group.n_scheduled for group in groups)
    told = ["of the prompts that were asked"] if unasked else []
    told += ["unanswered prompts count as not passed"] if "answered" in figures else []
    legend |= {"pass": f"pass: {'; '.join(told)}"} if told else {}
    legend["machine"] = "machine: the most memory in use on it meanwhile, by all that ran there"
    legend |= {INDICATIVE: LEGEND, " !": "! with a caution, below"}
    return Section("", [Table(columns, rows, yielding, ruled=True, legend=legend)])


def describe_context(summary: RunSummary) -> Section:
    heading = Column("model", narrow="name"), Column("what"), Column("bare", "right"), Column("in context", "right")
    table = Table([*heading, Column("change", narrow="wrapped")], context_rows(summary), ruled=True)
    said = f"asked in {summary.context}: this run holds your own prompt, its files are readable by you alone"
    return Section("in your own context", [table, Prose([said] if summary.context else [])])


def describe_next(jobs: Sequence[JobVerdict]) -> list[Part]:
    open_yet = [job for job in jobs if job.suites]
    if not open_yet:
        return []
    asked, suites = {t for job in open_yet for t in job.targets}, [suite for job in open_yet for suite in job.suites]
    targets = [target for target in order_targets(jobs) if target in asked]
    *pieces, last = word_run(targets, list(dict.fromkeys(suites)))
    named = list_names([job.job for job in open_yet], len(open_yet))
    command = Commands([*(f"{piece} \\" for piece in pieces), last])
    return [Prose([f"To tell who is fit for {named}, run:"]), command]


def word_tier_mark(tier: int | None, *, decided: bool) -> str:
    """`1`, and `1?` of a tier that is not decided."""
    return ABSENT if tier is None else f"{tier}{'' if decided else '?'}"


def _rate(k: int, n: int) -> str:
    return f"{format_percent(k / n)} {k}/{n}" if n else ABSENT


def _share(k: int, n: int) -> str:
    return f"{k}/{n}" if n else ABSENT


def _cost(group: GroupSummary, settings: Mapping[str, Any]) -> str:
    if group.cost is not None:
        return f"{format_money(group.cost.per_call_usd)} a call"
    return _FREE if is_free(settings) else ABSENT


def _machine(group: GroupSummary, settings: Mapping[str, Any]) -> str:
    """Of the machine the model runs on; nothing where that is another one, or may be, or did nothing."""
    host = host_of(settings.get("base_url"))
    here = is_free(settings) and (not host or is_loopback(host))
    return format_bytes(group.peak_vram_bytes or group.peak_memory_bytes) if here and group.n_ok else ABSENT


# What stands under each heading, of a model and of the settings of its provider.
_FIGURES: Mapping[str, Callable[[GroupSummary, Mapping[str, Any]], str]] = {
    "answered": lambda group, _: _share(group.n_ok, group.attempted),
    "tier": lambda group, _: word_tier_mark(group.tool_use.tier, decided=group.tool_use.decided),
    "pass": lambda group, _: _rate(*group.passes),
    "tools": lambda group, _: _share(group.tool_use.k, group.tool_use.n),
    "restraint": lambda group, _: _share(group.restraint.k, group.restraint.n),
    "tasks": lambda group, _: _share(group.tasks.k, group.tasks.n),
    "agrees": lambda group, _: _share(own.k, own.n) if (own := group.agreement) else ABSENT,
    "p50 ms": lambda group, _: format_measure(group.timed_ms, "p50", interval=False),
    "p95 ms": lambda group, _: format_measure(group.timed_ms, "p95", interval=False),
    "first ms": lambda group, _: format_measure(group.ttft_ms, "p50", interval=False),
    "tok/s": lambda group, _: format_number(group.output_tps.p50),
    "cost": _cost, "machine": _machine,
    "energy": lambda group, _: ABSENT if group.energy_j is None else f"{rounded(group.energy_j / 1000, 1)} kJ",
}  # fmt: skip
