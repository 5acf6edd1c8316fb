"""Commands in quotation marks: `"free -h"`, `'du -sh /root'`, and the curly kinds.

Owns: pairing quotation marks on one line and telling them from apostrophes, feet and inches. Only a command line with
an argument counts. Refuses: single words; `"free"` is a word in quotes.
"""

from __future__ import annotations

from collections.abc import Iterator

from clawgauge.checks.detection.command_like import is_command_like
from clawgauge.checks.detection.command_line import read_commands, split_segments
from clawgauge.checks.detection.finds import Call, Find, mention
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.vocabulary import Vocabulary

_MARK = lazy_pattern(r"[\"'“”‘’\n]")
_OPENS_AFTER = frozenset("([{<:=,>")
_WORD_STARTS = frozenset("/~$_-")
_STRAIGHT = frozenset("\"'")
_OPENER_OF = {'"': '"', "'": "'", "”": "“", "’": "‘"}


def find_quoted(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    end_of_last = 0
    for start, end in _pairs(text):
        if start < end_of_last:
            continue  # inside a command line that is found already
        calls = _read_quoted(text[start + 1 : end - 1], start + 1, vocabulary)
        if calls:
            yield Find(start, end, calls)
            end_of_last = end


def _pairs(text: str) -> Iterator[tuple[int, int]]:
    """Opening and closing marks that belong together, in order; of two opening marks of a kind, the newer counts."""
    pairs: list[tuple[int, int]] = []
    opened: dict[str, int] = {}
    for match in _MARK.finditer(text):
        at, mark = match.start(), match[0]
        if mark == "\n":
            opened.clear()
        if pairs and not opened:  # none that is still open could start before these
            yield from sorted(pairs)
            pairs.clear()
        if mark == "\n":
            continue
        kind = _OPENER_OF.get(mark, mark)
        before = text[at - 1 : at] or " "
        after = text[at + 1 : at + 2] or " "
        can_open = (mark in _STRAIGHT or mark == kind) and (before.isspace() or before in _OPENS_AFTER)
        if kind in opened and _can_close(mark, before, after, can_open):
            pairs.append((opened.pop(kind), at + 1))
        elif can_open:
            opened[kind] = at
    yield from sorted(pairs)


def _can_close(mark: str, before: str, after: str, can_open: bool) -> bool:
    if mark in "“‘":
        return False
    if mark in "'’" and before.isalnum() and after.isalnum():
        return False  # an apostrophe
    opens_a_word = after.isalnum() or after in _WORD_STARTS
    return not (can_open and before.isspace() and opens_a_word)


def _read_quoted(inside: str, start: int, vocabulary: Vocabulary) -> list[Call]:
    segments = split_segments(inside, start)
    if not segments or sum(len(segment.words) for segment in segments) < 2:
        return []
    if not is_command_like(segments, vocabulary):
        return []
    commands = read_commands(segments, vocabulary)
    return [mention(command) for command in commands if not vocabulary.is_shouted(command.name)]
