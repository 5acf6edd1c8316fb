"""What a capacity run found: the answer in a sentence, the steps it rests on, what bends them;
and two of them."""

from __future__ import annotations

from collections.abc import Sequence

from clawgauge.figures import INDICATIVE
from clawgauge.records import CapacitySummary, RunSummary, StepSummary
from clawgauge.reports.clean import one_line
from clawgauge.reports.columns import StepColumn
from clawgauge.reports.document import Column, Points, Prose, Section, Table
from clawgauge.reports.words import MIN_SAMPLES_P95
from clawgauge.stats.visits import N_ROUNDS
from clawgauge.verdict.load import (
    A_SECOND,
    AT_ONCE,
    MIN_VISITS,
    TOO_FEW_VISITS,
    TTFT_P50,
    LoadChange,
)
from clawgauge.verdict.wording import word_capacity, word_tokens
from clawgauge.words import ABSENT, plural

_MAX_NAME = 80
_FIGURE_NAMES = {TTFT_P50: "first token p50 ms"}
_COLUMNS = (
    StepColumn("n"),
    StepColumn("visits"),
    StepColumn("requests_per_s"),
    StepColumn("output_tokens_per_s"),
    StepColumn("ttft_p50_ms"),
    StepColumn("ttft_p95_ms"),
    StepColumn("tpot_p50_ms", digits=1),
    StepColumn("itl_p95_ms", digits=1),
    StepColumn("e2e_p95_ms"),
    StepColumn("queue_ms"),
    StepColumn("prefill_ms"),
    StepColumn("attained"),
    StepColumn("n_failed", is_zero_shown=False),
    StepColumn("output_tokens"),
    StepColumn("cached_tokens", is_zero_shown=False),
)
_THIN = f"{INDICATIVE} indicative only: p95 under {MIN_SAMPLES_P95} calls"
# Left out one after the other where there is little room, and of the line that tells of a step as
# it ends.
_YIELDING = (
    "queue",
    "prefill",
    "cached",
    "answer",
    "itl p95",
    "tokens/s",
    "tpot p50",
    "e2e p95",
    "first token p50",
    "visits",
    "n",
)
# Of the line of a visit, which is one of them.
_NOT_IN_A_LINE = (*_YIELDING[:8], "visits")


def word_step(context_tokens: int, step: StepSummary) -> str:
    """A visit as it ends: `8 at once at 2k: n 60, requests/s 11.4, first token p50 70 …`."""
    figures = []
    for column in _COLUMNS:
        cell = column.cell(step)
        if column.heading not in _NOT_IN_A_LINE and cell != ABSENT:
            figures.append(f"{column.heading} {cell}")
    unit = "at once" if step.rate is None else "a second"
    growing = "; the queue grew" if step.growing else ""
    trust = f"; not trusted: {step.untrusted}" if step.untrusted else ""
    load = f"{step.level:g} {unit} at {word_tokens(context_tokens)}"
    visit = step.visits[-1].visit
    if visit > 1:
        load += f", visit {visit}"
    return f"{load}: {', '.join(figures)}{growing}{trust}"


def describe_capacity(summary: RunSummary, again: str = "") -> list[Section]:
    """For every target and length its sentence, its steps, and what a reader must know of them.
    `again` is the command that shows it again."""
    answers: list[str] = []
    sections: list[Section] = []
    fits: dict[str, str] = {}
    for entry in summary.capacity:
        name = one_line(entry.target, _MAX_NAME)
        answers.append(f"{name}: {word_capacity(entry)}")
        title = f"{name} at {word_tokens(entry.context_tokens)}"
        sections.append(Section(title, [_table(entry, again), Prose(_notes(entry))]))
        fit = entry.ttft_fit
        if fit is not None:
            likely = "–".join(f"{end:.1f}" for end in fit.ms_per_1k_tokens_ci95)
            per_1k = f"{fit.ms_per_1k_tokens:.1f} ms per 1k tokens (likely {likely})"
            fits[name] = f"{name}: {fit.fixed_ms:.0f} ms + {per_1k}, n={fit.n}"
    lines = Section(
        "first token of a lone call, by length of prompt", [Points(list(fits.values()))]
    )
    return [Section("what it can carry", [Points(answers)]), *sections, lines]


def _table(entry: CapacitySummary, again: str) -> Table:
    headings = ["at once" if entry.mode == "closed" else "a second"]
    cells = [[f"{step.level:g}" if step.trusted else f"{step.level:g}*" for step in entry.steps]]
    for column in _COLUMNS:
        of_steps = [column.cell(step) for step in entry.steps]
        if set(of_steps) <= {ABSENT}:
            continue
        headings.append(column.heading)
        cells.append(of_steps)
    columns = [Column(heading, "right") for heading in headings]
    rows = list(zip(*cells, strict=True))
    return Table(columns, rows, _YIELDING, ruled=True, legend={INDICATIVE: _THIN}, again=again)


def _notes(entry: CapacitySummary) -> list[str]:
    if not entry.steps:
        return []
    notes = ["times in ms, failures slower than any"]
    for step in entry.steps:
        if step.untrusted:
            notes.append(f"* {step.level:g}: {step.untrusted}; left out of the answer")
    notes += _word_rounds(entry)
    n_dropped = sum(step.n_dropped for step in entry.steps)
    if n_dropped:
        notes.append(f"{n_dropped} not sent: as many were out as may be (--max-concurrency)")
    if entry.truncated is None:
        unknown = "whether prompts were read whole cannot be told"
        notes.append(f"{unknown}: no count shows it, and answers lack the codes")
    return notes


def _word_rounds(entry: CapacitySummary) -> list[str]:
    """What the number of visits means for the answer, where it is other than it should be."""
    if entry.mode != "closed":
        return []
    notes = []
    if entry.n_rounds == 1:
        notes.append("one visit of each number of clients: how much they differ is not known")
    elif entry.n_rounds < N_ROUNDS:
        rounds = f"{entry.n_rounds} of {N_ROUNDS} rounds were made"
        if entry.within_slo is not None:
            notes.append(f"{rounds}: the range is wider by one number tried at each end")
        else:
            notes.append(f"{rounds}: the figures are less certain")
    n_late = 0
    for step in entry.steps:
        if step.trusted:
            n_late += len(step.visits) - len(step.trusted_visits)
    if n_late:
        visits = plural(n_late, "visit")
        wider = "; the range is wider for it" if entry.within_slo is not None else ""
        notes.append(f"{visits} left out of the figures: this program was late{wider}")
    return notes


def describe_load_changes(changes: Sequence[LoadChange]) -> list[Section]:
    """What two capacity runs say can be carried; and all that both say, figure by figure."""
    answers = []
    rows = []
    for change in changes:
        if change.figure in (AT_ONCE, A_SECOND):
            a = _word_carried(change, "A", change.a, change.a_to)
            b = _word_carried(change, "B", change.b, change.b_to)
            answers.append(f"{one_line(change.target, _MAX_NAME)} at {change.load}: {a}, {b}")
        else:
            a = _four_digits(change.a)
            b = _four_digits(change.b)
            figure = _FIGURE_NAMES.get(change.figure, change.figure)
            rows.append([change.target, change.load, figure, a, b, change.verdict])
    columns = [
        Column("target", narrow="target"),
        Column("load"),
        Column("figure"),
        Column("A"),
        Column("B"),
        Column("verdict"),
    ]
    notes = [] if rows else ["no load is in both"]
    if any(change.verdict == TOO_FEW_VISITS for change in changes):
        notes.append(
            f"too few visits: it takes {MIN_VISITS} in each run to know how much they differ; a "
            "number of clients far from the answer has one, as all have in runs before 0.3.0, and "
            "so has a rate"
        )
    table = Section("", [Table(columns, rows, ruled=True), Prose(notes)])
    return [Section("what it can carry", [Points(answers)]), table]


def _word_carried(change: LoadChange, side: str, n: float | None, n_to: float | None) -> str:
    if n is None:
        return f"cannot tell in {side}"
    amount = f"{n:g}"
    if n_to is not None and n_to > n:
        amount += f" to {n_to:g}"
    or_more = " or more" if side in change.verdict else ""
    return f"{amount} {change.figure}{or_more} in {side}"


def _four_digits(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.4g}"
