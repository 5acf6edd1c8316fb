"""Tool calls written in text: `detect_tools`, and the steps it takes.

Owns: the order of the steps. Each reads what the ones before left, and what it uses is blanked, so a call is counted
once. Structured formats, which are the most certain, come first. Refuses: deciding whether text is evidence at all; a
prompt that offers tools is judged on native calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from clawgauge.checks.detection.fences import find_fenced
from clawgauge.checks.detection.finds import Call, Find, Step, blank_out
from clawgauge.checks.detection.formats import find_structured
from clawgauge.checks.detection.inline_code import find_inline_code
from clawgauge.checks.detection.markers import find_markers
from clawgauge.checks.detection.prompts import find_prompts
from clawgauge.checks.detection.quotes import find_quoted
from clawgauge.checks.detection.vocabulary import Vocabulary
from clawgauge.checks.thinking import answer_pieces
from clawgauge.checks.well_formed import well_formed
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

_LINE_BREAK = re.compile(r"\r\n?")


def detect_tools(text: str, expected: Sequence[str] = (), steps: Sequence[Step] = STEPS) -> list[ToolInvocation]:
    """Every call written in `text` outside thinking, in the order of the text, repeats kept. Never raises; linear time.

    `expected` names the tools the prompt is about: a word that could be prose counts more readily if it is one of them.
    """
    # Marks on either side of removed thinking must not run together: two code spans would become one.
    left = _LINE_BREAK.sub("\n", well_formed(" ".join(answer_pieces(text))))
    vocabulary = Vocabulary.for_prompt(expected)
    calls: list[Call] = []
    for step in steps:
        finds = step(left, vocabulary)
        if finds:
            left = blank_out(left, finds)
            calls.extend(call for find in finds for call in find.calls)
    return [call.invocation for call in sorted(calls, key=lambda call: call.at)]
