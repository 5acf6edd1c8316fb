"""What the reader of a format finds, thinking that is passed over, and the invocations that go on record."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec

from clawgauge.checks.detection.prose import read_script
from clawgauge.checks.detection.shell import Call, Lexicon, Vocabulary, is_number, mention, read_name
from clawgauge.records import ToolInvocation

# A name as it may stand between marks; what is a tool's name and what is not is decided later, in one place.
WRITTEN_NAME = r"[^\s<>{}()\[\]`\"'|｜=]{1,200}"


class WrittenCall(msgspec.Struct, frozen=True, gc=False):
    """A call as written: its name, its arguments decoded. One that does not decode is not valid and keeps its text."""

    name: str
    arguments: Any = None
    valid: bool = True


class Reading(msgspec.Struct, frozen=True, gc=False):
    """A span that ends at `end`, the format it is in, and the calls in it; there may be none."""

    end: int
    format: str
    calls: list[WrittenCall]


# Reads on from an opening mark, up to what matches the closing mark or, with no width, the next opening one. None: the
# mark is only mentioned, and the text goes on right behind it.
Reader = Callable[[str, re.Match[str], re.Pattern[str]], Reading | None]


def skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def find_stop(text: str, start: int, stop: re.Pattern[str]) -> tuple[int, int]:
    """Where the text from `start` ends and where the mark that ends it does: at `stop`, or with the whole text."""
    found = stop.search(text, start)
    return found.span() if found else (len(text), len(text))


# The namespace in which chat servers list the tools on offer; it is no part of a tool's name.
_NAMESPACE = "functions."


def read_tool_name(written: str) -> str | None:
    """The name in lower case, or None where a tool cannot be called so."""
    name = read_name(written.strip().removeprefix(_NAMESPACE))
    return None if name is None or is_number(name) else name.lower()


def invoke(reading: Reading, at: int, vocabulary: Vocabulary) -> list[Call]:
    """The invocations in a span, all at its start and in its order. A call without a name that can be is malformed."""
    channel = f"text:{reading.format}"
    calls: list[Call] = []
    for written in reading.calls:
        name = read_tool_name(written.name)
        valid = written.valid and name is not None
        invocation = ToolInvocation(name=name or "", arguments=written.arguments, channel=channel, valid=valid)
        calls.append(Call(at, invocation))
        if valid and name in vocabulary.lexicon.exec_tools:
            given = written.arguments if isinstance(written.arguments, dict) else {}
            for key, value in given.items():
                if key.lower() in vocabulary.lexicon.exec_args:
                    scripts = _scripts_in(value, key.lower() == "commands", vocabulary.lexicon)
                    commands = [command for script in scripts for command in read_script(script, vocabulary)]
                    calls += [Call(at, mention(command, 0, channel).invocation) for command in commands]
    return calls


def _scripts_in(value: Any, is_lines: bool, lexicon: Lexicon) -> list[str]:
    """The command lines an argument holds: text, a list of lines, or the words of one line."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        return []
    if is_lines or len(value[0].split()) > 1:
        return value
    if read_name(value[0]) in lexicon.shell_info:  # what a shell is told to run by `-c` is what runs
        for option, script in pairwise(value[1:]):
            if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
                return [script]
    return [shlex.join(value)]


_CLOSING_OF = {
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|open|>think<|sep|>": "<|close|>think<|sep|>",
    "<|inner_prefix|>": "<|inner_suffix|>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
}


def end_of_thinking(text: str) -> int:
    """Where the answer begins; 0 for a text that does not open with thinking."""
    start = len(text) - len(text.lstrip())
    for opening, closing in _CLOSING_OF.items():
        if text.startswith(opening, start):
            place = text.find(closing, start + len(opening))
            return place + len(closing) if place >= 0 else len(text)
    return 0
