"""A comparison as plain text for a terminal.

Owns: the table of both sides, the flipped prompts, the gate. Refuses: figures of its own. Names and answers come from
models and files, so every line goes through the terminal filter.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest

from clawgauge.compare import Comparison, Flip, PairComparison, Unanswered
from clawgauge.reports.comparison_answers import side_by_side
from clawgauge.reports.comparison_phrases import (
    closing_notes,
    figure_rows,
    say_pace,
    say_rule,
    say_side,
    say_verdict,
    title_pair,
)
from clawgauge.reports.phrases import clean_lines, one_line
from clawgauge.reports.sanitize import clean_cell
from clawgauge.reports.tables import display_width
from clawgauge.reports.wording import plural

_DEFAULT_WIDTH = 100
_MAX_LISTED = 50
_NAME_CHARS = 120
_HEADINGS = ("", "A", "B", "B − A [95%]", "p")
# Where a cell may be broken: before its interval, before its n, and between an interval and the per cent.
_BREAKS = ((" [", "\n["), (" (n=", "\n(n="), ("], ", "],\n"))
_MARKS = {"held": "held", "broken": "BROKEN", "not_significant": "held", "not_judged": "NOT JUDGED"}


def render_comparison_text(comparison: Comparison, width: int | None = None) -> str:
    """All of it: who, what changed, what flipped, the gate, and what to bear in mind."""
    width = width or _DEFAULT_WIDTH
    parts = [f"A  {clean_cell(say_side(comparison.a))}\nB  {clean_cell(say_side(comparison.b))}\n"]
    parts += [_pair(pair, width) for pair in comparison.pairs]
    parts += [_gate(comparison, width), _notes(comparison, width)]
    return clean_lines("\n".join(part for part in parts if part))


def _pair(pair: PairComparison, width: int) -> str:
    lines = [one_line(title_pair(pair), _NAME_CHARS), *_table([_HEADINGS, *figure_rows(pair)], width), ""]
    lines += [_wrap(sentence, width) for sentence in (say_verdict(pair), say_pace(pair)) if sentence]
    for direction, heading in (("lost", "passed in A, not in B"), ("gained", "passed in B, not in A")):
        lines += _flips([flip for flip in pair.flips if flip.direction == direction], heading, width)
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


def _flips(flips: Sequence[Flip], heading: str, width: int) -> list[str]:
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


def _gate(comparison: Comparison, width: int) -> str:
    if not comparison.rules:
        return ""
    several = len({(finding.target_a, finding.target_b) for finding in comparison.rules}) > 1
    lines = [f"gate: {'failed' if comparison.gate_failed else 'passed'}"]
    for finding in comparison.rules:
        where = f"{one_line(finding.target_b, _NAME_CHARS)}: " if several else ""
        lines.append(_wrap(f"{_MARKS[finding.outcome]:<10}  {where}{say_rule(finding)}", width, indent=14))
    return "\n".join(lines) + "\n"


def _notes(comparison: Comparison, width: int) -> str:
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
