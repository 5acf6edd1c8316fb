"""Calls as a name and pairs of tags: `<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>`.

Owns: GLM's grammar, also under LongCat's prefix. Refuses: a lone word with blanks around it between the outer tags;
that is a sentence about them.
"""

from __future__ import annotations

import re
from typing import Any

from clawgauge.checks.detection.formats.json_envelopes import (
    LONGCAT_TOOL_CALL,
    TOOL_CALL,
    read_hermes,
    read_longcat,
)
from clawgauge.checks.detection.formats.readings import WRITTEN_NAME, Format, Reading, WrittenCall, find_stop
from clawgauge.checks.detection.formats.tags import decode_containers, trim_line_ends
from clawgauge.checks.detection.lazy_pattern import lazy_pattern

_PREFIX = r"(?:longcat_)?"
_HEAD = lazy_pattern(
    rf"\s*+(?P<name>{WRITTEN_NAME})\s*+(?=<{_PREFIX}arg_key>)"
    rf"|\n?(?P<alone>{WRITTEN_NAME})\n?(?=</{_PREFIX}tool_call>)"
)
_KEY = lazy_pattern(rf"\s*+<{_PREFIX}arg_key>(?P<key>[^<\n]{{1,200}}+)</{_PREFIX}arg_key>\s*+<{_PREFIX}arg_value>")
_VALUE_STOP = lazy_pattern(rf"</{_PREFIX}arg_value>|(?=<{_PREFIX}arg_key>)|(?=</{_PREFIX}tool_call>)")
_CLOSING = lazy_pattern(rf"\s*+</{_PREFIX}tool_call>")
_KEY_WITHOUT_VALUE = lazy_pattern(rf"\s*+<{_PREFIX}arg_key>")
_STOP = lazy_pattern(rf"</{_PREFIX}tool_call>|(?=<{_PREFIX}tool_call>)")


def _read_pairs(text: str, mark: re.Match[str], format_id: str) -> Reading | None:
    head = _HEAD.match(text, mark.end())
    if head is None:
        return None
    name = head["name"] or head["alone"]
    arguments: dict[str, Any] = {}
    end = head.end()
    while key := _KEY.match(text, end):
        value_end, end = find_stop(text, key.end(), _VALUE_STOP)
        arguments[key["key"].strip()] = decode_containers(trim_line_ends(text[key.end() : value_end]))
    if _KEY_WITHOUT_VALUE.match(text, end):
        payload_end, end = find_stop(text, end, _STOP)
        return Reading(end, format_id, [WrittenCall(name, text[head.end() : payload_end].strip(), valid=False)])
    closing = _CLOSING.match(text, end)
    return Reading(closing.end() if closing else end, format_id, [WrittenCall(name, arguments)])


def _read_tool_call(text: str, mark: re.Match[str]) -> Reading | None:
    return read_hermes(text, mark) or _read_pairs(text, mark, "glm")


def _read_longcat_tool_call(text: str, mark: re.Match[str]) -> Reading | None:
    return read_longcat(text, mark) or _read_pairs(text, mark, "longcat")


FORMATS = (Format(TOOL_CALL, _read_tool_call), Format(LONGCAT_TOOL_CALL, _read_longcat_tool_call))
