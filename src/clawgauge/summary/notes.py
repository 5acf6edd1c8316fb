"""What a reader of a group's figures should know before trusting them.

Owns: the sentences in `warnings`. Refuses: failures; they have a table of their own, with what to do about them; and
second opinions on single records: what a record warns of (another model answered, the prompt was cut) is counted here
and judged where it was recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from clawgauge.records import ToolUse
from clawgauge.summary.coverage import Stop
from clawgauge.summary.groups import EndingCount, GroupAccumulator

_CUT_BY_LIMIT = frozenset({"length", "max_tokens", "max_output_tokens"})
_MAX_RECORD_WARNINGS = 5


def count_truncated(endings: Sequence[EndingCount]) -> int:
    """Answered cells whose reply the token limit cut off."""
    return sum(e.n for e in endings if e.ending.answered and e.ending.finish_reason in _CUT_BY_LIMIT)


def group_warnings(
    group: GroupAccumulator, endings: Sequence[EndingCount], n_scheduled: int, stop: Stop, tool_use: ToolUse
) -> list[str]:
    """One sentence per thing that bends a figure, each with its count."""
    n_total = sum(e.n for e in endings)
    n_answered = sum(e.n for e in endings if e.ending.answered)
    n_success = sum(e.n for e in endings if e.ending.succeeded)
    notes = [*_missing(n_total, n_scheduled, stop), *_not_needed(stop, tool_use)]
    if truncated := count_truncated(endings):
        notes.append(f"{truncated} of {n_answered} replies were cut by the token limit (--max-tokens)")
    n_ttft = group.count(lambda stratum: stratum.ttft_ms.total())
    if n_ttft < n_success:
        notes.append(f"first-token times were not captured for {n_success - n_ttft} of {n_success} successful calls")
    return [*notes, *_record_warnings(group.warnings(), n_total)]


def _record_warnings(warnings: Counter[str], n_total: int) -> list[str]:
    """What the records warn of, one sentence a kind: the commonest wording, and how many calls are of that kind."""
    kinds: Counter[str] = Counter()
    for text, n in warnings.items():
        kinds[text.partition(":")[0]] += n
    wordings = {text.partition(":")[0]: text for text, _ in reversed(warnings.most_common())}
    return [f"{wordings[kind]} ({n} of {n_total} calls)" for kind, n in kinds.most_common(_MAX_RECORD_WARNINGS)]


def _missing(n_total: int, n_scheduled: int, stop: Stop) -> list[str]:
    if n_total >= n_scheduled:
        return []
    why = "the run did not finish" if stop.budget is None else f"the budget was spent ({stop.budget})"
    missing = f"{n_scheduled - n_total} of {n_scheduled} scheduled cells are not recorded"
    return [f"{missing}: {why} (clawgauge run --resume fills them)"]


def _not_needed(stop: Stop, tool_use: ToolUse) -> list[str]:
    if stop.early:
        after = f"stopped early after {tool_use.n} answered tool prompts: {tool_use.label}"
        return [f"{after}; {stop.n_not_needed} cells were not needed, and no fixed-n interval is given"]
    if stop.n_not_needed:
        return [f"{stop.n_not_needed} repeats of tool prompts were not needed: a repeat is no new evidence for a tier"]
    return []
