"""What a step of the detection finds, and the text that is left for the next step."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable

import msgspec

from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.shell import Command, Vocabulary
from clawgauge.records import ToolInvocation

# No name, no white space and no quote may hold it, so a blanked span neither opens, closes nor names anything.
BLANK = "\0"
_NOT_NEW_LINE = lazy_pattern(r"[^\n]")

MENTION = "mention"


class Call(msgspec.Struct, frozen=True, gc=False):
    """One invocation and its place in the text."""

    at: int
    invocation: ToolInvocation


class Find(msgspec.Struct, frozen=True, gc=False):
    """A span a step used, with the calls in it; it may hold none."""

    start: int
    end: int
    calls: list[Call] = []


# A step reads the text that earlier steps left and yields its finds in order, none overlapping.
Step = Callable[[str, Vocabulary], Iterable[Find]]


def mention(command: Command, offset: int = 0) -> Call:
    """A command seen in text that starts at `offset`."""
    name, arguments = command.name.lower(), command.arguments or None
    return Call(offset + command.at, ToolInvocation(name=name, arguments=arguments, channel=MENTION))


def take_calls(text: str, finds: Iterable[Find], limit: int) -> tuple[str, list[Call]]:
    """The calls of a step, and the text left for the next one: every find blanked, line breaks kept in their places.

    Once `limit` calls are found the text ends with their line: whatever comes behind it could not be among the first
    `limit` calls of the answer. Finds are used as they come and none is kept, for an answer may hold millions.
    """
    left = io.StringIO()
    calls: list[Call] = []
    kept_until = 0
    text_end = len(text)
    for find in finds:
        left.write(text[kept_until : find.start])
        used = text[find.start : find.end]
        left.write(_NOT_NEW_LINE.sub(BLANK, used) if "\n" in used else BLANK * len(used))
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
