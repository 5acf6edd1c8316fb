"""Commands in a script, and in a block of which nobody says what it is."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict

from clawgauge.checks.detection.evidence import is_command_like
from clawgauge.checks.detection.prompts import Prompt, read_prompt, scan_prompts
from clawgauge.checks.detection.shell import (
    NOT_NEW_LINE,
    Command,
    Segment,
    Vocabulary,
    first_word,
    read_commands,
    split_segments,
)

_LINE = re.compile(r"[^\n]+")
_HERE_DOCUMENT = re.compile(
    r"(?<!<)<<-?[ \t]*(?P<quote>['\"]?)(?P<word>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)[^\n]*"
)


def scan_session(script: str) -> list[Prompt]:
    """The prompts that make a script a session: what was typed, and what was printed between."""
    return [
        prompt for prompt in scan_prompts(script) if not prompt.midline and not prompt.hash_only
    ]


def read_script(script: str, vocabulary: Vocabulary) -> list[Command]:
    """The commands of a script; of a session those behind its prompts."""
    prompts = scan_session(script)
    if not prompts:
        return read_commands(split_segments(_without_here_documents(script)), vocabulary)
    commands = []
    for prompt in prompts:
        line = script[prompt.command_start : prompt.end]
        commands += read_commands(split_segments(line, prompt.command_start), vocabulary)
    return commands


def read_unlabelled(block: str, vocabulary: Vocabulary) -> list[Command]:
    """The commands behind prompts, and the lines that look like commands.

    Beside a prompt the rest may be what was printed, so only known commands count there.
    """
    commands = list[Command]()
    prompt_ends = list[int]()
    for prompt in scan_prompts(block):
        prompt_commands = read_prompt(block, prompt, vocabulary)
        if prompt_commands:
            commands += prompt_commands
            prompt_ends.append(prompt.end)
    for line in _LINE.finditer(block):
        index = bisect_left(prompt_ends, line.start())
        has_prompt = index < len(prompt_ends) and prompt_ends[index] <= line.end()
        if has_prompt:
            continue
        segments = split_segments(line[0], line.start())
        if _is_command_line(segments, vocabulary, must_be_known=bool(prompt_ends)):
            commands += read_commands(segments, vocabulary)
    return commands


def _is_command_line(
    segments: list[Segment], vocabulary: Vocabulary, *, must_be_known: bool
) -> bool:
    _, name = first_word(segments)
    if name is None or vocabulary.is_shouted(name):
        return False
    if must_be_known and not vocabulary.is_known(name):
        return False
    return is_command_like(segments, vocabulary)


def _without_here_documents(script: str) -> str:
    """`script` with the text fed to a command by `<<WORD` blanked, up to the line that is WORD."""
    if "<<" not in script:
        return script
    line_starts: defaultdict[str, list[int]] = defaultdict(list)
    for line in _LINE.finditer(script):
        line_starts[line[0].strip()].append(line.start())
    pieces: list[str] = []
    position = 0
    for opening in _HERE_DOCUMENT.finditer(script):
        closing_lines = line_starts.get(opening["word"], [])
        index = bisect_left(closing_lines, opening.end())
        if opening.start() < position or index == len(closing_lines):
            continue
        pieces.append(script[position : opening.end()])
        line_end = script.find("\n", closing_lines[index])
        position = line_end if line_end >= 0 else len(script)
        pieces.append(NOT_NEW_LINE.sub(" ", script[opening.end() : position]))
    pieces.append(script[position:])
    return "".join(pieces)
