"""From calls as written to invocations on record.

Owns: what is a tool's name, and the commands that a shell tool is told to run: `exec` with `free -h` calls `exec` and
`free`. Refuses: knowing how the call was written.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from clawgauge.checks.detection.command_line import Command
from clawgauge.checks.detection.finds import Call
from clawgauge.checks.detection.formats.readings import Reading
from clawgauge.checks.detection.scripts import read_script
from clawgauge.checks.detection.vocabulary import Lexicon, Vocabulary, is_number, read_name
from clawgauge.records import ToolInvocation

# The namespace in which chat servers list the tools on offer; it is no part of a tool's name.
_NAMESPACE = "functions."
_SEVERAL_LINES = "commands"


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
            for command in _commands_in(written.arguments, vocabulary):
                name, arguments = command.name.lower(), command.arguments or None
                calls.append(Call(at, ToolInvocation(name=name, arguments=arguments, channel=channel)))
    return calls


def _commands_in(arguments: Any, vocabulary: Vocabulary) -> Iterator[Command]:
    if not isinstance(arguments, dict):
        return
    for key, value in arguments.items():
        if key.lower() in vocabulary.lexicon.exec_args:
            for script in _scripts_in(value, key.lower() == _SEVERAL_LINES, vocabulary.lexicon):
                yield from read_script(script, vocabulary)


def _scripts_in(value: Any, is_lines: bool, lexicon: Lexicon) -> list[str]:
    """The command lines an argument holds: text, a list of lines, or the words of one line."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        return []
    return value if is_lines or len(value[0].split()) > 1 else [_script_of(value, lexicon)]


def _script_of(words: list[str], lexicon: Lexicon) -> str:
    """The command line a list of words stands for; what a shell is told to run by `-c` is what runs."""
    if read_name(words[0]) in lexicon.shell_info:
        for option, script in pairwise(words[1:]):
            if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
                return script
    return shlex.join(words)
