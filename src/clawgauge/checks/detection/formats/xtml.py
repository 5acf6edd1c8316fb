"""Calls in Kimi K3's markup: `<|open|>call tool="f"<|sep|><|open|>argument key="a" type="string"<|sep|>1<|close|>…`.

Owns: its elements. An argument says its type: text is taken as it is, everything else is JSON. All arguments may also
come as one JSON element. Refuses: the elements around calls.
"""

from __future__ import annotations

import re
from typing import Any

from clawgauge.checks.detection.formats.json_arguments import read_named_arguments
from clawgauge.checks.detection.formats.readings import Format, Reading, WrittenCall, find_stop
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.strict_json import JsonRefused, decode_strictly

_OPENING = r"<\|open\|>call\s[^<\n]{0,400}<\|sep\|>"
_ATTRIBUTE = lazy_pattern(r"(?P<key>[A-Za-z_]{1,40})=\"(?P<value>[^\"<]{0,300})\"")
_ARGUMENT = lazy_pattern(r"\s*+<\|open\|>argument\s(?P<attributes>[^<\n]{0,400})<\|sep\|>")
_VALUE_STOP = lazy_pattern(r"<\|close\|>argument<\|sep\|>|(?=<\|(?:open|close)\|>)")
_JSON = lazy_pattern(r"\s*+<\|open\|>json[^<\n]{0,200}<\|sep\|>")
_JSON_STOP = lazy_pattern(r"<\|close\|>json<\|sep\|>|(?=<\|(?:open|close)\|>)")
_CLOSING = lazy_pattern(r"\s*+<\|close\|>call<\|sep\|>")


def _read_call(text: str, mark: re.Match[str]) -> Reading:
    name = _attributes(mark[0]).get("tool", "")
    whole = _JSON.match(text, mark.end())
    if whole:
        call, end = read_named_arguments(text, whole.end(), _JSON_STOP, name)
    else:
        call, end = _read_arguments(text, mark.end(), name)
    closing = _CLOSING.match(text, end)
    return Reading(closing.end() if closing else end, "kimi", [call])


def _read_arguments(text: str, start: int, name: str) -> tuple[WrittenCall, int]:
    arguments: dict[str, Any] = {}
    valid = True
    end = start
    while head := _ARGUMENT.match(text, end):
        value_end, end = find_stop(text, head.end(), _VALUE_STOP)
        attributes = _attributes(head["attributes"])
        value: Any = text[head.end() : value_end]
        if attributes.get("type", "string") != "string":
            try:
                value = decode_strictly(value)
            except JsonRefused:
                valid = False
        arguments[attributes.get("key", "")] = value
    return WrittenCall(name, arguments, valid and "" not in arguments), end


def _attributes(written: str) -> dict[str, str]:
    return {
        attribute["key"]: attribute["value"].replace("&quot;", '"').replace("&amp;", "&")
        for attribute in _ATTRIBUTE.finditer(written)
    }


FORMATS = (Format(_OPENING, _read_call),)
