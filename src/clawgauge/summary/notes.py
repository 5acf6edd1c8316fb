"""What a reader of a group's figures should know before trusting them.

Owns: the sentences in `warnings`. Refuses: failures; they have a table of their own, with what to do about them.
"""

from __future__ import annotations

from collections.abc import Sequence

from clawgauge.summary.groups import EndingCount, GroupAccumulator

_CUT_BY_LIMIT = frozenset({"length", "max_tokens", "max_output_tokens"})
_MAX_RECORD_WARNINGS = 5
_MAX_NAMED_MODELS = 3


def count_truncated(endings: Sequence[EndingCount]) -> int:
    """Answered cells whose reply the token limit cut off."""
    return sum(e.n for e in endings if e.ending.answered and e.ending.finish_reason in _CUT_BY_LIMIT)


def group_warnings(
    group: GroupAccumulator, endings: Sequence[EndingCount], *, n_scheduled: int, n_success: int, n_ttft: int
) -> list[str]:
    """One sentence per thing that bends a figure, each with its count."""
    n_total = sum(e.n for e in endings)
    n_answered = sum(e.n for e in endings if e.ending.answered)
    notes: list[str] = []
    if n_total < n_scheduled:
        missing = f"{n_scheduled - n_total} of {n_scheduled} scheduled cells are not recorded"
        notes.append(f"{missing}: the run did not finish (clawgauge run --resume fills them)")
    if truncated := count_truncated(endings):
        notes.append(f"{truncated} of {n_answered} replies were cut by the token limit (--max-tokens)")
    notes += _other_models(group.target.model, endings)
    if n_ttft < n_success:
        notes.append(f"first-token times were not captured for {n_success - n_ttft} of {n_success} successful calls")
    notes += [f"{text} ({n} of {n_total} calls)" for text, n in group.warnings().most_common(_MAX_RECORD_WARNINGS)]
    return notes


def _other_models(model: str, endings: Sequence[EndingCount]) -> list[str]:
    others: dict[str, int] = {}
    for _, ending, n in endings:
        if ending.model_reported and ending.model_reported != model:
            others[ending.model_reported] = others.get(ending.model_reported, 0) + n
    if not others:
        return []
    named = sorted(others, key=lambda name: -others[name])[:_MAX_NAMED_MODELS]
    more = "" if len(others) <= _MAX_NAMED_MODELS else " and others"
    return [f"{sum(others.values())} replies say they came from another model: {', '.join(named)}{more}"]
