"""Calls as a name and a JSON object of arguments, with marks around and between them.

Owns: the marks of Mistral's newer models (`[TOOL_CALLS]f[ARGS]{…}`), of DeepSeek up to 3.1 and of Kimi K2. Refuses:
marks that are not followed by a name and the mark behind it; those are only mentioned.
"""

from __future__ import annotations

import re

from clawgauge.checks.detection.formats.json_envelopes import TOOL_CALLS, read_mistral_list
from clawgauge.checks.detection.formats.json_values import read_payload
from clawgauge.checks.detection.formats.readings import WRITTEN_NAME, Format, Reading, WrittenCall
from clawgauge.checks.detection.lazy_pattern import lazy_pattern

# DeepSeek's bars and blanks are characters of their own, which some servers turn into ASCII; Kimi's always are ASCII.
_CALL_BEGIN = r"<[｜|]tool[▁_]call[▁_]begin[｜|]>"
_SEPARATOR = r"<[｜|]tool[▁_]sep[｜|]>"

_MISTRAL_HEAD = lazy_pattern(
    rf"\s*+(?P<name>{WRITTEN_NAME})(?:\[CALL_ID\][^\s\[\]{{}}]{{1,100}})?\s*+(?:\[ARGS\]|(?=\{{))"
)
_MISTRAL_STOP = lazy_pattern(rf"\[/TOOL_CALLS\]|(?={TOOL_CALLS})")
_DEEPSEEK_HEAD = lazy_pattern(
    rf"\s*+(?:function\s*+{_SEPARATOR})?\s*+(?P<name>{WRITTEN_NAME})\s*+(?:{_SEPARATOR}|(?=```|\{{))"
)
_KIMI_HEAD = lazy_pattern(rf"\s*+(?P<name>{WRITTEN_NAME})\s*+<\|tool_call_argument_begin\|>")
_KIMI_INDEX = lazy_pattern(r":[0-9]+\Z")
_CALL_STOP = lazy_pattern(rf"<[｜|]tool[▁_]calls?[▁_](?:section[▁_])?end[｜|]>|(?={_CALL_BEGIN})")


def read_named_arguments(text: str, start: int, stop: re.Pattern[str], name: str) -> tuple[WrittenCall, int]:
    """The call of `name` with the object at `start` as its arguments, and where it ends."""
    payload = read_payload(text, start, stop, most=1)
    if payload.values is None:
        return WrittenCall(name, payload.written, valid=False), payload.end
    arguments = payload.values[0] if payload.values else {}
    return WrittenCall(name, arguments, isinstance(arguments, dict)), payload.end


def _read_mistral(text: str, mark: re.Match[str]) -> Reading | None:
    listed = read_mistral_list(text, mark)
    head = None if listed else _MISTRAL_HEAD.match(text, mark.end())
    if head is None:
        return listed
    call, end = read_named_arguments(text, head.end(), _MISTRAL_STOP, head["name"])
    return Reading(end, "mistral", [call])


def _read_call_begin(text: str, mark: re.Match[str]) -> Reading | None:
    head = _KIMI_HEAD.match(text, mark.end())
    if head:
        call, end = read_named_arguments(text, head.end(), _CALL_STOP, _KIMI_INDEX.sub("", head["name"]))
        return Reading(end, "kimi", [call])
    head = _DEEPSEEK_HEAD.match(text, mark.end())
    if head is None:
        return None
    call, end = read_named_arguments(text, head.end(), _CALL_STOP, head["name"])
    return Reading(end, "deepseek", [call])


FORMATS = (Format(TOOL_CALLS, _read_mistral), Format(_CALL_BEGIN, _read_call_begin))
