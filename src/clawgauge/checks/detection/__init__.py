"""Tool calls written in text: `detect_tools`, and the steps it takes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from clawgauge.characters import well_formed
from clawgauge.checks.answer import answer_pieces
from clawgauge.checks.detection.finds import Call, Find, Step, take_calls
from clawgauge.checks.detection.formats import find_structured
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.prose import find_fenced, find_inline_code, find_markers, find_prompts, find_quoted
from clawgauge.checks.detection.shell import Vocabulary
from clawgauge.records import ToolInvocation

__all__ = ["STEPS", "Call", "Find", "Step", "Vocabulary", "detect_tools"]

STEPS: tuple[Step, ...] = (
    find_structured,
    find_markers,
    find_fenced,
    find_inline_code,
    find_prompts,
    find_quoted,
)

_LINE_BREAK = lazy_pattern(r"\r\n?")
# Every step starts at one of these, and plain prose has none of them: an apostrophe within a word opens nothing.
_MARK = lazy_pattern(r"[<\[{`~$#\"'“‘](?<!\w')")


def detect_tools(
    text: str, expected: Sequence[str] = (), steps: Sequence[Step] = STEPS, *, limit: int = sys.maxsize
) -> list[ToolInvocation]:
    """The calls written in `text` outside thinking, in the order of the text, repeats kept. Never raises; linear time.

    `expected` names the tools the prompt is about: a word that could be prose counts more readily if it is one of them.
    With a `limit`, the first so many calls; what is behind them costs neither time nor memory.
    """
    if steps is STEPS and _MARK.search(text) is None:
        return []
    # Marks on either side of removed thinking must not run together: two code spans would become one.
    left = _LINE_BREAK.sub("\n", well_formed(" ".join(answer_pieces(text))))
    vocabulary = Vocabulary.for_prompt(expected)
    calls: list[Call] = []
    for step in steps:
        left, found = take_calls(left, step(left, vocabulary), limit)
        calls += found
    return [call.invocation for call in sorted(calls, key=lambda call: call.at)[:limit]]
