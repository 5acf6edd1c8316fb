"""Calls in the formats that models are trained to write: every opening mark, its closing one, and what reads them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from clawgauge.checks.detection.formats import readers as of
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.prose import read_script
from clawgauge.checks.detection.shell import Call, Find, Lexicon, Vocabulary, mention, read_name
from clawgauge.records import ToolInvocation

_json = partial(partial, of.read_json)
_named = partial(partial, of.read_named)
_pairs = partial(partial, of.read_pairs)
_python = partial(partial, of.read_marked)
# Patterns of the opening mark, free of groups, and of the closing one, if it has any; then the readers, of which the
# first that finds something counts.
_FORMATS: tuple[tuple[str, str | None, tuple[of.Reader, ...]], ...] = (
    (r"<tool_calls>", r"</tool_calls>", (_json("jamba"),)),
    (r"<\|tool_call\|>", r"<\|/tool_call\|>", (_json("granite"),)),
    (r"<function_call>", r"</function_call>", (_json("granite"),)),
    (r"<\|tools_prefix\|>", r"<\|tools_suffix\|>", (_json("apertus", keyed=True),)),
    (r"<\|action_start\|>\s*<\|plugin\|>", r"<\|action_end\|>", (_json("internlm"),)),
    (r"<\|START_ACTION\|>", r"<\|END_ACTION\|>", (_json("cohere"),)),
    (r"(?<![\w.])functools(?=\[)", None, (_json("phi4"),)),
    (r"\[TOOL_CALLS\]", r"\[/TOOL_CALLS\]", (_json("mistral"), _named("mistral", of.MISTRAL))),
    (of.CALL_BEGIN, of.CALL_END, (_named("kimi", of.KIMI), _named("deepseek", of.DEEPSEEK))),
    (r"<tool_call>", r"</tool_call>", (_json("hermes"), _pairs("glm"))),
    (r"<longcat_tool_call>", r"</longcat_tool_call>", (_json("longcat"), _pairs("longcat"))),
    *((opening, None, (of.tag_reader(word),)) for word, opening in of.TAG_OPENINGS.items()),
    (of.XTML_OPENING, None, (of.read_xtml,)),
    (of.HARMONY_OPENING, of.HARMONY_CLOSING, (of.read_message,)),
    (r"<start_function_call>", r"<end_function_call>", (of.read_gemma,)),
    (r"<\|tool_call>", r"<tool_call\|>", (of.read_gemma,)),
    (r"<function_calls>", r"</function_calls>", (_python("olmo"),)),
    (r"<\|python_start\|>", r"<\|python_end\|>", (_python("pythonic"),)),
    (r"<\|tool_call_start\|>", r"<\|tool_call_end\|>", (_json("lfm2"), _python("lfm2"))),
    # Llama's built-in tools are called by their method of that name.
    (r"<\|python_tag\|>", r"<\|eo[mt]_id\|>", (_json("llama3_json"), _python("pythonic", method=".call"))),
)
_STOPS = [lazy_pattern(f"{closing}|(?={opening})" if closing else f"(?={opening})") for opening, closing, _ in _FORMATS]
# Every opening mark starts so, and this is much cheaper to look for.
_MARK_START = lazy_pattern(r"<(?=[|｜A-Za-z])|\[(?=[T\s{])|\{(?=[\s\"])|functools(?=\[)")
_OPENING = lazy_pattern("|".join(f"({opening})" for opening in (*(mark for mark, _, _ in _FORMATS), of.BARE_OPENING)))
_CLOSING_OF_THINKING = {
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|open|>think<|sep|>": "<|close|>think<|sep|>",
    "<|inner_prefix|>": "<|inner_suffix|>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
}


def find_structured(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    position, start = 0, len(text) - len(text.lstrip())
    for opening, closing in _CLOSING_OF_THINKING.items():
        if text.startswith(opening, start):
            place = text.find(closing, start + len(opening))
            position = place + len(closing) if place >= 0 else len(text)
            yield Find(0, position)
    reading = of.read_whole_message(text, position)
    if reading:
        yield Find(position, reading.end, _invoke(reading, position, vocabulary))
        return
    bare = of.BareJson(text)
    while found := _MARK_START.search(text, position):
        position, start = found.end(), found.start()
        mark = _OPENING.match(text, start)
        if mark is None or mark.lastindex is None:
            continue
        if mark.lastindex > len(_FORMATS):
            reading = bare.read(start)
        else:
            stop, readers = _STOPS[mark.lastindex - 1], _FORMATS[mark.lastindex - 1][2]
            reading = next(filter(None, (read(text, mark, stop) for read in readers)), None)
        if reading:
            yield Find(start, reading.end, _invoke(reading, start, vocabulary))
            position = reading.end


def _invoke(reading: of.Reading, at: int, vocabulary: Vocabulary) -> list[Call]:
    """The invocations in a span, all at its start and in its order. A call without a name that can be is malformed."""
    channel = f"text:{reading.format}"
    calls: list[Call] = []
    for written in reading.calls:
        name = of.read_tool_name(written.name)
        valid = written.valid and name is not None
        invocation = ToolInvocation(name=name or "", arguments=written.arguments, channel=channel, valid=valid)
        calls.append(Call(at, invocation))
        if valid and name in vocabulary.lexicon.exec_tools and isinstance(written.arguments, dict):
            for key, value in written.arguments.items():
                if key.lower() in vocabulary.lexicon.exec_args:
                    scripts = _scripts_in(value, key.lower() == "commands", vocabulary.lexicon)
                    commands = [command for script in scripts for command in read_script(script, vocabulary)]
                    calls += [Call(at, mention(command, 0, channel).invocation) for command in commands]
    return calls


def _scripts_in(value: Any, is_lines: bool, lexicon: Lexicon) -> list[str]:
    """The command lines an argument holds: text, a list of lines, or the words of one line."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        return []
    if is_lines or len(value[0].split()) > 1:
        return value
    if read_name(value[0]) in lexicon.shell_info:  # what a shell is told to run by `-c` is what runs
        for option, script in pairwise(value[1:]):
            if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
                return [script]
    return [shlex.join(value)]
