"""Commands behind shell prompts: `$ command`, and with more care `# command`.

Owns: where a prompt is. At a line's start (after list and quote markers, `(venv)` or `user@host:…`) a dollar sign is
a prompt; in mid-line it is one only before a command line. A hash sign is a heading more often than a prompt, so it
counts after `user@host…`, before a known command alone, or before a known command and shell syntax. Refuses: code
blocks and code spans; they come before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, pairwise

import msgspec

from clawgauge.checks.detection.command_like import has_shell_syntax, is_command_like
from clawgauge.checks.detection.command_line import (
    Command,
    Segment,
    first_word,
    read_commands,
    read_segment,
    split_segments,
)
from clawgauge.checks.detection.finds import Find, mention
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.vocabulary import Vocabulary, is_number, read_name

_LEAD = r"[ \t]*+(?:>[ \t]*+|(?:[-*+•]|[0-9]{1,3}[.)])[ \t]++)*+(?:\([A-Za-z0-9_.-]{1,40}\)[ \t]*+)?"
_USER_AT_HOST = (
    r"\[?[A-Za-z0-9_.+-]{1,64}@[A-Za-z0-9_.-]{1,64}"
    r"(?::[ \t]?[^\s$#\]]{0,200}|[ \t]+[~/][^\s$#\]]{0,200}|[ \t]+[^\s$#\]]{1,200}(?=\]))?"
    r"(?:[ \t]+\([^()\s]{1,80}\))?\]?[ \t]?"
)
_BARE_SHELL = r"(?:ba|z|k|da)?sh-[0-9][0-9.]{0,10}"
_DIRECTORY = r"[~/][A-Za-z0-9_./~-]{0,200}[ \t]?"
_PROMPT = lazy_pattern(
    rf"^{_LEAD}(?:(?P<shell>{_USER_AT_HOST}|{_BARE_SHELL})[$#]|(?:{_DIRECTORY})?\$|(?P<hash>\#))[ \t]+(?=\S)"
    r"|(?<=[\s(\[{<:=,>|\"'“‘*])(?P<midline>\$)[ \t]+(?=\S)",
    re.MULTILINE,
)
_CLOSING_QUOTE = {'"': '"', "'": "'", "“": "”", "‘": "’"}


class Prompt(msgspec.Struct, frozen=True, gc=False):
    """A possible prompt: where it starts, and the span of the text behind it."""

    start: int
    command_start: int
    end: int
    midline: bool = False
    hash_only: bool = False


def scan_prompts(text: str) -> Iterator[Prompt]:
    """Every place that has the shape of a prompt. What is behind one ends at the next, or at the line's end."""
    if "$" not in text and "#" not in text:
        return
    for match, following in pairwise(chain(_PROMPT.finditer(text), [None])):
        if match is None:
            return
        next_start = following.start() if following else len(text)
        midline = match["midline"] is not None
        end = _first_of("\n", text, match.end(), next_start)
        if midline and text[match.start() - 1] in _CLOSING_QUOTE:
            end = _first_of(_CLOSING_QUOTE[text[match.start() - 1]], text, match.end(), end)
        if end > match.end():
            yield Prompt(match.start(), match.end(), end, midline, match["hash"] is not None)


def find_prompts(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    for prompt in scan_prompts(text):
        commands = read_prompt(text, prompt, vocabulary)
        calls = [mention(command) for command in commands if not vocabulary.is_shouted(command.name)]
        if calls:
            yield Find(prompt.start, prompt.end, calls)


def read_prompt(text: str, prompt: Prompt, vocabulary: Vocabulary) -> list[Command]:
    """The commands behind a prompt, none where it is no prompt after all."""
    segments = split_segments(text[prompt.command_start : prompt.end], prompt.command_start)
    if prompt.hash_only:
        return read_commands(segments, vocabulary) if _is_root_command(segments, vocabulary) else []
    if prompt.midline:
        return _read_midline(segments, vocabulary)
    first = first_word(segments)
    name = read_name(first.text) if first else None
    if name is not None and (is_number(name) or vocabulary.is_grammar(name)):
        return []
    return read_commands(segments, vocabulary)


def drop_prompt(code: str) -> str:
    """`code` without the shell prompt it opens with, if any; a lone hash sign is not one."""
    prompt = _PROMPT.match(code) if "$" in code or "#" in code else None
    return code[prompt.end() :] if prompt and not prompt["hash"] else code


def _first_of(mark: str, text: str, start: int, end: int) -> int:
    """Where `mark` first stands in that stretch of `text`, or the stretch's end."""
    place = text.find(mark, start, end)
    return place if place >= 0 else end


def _is_root_command(segments: list[Segment], vocabulary: Vocabulary) -> bool:
    first = first_word(segments)
    if first is None or not vocabulary.is_known(read_name(first.text) or ""):
        return False
    is_alone = len(segments) == 1 and segments[0].words[-1] is first
    return is_alone or has_shell_syntax(segments)


def _read_midline(segments: list[Segment], vocabulary: Vocabulary) -> list[Command]:
    """Commands in mid-sentence. Past the first, a segment may be the sentence going on, so it must convince, too."""
    first = first_word(segments)
    if first is not None and first.text.endswith("."):
        segments = [Segment([first])]
    if not is_command_like(segments, vocabulary):
        return []
    commands = read_segment(segments[0], vocabulary)
    for segment in segments[1:]:
        head = first_word([segment])
        known = head is not None and vocabulary.is_known(read_name(head.text) or "")
        if known or is_command_like([segment], vocabulary):
            commands += read_segment(segment, vocabulary)
    return commands
