"""What a step of the detection finds, and the text that is left for the next step.

Owns: the shape every step shares and the blanking of what a step used, so that nothing is counted twice. Refuses:
knowing any syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from clawgauge.checks.detection.command_line import Command
from clawgauge.checks.detection.vocabulary import Vocabulary
from clawgauge.records import ToolInvocation

# No name, no white space and no quote may hold it, so a blanked span neither opens, closes nor names anything.
BLANK = "\0"
_NOT_NEW_LINE = re.compile(r"[^\n]")

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


# A step reads the text that earlier steps left and returns its finds in order, none overlapping.
Step = Callable[[str, Vocabulary], list[Find]]


def mention(command: Command, offset: int = 0) -> Call:
    """A command seen in text that starts at `offset`."""
    name, arguments = command.name.lower(), command.arguments or None
    return Call(offset + command.at, ToolInvocation(name=name, arguments=arguments, channel=MENTION))


def blank_out(text: str, finds: Iterable[Find]) -> str:
    """`text` with every find blanked. Line breaks stay, so lines and places stay what they were."""
    pieces: list[str] = []
    kept_until = 0
    for find in finds:
        pieces.append(text[kept_until : find.start])
        used = text[find.start : find.end]
        pieces.append(_NOT_NEW_LINE.sub(BLANK, used) if "\n" in used else BLANK * len(used))
        kept_until = find.end
    pieces.append(text[kept_until:])
    return "".join(pieces)
