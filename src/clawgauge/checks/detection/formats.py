"""Calls in the formats that models are trained to write.

The table has every opening mark, its closing one, and what reads them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from clawgauge.checks.detection.families import (
    CALL_BEGIN,
    CALL_END,
    HARMONY_CLOSING,
    HARMONY_OPENING,
    XTML_OPENING,
    named_reader,
    read_gemma,
    read_harmony,
    read_xtml,
)
from clawgauge.checks.detection.json_calls import BARE_OPENING, BareJson, json_reader
from clawgauge.checks.detection.payloads import Mark, Reader, Reading, WrittenCall, read_tool_name
from clawgauge.checks.detection.python_calls import python_reader, read_whole_message
from clawgauge.checks.detection.scripts import read_script
from clawgauge.checks.detection.shell import Call, Find, Lexicon, Vocabulary, mention, read_name
from clawgauge.checks.detection.tags import TagReader, pair_reader, tag_opening
from clawgauge.records import ToolInvocation


class _Format(NamedTuple):
    """A format: the patterns of its opening mark, free of groups, and of its closing one, if any.

    The first of the readers that finds something counts.
    """

    opening: str
    closing: str | None
    readers: tuple[Reader, ...]


_FORMATS = (
    _Format(r"<tool_calls>", r"</tool_calls>", (json_reader("jamba"),)),
    _Format(r"<\|tool_call\|>", r"<\|/tool_call\|>", (json_reader("granite"),)),
    _Format(r"<function_call>", r"</function_call>", (json_reader("granite"),)),
    _Format(r"<\|tools_prefix\|>", r"<\|tools_suffix\|>", (json_reader("apertus", keyed=True),)),
    _Format(r"<\|action_start\|>\s*<\|plugin\|>", r"<\|action_end\|>", (json_reader("internlm"),)),
    _Format(r"<\|START_ACTION\|>", r"<\|END_ACTION\|>", (json_reader("cohere"),)),
    _Format(r"(?<![\w.])functools(?=\[)", None, (json_reader("phi4"),)),
    _Format(
        r"\[TOOL_CALLS\]", r"\[/TOOL_CALLS\]", (json_reader("mistral"), named_reader("mistral"))
    ),
    _Format(CALL_BEGIN, CALL_END, (named_reader("kimi"), named_reader("deepseek"))),
    _Format(r"<tool_call>", r"</tool_call>", (json_reader("hermes"), pair_reader("glm"))),
    _Format(
        r"<longcat_tool_call>",
        r"</longcat_tool_call>",
        (json_reader("longcat"), pair_reader("longcat")),
    ),
    _Format(tag_opening("function"), None, (TagReader("function"),)),
    _Format(tag_opening("invoke"), None, (TagReader("invoke"),)),
    _Format(XTML_OPENING, None, (read_xtml,)),
    _Format(HARMONY_OPENING, HARMONY_CLOSING, (read_harmony,)),
    _Format(r"<start_function_call>", r"<end_function_call>", (read_gemma,)),
    _Format(r"<\|tool_call>", r"<tool_call\|>", (read_gemma,)),
    _Format(r"<function_calls>", r"</function_calls>", (python_reader("olmo"),)),
    _Format(r"<\|python_start\|>", r"<\|python_end\|>", (python_reader("pythonic"),)),
    _Format(
        r"<\|tool_call_start\|>",
        r"<\|tool_call_end\|>",
        (json_reader("lfm2"), python_reader("lfm2")),
    ),
    # Llama's built-in tools are called by their method of that name.
    _Format(
        r"<\|python_tag\|>",
        r"<\|eo[mt]_id\|>",
        (json_reader("llama3_json"), python_reader("pythonic", method=".call")),
    ),
)


def _compile_stop(written_format: _Format) -> re.Pattern[str]:
    """What ends a payload: the closing mark or, with no width, the next opening one."""
    next_opening = f"(?={written_format.opening})"
    if written_format.closing is None:
        return re.compile(next_opening)
    return re.compile(f"{written_format.closing}|{next_opening}")


_STOPS = [_compile_stop(written_format) for written_format in _FORMATS]
# Every opening mark starts so, and this is much cheaper to look for.
_MARK_START = re.compile(r"<(?=[|｜A-Za-z])|\[(?=[T\s{])|\{(?=[\s\"])|functools(?=\[)")
# One group for each format, and a last one for JSON without a mark.
_OPENINGS = [*(written_format.opening for written_format in _FORMATS), BARE_OPENING]
_OPENING = re.compile("|".join(f"({opening})" for opening in _OPENINGS))
_CLOSING_OF_THINKING = {
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|open|>think<|sep|>": "<|close|>think<|sep|>",
    "[THINK]": "[/THINK]",
    "<|inner_prefix|>": "<|inner_suffix|>",
    "<seed:think>": "</seed:think>",
}


def find_structured(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    """A step of the detection: calls in a model's own format."""
    position = _end_of_thinking(text)
    if position:
        yield Find(0, position)
    reading = read_whole_message(text, position)
    if reading is not None:
        yield Find(position, reading.end, _invoke(reading, position, vocabulary))
        return
    bare_json = BareJson(text)
    while mark_start := _MARK_START.search(text, position):
        position = mark_start.end()
        mark = _OPENING.match(text, mark_start.start())
        if mark is None:
            continue
        reading = _read_behind(mark, text, bare_json)
        if reading is not None:
            calls = _invoke(reading, mark.start(), vocabulary)
            yield Find(mark.start(), reading.end, calls)
            position = reading.end


def _end_of_thinking(text: str) -> int:
    """Where thinking that the text opens with ends, in marks of a model's own; or 0."""
    start = len(text) - len(text.lstrip())
    for opening, closing in _CLOSING_OF_THINKING.items():
        if text.startswith(opening, start):
            closing_start = text.find(closing, start + len(opening))
            return closing_start + len(closing) if closing_start >= 0 else len(text)
    return 0


def _read_behind(mark: Mark, text: str, bare_json: BareJson) -> Reading | None:
    """What stands behind an opening mark, or None if it is only mentioned."""
    index = (mark.lastindex or 0) - 1
    if index == len(_FORMATS):
        return bare_json.read(mark.start())
    for reader in _FORMATS[index].readers:
        reading = reader(text, mark, _STOPS[index])
        if reading is not None:
            return reading
    return None


def _invoke(reading: Reading, start: int, vocabulary: Vocabulary) -> list[Call]:
    """The invocations in a span, all at its start and in its order.

    A call without a name that can be a tool's is malformed. The commands that a call has a shell
    run are listed behind it.
    """
    channel = f"text:{reading.format}"
    calls: list[Call] = []
    for written in reading.calls:
        name = read_tool_name(written.name)
        is_valid = written.valid and name is not None
        invocation = ToolInvocation(
            name=name or "", arguments=written.arguments, channel=channel, valid=is_valid
        )
        calls.append(Call(start, invocation))
        if is_valid and name in vocabulary.lexicon.exec_tools:
            for script in _scripts_of(written, vocabulary.lexicon):
                for command in read_script(script, vocabulary):
                    calls.append(Call(start, mention(command, channel=channel).invocation))
    return calls


def _scripts_of(call: WrittenCall, lexicon: Lexicon) -> Iterator[str]:
    """What a call of a tool that runs commands has it run."""
    if not isinstance(call.arguments, dict):
        return
    for key, value in call.arguments.items():
        if key.lower() in lexicon.exec_args:
            yield from _scripts_in(value, lexicon, is_lines=key.lower() == "commands")


def _scripts_in(value: Any, lexicon: Lexicon, *, is_lines: bool) -> list[str]:
    """The command lines an argument holds: text, a list of lines, or the words of one line."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not value:
        return []
    if not all(isinstance(word, str) for word in value):
        return []
    if is_lines or len(value[0].split()) > 1:
        return value
    # What a shell is told to run by `-c` is what runs.
    if read_name(value[0]) in lexicon.shell_info:
        for option, script in pairwise(value[1:]):
            if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
                return [script]
    return [shlex.join(value)]
