"""Calls in the formats that models are trained to write: `find_structured`."""

from __future__ import annotations

from collections.abc import Iterator

from clawgauge.checks.detection.formats.json import (
    ARGUMENT_FORMATS,
    BARE_OPENING,
    ENVELOPE_FORMATS,
    BareJson,
)
from clawgauge.checks.detection.formats.markup import (
    ARG_PAIR_FORMATS,
    GEMMA_FORMATS,
    HARMONY_FORMATS,
    TAG_FORMATS,
    XTML_FORMATS,
)
from clawgauge.checks.detection.formats.python import PYTHONIC_FORMATS, read_whole_message
from clawgauge.checks.detection.formats.readings import Reader, end_of_thinking, invoke
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.shell import Find, Vocabulary

__all__ = ["find_structured"]

_FORMATS = (
    *ARG_PAIR_FORMATS,
    *ENVELOPE_FORMATS,
    *ARGUMENT_FORMATS,
    *TAG_FORMATS,
    *PYTHONIC_FORMATS,
    *HARMONY_FORMATS,
    *XTML_FORMATS,
    *GEMMA_FORMATS,
)
# Every opening mark starts so, and this is much cheaper to look for.
_MARK_START = lazy_pattern(r"<(?=[|｜A-Za-z])|\[(?=[T\s{])|\{(?=[\s\"])|functools(?=\[)")
_OPENING = lazy_pattern("|".join([f"({opening})" for opening, _ in _FORMATS] + [f"({BARE_OPENING})"]))
_READERS: dict[int | None, Reader] = dict(enumerate([read for _, read in _FORMATS], start=1))


def find_structured(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    position = end_of_thinking(text)
    if position:
        yield Find(0, position)
    whole = read_whole_message(text, position)
    if whole:
        yield Find(position, whole.end, invoke(whole, position, vocabulary))
        return
    readers: dict[int | None, Reader] = {**_READERS, len(_READERS) + 1: BareJson(text).read}
    while start := _MARK_START.search(text, position):
        position = start.end()
        opening = _OPENING.match(text, start.start())
        reading = readers[opening.lastindex](text, opening) if opening else None
        if reading:
            yield Find(start.start(), reading.end, invoke(reading, start.start(), vocabulary))
            position = reading.end
