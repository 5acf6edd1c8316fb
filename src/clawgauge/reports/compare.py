"""A comparison's figures and findings in words, as sections of a report, and as JUnit XML."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from xml.etree import ElementTree as ET

from clawgauge import words
from clawgauge.compare.findings import (
    METRICS,
    Comparison,
    Difference,
    Flip,
    PairComparison,
    Paired,
    PairedRate,
    PairedShift,
    RuleFinding,
    StoppedSide,
)
from clawgauge.compare.pairing import label_prompt
from clawgauge.figures import INDICATIVE
from clawgauge.reports.clean import clean_terminal, one_line
from clawgauge.reports.document import MAX_LISTED, Column, Part, Points, Prose, Section, Table
from clawgauge.reports.words import LEGEND, name_models, word_unreadable
from clawgauge.words import (
    ABSENT,
    format_date,
    format_money,
    format_ms,
    format_p,
    format_percent,
    list_names,
    plural,
)

TESTS = {
    "mcnemar_exact": "McNemar exact",
    "sign_flip": "sign-flip permutation",
    "bets": "bets that hold at any stop",
    "sign": "sign test",
    "side_by_side": "signed ranks of calls made side by side",
    "by_day": "Student's test on the differences by day",
    "means_of_days": "Student's test on the days' means",
}
RATE_TITLES = {
    "objective_pass_rate": "passed",
    "pass_rate_scheduled": "of planned",
    "tool_use_rate": "tool use",
    "restraint": "restraint",
    "tasks": "tasks",
    "agreement": "agreement",
    "in_context": "in context",
}
SHIFT_TITLES = {"latency_ms": "latency", "ttft_ms": "first token", "output_tokens": "tokens out"}
FIGURE_TITLES = {
    "p50_ms": "p50 of all",
    "p95_ms": "p95 of all",
    "output_tps_p50": "tokens/s p50",
    "n_ok": "answered",
    "n_error": "errors",
    "n_timeouts": "timeouts",
    "n_truncated": "cut by token limit",
    "cost_usd": "cost",
}
# What stands above the tables whatever came of it; the other rows only where they changed.
_ALWAYS_SHOWN = ("passed", "latency")
_DIGITS = {"rate": 3, "tps": 1}
_MARKS = {"held": "held", "broken": "BROKEN", "not_significant": "held", "not_judged": "NOT JUDGED"}
_MAX_CELL_CHARS = 200
_MAX_NAMED = 10
_MAX_MODELS_NAMED = 3
_REFUSED_BY_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MAX_CHARS = 10_000
_FIGURE_COLUMNS = (
    Column("", narrow="wrapped"),
    Column("A", "right"),
    Column("B", "right"),
    Column("B − A [95%]", "right"),
    Column("p", "right"),
    Column("verdict", narrow="wrapped"),
    Column("sees"),
)
_FIGURE_LEGEND = {
    " pair": (
        "pairs: prompt by prompt, the median of B against A, warm calls; "
        "the p50 of all calls may move otherwise"
    ),
    "sees": "sees: the smallest change that would have been found in 4 of 5 cases",
}
_FLIP_COLUMNS = (Column("prompt"), Column("A → B"), Column("why not", narrow="cut"))
_ANSWER_COLUMNS = (Column("answer in A", narrow="below"), Column("answer in B", narrow="below"))
_OUTCOME_COLUMN = Column("outcome")
_TARGET_COLUMN = Column("target", narrow="wrapped")
_RULE_COLUMN = Column("rule", narrow="wrapped")


class FigureRow(NamedTuple):
    """A row of the table of a pair, a field for each of `_FIGURE_COLUMNS`."""

    title: str
    a: str
    b: str
    change: str = ""
    p: str = ""
    verdict: str = ""
    sees: str = ""


def describe_comparison(comparison: Comparison) -> list[Section]:
    sides = []
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        sides.append(f"{letter}  {side.run_id} ({format_date(side.started_at_ms)}, {side.path})")
    sections = [
        Section("", [Prose(sides)]),
        Section("", [Prose([*say_overall(comparison.pairs), *_say_uncompared_times(comparison)])]),
    ]
    for pair in comparison.pairs:
        # Explained once, under the first of them.
        legend = _FIGURE_LEGEND if pair is comparison.pairs[0] else {}
        sections.append(Section(title_pair(pair), [_figure_table(pair, legend)]))
        sections += _describe_findings(pair)
    outcome = "failed" if comparison.gate_failed else "passed"
    sections.append(Section(f"gate: {outcome}", [_gate_table(comparison.rules)]))
    sections.append(Section("worth knowing", [Points(closing_notes(comparison))]))
    return sections


def _figure_table(pair: PairComparison, legend: Mapping[str, str]) -> Table:
    """The figures of a pair; without the last column where nothing is known for it."""
    rows = list(figure_rows(pair))
    n_columns = len(_FIGURE_COLUMNS)
    if not any(row.sees for row in rows):
        n_columns -= 1
    cells = [row[:n_columns] for row in rows]
    return Table(_FIGURE_COLUMNS[:n_columns], cells, ("sees", "p"), legend=legend)


def _gate_table(rules: Sequence[RuleFinding]) -> Table:
    """Every rule on every pair; the targets are named where there are several."""
    n_targets = len({finding.target_b for finding in rules})
    rows: list[tuple[str, ...]] = []
    for finding in rules:
        mark = _MARKS[finding.outcome]
        if n_targets > 1:
            rows.append((mark, finding.target_b, say_rule(finding)))
        else:
            rows.append((mark, say_rule(finding)))
    columns = [_OUTCOME_COLUMN, _RULE_COLUMN]
    if n_targets > 1:
        columns = [_OUTCOME_COLUMN, _TARGET_COLUMN, _RULE_COLUMN]
    return Table(columns, rows, bare=True)


def say_overall(pairs: Sequence[PairComparison]) -> Iterator[str]:
    """`passed: fewer in B (llama3.2:3b), no change seen (a, b, c and 2 more)`, and of the latency,
    where compared: the verdicts of the tables' rows. Of the other rows those that changed, so that
    the tables hold no surprise."""
    names = name_models(pair.target_b for pair in pairs)
    for title in (*RATE_TITLES.values(), *SHIFT_TITLES.values()):
        # What changed comes first.
        models_by_verdict: dict[str, list[str]] = {
            "fewer in B": [],
            "lower in B": [],
            "more in B": [],
            "higher in B": [],
        }
        has_changed = False
        for pair in pairs:
            figure = _compared_rows(pair).get(title)
            if figure is None:
                continue
            has_changed = has_changed or figure.verdict == "changed"
            verdict = _word_verdict(title, figure)
            models_by_verdict.setdefault(verdict, []).append(names[pair.target_b])
        if title not in _ALWAYS_SHOWN and not has_changed:
            continue
        parts = []
        for verdict, models in models_by_verdict.items():
            if models:
                named = f" ({list_names(models, _MAX_MODELS_NAMED)})" if len(pairs) > 1 else ""
                parts.append(f"{verdict}{named}")
        if parts:
            yield f"{title}: {', '.join(parts)}"


def _say_uncompared_times(comparison: Comparison) -> Iterator[str]:
    """That nothing can be told of the times, and what differs."""
    if comparison.latency_compared:
        return
    names: dict[str, None] = {}
    for difference in comparison.differences:
        if difference.scope == "latency":
            names[difference.what] = None
    yield f"latency: cannot tell, other {list_names(list(names), _MAX_MODELS_NAMED)}"


def _compared_rows(pair: PairComparison) -> dict[str, Paired]:
    """What was compared, by the title of its row."""
    rows: dict[str, Paired] = {}
    for name, title in RATE_TITLES.items():
        if name in pair.rates:
            rows[title] = pair.rates[name]
    for name, shift in pair.shifts.items():
        rows[SHIFT_TITLES[name]] = shift
    return rows


def _word_verdict(title: str, figure: Paired) -> str:
    """A row's verdict in the headline: `cannot tell`, `fewer in B`."""
    if figure.verdict != "changed":
        return figure.verdict.replace("_", " ")
    is_rise = (figure.difference or 0) > 0
    if title == "passed":
        return "more in B" if is_rise else "fewer in B"
    return "higher in B" if is_rise else "lower in B"


def _describe_findings(pair: PairComparison) -> list[Section]:
    """What the table of a pair amounts to, and the prompts behind it."""
    sentences = [sentence for sentence in (say_verdict(pair), say_pace(pair)) if sentence]
    lost = [flip for flip in pair.flips if flip.direction == "lost"]
    gained = [flip for flip in pair.flips if flip.direction == "gained"]
    return [
        Section("", [Prose(sentences)]),
        Section(f"passed in A, not in B ({len(lost)})", _describe_flips(lost)),
        Section(f"passed in B, not in A ({len(gained)})", _describe_flips(gained)),
        Section("", [Prose(_list_unpaired(pair))]),
    ]


def _list_unpaired(pair: PairComparison) -> list[str]:
    """The prompts that only one side answered, or was asked."""
    lines = []
    for side, letter in (("a", "A"), ("b", "B")):
        names = []
        for unanswered in pair.unanswered:
            if unanswered.missing_in == side:
                label = label_prompt((unanswered.suite, unanswered.prompt_id))
                names.append(f"{label} ({unanswered.failure_type})")
        if names:
            named = list_names(names, _MAX_NAMED)
            lines.append(f"no answer in {letter} alone ({len(names)}): {named}")
    for prompts, letter in ((pair.only_in_a, "A"), (pair.only_in_b, "B")):
        if prompts:
            named = list_names(prompts, _MAX_NAMED)
            lines.append(f"{plural(len(prompts), 'prompt')} only in {letter}: {named}")
    return lines


def _describe_flips(flips: Sequence[Flip]) -> list[Part]:
    """The first of the prompts that changed sides, with both answers where there are any."""
    has_answers = any(flip.answer_a is not None or flip.answer_b is not None for flip in flips)
    columns = [*_FLIP_COLUMNS, *_ANSWER_COLUMNS] if has_answers else list(_FLIP_COLUMNS)
    rows = []
    for flip in flips[:MAX_LISTED]:
        row = [
            one_line(_name_prompt(flip), _MAX_CELL_CHARS),
            f"{flip.passes_a}/{flip.trials_a} → {flip.passes_b}/{flip.trials_b}",
            one_line(flip.violation or "", _MAX_CELL_CHARS),
        ]
        if has_answers:
            row.append((flip.answer_a or "")[:_MAX_CHARS])
            row.append((flip.answer_b or "")[:_MAX_CHARS])
        rows.append(row)
    more = []
    if len(flips) > MAX_LISTED:
        more.append(f"… and {len(flips) - MAX_LISTED} more (--json has all)")
    return [Table(columns, rows, bare=True), Points(more)]


def _name_prompt(flip: Flip) -> str:
    return f"{label_prompt((flip.suite, flip.prompt_id))} {flip.prompt_name}"


def say_difference(difference: Difference) -> str:
    """`ollama:llama3: timeout_s: 300 in A, 9 in B`."""
    target = f"{difference.target}: " if difference.target else ""
    values = f": {difference.a} in A, {difference.b} in B" if difference.a or difference.b else ""
    advice = f" ({difference.advice})" if difference.advice else ""
    return f"{target}{difference.what}{values}{advice}"


def title_pair(pair: PairComparison) -> str:
    if pair.target_a == pair.target_b:
        return pair.target_a
    return f"{pair.target_a} → {pair.target_b}"


def figure_rows(pair: PairComparison) -> Iterator[FigureRow]:
    """The table of a pair, a row a figure. Figures that are nothing are left out."""
    for name, title in RATE_TITLES.items():
        if name in pair.rates:
            yield _rate_row(title, pair.rates[name])
    for name, shift in pair.shifts.items():
        if shift.n_prompts:
            yield _shift_row(SHIFT_TITLES[name], shift)
    for figure in pair.figures:
        if figure.name in FIGURE_TITLES and (figure.a or figure.b):
            title = FIGURE_TITLES[figure.name]
            if figure.name == "p95_ms" and has_thin_tail(pair):
                title += INDICATIVE
            yield FigureRow(
                title=title,
                a=say_figure(figure.name, figure.a, beyond="a" in figure.beyond),
                b=say_figure(figure.name, figure.b, beyond="b" in figure.beyond),
                verdict="" if figure.reason is None else "cannot tell",
            )


def _rate_row(title: str, rate: PairedRate) -> FigureRow:
    return FigureRow(
        title=title,
        a=_say_rate(rate.rate_a, rate.n_trials_a),
        b=_say_rate(rate.rate_b, rate.n_trials_b),
        change=say_points(rate),
        p=format_p(rate.p_holm),
        verdict=rate.verdict.replace("_", " "),
        sees=say_smallest(rate),
    )


def _shift_row(title: str, shift: PairedShift) -> FigureRow:
    """No medians beside the change: of each side's own, one may rise while the pairs fall."""
    return FigureRow(
        title=title,
        a=plural(shift.n_prompts, "pair"),
        b="",
        change=say_shift(shift),
        p=ABSENT if shift.test is None else format_p(shift.p_holm),
        verdict=shift.verdict.replace("_", " "),
        sees=say_smallest(shift),
    )


def say_smallest(figure: Paired) -> str:
    """The smallest change that would have been found in 80% of cases; empty where none is known, or
    any would."""
    if not figure.smallest_change:
        return ""
    hundredths = math.ceil(figure.smallest_change * 100)
    if isinstance(figure, PairedRate):
        return plural(hundredths, "point")
    return f"{hundredths}%"


def _would_be_seen(figure: Paired) -> str:
    smallest = say_smallest(figure)
    if not smallest:
        return ""
    return f"; a change of {smallest} would have been seen in 4 of 5 cases"


def has_thin_tail(pair: PairComparison) -> bool:
    """Whether the p95 of a side rests on too few calls."""
    return any(figure.name == "p95_ms" and figure.indicative for figure in pair.figures)


def _say_rate(value: float | None, n_trials: int) -> str:
    if value is None:
        return ABSENT
    return f"{format_percent(value)} (n={n_trials})"


def say_points(rate: PairedRate) -> str:
    """The change of a rate in points, `-12 points [-20, -3]`."""
    if rate.difference is None:
        return ABSENT
    points = words.in_points(rate.difference)
    if rate.ci_holm is None:
        return points
    low, high = rate.ci_holm
    return f"{points} [{words.signed(low * 100)}, {words.signed(high * 100)}]"


def say_shift(shift: PairedShift) -> str:
    """The ratio as a change in per cent, `+3% [-1, +7]`: of what was nothing before, the
    difference."""
    if shift.ratio is None:
        return ABSENT if shift.difference is None else words.signed(shift.difference)
    percent = f"{words.signed((shift.ratio - 1) * 100)}%"
    if shift.ratio_ci_holm is None:
        return percent
    low, high = shift.ratio_ci_holm
    return f"{percent} [{words.signed((low - 1) * 100)}, {words.signed((high - 1) * 100)}]"


def say_figure(name: str, value: float | None, *, beyond: bool = False) -> str:
    if value is None:
        return ABSENT
    if beyond:
        return words.format_beyond(value)
    unit = METRICS[name].unit
    if unit == "ms":
        return format_ms(value)
    if unit == "usd":
        return format_money(value)
    return words.rounded(value, _DIGITS.get(unit, 0))


def say_verdict(pair: PairComparison) -> str:
    """What the pass rates amount to, in one sentence."""
    rate = pair.rates.get("objective_pass_rate")
    if rate is None or rate.difference is None:
        return "No prompt has a verdict on both sides: nothing can be said of the pass rates."
    over = f"over {plural(rate.n_prompts, 'paired prompt')}"
    seen = _would_be_seen(rate)
    if rate.only_a == rate.only_b == 0:
        return f"The verdicts are the same {over}{seen}."
    moved = f"{rate.only_a} better in A, {rate.only_b} better in B"
    evidence = f"{moved}; {words.word_p(rate.p_holm)}, {TESTS[rate.test]}"
    if rate.verdict == "cannot_tell":
        return f"Whether the pass rate changed cannot be told {over} ({evidence}): {rate.reason}."
    if rate.verdict == "no_change_seen":
        return f"No difference in pass rate beyond luck {over} ({evidence}){seen}."
    more_or_fewer = "more" if rate.difference > 0 else "fewer"
    return f"B passes {more_or_fewer}: {say_points(rate)} {over} ({evidence})."


def say_pace(pair: PairComparison) -> str:
    """What the latencies amount to, in one sentence; empty where they are not compared."""
    shift = pair.latency_ms
    if shift is None:
        return ""
    if shift.difference is None:
        return "No prompt has a warm success on both sides: nothing can be said of the latency."
    over = f"over {plural(shift.n_prompts, 'paired prompt')}"
    moved = f"{shift.n_higher} slower, {shift.n_lower} faster in B"
    if shift.verdict == "cannot_tell":
        measured = f"{say_shift(shift)} {over} ({moved})"
        load = _say_machine_load(pair)
        return f"Whether the latency changed cannot be told: {measured}, {load}; {shift.reason}."
    test = f"{TESTS[shift.test or 'sign']}{_say_days(shift)}"
    evidence = f"{moved}; {words.word_p(shift.p_holm)}, {test}"
    if shift.verdict == "no_change_seen":
        return f"No difference in latency beyond luck {over} ({evidence}){_would_be_seen(shift)}."
    slower_or_faster = "slower" if shift.difference > 0 else "faster"
    return f"B is {slower_or_faster}: {say_shift(shift)} {over} ({evidence})."


def _say_days(shift: PairedShift) -> str:
    """On how many days a test between days rests."""
    if shift.test == "by_day":
        return f" ({plural(shift.n_shared_days or 0, 'day')} of both)"
    if shift.test == "means_of_days":
        return f" ({plural(shift.n_days_a or 0, 'day')} in A, {shift.n_days_b} in B)"
    return ""


def _say_machine_load(pair: PairComparison) -> str:
    loads = []
    for letter, load in (("A", pair.load_a), ("B", pair.load_b)):
        if load is not None and load.load_1m is not None:
            cores = f" (on {plural(load.cores, 'core')})" if load.cores else ""
            loads.append(f"{words.rounded(load.load_1m, 1)} in {letter}{cores}")
    if not loads:
        return "how busy the machine was is not known"
    return f"machine load {' and '.join(loads)}"


def say_rule(finding: RuleFinding) -> str:
    if finding.a is None and finding.b is None:
        return f"{finding.rule}: {finding.reason}"
    name = re.split("[<>]", finding.rule, maxsplit=1)[0].strip()
    figures = f"{say_figure(name, finding.a)} → {say_figure(name, finding.b)}"
    return f"{finding.rule}: {figures}; {finding.reason}"


def say_stopped(pair: PairComparison, stopped: StoppedSide) -> str:
    letter = "A" if stopped.side == "a" else "B"
    target = pair.target_a if stopped.side == "a" else pair.target_b
    n_calls = plural(stopped.n_asked, "call")
    n_left_out = plural(stopped.n_not_needed, "prompt was", "prompts were")
    return (
        f"{letter} stopped early: the search for the tier of {target} was over after {n_calls}, "
        f"{n_left_out} not needed; its rates have no interval, and p-values that hold at any stop"
    )


def _say_common(pair: PairComparison) -> str:
    prompts = plural(pair.n_shared, "prompt")
    return (
        f"{title_pair(pair)}: answers decided what was asked, so all figures are over the "
        f"{prompts} that both sides were asked; there are no intervals of rates then"
    )


def closing_notes(comparison: Comparison) -> list[str]:
    """What else one has to know to read the figures right."""
    notes = _note_differences(comparison)
    for pair in comparison.pairs:
        if pair.asked == "decision":
            notes.append(_say_common(pair))
        notes += [say_stopped(pair, stopped) for stopped in pair.stopped]
    notes += _note_incomparable_figures(comparison.pairs)
    for letter, targets in (("A", comparison.only_in_a), ("B", comparison.only_in_b)):
        if targets:
            notes.append(f"only in {letter}: {', '.join(targets)}")
    if comparison.latency_compared and any(has_thin_tail(pair) for pair in comparison.pairs):
        notes.append(LEGEND)
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        if side.n_unreadable_lines:
            notes.append(word_unreadable(side.n_unreadable_lines, letter))
    n_cold = _count_cold_calls(comparison)
    if n_cold:
        calls = plural(n_cold, "cold call")
        notes.append(f"{calls} left out of the paired times; p50 and p95 are over all calls")
    n_pairs = len(comparison.pairs)
    if n_pairs > 1:
        notes.append(f"p-values, intervals and verdicts are corrected for {n_pairs} pairs (Holm)")
    return notes


def _count_cold_calls(comparison: Comparison) -> int:
    """How many calls the paired times leave out; none where times are not compared."""
    n_cold = 0
    if comparison.latency_compared:
        for pair in comparison.pairs:
            if pair.latency_ms is not None:
                n_cold += pair.latency_ms.n_cold_left_out
    return n_cold


def _note_differences(comparison: Comparison) -> list[str]:
    """What spoils the comparison under a heading of its own, then the rest."""
    spoiling = []
    harmless = []
    for difference in comparison.differences:
        if difference.scope == "note":
            harmless.append(say_difference(difference))
        else:
            spoiling.append(f"  {say_difference(difference)}")
    if not spoiling:
        return harmless
    heading = "times are not compared (--force compares them) because these differ:"
    if comparison.forced:
        heading = "compared by force although these differ:"
    return [heading, *spoiling, *harmless]


def _note_incomparable_figures(pairs: Sequence[PairComparison]) -> list[str]:
    """Why some figures cannot be set against each other, each reason once."""
    reasons: dict[str, None] = {}
    for pair in pairs:
        for figure in pair.figures:
            if figure.reason:
                reasons[figure.reason] = None
    return list(reasons)


def render_comparison_junit(comparison: Comparison) -> str:
    """One test suite per pair of targets, and one per target that rules could not be judged on for
    want of a pair.

    A test is a rule: a prompt that went the other way, as some do when nothing has changed, is
    reported and fails nothing.
    """
    name = f"clawgauge compare {comparison.a.run_id} {comparison.b.run_id}"
    root = ET.Element("testsuites", name=_xml_text(name))
    for pair in comparison.pairs:
        suite = _make_suite(title_pair(pair), comparison, (pair.target_a, pair.target_b))
        ET.SubElement(suite, "system-out").text = _xml_text(_describe_as_text(pair, comparison))
        root.append(suite)
    for target in comparison.only_in_a:
        suite = _make_suite(target, comparison, (target, target))
        if len(suite):
            root.append(suite)
    for count in ("tests", "failures", "errors"):
        n_cases = sum(int(suite.get(count, "0")) for suite in root)
        root.set(count, str(n_cases))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _describe_as_text(pair: PairComparison, comparison: Comparison) -> str:
    lines = [say_verdict(pair), say_pace(pair), *closing_notes(comparison)]
    lines += [_say_flip(flip) for flip in pair.flips]
    return "\n".join(line for line in lines if line)


def _make_suite(title: str, comparison: Comparison, targets: tuple[str, str]) -> ET.Element:
    name = _xml_text(title)
    started = datetime.fromtimestamp(comparison.b.started_at_ms / 1000, UTC)
    suite = ET.Element("testsuite", name=name, timestamp=started.isoformat(timespec="seconds"))
    for finding in comparison.rules:
        if (finding.target_a, finding.target_b) == targets:
            suite.append(_make_case(name, finding))
    for count, path in (
        ("tests", "testcase"),
        ("failures", "testcase/failure"),
        ("errors", "testcase/error"),
    ):
        suite.set(count, str(len(suite.findall(path))))
    return suite


def _make_case(suite_name: str, finding: RuleFinding) -> ET.Element:
    """A rule as a test: a broken one is a failure, one that could not be judged an error."""
    case = ET.Element("testcase", classname=suite_name, name=_xml_text(finding.rule))
    message = _xml_text(say_rule(finding))
    if finding.outcome == "broken":
        outcome = ET.SubElement(case, "failure", message=message, type="gate")
    elif finding.outcome == "not_judged":
        outcome = ET.SubElement(case, "error", message=message, type="gate")
    else:
        outcome = ET.SubElement(case, "system-out")
    outcome.text = message
    return case


def _say_flip(flip: Flip) -> str:
    """A prompt that changed sides, with what its answer lacks and both answers below it."""
    counts_a = f"{flip.passes_a}/{flip.trials_a} in A"
    counts_b = f"{flip.passes_b}/{flip.trials_b} in B"
    lines = [f"{flip.direction}: {_name_prompt(flip)}, passed {counts_a} and {counts_b}"]
    if flip.violation:
        lines.append(flip.violation)
    if flip.answer_a is not None:
        lines.append(f"A: {flip.answer_a}")
    if flip.answer_b is not None:
        lines.append(f"B: {flip.answer_b}")
    return "\n".join(lines)


def _xml_text(text: str) -> str:
    """Text that any XML parser takes and no terminal minds."""
    return _REFUSED_BY_XML.sub("\ufffd", clean_terminal(text))[:_MAX_CHARS]
