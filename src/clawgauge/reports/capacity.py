"""What a capacity run found: the answer in a sentence, the steps it rests on, what bends them; and two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from clawgauge.records import CapacitySummary, RunSummary, StepSummary
from clawgauge.reports.clean import one_line
from clawgauge.reports.document import Column, Points, Prose, Section, Table
from clawgauge.reports.words import INDICATIVE, MIN_SAMPLES_P95, format_measure
from clawgauge.verdict.load import A_SECOND, AT_ONCE, LoadChange
from clawgauge.verdict.wording import word_capacity, word_tokens
from clawgauge.words import ABSENT, format_number, format_percent


def _times(name: str, percentile: str, digits: int = 0) -> Callable[[StepSummary], str]:
    return lambda step: format_measure(getattr(step, name), percentile, digits, interval=False)


_STEPS: Mapping[str, Callable[[StepSummary], str]] = {
    "n": lambda step: str(step.n), "requests/s": lambda step: f"{step.requests_per_s:.3g}",
    "tokens/s": lambda step: format_number(step.output_tokens_per_s),
    "ttft p50": _times("ttft_ms", "p50"), "ttft p95": _times("ttft_ms", "p95"), "tpot p50": _times("tpot_ms", "p50", 1),
    "itl p95": _times("itl_ms", "p95", 1), "e2e p95": _times("e2e_ms", "p95"),
    "queue": lambda step: format_number(step.server_ms.get("queue")),
    "prefill": lambda step: format_number(step.server_ms.get("prefill")),
    "within limits": lambda step: format_percent(step.attained),
    "failed": lambda step: str(step.n_failed or ABSENT), "answer": lambda step: format_number(step.output_tokens),
    "cached": lambda step: format_number(step.cached_tokens or None),
}  # fmt: skip
_THIN = f"{INDICATIVE} indicative only: p95 under {MIN_SAMPLES_P95} calls"
_YIELDING = ("queue", "prefill", "cached", "answer", "itl p95", "tokens/s", "tpot p50", "e2e p95", "ttft p50", "n")


def word_step(context_tokens: int, step: StepSummary) -> str:
    """A step as it ends: `8 at once at 2k: n 60, requests/s 11.4, ttft p50 70, ttft p95 71 …`."""
    told = {name: read(step) for name, read in _STEPS.items() if name not in _YIELDING[:8]}
    figures = ", ".join(f"{name} {figure}" for name, figure in told.items() if figure != ABSENT)
    unit, growing = "at once" if step.rate is None else "a second", "; the queue grew" if step.growing else ""
    trust = f"; not trusted: {step.untrusted}" if step.untrusted else ""
    return f"{step.level:g} {unit} at {word_tokens(context_tokens)}: {figures}{growing}{trust}"


def describe_capacity(summary: RunSummary) -> list[Section]:
    """For every target and length its sentence, its steps, and what a reader must know of them."""
    answers, sections, fits = list[str](), list[Section](), dict[str, str]()
    for entry in summary.capacity:
        name = one_line(entry.target, 80)
        answers.append(f"{name}: {word_capacity(entry)}")
        title = f"{name} at {word_tokens(entry.context_tokens)}"
        sections.append(Section(title, [_table(entry), Prose(_notes(entry))]))
        if (fit := entry.ttft_fit) is not None:
            likely = "–".join(f"{end:.1f}" for end in fit.ms_per_1k_tokens_ci95)
            per_1k = f"{fit.ms_per_1k_tokens:.1f} ms per 1k tokens (likely {likely})"
            fits[name] = f"{name}: {fit.fixed_ms:.0f} ms + {per_1k}, n={fit.n}"
    lines = Section("first token of a lone call, by length of prompt", [Points(list(fits.values()))])
    return [Section("what it can carry", [Points(answers)]), *sections, lines]


def _table(entry: CapacitySummary) -> Table:
    names, marks = ["at once" if entry.mode == "closed" else "a second", *_STEPS], {True: "", False: "*"}
    rows = [[f"{one.level:g}{marks[one.trusted]}", *(read(one) for read in _STEPS.values())] for one in entry.steps]
    kept = [n for n in range(len(names)) if any(row[n] != ABSENT for row in rows)]
    columns, legend = [Column(names[n], "right") for n in kept], {INDICATIVE: _THIN}
    return Table(columns, [[row[n] for n in kept] for row in rows], _YIELDING, ruled=True, legend=legend)


def _notes(entry: CapacitySummary) -> list[str]:
    notes = ["times in ms, failures slower than any"]
    notes += [f"* {step.level:g}: {step.untrusted}; left out of the answer" for step in entry.steps if step.untrusted]
    if dropped := sum(step.n_dropped for step in entry.steps):
        notes.append(f"{dropped} not sent: as many were out as may be (--max-concurrency)")
    if entry.truncated is None:
        notes.append("whether prompts were read whole cannot be told: no count shows it, and answers lack the codes")
    return notes if entry.steps else []


def describe_load_changes(changes: Sequence[LoadChange]) -> list[Section]:
    """What two capacity runs say can be carried; and all that both say, figure by figure."""
    carried, answers = [one for one in changes if one.figure in (AT_ONCE, A_SECOND)], []
    for one in carried:
        both = (f"{n:g} {one.figure}{' or more' * (name in one.verdict)} in {name}" if n is not None else
                f"cannot tell in {name}" for name, n in (("A", one.a), ("B", one.b)))  # fmt: skip
        answers.append(f"{one_line(one.target, 80)} at {one.load}: {', '.join(both)}")
    columns = [Column("target", narrow="target"), *map(Column, ("load", "figure", "A", "B", "verdict"))]
    shown = [one for one in changes if one not in carried]
    rows = [[*one[:3], *(ABSENT if x is None else f"{x:.4g}" for x in one[3:5]), one.verdict] for one in shown]
    table = Section("", [Table(columns, rows, ruled=True), Prose([] if rows else ["no load is in both"])])
    return [Section("what it can carry", [Points(answers)]), table]
