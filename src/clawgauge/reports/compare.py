"""A comparison as plain text, as Markdown and as JUnit XML."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from xml.etree import ElementTree as ET

from clawgauge.compare import Comparison, Flip, PairComparison, RuleFinding, Unanswered
from clawgauge.reports.clean import clean_cell, clean_lines, clean_terminal, escape_cell
from clawgauge.reports.compare_words import (
    closing_notes,
    figure_rows,
    say_pace,
    say_rule,
    say_side,
    say_verdict,
    side_by_side,
    title_pair,
)
from clawgauge.reports.table import Column, display_width, render_table
from clawgauge.reports.words import one_line, plural

_DEFAULT_WIDTH = 100
_MAX_LISTED = 50
_NAME_CHARS = 120
_HEADINGS = ("", "A", "B", "B − A [95%]", "p")
# Where a cell may be broken: before its interval, before its n, and between an interval and the per cent.
_BREAKS = ((" [", "\n["), (" (n=", "\n(n="), ("], ", "],\n"))
_MARKS = {"held": "held", "broken": "BROKEN", "not_significant": "held", "not_judged": "NOT JUDGED"}
_MAX_FLIPS = 100
_MAX_CELL = 200
_MAX_ANSWER = 600
_REFUSED_BY_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MAX_CHARS = 10_000


def render_comparison_text(comparison: Comparison, width: int | None = None) -> str:
    """All of it: who, what changed, what flipped, the gate, and what to bear in mind."""
    width = width or _DEFAULT_WIDTH
    parts = [f"A  {clean_cell(say_side(comparison.a))}\nB  {clean_cell(say_side(comparison.b))}\n"]
    parts += [_pair_text(pair, width) for pair in comparison.pairs]
    parts += [_gate_text(comparison, width), _notes_text(comparison, width)]
    return clean_lines("\n".join(part for part in parts if part))


def _pair_text(pair: PairComparison, width: int) -> str:
    lines = [one_line(title_pair(pair), _NAME_CHARS), *_table([_HEADINGS, *figure_rows(pair)], width), ""]
    lines += [_wrap(sentence, width) for sentence in (say_verdict(pair), say_pace(pair)) if sentence]
    for direction, heading in (("lost", "passed in A, not in B"), ("gained", "passed in B, not in A")):
        lines += _flips_text([flip for flip in pair.flips if flip.direction == direction], heading, width)
    for side, letter in (("a", "A"), ("b", "B")):
        lines += _unanswered([u for u in pair.unanswered if u.missing_in == side], letter, width)
    for prompts, letter in ((pair.only_in_a, "A"), (pair.only_in_b, "B")):
        if prompts:
            lines.append(_wrap(f"{plural(len(prompts), 'prompt')} only in {letter}: {_some(prompts)}", width))
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[tuple[str, ...]], room: int) -> list[str]:
    """Aligned columns. In a narrow terminal the parts of a cell go below each other, as few as it takes."""
    heading, *figures = rows
    for mark, broken in _BREAKS:
        if 2 * len(heading) + sum(_widths([heading, *figures])) > room:
            figures = [tuple(cell.replace(mark, broken) for cell in row) for row in figures]
    widths = _widths([heading, *figures])
    lines = []
    for row in [heading, *figures]:
        for parts in zip_longest(*(cell.split("\n") for cell in row), fillvalue=""):
            cells = [
                _pad(part, width, left=place == 0)
                for place, (part, width) in enumerate(zip(parts, widths, strict=True))
            ]
            lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _widths(rows: Sequence[tuple[str, ...]]) -> list[int]:
    return [
        max(display_width(part) for row in rows for part in row[place].split("\n")) for place in range(len(rows[0]))
    ]


def _pad(cell: str, width: int, *, left: bool) -> str:
    space = " " * (width - display_width(cell))
    return cell + space if left else space + cell


def _flips_text(flips: Sequence[Flip], heading: str, width: int) -> list[str]:
    if not flips:
        return []
    lines = [f"{heading} ({len(flips)})"]
    for flip in flips[:_MAX_LISTED]:
        name = f"{flip.suite}/{flip.prompt_id}" if flip.suite else flip.prompt_id
        counts = f"{flip.passes_a}/{flip.trials_a} → {flip.passes_b}/{flip.trials_b}"
        head = f"  {name} {flip.prompt_name}  {counts}"
        lines.append(one_line(f"{head}  {flip.violation or ''}", max(width, len(head)) - 2).join(("  ", "")))
        if flip.answer_a is not None or flip.answer_b is not None:
            lines.append(side_by_side(f"A\n{flip.answer_a or ''}", f"B\n{flip.answer_b or ''}", width))
            lines.append("")
    if len(flips) > _MAX_LISTED:
        lines.append(f"  … and {len(flips) - _MAX_LISTED} more (--json has all)")
    return lines


def _unanswered(prompts: Sequence[Unanswered], letter: str, width: int) -> list[str]:
    if not prompts:
        return []
    named = [f"{u.suite}/{u.prompt_id} ({u.failure_type})" if u.suite else u.prompt_id for u in prompts]
    return [_wrap(f"no answer in {letter} alone ({len(prompts)}): {_some(named)}", width)]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return one_line(", ".join(names[:10]), 400) + more


def _gate_text(comparison: Comparison, width: int) -> str:
    if not comparison.rules:
        return ""
    several = len({(finding.target_a, finding.target_b) for finding in comparison.rules}) > 1
    lines = [f"gate: {'failed' if comparison.gate_failed else 'passed'}"]
    for finding in comparison.rules:
        where = f"{one_line(finding.target_b, _NAME_CHARS)}: " if several else ""
        lines.append(_wrap(f"{_MARKS[finding.outcome]:<10}  {where}{say_rule(finding)}", width, indent=14))
    return "\n".join(lines) + "\n"


def _notes_text(comparison: Comparison, width: int) -> str:
    notes = closing_notes(comparison)
    if comparison.latency_compared and (left_out := _cold_left_out(comparison.pairs)):
        notes.append(f"{plural(left_out, 'cold call')} left out of the paired times; p50 and p95 are over all calls")
    if len(comparison.pairs) > 1:
        notes.append(f"p-values are corrected for {len(comparison.pairs)} pairs (Holm)")
    return "\n".join(["worth knowing", *(_wrap(note, width, indent=4) for note in notes)]) + "\n" if notes else ""


def _wrap(text: str, width: int, *, indent: int = 2) -> str:
    """A sentence in lines of the terminal's width, all but the first further in; what is indented already stays so."""
    own = len(text) - len(text.lstrip())
    first = " " * (own if indent == 2 else own + 2)
    further = " " * (own + indent)
    # Names and paths are there to be typed: they are never cut.
    return textwrap.fill(
        text.strip(),
        width,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _cold_left_out(pairs: Sequence[PairComparison]) -> int:
    return sum(pair.latency_ms.n_cold_left_out for pair in pairs if pair.latency_ms)


def render_comparison_markdown(comparison: Comparison) -> str:
    """The whole comparison."""
    sections = [
        f"# {escape_cell(comparison.a.run_id, limit=120)} → {escape_cell(comparison.b.run_id, limit=120)}",
        f"A: {escape_cell(say_side(comparison.a))}\\\nB: {escape_cell(say_side(comparison.b))}",
        _gate_markdown(comparison),
        *(section for pair in comparison.pairs for section in _pair_markdown(pair)),
        _notes_markdown(comparison),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _pair_markdown(pair: PairComparison) -> list[str]:
    sentences = [sentence for sentence in (say_verdict(pair), say_pace(pair)) if sentence]
    return [
        f"## {escape_cell(title_pair(pair), limit=240)}",
        " ".join(sentences),
        _figures(pair),
        _flips_markdown(pair.flips),
    ]


def _figures(pair: PairComparison) -> str:
    columns = [Column(""), *(Column(heading, "right") for heading in ("A", "B", "B − A (95%)", "p"))]
    return render_table(columns, [[escape_cell(cell) for cell in row] for row in figure_rows(pair)])


def _flips_markdown(flips: Sequence[Flip]) -> str:
    if not flips:
        return ""
    with_answers = any(flip.answer_a is not None or flip.answer_b is not None for flip in flips)
    headings = ["Prompt", "", "A", "B", "Why not", *(["Answer in A", "Answer in B"] if with_answers else [])]
    rows = []
    for flip in flips[:_MAX_FLIPS]:
        cells = [
            f"{flip.suite}/{flip.prompt_id} {flip.prompt_name}" if flip.suite else flip.prompt_id,
            flip.direction,
            f"{flip.passes_a}/{flip.trials_a}",
            f"{flip.passes_b}/{flip.trials_b}",
            flip.violation or "",
        ]
        row = [escape_cell(cell, limit=_MAX_CELL) for cell in cells]
        if with_answers:
            row += [escape_cell(answer or "", limit=_MAX_ANSWER) for answer in (flip.answer_a, flip.answer_b)]
        rows.append(row)
    more = f"\n\n… and {len(flips) - _MAX_FLIPS} more." if len(flips) > _MAX_FLIPS else ""
    return "### Flipped prompts\n\n" + render_table([Column(heading) for heading in headings], rows) + more


def _gate_markdown(comparison: Comparison) -> str:
    if not comparison.rules:
        return ""
    head = f"**Gate {'failed' if comparison.gate_failed else 'passed'}.**"
    rows = [
        [
            escape_cell(cell, limit=400)
            for cell in (finding.outcome.replace("_", " "), finding.target_b, say_rule(finding))
        ]
        for finding in comparison.rules
    ]
    return f"{head}\n\n{render_table([Column('Outcome'), Column('Target'), Column('Rule')], rows)}"


def _notes_markdown(comparison: Comparison) -> str:
    notes = closing_notes(comparison)
    lines = [f"{'  ' if note.startswith(' ') else ''}- {escape_cell(note.strip(), limit=400)}" for note in notes]
    return "## Worth knowing\n\n" + "\n".join(lines) if lines else ""


def render_comparison_junit(comparison: Comparison) -> str:
    """One test suite per pair of targets, and one per target that rules could not be judged on for want of a pair."""
    lone = (_lone_suite(target, comparison) for target in comparison.only_in_a)
    suites = [_suite(pair, comparison) for pair in comparison.pairs] + [suite for suite in lone if suite is not None]
    root = ET.Element("testsuites", name=_text(f"clawgauge compare {comparison.a.run_id} {comparison.b.run_id}"))
    root.extend(suites)
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(pair: PairComparison, comparison: Comparison) -> ET.Element:
    name = _text(title_pair(pair))
    rules = [r for r in comparison.rules if (r.target_a, r.target_b) == (pair.target_a, pair.target_b)]
    cases = [_rule_case(rule, name) for rule in rules] + [_flip_case(flip, name) for flip in pair.flips]
    started = datetime.fromtimestamp(comparison.b.started_at_ms / 1000, UTC)
    suite = ET.Element(
        "testsuite",
        name=name,
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        timestamp=started.isoformat(timespec="seconds"),
    )
    suite.extend(cases)
    said = [say_verdict(pair), say_pace(pair), *closing_notes(comparison)]
    ET.SubElement(suite, "system-out").text = _text("\n".join(line for line in said if line))
    return suite


def _lone_suite(target: str, comparison: Comparison) -> ET.Element | None:
    rules = [rule for rule in comparison.rules if rule.target_a == rule.target_b == target]
    if not rules:
        return None
    name = _text(target)
    suite = ET.Element("testsuite", name=name, tests=str(len(rules)), failures="0", errors=str(len(rules)))
    suite.extend(_rule_case(rule, name) for rule in rules)
    return suite


def _rule_case(finding: RuleFinding, classname: str) -> ET.Element:
    case = ET.Element("testcase", classname=classname, name=_text(finding.rule))
    said = _text(say_rule(finding))
    if finding.outcome == "broken":
        ET.SubElement(case, "failure", message=said, type="gate").text = said
    elif finding.outcome == "not_judged":
        ET.SubElement(case, "error", message=said, type="gate").text = said
    else:
        ET.SubElement(case, "system-out").text = said
    return case


def _flip_case(flip: Flip, classname: str) -> ET.Element:
    label = f"{flip.suite}/{flip.prompt_id}" if flip.suite else flip.prompt_id
    case = ET.Element("testcase", classname=classname, name=_text(f"{label} {flip.prompt_name}"))
    counts = f"passed {flip.passes_a}/{flip.trials_a} in A and {flip.passes_b}/{flip.trials_b} in B"
    answers = [f"{letter}: {said}" for letter, said in (("A", flip.answer_a), ("B", flip.answer_b)) if said is not None]
    body = _text("\n\n".join([counts, *([flip.violation] if flip.violation else []), *answers]))
    if flip.direction == "lost":
        ET.SubElement(case, "failure", message=_text(flip.violation or counts), type="flipped").text = body
    else:
        ET.SubElement(case, "system-out").text = body
    return case


def _text(text: str) -> str:
    """Text that any XML parser takes and no terminal minds."""
    return _REFUSED_BY_XML.sub("\ufffd", clean_terminal(text))[:_MAX_CHARS]
