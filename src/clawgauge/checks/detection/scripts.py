"""Commands in a block of code: a shell script, or lines of unknown kind.

Owns: which lines of a block are commands. In a script with prompts only the prompts' lines are, for the others are
output; comments and here-documents never are. Refuses: knowing where the block came from.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

from clawgauge.checks.detection.command_like import is_command_like
from clawgauge.checks.detection.command_line import Command, first_word, read_commands, split_segments
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.prompts import read_prompt, scan_prompts
from clawgauge.checks.detection.vocabulary import Vocabulary, read_name

_LINE = lazy_pattern(r"[^\n]+")
_HERE_DOCUMENT = lazy_pattern(r"(?<!<)<<-?[ \t]*(?P<quote>['\"]?)(?P<word>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)[^\n]*")
_NOT_NEW_LINE = lazy_pattern(r"[^\n]")


def read_script(script: str, vocabulary: Vocabulary) -> list[Command]:
    """Every command of a shell script or of a recorded session."""
    prompts = [prompt for prompt in scan_prompts(script) if not prompt.midline and not prompt.hash_only]
    if not prompts:
        return read_commands(split_segments(_without_here_documents(script)), vocabulary)
    return [
        command
        for prompt in prompts
        for command in read_commands(
            split_segments(script[prompt.command_start : prompt.end], prompt.command_start), vocabulary
        )
    ]


def read_unlabelled(block: str, vocabulary: Vocabulary) -> list[Command]:
    """Prompts, and lines that look like commands; beside a prompt, where the rest may be output, only known ones."""
    commands: list[Command] = []
    prompt_ends: list[int] = []
    for prompt in scan_prompts(block):
        found = read_prompt(block, prompt, vocabulary)
        if found:
            commands += found
            prompt_ends.append(prompt.end)
    for line in _LINE.finditer(block):
        place = bisect_left(prompt_ends, line.start())
        if place < len(prompt_ends) and prompt_ends[place] <= line.end():
            continue
        segments = split_segments(line[0], line.start())
        first = first_word(segments)
        name = read_name(first.text) if first else None
        if name is None or vocabulary.is_shouted(name) or (prompt_ends and not vocabulary.is_known(name)):
            continue
        if is_command_like(segments, vocabulary):
            commands += read_commands(segments, vocabulary)
    return commands


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
        ends = line_starts.get(opening["word"], [])
        place = bisect_left(ends, opening.end())
        if opening.start() < position or place == len(ends):
            continue
        pieces.append(script[position : opening.end()])
        line_end = script.find("\n", ends[place])
        position = line_end if line_end >= 0 else len(script)
        pieces.append(_NOT_NEW_LINE.sub(" ", script[opening.end() : position]))
    return "".join((*pieces, script[position:]))
