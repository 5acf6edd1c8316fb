"""What `route --verify` found, in words."""

from __future__ import annotations

from typing import Any

from clawgauge.reports.clean import one_line
from clawgauge.routing.verification.comparison import NOTHING, Comparison, Difference, Setting
from clawgauge.routing.verification.verify import Outcome, SlotResult, Verification

_MAX_REMARKS = 4
_LINE_CHARS = 600
_LABEL_CHARS = 80


def describe_verification(verification: Verification) -> list[str]:
    """A line for each place, and what it comes to."""
    lines = []
    labels = [_label(result) for result in verification.results]
    name_width = max((len(result.slot.name) for result in verification.results), default=0)
    label_width = max(map(len, labels), default=0)
    for result, label in zip(verification.results, labels, strict=True):
        name = result.slot.name.ljust(name_width)
        text = one_line(word_result(result), _LINE_CHARS)
        lines.append(f"  {name}  {label.ljust(label_width)}  {text}")
    if verification.problem is not None:
        lines.append(one_line(f"could not be told: {verification.problem}", _LINE_CHARS))
    if verification.results:
        lines.append(_word_whole(verification))
    return lines


def _label(result: SlotResult) -> str:
    evidence = result.slot.evidence
    level = evidence.target.thinking_level if evidence is not None else None
    label = f"{result.slot.ref}@{level}" if level else result.slot.ref
    return one_line(label, _LABEL_CHARS)


def word_result(result: SlotResult) -> str:
    """What came of one place."""
    text = result.why
    comparison = result.comparison
    if comparison is not None:
        if result.outcome is Outcome.SAME:
            text = "the same"
            if comparison.same:
                text += f": {', '.join(comparison.same)}"
        else:
            text = f"differs: {_word_differences(result, comparison)}"
        if comparison.remarks:
            text += f" (also sent: {'; '.join(comparison.remarks[:_MAX_REMARKS])})"
    elif result.outcome is Outcome.DIFFERS:
        text = f"differs: {result.why}"
    if result.at_another_address:
        text += "; asked at another address: the vendor's own may differ"
    return text


def _word_differences(result: SlotResult, comparison: Comparison) -> str:
    texts = []
    for difference in comparison.differences:
        text = word_difference(difference)
        if difference.setting is Setting.THINKING and result.slot.level_path:
            text += f" ({result.slot.level_path} in the file)"
        texts.append(text)
    return "; ".join(texts)


def word_difference(difference: Difference) -> str:
    """`think medium was measured, think low would be sent`."""
    prefix = ""
    if difference.setting not in (Setting.THINKING, Setting.API):
        prefix = f"{difference.setting.value} "
    text = f"{prefix}{difference.measured} was measured, {difference.would_send} would be sent"
    if difference.setting is Setting.THINKING and difference.measured == NOTHING:
        text += " (measure it with a level, or @off)"
    return text


def _word_whole(verification: Verification) -> str:
    n_places = len(verification.results)
    n_good = verification.count(Outcome.SAME, Outcome.NOT_MEASURED, Outcome.NOT_COMPARED)
    n_differ = verification.count(Outcome.DIFFERS)
    n_untold = verification.count(Outcome.UNTOLD)
    places = "place sends" if n_places == 1 else "places send"
    text = f"{n_good} of {n_places} {places} what was measured or were not measured"
    if n_differ:
        text += f"; {n_differ} {'differs' if n_differ == 1 else 'differ'}"
    if n_untold:
        text += f"; {n_untold} could not be told"
    text += "."
    if verification.sizes:
        largest = max(verification.sizes, key=lambda size: size.n_system_chars)
        chars = f"{largest.n_system_chars:,}"
        text += (
            f" Not compared: OpenClaw's own system text ({chars} characters)"
            f" and {largest.n_tools} tools."
        )
    return text


def verification_facts(verification: Verification) -> dict[str, Any]:
    """The same for a script."""
    places = []
    for result in verification.results:
        comparison = result.comparison or Comparison()
        differences = []
        for difference in comparison.differences:
            differences.append(
                {
                    "setting": difference.setting.name.lower(),
                    "measured": difference.measured,
                    "would_send": difference.would_send,
                }
            )
        place = {
            "place": result.slot.name,
            "model": result.slot.ref,
            "outcome": result.outcome.value,
            "why": result.why or None,
            "same": comparison.same,
            "differences": differences,
            "remarks": comparison.remarks,
        }
        places.append(place)
    return {
        "openclaw": verification.version,
        "tested": verification.is_tested_version,
        "exit_code": verification.exit_code,
        "problem": verification.problem,
        "places": places,
    }
