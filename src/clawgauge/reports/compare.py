"""A comparison's figures and findings in words, as sections of a report, and as JUnit XML."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from clawgauge import words
from clawgauge.compare import findings
from clawgauge.compare.findings import (
    METRICS,
    Comparison,
    Difference,
    Flip,
    PairComparison,
    Paired,
    PairedRate,
)
from clawgauge.compare.sides import label_prompt
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
    "mcnemar_exact": "McNemar exact", "sign_flip": "sign-flip permutation", "sign": "sign test",
    "side_by_side": "signed ranks of calls made side by side", "between_runs": "Student's test between runs",
}  # fmt: skip
RATE_TITLES = {
    "objective_pass_rate": "passed", "pass_rate_scheduled": "of planned", "tool_use_rate": "tool use",
    "restraint": "restraint", "tasks": "tasks", "agreement": "agreement", "in_context": "in context",
}  # fmt: skip
SHIFT_TITLES = {"latency_ms": "latency", "ttft_ms": "first token", "output_tokens": "tokens out"}
FIGURE_TITLES = {
    "p50_ms": "p50 of all", "p95_ms": "p95 of all", "output_tps_p50": "tokens/s p50", "n_ok": "answered",
    "n_error": "errors", "n_timeouts": "timeouts", "n_truncated": "cut by token limit", "cost_usd": "cost",
}  # fmt: skip
# What stands above the tables whatever came of it; the other rows only where they changed.
_ALWAYS_TOLD = ("passed", "latency")
_DIGITS = {"rate": 3, "tps": 1}
_MARKS = {"held": "held", "broken": "BROKEN", "not_significant": "held", "not_judged": "NOT JUDGED"}
_MAX_CELL, _MAX_NAMED, _FEW = 200, 10, 3
_REFUSED_BY_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MAX_CHARS = 10_000
_FIGURE_COLUMNS = (
    Column("", narrow="wrapped"), Column("A", "right"), Column("B", "right"), Column("B − A [95%]", "right"),
    Column("p", "right"), Column("verdict", narrow="wrapped"), Column("sees"),
)  # fmt: skip
_FIGURE_LEGEND = {
    " pair": "pairs: prompt by prompt, the median of B against A, warm calls; the p50 of all calls may move otherwise",
    "sees": "sees: the smallest change that would have been found in 4 of 5 cases",
}
_FLIP_COLUMNS = (Column("prompt"), Column("A → B"), Column("why not", narrow="cut"))
_ANSWER_COLUMNS = (Column("answer in A", narrow="below"), Column("answer in B", narrow="below"))
_GATE_COLUMNS = (
    Column("outcome"),
    Column("target", narrow="wrapped"),
    Column("rule", narrow="wrapped"),
)


def describe_comparison(comparison: Comparison) -> list[Section]:
    sides = [
        f"{letter}  {side.run_id} ({format_date(side.started_at_ms)}, {side.path})"
        for letter, side in (("A", comparison.a), ("B", comparison.b))
    ]
    sections = [
        Section("", [Prose(sides)]),
        Section("", [Prose(list(say_overall(comparison.pairs)))]),
    ]
    for pair in comparison.pairs:
        # Explained once, under the first of them.
        legend = _FIGURE_LEGEND if pair is comparison.pairs[0] else {}
        rows = list(figure_rows(pair))
        n = len(_FIGURE_COLUMNS) - (not any(row[-1] for row in rows))
        table = Table(_FIGURE_COLUMNS[:n], [row[:n] for row in rows], ("sees", "p"), legend=legend)
        sections += [Section(title_pair(pair), [table]), *_findings(pair)]
    rules = [(_MARKS[found.outcome], found.target_b, say_rule(found)) for found in comparison.rules]
    kept = (0, 1, 2) if len({target for _, target, _ in rules}) > 1 else (0, 2)
    gate = Table(
        [_GATE_COLUMNS[n] for n in kept], [[rule[n] for n in kept] for rule in rules], bare=True
    )
    sections.append(Section(f"gate: {'failed' if comparison.gate_failed else 'passed'}", [gate]))
    return [*sections, Section("worth knowing", [Points(closing_notes(comparison))])]


def say_overall(pairs: Sequence[PairComparison]) -> Iterator[str]:
    """`passed: fewer in B (llama3.2:3b), no change seen (a, b, c and 2 more)`, and of the latency, where compared: the
    verdicts of the tables' rows. Of the other rows those that changed, so that the tables hold no surprise."""
    names = name_models(pair.target_b for pair in pairs)
    for title in (*RATE_TITLES.values(), *SHIFT_TITLES.values()):
        models_by_word: dict[str, list[str]] = {
            "fewer in B": [],
            "lower in B": [],
            "more in B": [],
            "higher in B": [],
        }
        has_changed = False
        for pair in pairs:
            found = _compared_rows(pair).get(title)
            if found is None:
                continue
            has_changed = has_changed or found.verdict == "changed"
            models_by_word.setdefault(_word_verdict(title, found), []).append(names[pair.target_b])
        if title not in _ALWAYS_TOLD and not has_changed:
            continue
        parts = []
        for word, models in models_by_word.items():
            if models:
                named = f" ({list_names(models, _FEW)})" if len(pairs) > 1 else ""
                parts.append(f"{word}{named}")
        if parts:
            yield f"{title}: {', '.join(parts)}"


def _compared_rows(pair: PairComparison) -> dict[str, Paired]:
    """What was compared, by the title of its row."""
    rows: dict[str, Paired] = {}
    for name, title in RATE_TITLES.items():
        if name in pair.rates:
            rows[title] = pair.rates[name]
    for name, shift in pair.shifts.items():
        rows[SHIFT_TITLES[name]] = shift
    return rows


def _word_verdict(title: str, found: Paired) -> str:
    """A row's verdict in the headline: `cannot tell`, `fewer in B`."""
    if found.verdict != "changed":
        return found.verdict.replace("_", " ")
    is_rise = (found.difference or 0) > 0
    if title == "passed":
        return "more in B" if is_rise else "fewer in B"
    return "higher in B" if is_rise else "lower in B"


def _findings(pair: PairComparison) -> list[Section]:
    sections = [
        Section(
            "", [Prose([sentence for sentence in (say_verdict(pair), say_pace(pair)) if sentence])]
        )
    ]
    for direction, heading in (
        ("lost", "passed in A, not in B"),
        ("gained", "passed in B, not in A"),
    ):
        flips = [flip for flip in pair.flips if flip.direction == direction]
        sections.append(Section(f"{heading} ({len(flips)})", _flips(flips)))
    alone = []
    for side, letter in (("a", "A"), ("b", "B")):
        missing = [u for u in pair.unanswered if u.missing_in == side]
        named = [f"{label_prompt((u.suite, u.prompt_id))} ({u.failure_type})" for u in missing]
        alone += (
            [f"no answer in {letter} alone ({len(named)}): {list_names(named, _MAX_NAMED)}"]
            if named
            else []
        )
    for prompts, letter in ((pair.only_in_a, "A"), (pair.only_in_b, "B")):
        if prompts:
            alone.append(
                f"{plural(len(prompts), 'prompt')} only in {letter}: {list_names(prompts, _MAX_NAMED)}"
            )
    return [*sections, Section("", [Prose(alone)])]


def _flips(flips: Sequence[Flip]) -> list[Part]:
    answers = any(flip.answer_a is not None or flip.answer_b is not None for flip in flips)
    rows = []
    for flip in flips[:MAX_LISTED]:
        name = one_line(
            f"{label_prompt((flip.suite, flip.prompt_id))} {flip.prompt_name}", _MAX_CELL
        )
        counts = f"{flip.passes_a}/{flip.trials_a} → {flip.passes_b}/{flip.trials_b}"
        both = [(answer or "")[:_MAX_CHARS] for answer in (flip.answer_a, flip.answer_b)]
        rows.append(
            [name, counts, one_line(flip.violation or "", _MAX_CELL), *(both if answers else [])]
        )
    more = (
        [f"… and {len(flips) - MAX_LISTED} more (--json has all)"]
        if len(flips) > MAX_LISTED
        else []
    )
    return [
        Table([*_FLIP_COLUMNS, *(_ANSWER_COLUMNS if answers else ())], rows, bare=True),
        Points(more),
    ]


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
    for name, shift in pair.shifts.items():
        if shift.n_prompts:
            # No medians beside it: of each side's own, one may rise while the pairs fall.
            p = ABSENT if shift.test is None else format_p(shift.p_holm)
            yield (
                SHIFT_TITLES[name],
                plural(shift.n_prompts, "pair"),
                "",
                say_shift(shift),
                p,
                *_verdict(shift),
            )
    for figure in pair.figures:
        if figure.name in FIGURE_TITLES and (figure.a or figure.b):
            mark = INDICATIVE if figure.name == "p95_ms" and has_thin_tail(pair) else ""
            a, b = (
                say_figure(figure.name, getattr(figure, side), beyond=side in figure.beyond)
                for side in "ab"
            )
            verdict = "" if figure.reason is None else "cannot tell"
            yield f"{FIGURE_TITLES[figure.name]}{mark}", a, b, "", "", verdict, ""


def _verdict(found: Paired) -> tuple[str, str]:
    return found.verdict.replace("_", " "), say_smallest(found)


def say_smallest(found: Paired) -> str:
    """The smallest change that would have been found in 80% of cases; empty where none is known, or any would."""
    if not found.smallest_change:
        return ""
    hundredths = math.ceil(found.smallest_change * 100)
    return plural(hundredths, "point") if isinstance(found, PairedRate) else f"{hundredths}%"


def _would_be_seen(found: Paired) -> str:
    smallest = say_smallest(found)
    return f"; a change of {smallest} would have been seen in 4 of 5 cases" if smallest else ""


def has_thin_tail(pair: PairComparison) -> bool:
    return any(figure.name == "p95_ms" and figure.indicative for figure in pair.figures)


def _rate(value: float | None, n_trials: int) -> str:
    return ABSENT if value is None else f"{format_percent(value)} (n={n_trials})"


def say_points(rate: PairedRate) -> str:
    if rate.difference is None:
        return ABSENT
    bounds = (
        f" [{words.signed(rate.ci_holm[0] * 100)}, {words.signed(rate.ci_holm[1] * 100)}]"
        if rate.ci_holm
        else ""
    )
    return f"{words.in_points(rate.difference)}{bounds}"


def say_shift(shift: findings.PairedShift) -> str:
    """The ratio as a change in per cent, `+3% [-1, +7]`: of what was nothing before, the difference."""
    if shift.ratio is None:
        return ABSENT if shift.difference is None else words.signed(shift.difference)
    ends = [words.signed((end - 1) * 100) for end in shift.ratio_ci_holm or ()]
    return f"{words.signed((shift.ratio - 1) * 100)}%" + (f" [{', '.join(ends)}]" if ends else "")


def say_figure(name: str, value: float | None, *, beyond: bool = False) -> str:
    if value is None or beyond:
        return ABSENT if value is None else words.format_beyond(value)
    unit = METRICS[name].unit
    in_words = {"ms": format_ms, "usd": format_money}.get(unit)
    return in_words(value) if in_words else words.rounded(value, _DIGITS.get(unit, 0))


def say_verdict(pair: PairComparison) -> str:
    rate = pair.rates.get("objective_pass_rate")
    if rate is None or rate.difference is None:
        return "No prompt has a verdict on both sides: nothing can be said of the pass rates."
    over = f"over {plural(rate.n_prompts, 'paired prompt')}"
    seen = _would_be_seen(rate)
    if rate.only_a == rate.only_b == 0:
        return f"The verdicts are the same {over}{seen}."
    evidence = f"{rate.only_a} better in A, {rate.only_b} better in B; {words.word_p(rate.p_holm)}, {TESTS[rate.test]}"
    if rate.verdict == "cannot_tell":
        return f"Whether the pass rate changed cannot be told {over} ({evidence}): {rate.reason}."
    if rate.verdict == "no_change_seen":
        return f"No difference in pass rate beyond luck {over} ({evidence}){seen}."
    word = "more" if rate.difference > 0 else "fewer"
    return f"B passes {word}: {say_points(rate)} {over} ({evidence})."


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
        loads = [
            f"{words.rounded(one.load_1m, 1)} in {letter}"
            + (f" (on {plural(one.cores, 'core')})" if one.cores else "")
            for letter, one in (("A", pair.load_a), ("B", pair.load_b))
            if one is not None and one.load_1m is not None
        ]
        busy = (
            f"machine load {' and '.join(loads)}"
            if loads
            else "how busy the machine was is not known"
        )
        measured = f"{say_shift(shift)} {over} ({moved})"
        return f"Whether the latency changed cannot be told: {measured}, {busy}; {shift.reason}."
    moved += f"; {words.word_p(shift.p_holm)}, {TESTS[shift.test or 'sign']}"
    if shift.verdict == "no_change_seen":
        return f"No difference in latency beyond luck {over} ({moved}){_would_be_seen(shift)}."
    return f"B is {'slower' if shift.difference > 0 else 'faster'}: {say_shift(shift)} {over} ({moved})."


def say_rule(finding: findings.RuleFinding) -> str:
    if finding.a is None and finding.b is None:
        return f"{finding.rule}: {finding.reason}"
    name = finding.rule.partition("<")[0].partition(">")[0].strip()
    figures = f"{say_figure(name, finding.a)} → {say_figure(name, finding.b)}"
    return f"{finding.rule}: {figures}; {finding.reason}"


def say_stopped(pair: PairComparison, stopped: findings.StoppedSide) -> str:
    letter, target = ("A", pair.target_a) if stopped.side == "a" else ("B", pair.target_b)
    over = f"the search for the tier of {target} was over after {plural(stopped.n_asked, 'call')}"
    left_out = f"{plural(stopped.n_not_needed, 'prompt was', 'prompts were')} not needed"
    bent = (
        "no fixed-n interval is given for its rates, and their p-values take no account of the stop"
    )
    return f"{letter} stopped early: {over}, {left_out}; {bent}"


def closing_notes(comparison: Comparison) -> list[str]:
    spoilt = [f"  {say_difference(d)}" for d in comparison.differences if d.scope != "note"]
    why = "times are not compared (--force compares them) because these differ:"
    notes = (
        ["compared by force although these differ:" if comparison.forced else why, *spoilt]
        if spoilt
        else []
    )
    notes += [say_difference(d) for d in comparison.differences if d.scope == "note"]
    notes += [say_stopped(pair, stopped) for pair in comparison.pairs for stopped in pair.stopped]
    reasons = [
        figure.reason for pair in comparison.pairs for figure in pair.figures if figure.reason
    ]
    notes += dict.fromkeys(reasons)
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
        notes.append(
            f"{plural(left_out, 'cold call')} left out of the paired times; p50 and p95 are over all calls"
        )
    if len(comparison.pairs) > 1:
        notes.append(
            f"p-values, intervals and verdicts are corrected for {len(comparison.pairs)} pairs (Holm)"
        )
    return notes


def render_comparison_junit(comparison: Comparison) -> str:
    """One test suite per pair of targets, and one per target that rules could not be judged on for want of a pair.

    A test is a rule: a prompt that went the other way, as some do when nothing has changed, is told and fails nothing.
    """
    root = ET.Element(
        "testsuites", name=_text(f"clawgauge compare {comparison.a.run_id} {comparison.b.run_id}")
    )
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
    suite = ET.Element("testsuite", name=name, timestamp=started.isoformat(timespec="seconds"))
    for finding in comparison.rules:
        if (finding.target_a, finding.target_b) == targets:
            case = ET.SubElement(suite, "testcase", classname=name, name=_text(finding.rule))
            said, fault = (
                _text(say_rule(finding)),
                {"broken": "failure", "not_judged": "error"}.get(finding.outcome),
            )
            ET.SubElement(
                case, fault or "system-out", {"message": said, "type": "gate"} if fault else {}
            ).text = said
    for count, path in (
        ("tests", "testcase"),
        ("failures", "testcase/failure"),
        ("errors", "testcase/error"),
    ):
        suite.set(count, str(len(suite.findall(path))))
    return suite


def _say_flip(flip: Flip) -> str:
    name = f"{label_prompt((flip.suite, flip.prompt_id))} {flip.prompt_name}"
    counts = f"passed {flip.passes_a}/{flip.trials_a} in A and {flip.passes_b}/{flip.trials_b} in B"
    answers = [
        f"{letter}: {said}"
        for letter, said in (("A", flip.answer_a), ("B", flip.answer_b))
        if said is not None
    ]
    return "\n".join(
        [
            f"{flip.direction}: {name}, {counts}",
            *([flip.violation] if flip.violation else []),
            *answers,
        ]
    )


def _text(text: str) -> str:
    """Text that any XML parser takes and no terminal minds."""
    return _REFUSED_BY_XML.sub("\ufffd", clean_terminal(text))[:_MAX_CHARS]
