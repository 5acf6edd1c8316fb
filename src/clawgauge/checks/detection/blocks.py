"""Fenced blocks of code, and the commands in them."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from clawgauge.checks.detection.scripts import read_script, read_unlabelled
from clawgauge.checks.detection.shell import Command, Find, Vocabulary, mention

_LEAD = r"[ \t>]*+(?:(?:[-*+•]|[0-9]{1,3}[.)])[ \t]++)?"
_OPENING = re.compile(
    rf"^{_LEAD}(?P<tildes>~~~+)(?P<tilde_info>[^\n]*)$"
    r"|(?<!`)(?P<ticks>```+)(?P<tick_info>[^`\n]*)$",
    re.MULTILINE,
)
_LEAD_ONLY = re.compile(_LEAD)
_ONE_WORD = re.compile(r"[A-Za-z0-9_+#.-]*[ \t]*")
_TICK_RUN = re.compile(r"`+")
# Models close a block at the end of its last line, too, rather than on a line of its own.
_CLOSINGS = {
    "`": re.compile(r"^[^`\n]*(?P<run>```+)[ \t]*$", re.MULTILINE),
    "~": re.compile(r"^[ \t>]*(?P<run>~~~+)[ \t]*$", re.MULTILINE),
}
_QUOTE_PREFIX = re.compile(r"^[ \t]*+(?:>[ \t]?)++", re.MULTILINE)


class Block(msgspec.Struct, frozen=True, gc=False):
    """A fenced block.

    `info` is the first word behind its opening fence, in lower case, or empty.
    """

    start: int
    body_start: int
    body_end: int
    end: int
    info: str
    is_quoted: bool


def find_fenced(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    """A step of the detection: commands in fenced blocks."""
    for block in scan_blocks(text):
        commands = _read_block(text, block, vocabulary)
        calls = [mention(command, block.body_start) for command in commands]
        yield Find(block.start, block.end, calls)


def _read_block(text: str, block: Block, vocabulary: Vocabulary) -> list[Command]:
    body = text[block.body_start : block.body_end]
    if block.is_quoted:
        # As many spaces, so that every position stays what it is.
        body = _QUOTE_PREFIX.sub(lambda prefix: " " * len(prefix[0]), body)
    if block.info in vocabulary.lexicon.shell_info:
        return read_script(body, vocabulary)
    if block.info:
        return []
    return read_unlabelled(body, vocabulary)


def scan_blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a text, in order. One that is not closed ends with the text."""
    if "```" not in text and "~~~" not in text:
        return
    closings = {fence_char: _ClosingFences(text, fence_char) for fence_char in _CLOSINGS}
    position = 0
    while opening := _OPENING.search(text, position):
        position = opening.end()
        kind = "ticks" if opening["ticks"] else "tildes"
        fence = opening[kind]
        info = opening["tick_info"] if kind == "ticks" else opening["tilde_info"]
        start = opening.start(kind)
        lead = text[text.rfind("\n", 0, start) + 1 : start]
        body_start = min(position + 1, len(text))
        stands_alone = _LEAD_ONLY.fullmatch(lead) is not None
        closing = closings[fence[0]].find(body_start, len(fence) if stands_alone else 1)
        if not stands_alone and not _opens_within_line(lead, fence, info, closing):
            continue
        body_end = len(text)
        if closing is not None:
            body_end = closing.start("run")
            position = closing.end()
        else:
            position = len(text)
        yield Block(
            start=start,
            body_start=body_start,
            body_end=body_end,
            end=position,
            info=_first_info_word(info),
            is_quoted=">" in lead,
        )


class _ClosingFences:
    """Where fences of one kind may close in a text, looked for once."""

    def __init__(self, text: str, fence_char: str) -> None:
        self._text = text
        self._pattern = _CLOSINGS[fence_char]
        # Numbers rather than matches: there may be millions.
        self._starts: array[int] | None = None

    def find(self, position: int, min_length: int) -> re.Match[str] | None:
        """The first one from `position` that has so many marks."""
        if self._starts is None:
            matches = self._pattern.finditer(self._text)
            self._starts = array("I", (match.start() for match in matches))
        for index in range(bisect_left(self._starts, position), len(self._starts)):
            closing = self._pattern.match(self._text, self._starts[index])
            if closing is not None and len(closing["run"]) >= min_length:
                return closing
        return None


def _opens_within_line(lead: str, fence: str, info: str, closing: re.Match[str] | None) -> bool:
    """Whether a fence behind other text opens a block.

    It has one info word at most, and is closed; and it stands where it would not close a code span.
    """
    if closing is None or len(closing["run"]) < len(fence):
        return False
    if _ONE_WORD.fullmatch(info) is None:
        return False
    n_same_runs = sum(len(run) == len(fence) for run in _TICK_RUN.findall(lead))
    return n_same_runs % 2 == 0


def _first_info_word(info: str) -> str:
    words = info.strip().strip("{}.").lower().split()
    return words[0] if words else ""
