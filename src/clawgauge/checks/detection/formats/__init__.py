"""Calls in the formats that models are trained to write: every opening mark, its closing one, and what reads them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from clawgauge.checks.detection.formats.json import (
    BARE_OPENING,
    CALL_BEGIN,
    CALL_END,
    DEEPSEEK_HEAD,
    KIMI_HEAD,
    MISTRAL_HEAD,
    BareJson,
    read_json,
    read_named,
)
from clawgauge.checks.detection.formats.markup import (
    HARMONY_CLOSING,
    HARMONY_OPENING,
    TAG_OPENINGS,
    XTML_OPENING,
    read_gemma,
    read_message,
    read_pairs,
    read_xtml,
    tag_reader,
)
from clawgauge.checks.detection.formats.python import read_marked, read_whole_message
from clawgauge.checks.detection.formats.readings import Reader, end_of_thinking, invoke
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.shell import Find, Vocabulary

# Patterns of the opening mark, free of groups, and of the closing one, if it has any; then the readers, of which the
# first that finds something counts.
_FORMATS: tuple[tuple[str, str | None, tuple[Reader, ...]], ...] = (
    (r"<tool_calls>", r"</tool_calls>", (partial(read_json, "jamba"),)),
    (r"<\|tool_call\|>", r"<\|/tool_call\|>", (partial(read_json, "granite"),)),
    (r"<function_call>", r"</function_call>", (partial(read_json, "granite"),)),
    (r"<\|tools_prefix\|>", r"<\|tools_suffix\|>", (partial(read_json, "apertus", keyed=True),)),
    (r"<\|action_start\|>\s*<\|plugin\|>", r"<\|action_end\|>", (partial(read_json, "internlm"),)),
    (r"<\|START_ACTION\|>", r"<\|END_ACTION\|>", (partial(read_json, "cohere"),)),
    (r"(?<![\w.])functools(?=\[)", None, (partial(read_json, "phi4"),)),
    (
        r"\[TOOL_CALLS\]",
        r"\[/TOOL_CALLS\]",
        (partial(read_json, "mistral"), partial(read_named, "mistral", MISTRAL_HEAD)),
    ),
    (CALL_BEGIN, CALL_END, (partial(read_named, "kimi", KIMI_HEAD), partial(read_named, "deepseek", DEEPSEEK_HEAD))),
    (r"<tool_call>", r"</tool_call>", (partial(read_json, "hermes"), partial(read_pairs, "glm"))),
    (
        r"<longcat_tool_call>",
        r"</longcat_tool_call>",
        (partial(read_json, "longcat"), partial(read_pairs, "longcat")),
    ),
    *((opening, None, (tag_reader(word),)) for word, opening in TAG_OPENINGS.items()),
    (XTML_OPENING, None, (read_xtml,)),
    (HARMONY_OPENING, HARMONY_CLOSING, (read_message,)),
    (r"<start_function_call>", r"<end_function_call>", (read_gemma,)),
    (r"<\|tool_call>", r"<tool_call\|>", (read_gemma,)),
    (r"<function_calls>", r"</function_calls>", (partial(read_marked, "olmo"),)),
    (r"<\|python_start\|>", r"<\|python_end\|>", (partial(read_marked, "pythonic"),)),
    (
        r"<\|tool_call_start\|>",
        r"<\|tool_call_end\|>",
        (partial(read_json, "lfm2"), partial(read_marked, "lfm2")),
    ),
    (
        r"<\|python_tag\|>",
        r"<\|eo[mt]_id\|>",
        # Llama's built-in tools are called by their method of that name.
        (partial(read_json, "llama3_json"), partial(read_marked, "pythonic", method=".call")),
    ),
)
_STOPS = [lazy_pattern(f"{closing}|(?={opening})" if closing else f"(?={opening})") for opening, closing, _ in _FORMATS]
# Every opening mark starts so, and this is much cheaper to look for.
_MARK_START = lazy_pattern(r"<(?=[|｜A-Za-z])|\[(?=[T\s{])|\{(?=[\s\"])|functools(?=\[)")
_OPENING = lazy_pattern("|".join(f"({opening})" for opening in (*(mark for mark, _, _ in _FORMATS), BARE_OPENING)))


def find_structured(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    position = end_of_thinking(text)
    if position:
        yield Find(0, position)
    reading = read_whole_message(text, position)
    if reading:
        yield Find(position, reading.end, invoke(reading, position, vocabulary))
        return
    bare = BareJson(text)
    while start := _MARK_START.search(text, position):
        position = start.end()
        opening = _OPENING.match(text, start.start())
        if opening is None or opening.lastindex is None:
            continue
        if opening.lastindex > len(_FORMATS):
            reading = bare.read(opening.start())
        else:
            stop, readers = _STOPS[opening.lastindex - 1], _FORMATS[opening.lastindex - 1][2]
            reading = next(filter(None, (read(text, opening, stop) for read in readers)), None)
        if reading:
            yield Find(start.start(), reading.end, invoke(reading, start.start(), vocabulary))
            position = reading.end
