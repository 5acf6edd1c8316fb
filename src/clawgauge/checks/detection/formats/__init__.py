"""Calls in the formats that models are trained to write: `find_structured`.

Owns: one pass over the text. At each opening mark the format it belongs to reads on, and what it reads is taken whole,
so a call quoted inside another call's arguments is no call of its own. Refuses: knowing any format; each has its file.
"""

from __future__ import annotations

from collections.abc import Iterator

from clawgauge.checks.detection.finds import Find
from clawgauge.checks.detection.formats import (
    arg_pairs,
    bare_json,
    gemma,
    harmony,
    json_arguments,
    json_envelopes,
    pythonic,
    tags,
    xtml,
)
from clawgauge.checks.detection.formats.invocations import invoke
from clawgauge.checks.detection.formats.readings import Reader
from clawgauge.checks.detection.formats.thoughts import end_of_thinking
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.vocabulary import Vocabulary

__all__ = ["find_structured"]

_FORMATS = (
    *arg_pairs.FORMATS,
    *json_envelopes.FORMATS,
    *json_arguments.FORMATS,
    *tags.FORMATS,
    *pythonic.FORMATS,
    *harmony.FORMATS,
    *xtml.FORMATS,
    *gemma.FORMATS,
)
# Every opening mark starts so, and this is much cheaper to look for.
_MARK_START = lazy_pattern(r"<(?=[|｜A-Za-z])|\[(?=[T\s{])|\{(?=[\s\"])|functools(?=\[)")
_OPENING = lazy_pattern("|".join([f"({form.opening})" for form in _FORMATS] + [f"({bare_json.OPENING})"]))
_READERS: dict[int | None, Reader] = dict(enumerate([form.read for form in _FORMATS], start=1))


def find_structured(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    position = end_of_thinking(text)
    if position:
        yield Find(0, position)
    whole = pythonic.read_whole_message(text, position)
    if whole:
        yield Find(position, whole.end, invoke(whole, position, vocabulary))
        return
    readers: dict[int | None, Reader] = {**_READERS, len(_READERS) + 1: bare_json.BareJson(text).read}
    while start := _MARK_START.search(text, position):
        position = start.end()
        opening = _OPENING.match(text, start.start())
        reading = readers[opening.lastindex](text, opening) if opening else None
        if reading:
            yield Find(start.start(), reading.end, invoke(reading, start.start(), vocabulary))
            position = reading.end
