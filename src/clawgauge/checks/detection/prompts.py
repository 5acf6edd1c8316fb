"""Shell prompts in text: what was typed behind `$`, `#` or `user@host:~$`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, pairwise

import msgspec

from clawgauge.checks.detection.evidence import has_shell_syntax, is_command_like, starts_known
from clawgauge.checks.detection.shell import (
    Command,
    Find,
    Segment,
    Vocabulary,
    first_word,
    is_number,
    mention,
    read_commands,
    split_segments,
)

# What may stand before a prompt in its line: marks of quotes and lists, a virtual environment.
_LEAD = (
    r"[ \t]*+(?:>[ \t]*+|(?:[-*+•]|[0-9]{1,3}[.)])[ \t]++)*+"
    r"(?:\([A-Za-z0-9_.-]{1,40}\)[ \t]*+)?"
)
_WHERE = r"(?::[ \t]?[^\s$#\]]{0,200}|[ \t]+[~/][^\s$#\]]{0,200}|[ \t]+[^\s$#\]]{1,200}(?=\]))?"
_AT_HOST = (
    rf"\[?[A-Za-z0-9_.+-]{{1,64}}@[A-Za-z0-9_.-]{{1,64}}{_WHERE}"
    r"(?:[ \t]+\([^()\s]{1,80}\))?\]?[ \t]?"
)
_BARE_SHELL = r"(?:ba|z|k|da)?sh-[0-9][0-9.]{0,10}"
_DIRECTORY = r"[~/][A-Za-z0-9_./~-]{0,200}[ \t]?"
_PROMPT = re.compile(
    rf"(?m)^{_LEAD}(?:(?P<shell>{_AT_HOST}|{_BARE_SHELL})[$#]|(?:{_DIRECTORY})?\$|(?P<hash>\#))"
    r"[ \t]+(?=\S)"
    r"|(?<=[\s(\[{<:=,>|\"'“‘*])(?P<midline>\$)[ \t]+(?=\S)"
)
_CLOSING_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’"}


class Prompt(msgspec.Struct, frozen=True, gc=False):
    """A prompt, and where the command behind it starts and ends.

    `midline`: a dollar sign within a line. `hash_only`: nothing but a hash sign, which may be a
    heading or a comment.
    """

    start: int
    command_start: int
    end: int
    midline: bool = False
    hash_only: bool = False


def scan_prompts(text: str) -> Iterator[Prompt]:
    """Whatever has the shape of a prompt. What is behind one ends at the next, or with the line."""
    if "$" not in text and "#" not in text:
        return
    for match, following in pairwise(chain(_PROMPT.finditer(text), [None])):
        if match is None:
            return
        next_start = following.start() if following else len(text)
        end = _find_or_end("\n", text, match.end(), next_start)
        is_midline = match["midline"] is not None
        if is_midline:
            closing_quote = _CLOSING_QUOTES.get(text[match.start() - 1])
            if closing_quote is not None:
                end = _find_or_end(closing_quote, text, match.end(), end)
        if end > match.end():
            yield Prompt(
                start=match.start(),
                command_start=match.end(),
                end=end,
                midline=is_midline,
                hash_only=match["hash"] is not None,
            )


def _find_or_end(mark: str, text: str, start: int, end: int) -> int:
    position = text.find(mark, start, end)
    return position if position >= 0 else end


def find_prompts(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    """A step of the detection: commands behind prompts."""
    for prompt in scan_prompts(text):
        calls = []
        for command in read_prompt(text, prompt, vocabulary):
            if not vocabulary.is_shouted(command.name):
                calls.append(mention(command))
        if calls:
            yield Find(prompt.start, prompt.end, calls)


def read_prompt(text: str, prompt: Prompt, vocabulary: Vocabulary) -> list[Command]:
    """The commands behind a prompt; none where it is something else that looks like one."""
    segments = split_segments(text[prompt.command_start : prompt.end], prompt.command_start)
    if prompt.midline:
        segments = _convincing_segments(segments, vocabulary)
    elif prompt.hash_only:
        if not _is_command_of_root(segments, vocabulary):
            return []
    elif not _may_follow_prompt(segments, vocabulary):
        return []
    return read_commands(segments, vocabulary)


def _convincing_segments(segments: list[Segment], vocabulary: Vocabulary) -> list[Segment]:
    """Behind a dollar sign within a sentence, the segments that are a command line."""
    first, _ = first_word(segments)
    if first is not None and first.text.endswith("."):
        segments = [Segment([first])]
    if not is_command_like(segments, vocabulary):
        return []
    convincing = segments[:1]
    for segment in segments[1:]:
        # It may be the sentence going on.
        if starts_known(segment, vocabulary) or is_command_like([segment], vocabulary):
            convincing.append(segment)
    return convincing


def _is_command_of_root(segments: list[Segment], vocabulary: Vocabulary) -> bool:
    """Whether what follows a lone hash sign is a command rather than a heading or a comment."""
    first, name = first_word(segments)
    if not vocabulary.is_known(name or ""):
        return False
    is_alone = len(segments) == 1 and segments[0].words[-1] is first
    return is_alone or has_shell_syntax(segments)


def _may_follow_prompt(segments: list[Segment], vocabulary: Vocabulary) -> bool:
    """Whether it is neither a sum of money nor a sentence."""
    _, name = first_word(segments)
    return name is None or not (is_number(name) or vocabulary.is_grammar(name))


def drop_prompt(code: str) -> str:
    """`code` without the shell prompt it opens with, if any; a lone hash sign is not one."""
    if "$" not in code and "#" not in code:
        return code
    prompt = _PROMPT.match(code)
    if prompt is None or prompt["hash"]:
        return code
    return code[prompt.end() :]
