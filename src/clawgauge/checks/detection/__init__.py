"""Tool calls written in text: `detect_tools`, and the steps it takes."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence

from clawgauge.characters import well_formed
from clawgauge.checks.answer import split_thinking
from clawgauge.checks.detection.formats import find_structured
from clawgauge.checks.detection.prose import (
    find_fenced,
    find_inline_code,
    find_markers,
    find_prompts,
    find_quoted,
)
from clawgauge.checks.detection.shell import NOT_NEW_LINE, Call, Find, Vocabulary
from clawgauge.records import ToolInvocation

# A step reads the text that earlier steps left and yields its finds in order, none overlapping.
Step = Callable[[str, Vocabulary], Iterable[Find]]
STEPS: tuple[Step, ...] = (
    find_structured,
    find_markers,
    find_fenced,
    find_inline_code,
    find_prompts,
    find_quoted,
)
# No name, no white space and no quote may hold it, so a blanked span neither opens, closes nor names anything.
BLANK = "\0"
_LINE_BREAK = re.compile(r"\r\n?")
# Every step starts at one of these, and plain prose has none of them: an apostrophe within a word opens nothing.
_MARK = re.compile(r"[<\[{`~$#\"'“‘](?<!\w')")


def detect_tools(
    text: str, expected: Sequence[str] = (), *, limit: int = sys.maxsize
) -> list[ToolInvocation]:
    """The calls written in `text` outside thinking, in the order of the text, repeats kept. Never raises; linear time.

    What could be prose counts more readily if it is `expected`. What is behind the first `limit` calls costs nothing.
    """
    if _MARK.search(text) is None:
        return []
    # Marks on either side of removed thinking must not run together: two code spans would become one.
    left = _LINE_BREAK.sub("\n", well_formed(split_thinking(text, joint=" ")))
    vocabulary = Vocabulary.for_prompt(expected)
    calls: list[Call] = []
    for step in STEPS:
        left, found = take_calls(left, step(left, vocabulary), limit)
        calls += found
    return [call.invocation for call in sorted(calls, key=lambda call: call.at)[:limit]]


def take_calls(text: str, finds: Iterable[Find], limit: int) -> tuple[str, list[Call]]:
    """The calls of a step, and the text left for the next one: every find blanked, line breaks kept in their places.

    Finds are used as they come and none is kept: an answer may hold millions. With the `limit` the text ends."""
    left, calls = io.StringIO(), list[Call]()
    kept_until, text_end = 0, len(text)
    for find in finds:
        left.write(text[kept_until : find.start])
        used = text[find.start : find.end]
        left.write(NOT_NEW_LINE.sub(BLANK, used) if "\n" in used else BLANK * len(used))
        kept_until = find.end
        calls.extend(find.calls)
        if len(calls) >= limit:
            line_end = text.find("\n", kept_until)
            text_end = line_end if line_end >= 0 else text_end
            break
    if not kept_until:  # most steps find nothing
        return text, calls
    left.write(text[kept_until:text_end])
    return left.getvalue(), calls
