"""Tool calls written in text: `detect_tools`, and the steps it takes."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from clawgauge.characters import well_formed
from clawgauge.checks.answer import split_thinking
from clawgauge.checks.detection.blocks import find_fenced
from clawgauge.checks.detection.formats import find_structured
from clawgauge.checks.detection.prompts import find_prompts
from clawgauge.checks.detection.prose import find_inline_code, find_markers, find_quoted
from clawgauge.checks.detection.shell import NOT_NEW_LINE, Call, Find, Vocabulary
from clawgauge.records import ToolInvocation

# A step reads the text that earlier steps left and yields its finds in order, none overlapping.
Step: TypeAlias = Callable[[str, Vocabulary], Iterable[Find]]
STEPS: tuple[Step, ...] = (
    find_structured,
    find_markers,
    find_fenced,
    find_inline_code,
    find_prompts,
    find_quoted,
)
# No name, no white space and no quote may hold it, so a blanked span neither opens, closes nor
# names anything.
BLANK = "\0"
_LINE_BREAK = re.compile(r"\r\n?")
# Every step starts at one of these, and plain prose has none of them: an apostrophe within a word
# opens nothing.
_MARK = re.compile(r"[<\[{`~$#\"'“‘](?<!\w')")


def detect_tools(
    text: str, expected: Sequence[str] = (), *, limit: int = sys.maxsize
) -> list[ToolInvocation]:
    """The calls written in `text` outside thinking, in the order of the text, repeats kept.

    What could be prose counts more readily if it is `expected`. What is behind the first `limit`
    calls costs nothing. It takes linear time, and never raises.
    """
    if _MARK.search(text) is None:
        return []
    # Marks on either side of removed thinking must not run together: two code spans would become
    # one.
    text_left = _LINE_BREAK.sub("\n", well_formed(split_thinking(text, joint=" ")))
    vocabulary = Vocabulary.for_prompt(expected)
    calls: list[Call] = []
    for step in STEPS:
        text_left, step_calls = take_calls(text_left, step(text_left, vocabulary), limit)
        calls += step_calls
    calls.sort(key=lambda call: call.start)
    return [call.invocation for call in calls[:limit]]


def take_calls(text: str, finds: Iterable[Find], limit: int) -> tuple[str, list[Call]]:
    """The text that a step leaves for the next one, and its calls.

    Every find is blanked, but for its line breaks, so that positions stay what they are. With the
    `limit` the text ends. Finds are used as they come and none is kept: an answer may hold
    millions.
    """
    text_left = io.StringIO()
    calls = list[Call]()
    kept_until = 0
    text_end = len(text)
    for find in finds:
        text_left.write(text[kept_until : find.start])
        text_left.write(_blank(text[find.start : find.end]))
        kept_until = find.end
        calls.extend(find.calls)
        if len(calls) >= limit:
            line_end = text.find("\n", kept_until)
            if line_end >= 0:
                text_end = line_end
            break
    if kept_until == 0:  # most steps find nothing
        return text, calls
    text_left.write(text[kept_until:text_end])
    return text_left.getvalue(), calls


def _blank(span: str) -> str:
    if "\n" not in span:
        return BLANK * len(span)
    return NOT_NEW_LINE.sub(BLANK, span)
