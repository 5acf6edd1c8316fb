"""Commands in fenced code blocks.

Owns: where a block starts and ends (an unclosed one runs to the end) and what its info word makes of it: a shell block
holds command lines, a block without info word holds prompts and lines that look like commands, any other block holds
neither. The info word itself is never a tool. Refuses: call objects in JSON blocks; they are a structured format.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from clawgauge.checks.detection.finds import Find, mention
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.scripts import read_script, read_unlabelled
from clawgauge.checks.detection.vocabulary import Vocabulary

_LEAD = r"[ \t>]*+(?:(?:[-*+•]|[0-9]{1,3}[.)])[ \t]++)?"
_OPENING = lazy_pattern(
    rf"^{_LEAD}(?P<tildes>~~~+)(?P<tilde_info>[^\n]*)$|(?<!`)(?P<ticks>```+)(?P<tick_info>[^`\n]*)$", re.MULTILINE
)
_LEAD_ONLY = lazy_pattern(_LEAD)
_ONE_WORD = lazy_pattern(r"[A-Za-z0-9_+#.-]*[ \t]*")
_TICK_RUN = lazy_pattern(r"`+")
# Models close a block at the end of its last line, too, rather than on a line of its own.
_CLOSING = {
    "`": lazy_pattern(r"^[^`\n]*(?P<run>```+)[ \t]*$", re.MULTILINE),
    "~": lazy_pattern(r"^[ \t>]*(?P<run>~~~+)[ \t]*$", re.MULTILINE),
}
_QUOTE_PREFIX = lazy_pattern(r"^[ \t]*+(?:>[ \t]?)++", re.MULTILINE)


class Block(msgspec.Struct, frozen=True, gc=False):
    """One fenced block: its span with the fences, the span between them, its info word in lower case."""

    start: int
    body_start: int
    body_end: int
    end: int
    info: str
    is_quoted: bool


class Closings:
    """Every place of a text where a fence of one kind may close, kept as a number each: there may be millions."""

    def __init__(self, text: str, pattern: re.Pattern[str]) -> None:
        self._text = text
        self._pattern = pattern
        self._starts = array("I", (match.start() for match in pattern.finditer(text)))

    def next_after(self, position: int) -> re.Match[str] | None:
        """The first closing at or after `position`, whatever its length."""
        return self.first_of(1, position)

    def first_of(self, length: int, position: int) -> re.Match[str] | None:
        """The first closing of at least `length` marks at or after `position`."""
        for index in range(bisect_left(self._starts, position), len(self._starts)):
            closing = self._pattern.match(self._text, self._starts[index])
            if closing and len(closing["run"]) >= length:
                return closing
        return None


def find_fenced(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    for block in scan_blocks(text):
        body = text[block.body_start : block.body_end]
        if block.is_quoted:
            body = _QUOTE_PREFIX.sub(lambda prefix: " " * len(prefix[0]), body)
        if not block.info:
            commands = read_unlabelled(body, vocabulary)
        elif block.info in vocabulary.lexicon.shell_info:
            commands = read_script(body, vocabulary)
        else:
            commands = []
        yield Find(block.start, block.end, [mention(command, block.body_start) for command in commands])


def scan_blocks(text: str) -> Iterator[Block]:
    """Every fenced block, in order."""
    closings: dict[str, Closings] = {}
    position = 0
    while opening := _OPENING.search(text, position):
        kind = "ticks" if opening["ticks"] else "tildes"
        fence, info = opening[kind], opening[f"{kind[:-1]}_info"]
        start, position = opening.start(kind), opening.end()
        lead = text[text.rfind("\n", 0, start) + 1 : start]
        body_start = min(position + 1, len(text))
        if fence[0] not in closings:
            closings[fence[0]] = Closings(text, _CLOSING[fence[0]])
        runs = closings[fence[0]]
        if _LEAD_ONLY.fullmatch(lead):
            closing = runs.first_of(len(fence), body_start)
        else:
            closing = runs.next_after(body_start)
            if closing is None or len(closing["run"]) < len(fence) or not _opens_midline(lead, fence, info):
                continue
        body_end, end = (closing.start("run"), closing.end()) if closing else (len(text), len(text))
        yield Block(start, body_start, body_end, end, _info_word(info), ">" in lead)
        position = end


def _opens_midline(lead: str, fence: str, info: str) -> bool:
    """Whether a fence after `lead` opens a block: one info word at most, and no code span that it would close."""
    same = sum(len(run) == len(fence) for run in _TICK_RUN.findall(lead))
    return same % 2 == 0 and _ONE_WORD.fullmatch(info) is not None


def _info_word(info: str) -> str:
    words = info.strip().strip("{}.").lower().split()
    return words[0] if words else ""
