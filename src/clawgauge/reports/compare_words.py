"""A comparison's figures, findings and answers in words, the same in every format."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import zip_longest

from clawgauge.compare import (
    METRICS,
    SIGNIFICANCE_LEVEL,
    Comparison,
    Difference,
    PairComparison,
    PairedRate,
    PairedShift,
    RuleFinding,
    SideInfo,
    StoppedSide,
)
from clawgauge.reports.clean import clean_terminal
from clawgauge.reports.table import display_width
from clawgauge.reports.words import ABSENT, INDICATIVE, MIN_SAMPLES_P95, plural

TESTS = {"mcnemar_exact": "McNemar exact", "sign_flip": "sign-flip permutation"}
RATE_TITLES = {
    "objective_pass_rate": "passed",
    "pass_rate_scheduled": "passed of scheduled",
    "tool_use_rate": "tool use",
    "restraint": "restraint",
    "tasks": "tasks",
}
SHIFT_TITLES = {"latency_ms": "latency, warm", "ttft_ms": "first token, warm", "output_tokens": "output tokens"}
FIGURE_TITLES = {
    "p50_ms": "p50, all calls",
    "p95_ms": "p95, all calls",
    "output_tps_p50": "tokens/s p50",
    "n_ok": "answered",
    "n_error": "errors",
    "n_timeouts": "timeouts",
    "n_truncated": "cut by token limit",
    "cost_usd": "cost",
}
_GUTTER = " │ "
_MIN_COLUMN = 20
_MAX_LINES = 40
_TAB = "    "


def say_side(side: SideInfo) -> str:
    """A run with its date and place."""
    return f"{side.run_id} ({format_date(side.started_at_ms)}, {side.path})"


def format_date(at_ms: float) -> str:
    """Local date and time to the minute."""
    return datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%d %H:%M")


def say_difference(difference: Difference) -> str:
    """One difference with both sides and the way out."""
    where = f"{difference.target}: " if difference.target else ""
    values = f": {difference.a} in A, {difference.b} in B" if difference.a or difference.b else ""
    advice = f" ({difference.advice})" if difference.advice else ""
    return f"{where}{difference.what}{values}{advice}"


def say_p(p: float) -> str:
    """A p-value that never claims to be 0."""
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def title_pair(pair: PairComparison) -> str:
    """One name, or two where they differ."""
    return pair.target_a if pair.target_a == pair.target_b else f"{pair.target_a} → {pair.target_b}"


def figure_rows(pair: PairComparison) -> Iterator[tuple[str, str, str, str, str]]:
    """The table of a pair: name, A, B, change with its interval, p-value. Figures that are nothing are left out."""
    for name, title in RATE_TITLES.items():
        if (rate := pair.rates.get(name)) is not None:
            sides = say_rate(rate.rate_a, rate.n_trials_a), say_rate(rate.rate_b, rate.n_trials_b)
            yield title, *sides, say_points(rate), say_p(rate.p_holm)
    shifts = {"latency_ms": pair.latency_ms, "ttft_ms": pair.ttft_ms, "output_tokens": pair.output_tokens}
    for name, shift in shifts.items():
        if shift is not None and shift.n_prompts:
            unit = " ms" if name.endswith("_ms") else ""
            sides = f"{shift.median_a:.0f}{unit}", f"{shift.median_b:.0f}{unit}"
            yield f"{SHIFT_TITLES[name]} (n={shift.n_prompts})", *sides, say_shift(shift, unit), say_p(shift.p_holm)
    for figure in pair.figures:
        if figure.name in FIGURE_TITLES and (figure.a or figure.b):
            mark = f" {INDICATIVE}" if figure.name == "p95_ms" and has_thin_tail(pair) else ""
            sides = say_figure(figure.name, figure.a), say_figure(figure.name, figure.b)
            yield f"{FIGURE_TITLES[figure.name]}{mark}", *sides, "", ""


def has_thin_tail(pair: PairComparison) -> bool:
    """Whether a side's p95 rests on too few calls to be more than a hint."""
    figures = {figure.name: figure for figure in pair.figures}
    answered, successes = figures["n_ok"], figures["success_rate_ok"]
    # Only a successful call has a time: an answer with nothing in it is answered, and not timed.
    timed = ((answered.a or 0) * (successes.a or 0), (answered.b or 0) * (successes.b or 0))
    return round(min(timed)) < MIN_SAMPLES_P95


def say_rate(value: float | None, n_trials: int) -> str:
    """A rate with its n."""
    return ABSENT if value is None else f"{value:.0%} (n={n_trials})"


def say_points(rate: PairedRate) -> str:
    """A change of rates in percentage points, with its interval."""
    if rate.difference is None:
        return ABSENT
    bounds = f" [{rate.ci95[0] * 100:+.0f}, {rate.ci95[1] * 100:+.0f}]" if rate.ci95 else ""
    return f"{rate.difference * 100:+.0f} points{bounds}"


def say_shift(shift: PairedShift, unit: str) -> str:
    """The median change with its interval, and what it is in per cent."""
    if shift.difference is None:
        return ABSENT
    bounds = f" [{shift.ci95[0]:+.0f}, {shift.ci95[1]:+.0f}]" if shift.ci95 else ""
    share = f", {(shift.ratio - 1) * 100:+.0f}%" if shift.ratio is not None else ""
    return f"{shift.difference:+.0f}{unit}{bounds}{share}"


def say_figure(name: str, value: float | None) -> str:
    """A metric's value in its unit."""
    if value is None:
        return ABSENT
    unit = METRICS[name].unit
    if unit == "rate":
        return f"{value:.3f}"
    if unit == "ms":
        return f"{value:.0f} ms"
    if unit == "usd":
        return f"{value:.4f} USD"
    return f"{value:.1f}" if unit == "tps" else f"{value:.0f}"


def say_verdict(pair: PairComparison) -> str:
    """What the pass rates amount to, in one sentence."""
    rate = pair.rates.get("objective_pass_rate")
    if rate is None or rate.difference is None:
        return "No prompt has a verdict on both sides: nothing can be said of the pass rates."
    over = f"over {plural(rate.n_prompts, 'paired prompt')}"
    if rate.only_a == rate.only_b == 0:
        return f"The verdicts are the same {over}."
    evidence = f"{rate.only_a} better in A, {rate.only_b} better in B; p = {say_p(rate.p_holm)}, {TESTS[rate.test]}"
    if rate.p_holm >= SIGNIFICANCE_LEVEL:
        return f"No difference in pass rate beyond luck {over} ({evidence})."
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
    moved = f"{shift.n_higher} slower, {shift.n_lower} faster in B; p = {say_p(shift.p_holm)}, sign test"
    if shift.p_holm >= SIGNIFICANCE_LEVEL:
        return f"No difference in latency beyond luck {over} ({moved})."
    return f"B is {'slower' if shift.difference > 0 else 'faster'}: {say_shift(shift, ' ms')} {over} ({moved})."


def say_rule(finding: RuleFinding) -> str:
    """A rule, the two figures and why it ended as it did."""
    if finding.a is None and finding.b is None:
        return f"{finding.rule}: {finding.reason}"
    name = finding.rule.partition("<")[0].partition(">")[0].strip()
    figures = f"{say_figure(name, finding.a)} → {say_figure(name, finding.b)}"
    return f"{finding.rule}: {figures}; {finding.reason}"


def say_stopped(pair: PairComparison, stopped: StoppedSide) -> str:
    """That a side asked no further on purpose, and what that does to the figures."""
    letter, target = ("A", pair.target_a) if stopped.side == "a" else ("B", pair.target_b)
    return (
        f"{letter} stopped early: the tier of {target} was decided after {plural(stopped.n_asked, 'call')}, "
        f"{plural(stopped.n_not_needed, 'cell was', 'cells were')} not needed; "
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
        notes.append(f"{INDICATIVE} from fewer than {MIN_SAMPLES_P95} calls: indicative only")
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        if side.n_unreadable_lines:
            notes.append(
                f"{plural(side.n_unreadable_lines, 'line')} of {letter} could not be read and counted in nothing"
            )
    return notes


def side_by_side(left: str, right: str, width: int) -> str:
    """`left` and `right` beside each other in `width` terminal columns; each is cut after forty lines."""
    column = max(_MIN_COLUMN, (width - len(_GUTTER)) // 2)
    rows = zip_longest(_fold(left, column), _fold(right, column), fillvalue="")
    return "\n".join(f"{_padded(a, column)}{_GUTTER}{b}".rstrip() for a, b in rows)


def _fold(text: str, column: int) -> list[str]:
    lines = [piece for line in clean_terminal(text).split("\n") for piece in _pieces(line.replace("\t", _TAB), column)]
    return lines if len(lines) <= _MAX_LINES else [*lines[:_MAX_LINES], f"… {len(lines) - _MAX_LINES} lines more"]


def _pieces(line: str, column: int) -> list[str]:
    """One line in pieces of at most `column` columns. Words are cut: an answer's exact form is what is looked at."""
    if display_width(line) <= column:
        return [line]
    pieces, piece, used = [], "", 0
    for character in line:
        taken = display_width(character)
        if used + taken > column:
            pieces.append(piece)
            piece, used = "", 0
        piece += character
        used += taken
    return [*pieces, piece]


def _padded(line: str, column: int) -> str:
    return line + " " * (column - display_width(line))
