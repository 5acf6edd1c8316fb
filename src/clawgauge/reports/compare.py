"""A comparison's figures and findings in words, as sections of a report, and as JUnit XML."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from clawgauge.compare.findings import (
    METRICS,
    Comparison,
    Difference,
    Flip,
    PairComparison,
    PairedRate,
    PairedShift,
    RuleFinding,
    StoppedSide,
)
from clawgauge.reports.clean import clean_terminal, one_line
from clawgauge.reports.document import MAX_LISTED, Column, Part, Points, Prose, Section, Table
from clawgauge.reports.words import INDICATIVE, LEGEND, MIN_SAMPLES_P95, word_unreadable
from clawgauge.words import (
    ABSENT,
    format_date,
    format_money,
    format_ms,
    format_number,
    format_p,
    format_percent,
    list_names,
    plural,
    word_p,
)

TESTS = {
    "mcnemar_exact": "McNemar exact", "sign_flip": "sign-flip permutation", "sign": "sign test",
    "side_by_side": "signed ranks of calls made side by side", "between_runs": "Student's test between runs",
}  # fmt: skip
RATE_TITLES = {
    "objective_pass_rate": "passed", "pass_rate_scheduled": "passed of scheduled", "tool_use_rate": "tool use",
    "restraint": "restraint", "tasks": "tasks",
}  # fmt: skip
SHIFT_TITLES = {"latency_ms": "latency, warm", "ttft_ms": "first token, warm", "output_tokens": "output tokens"}
FIGURE_TITLES = {
    "p50_ms": "p50, all calls", "p95_ms": "p95, all calls", "output_tps_p50": "tokens/s p50", "n_ok": "answered",
    "n_error": "errors", "n_timeouts": "timeouts", "n_truncated": "cut by token limit", "cost_usd": "cost",
}  # fmt: skip
VERDICTS = {"changed": "changed", "no_change_seen": "no change seen", "cannot_tell": "cannot tell"}
_IN_UNIT = {"rate": "{:.3f}".format, "ms": format_ms, "usd": format_money, "tps": "{:.1f}".format}
_MARKS = {"held": "held", "broken": "BROKEN", "not_significant": "held", "not_judged": "NOT JUDGED"}
_MAX_CELL = 200
_MAX_ANSWER = 10_000
_MAX_NAMED = 10
_REFUSED_BY_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MAX_CHARS = 10_000
_FIGURE_COLUMNS = (
    Column("", narrow="wrapped"), Column("A", "right", "wrapped"), Column("B", "right", "wrapped"),
    Column("B − A [95%]", "right", "wrapped"), Column("p", "right"), Column("verdict", narrow="wrapped"),
    Column("sees", narrow="wrapped"),
)  # fmt: skip
_FLIP_COLUMNS = (Column("prompt"), Column("A → B"), Column("why not", narrow="cut"))
_ANSWER_COLUMNS = (Column("answer in A", narrow="below"), Column("answer in B", narrow="below"))
_GATE_COLUMNS = (Column("outcome"), Column("target", narrow="wrapped"), Column("rule", narrow="wrapped"))


def describe_comparison(comparison: Comparison) -> list[Section]:
    """All of it: who, what changed, what flipped, the gate, and what to bear in mind."""
    sides = [
        f"{letter}  {side.run_id} ({format_date(side.started_at_ms)}, {side.path})"
        for letter, side in (("A", comparison.a), ("B", comparison.b))
    ]
    sections = [Section("", [Prose(sides)])]
    for pair in comparison.pairs:
        sections += [
            Section(title_pair(pair), [Table(_FIGURE_COLUMNS, list(figure_rows(pair)), yielding=("sees", "p"))]),
            *_findings(pair),
        ]
    verdict = f"gate: {'failed' if comparison.gate_failed else 'passed'}"
    rules = [(_MARKS[found.outcome], found.target_b, say_rule(found)) for found in comparison.rules]
    several = len({target for _, target, _ in rules}) > 1
    columns = _GATE_COLUMNS if several else (_GATE_COLUMNS[0], _GATE_COLUMNS[2])
    rows = rules if several else [(mark, rule) for mark, _, rule in rules]
    return [
        *sections,
        Section(verdict, [Table(columns, rows, bare=True)]),
        Section("worth knowing", [Points(closing_notes(comparison))]),
    ]


def _findings(pair: PairComparison) -> list[Section]:
    said = [sentence for sentence in (say_verdict(pair), say_pace(pair)) if sentence]
    sections = [Section("", [Prose(said)])]
    for direction, heading in (("lost", "passed in A, not in B"), ("gained", "passed in B, not in A")):
        flips = [flip for flip in pair.flips if flip.direction == direction]
        sections.append(Section(f"{heading} ({len(flips)})", _flips(flips)))
    alone = []
    for side, letter in (("a", "A"), ("b", "B")):
        named = [f"{_prompt(u.suite, u.prompt_id)} ({u.failure_type})" for u in pair.unanswered if u.missing_in == side]
        alone += [f"no answer in {letter} alone ({len(named)}): {list_names(named, _MAX_NAMED)}"] if named else []
    for prompts, letter in ((pair.only_in_a, "A"), (pair.only_in_b, "B")):
        if prompts:
            alone.append(f"{plural(len(prompts), 'prompt')} only in {letter}: {list_names(prompts, _MAX_NAMED)}")
    return [*sections, Section("", [Prose(alone)])]


def _flips(flips: Sequence[Flip]) -> list[Part]:
    answers = any(flip.answer_a is not None or flip.answer_b is not None for flip in flips)
    rows = []
    for flip in flips[:MAX_LISTED]:
        name = one_line(f"{_prompt(flip.suite, flip.prompt_id)} {flip.prompt_name}", _MAX_CELL)
        counts = f"{flip.passes_a}/{flip.trials_a} → {flip.passes_b}/{flip.trials_b}"
        both = [(answer or "")[:_MAX_ANSWER] for answer in (flip.answer_a, flip.answer_b)]
        rows.append([name, counts, one_line(flip.violation or "", _MAX_CELL), *(both if answers else [])])
    more = [f"… and {len(flips) - MAX_LISTED} more (--json has all)"] if len(flips) > MAX_LISTED else []
    return [Table([*_FLIP_COLUMNS, *(_ANSWER_COLUMNS if answers else ())], rows, bare=True), Points(more)]


def _prompt(suite: str, prompt_id: str) -> str:
    return f"{suite}/{prompt_id}" if suite else prompt_id


def say_difference(difference: Difference) -> str:
    where = f"{difference.target}: " if difference.target else ""
    values = f": {difference.a} in A, {difference.b} in B" if difference.a or difference.b else ""
    advice = f" ({difference.advice})" if difference.advice else ""
    return f"{where}{difference.what}{values}{advice}"


def title_pair(pair: PairComparison) -> str:
    return pair.target_a if pair.target_a == pair.target_b else f"{pair.target_a} → {pair.target_b}"


def figure_rows(pair: PairComparison) -> Iterator[tuple[str, ...]]:
    """The table of a pair, a row a figure. Figures that are nothing are left out."""
    for name, title in RATE_TITLES.items():
        if (rate := pair.rates.get(name)) is not None:
            sides = _rate(rate.rate_a, rate.n_trials_a), _rate(rate.rate_b, rate.n_trials_b)
            yield title, *sides, say_points(rate), format_p(rate.p_holm), *_verdict(rate)
    shifts = {"latency_ms": pair.latency_ms, "ttft_ms": pair.ttft_ms, "output_tokens": pair.output_tokens}
    for name, shift in shifts.items():
        if shift is not None and shift.n_prompts:
            unit = " ms" if name.endswith("_ms") else ""
            sides = f"{format_number(shift.median_a)}{unit}", f"{format_number(shift.median_b)}{unit}"
            p = ABSENT if shift.test is None else format_p(shift.p_holm)
            title = f"{SHIFT_TITLES[name]} (n={shift.n_prompts})"
            yield title, *sides, say_shift(shift, unit), p, *_verdict(shift)
    for figure in pair.figures:
        if figure.name in FIGURE_TITLES and (figure.a or figure.b):
            mark = f" {INDICATIVE}" if figure.name == "p95_ms" and has_thin_tail(pair) else ""
            over_a, over_b = ("> " if side in figure.beyond else "" for side in ("a", "b"))
            sides = over_a + say_figure(figure.name, figure.a), over_b + say_figure(figure.name, figure.b)
            yield f"{FIGURE_TITLES[figure.name]}{mark}", *sides, "", "", "", ""


def _verdict(found: PairedRate | PairedShift) -> tuple[str, str]:
    return VERDICTS[found.verdict], say_smallest(found)


def say_smallest(found: PairedRate | PairedShift) -> str:
    """The smallest change that would have been found in 80% of cases; empty where none is known, or any would."""
    if not found.smallest_change:
        return ""
    hundredths = math.ceil(found.smallest_change * 100)
    return plural(hundredths, "point") if isinstance(found, PairedRate) else f"{hundredths}%"


def _would_be_seen(found: PairedRate | PairedShift) -> str:
    smallest = say_smallest(found)
    return f"; a change of {smallest} would have been seen in 4 of 5 cases" if smallest else ""


def has_thin_tail(pair: PairComparison) -> bool:
    """Whether a side's p95 rests on too few calls to be more than a hint."""
    figures = {figure.name: figure for figure in pair.figures}
    answered, successes = figures["n_ok"], figures["success_rate_ok"]
    # Only a successful call has a time: an answer with nothing in it is answered, and not timed.
    timed = ((answered.a or 0) * (successes.a or 0), (answered.b or 0) * (successes.b or 0))
    return round(min(timed)) < MIN_SAMPLES_P95


def _rate(value: float | None, n_trials: int) -> str:
    return ABSENT if value is None else f"{format_percent(value)} (n={n_trials})"


def say_points(rate: PairedRate) -> str:
    if rate.difference is None:
        return ABSENT
    bounds = f" [{rate.ci_holm[0] * 100:+.0f}, {rate.ci_holm[1] * 100:+.0f}]" if rate.ci_holm else ""
    return f"{rate.difference * 100:+.0f} points{bounds}"


def say_shift(shift: PairedShift, unit: str) -> str:
    if shift.difference is None:
        return ABSENT
    bounds = f" [{shift.ci_holm[0]:+.0f}, {shift.ci_holm[1]:+.0f}]" if shift.ci_holm else ""
    share = f", {(shift.ratio - 1) * 100:+.0f}%" if shift.ratio is not None else ""
    return f"{shift.difference:+.0f}{unit}{bounds}{share}"


def say_figure(name: str, value: float | None) -> str:
    if value is None:
        return ABSENT
    return _IN_UNIT.get(METRICS[name].unit, "{:.0f}".format)(value)


def say_verdict(pair: PairComparison) -> str:
    rate = pair.rates.get("objective_pass_rate")
    if rate is None or rate.difference is None:
        return "No prompt has a verdict on both sides: nothing can be said of the pass rates."
    over = f"over {plural(rate.n_prompts, 'paired prompt')}"
    seen = _would_be_seen(rate)
    if rate.only_a == rate.only_b == 0:
        return f"The verdicts are the same {over}{seen}."
    evidence = f"{rate.only_a} better in A, {rate.only_b} better in B; {word_p(rate.p_holm)}, {TESTS[rate.test]}"
    if rate.verdict == "cannot_tell":
        return f"Whether the pass rate changed cannot be told {over} ({evidence}): {rate.reason}."
    if rate.verdict == "no_change_seen":
        return f"No difference in pass rate beyond luck {over} ({evidence}){seen}."
    word = "more" if rate.difference > 0 else "fewer"
    return f"B passes {word}: {rate.difference * 100:+.0f} points {over} ({evidence})."


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
        measured = f"{say_shift(shift, ' ms')} {over} ({moved})"
        return f"Whether the latency changed cannot be told: {measured}, {say_load(pair)}; {shift.reason}."
    moved += f"; {word_p(shift.p_holm)}, {TESTS[shift.test or 'sign']}"
    if shift.verdict == "no_change_seen":
        return f"No difference in latency beyond luck {over} ({moved}){_would_be_seen(shift)}."
    return f"B is {'slower' if shift.difference > 0 else 'faster'}: {say_shift(shift, ' ms')} {over} ({moved})."


def say_load(pair: PairComparison) -> str:
    """How busy the machines were before the calls, as far as anybody looked."""
    told = [
        f"{load.load_1m:.1f} in {letter}" + (f" (on {plural(load.cores, 'core')})" if load.cores else "")
        for letter, load in (("A", pair.load_a), ("B", pair.load_b))
        if load is not None and load.load_1m is not None
    ]
    return f"machine load {' and '.join(told)}" if told else "how busy the machine was is not known"


def say_rule(finding: RuleFinding) -> str:
    if finding.a is None and finding.b is None:
        return f"{finding.rule}: {finding.reason}"
    name = finding.rule.partition("<")[0].partition(">")[0].strip()
    figures = f"{say_figure(name, finding.a)} → {say_figure(name, finding.b)}"
    return f"{finding.rule}: {figures}; {finding.reason}"


def say_stopped(pair: PairComparison, stopped: StoppedSide) -> str:
    """That a side asked no further on purpose, and what that does to the figures."""
    letter, target = ("A", pair.target_a) if stopped.side == "a" else ("B", pair.target_b)
    return (
        f"{letter} stopped early: the search for the tier of {target} was over after "
        f"{plural(stopped.n_asked, 'call')}, {plural(stopped.n_not_needed, 'cell was', 'cells were')} not needed; "
        "no fixed-n interval is given for its rates, and their p-values take no account of the stop"
    )


def closing_notes(comparison: Comparison) -> list[str]:
    """What a reader must know besides the figures: what was not compared, forced, left out or unreadable."""
    spoilt = [d for d in comparison.differences if d.scope == "latency"]
    notes = []
    if comparison.forced:
        notes.append("compared by force although these differ:")
        notes += [f"  {say_difference(d)}" for d in comparison.differences if d.scope != "note"]
    elif spoilt:
        notes.append("times are not compared (--force compares them) because these differ:")
        notes += [f"  {say_difference(d)}" for d in spoilt]
    notes += [say_difference(d) for d in comparison.differences if d.scope == "note"]
    notes += [say_stopped(pair, stopped) for pair in comparison.pairs for stopped in pair.stopped]
    for letter, targets in (("A", comparison.only_in_a), ("B", comparison.only_in_b)):
        if targets:
            notes.append(f"only in {letter}: {', '.join(targets)}")
    if comparison.latency_compared and any(has_thin_tail(pair) for pair in comparison.pairs):
        notes.append(LEGEND)
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        if side.n_unreadable_lines:
            notes.append(word_unreadable(side.n_unreadable_lines, letter))
    left_out = sum(pair.latency_ms.n_cold_left_out for pair in comparison.pairs if pair.latency_ms)
    if comparison.latency_compared and left_out:
        notes.append(f"{plural(left_out, 'cold call')} left out of the paired times; p50 and p95 are over all calls")
    if len(comparison.pairs) > 1:
        notes.append(f"p-values, intervals and verdicts are corrected for {len(comparison.pairs)} pairs (Holm)")
    notes.append("sees: the smallest change that would have been found in 4 of 5 cases")
    return notes


def render_comparison_junit(comparison: Comparison) -> str:
    """One test suite per pair of targets, and one per target that rules could not be judged on for want of a pair.

    A test is a rule: a prompt that went the other way, as some do when nothing has changed, is told and fails nothing.
    """
    root = ET.Element("testsuites", name=_text(f"clawgauge compare {comparison.a.run_id} {comparison.b.run_id}"))
    for pair in comparison.pairs:
        flips = [_say_flip(flip) for flip in pair.flips]
        said = [say_verdict(pair), say_pace(pair), *closing_notes(comparison), *flips]
        suite = _suite(title_pair(pair), comparison, (pair.target_a, pair.target_b))
        ET.SubElement(suite, "system-out").text = _text("\n".join(filter(None, said)))
        root.append(suite)
    lone = (_suite(target, comparison, (target, target)) for target in comparison.only_in_a)
    root.extend(suite for suite in lone if len(suite))
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(title: str, comparison: Comparison, targets: tuple[str, str]) -> ET.Element:
    name, started = _text(title), datetime.fromtimestamp(comparison.b.started_at_ms / 1000, UTC)
    cases = [_rule_case(rule, name) for rule in comparison.rules if (rule.target_a, rule.target_b) == targets]
    counts = {f"{kind}s": str(sum(case.find(kind) is not None for case in cases)) for kind in ("failure", "error")}
    facts = {"name": name, "tests": str(len(cases)), **counts, "timestamp": started.isoformat(timespec="seconds")}
    suite = ET.Element("testsuite", facts)
    suite.extend(cases)
    return suite


def _rule_case(finding: RuleFinding, classname: str) -> ET.Element:
    case = ET.Element("testcase", classname=classname, name=_text(finding.rule))
    said, fault = _text(say_rule(finding)), {"broken": "failure", "not_judged": "error"}.get(finding.outcome)
    ET.SubElement(case, fault or "system-out", {"message": said, "type": "gate"} if fault else {}).text = said
    return case


def _say_flip(flip: Flip) -> str:
    name = f"{_prompt(flip.suite, flip.prompt_id)} {flip.prompt_name}"
    counts = f"passed {flip.passes_a}/{flip.trials_a} in A and {flip.passes_b}/{flip.trials_b} in B"
    answers = [f"{letter}: {said}" for letter, said in (("A", flip.answer_a), ("B", flip.answer_b)) if said is not None]
    return "\n".join([f"{flip.direction}: {name}, {counts}", *([flip.violation] if flip.violation else []), *answers])


def _text(text: str) -> str:
    """Text that any XML parser takes and no terminal minds."""
    return _REFUSED_BY_XML.sub("\ufffd", clean_terminal(text))[:_MAX_CHARS]
