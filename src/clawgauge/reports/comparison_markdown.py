"""A comparison as Markdown, for a pull request or a report.

Owns: the order of the sections. Refuses: figures of its own. Everything that is not ours goes through `escape_cell`;
answers stand in tables of their own as escaped text, never as markup.
"""

from __future__ import annotations

from collections.abc import Sequence

from clawgauge.compare import Comparison, Flip, PairComparison
from clawgauge.reports.comparison_phrases import (
    closing_notes,
    figure_rows,
    say_pace,
    say_rule,
    say_side,
    say_verdict,
    title_pair,
)
from clawgauge.reports.sanitize import escape_cell
from clawgauge.reports.tables import Column, render_table

_MAX_FLIPS = 100
_MAX_CELL = 200
_MAX_ANSWER = 600


def render_comparison_markdown(comparison: Comparison) -> str:
    """The whole comparison."""
    sections = [
        f"# {escape_cell(comparison.a.run_id, limit=120)} → {escape_cell(comparison.b.run_id, limit=120)}",
        f"A: {escape_cell(say_side(comparison.a))}\\\nB: {escape_cell(say_side(comparison.b))}",
        _gate(comparison),
        *(section for pair in comparison.pairs for section in _pair(pair)),
        _notes(comparison),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _pair(pair: PairComparison) -> list[str]:
    sentences = [sentence for sentence in (say_verdict(pair), say_pace(pair)) if sentence]
    return [f"## {escape_cell(title_pair(pair), limit=240)}", " ".join(sentences), _figures(pair), _flips(pair.flips)]


def _figures(pair: PairComparison) -> str:
    columns = [Column(""), *(Column(heading, "right") for heading in ("A", "B", "B − A (95%)", "p"))]
    return render_table(columns, [[escape_cell(cell) for cell in row] for row in figure_rows(pair)])


def _flips(flips: Sequence[Flip]) -> str:
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


def _gate(comparison: Comparison) -> str:
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


def _notes(comparison: Comparison) -> str:
    notes = closing_notes(comparison)
    lines = [f"{'  ' if note.startswith(' ') else ''}- {escape_cell(note.strip(), limit=400)}" for note in notes]
    return "## Worth knowing\n\n" + "\n".join(lines) if lines else ""
