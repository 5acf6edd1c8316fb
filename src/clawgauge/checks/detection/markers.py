"""Calls in the two plain markers: `<tool>name …</tool>` and `[tool: name …]`.

Owns: the markers. The keyword may have any case, the first word inside is the tool. A tag that is not closed runs to
the end of the text; a bracket that is not closed is no marker. Refuses: arguments of any form but text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clawgauge.checks.detection.finds import Call, Find
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.vocabulary import Vocabulary, read_name
from clawgauge.records import ToolInvocation

_OPENING = lazy_pattern(r"(?P<tag><tool[ \t]*>)|\[[ \t]*tool[ \t]*:", re.IGNORECASE)
_CLOSING = {True: lazy_pattern(r"</tool\s*>", re.IGNORECASE), False: lazy_pattern(r"\]")}
# Bounded, so that a text of nothing but openings is not read to its end at each of them.
_FIRST_WORD = lazy_pattern(r"\s*(\S{1,300})(?!\S)")
_CHANNEL = "text:marker"


def find_markers(text: str, _: Vocabulary) -> Iterator[Find]:
    closings = {True: (-1, -1), False: (-1, -1)}  # not looked for yet
    position = 0
    while opening := _OPENING.search(text, position):
        position = opening.end()
        is_tag = opening["tag"] is not None
        if closings[is_tag][0] < position:
            closings[is_tag] = _next_close(text, position, is_tag)
        inside_end, end = closings[is_tag]
        is_closed = inside_end < len(text)
        call = _read_call(text, position, inside_end) if is_tag or is_closed else None
        if call or (is_tag and is_closed):
            yield Find(opening.start(), end, [call] if call else [])
            position = end


def _next_close(text: str, position: int, is_tag: bool) -> tuple[int, int]:
    """Where the next closing mark starts and ends; the text's own end where there is none."""
    closing = _CLOSING[is_tag].search(text, position)
    return closing.span() if closing else (len(text), len(text))


def _read_call(text: str, start: int, end: int) -> Call | None:
    word = _FIRST_WORD.match(text, start, end)
    name = read_name(word[1]) if word else None
    if word is None or name is None:
        return None
    arguments = text[word.end() : end].strip()
    return Call(word.start(1), ToolInvocation(name=name.lower(), arguments=arguments or None, channel=_CHANNEL))
