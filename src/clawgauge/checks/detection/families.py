"""Calls in the formats of single families of models: Kimi, DeepSeek, Mistral, Harmony, Gemma."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from clawgauge.checks.detection.json_calls import read_arguments
from clawgauge.checks.detection.literals import LiteralRefused, read_gemma_value
from clawgauge.checks.detection.payloads import (
    WRITTEN_NAME,
    Mark,
    Pattern,
    Reader,
    Reading,
    WrittenCall,
    find_stop,
    skip,
    skip_space,
)
from clawgauge.checks.json import try_json

# Kimi's tags.

XTML_OPENING = r"<\|open\|>call\s[^<\n]{0,400}<\|sep\|>"
_ATTRIBUTE = re.compile(r"(?P<key>[A-Za-z_]{1,40})=\"(?P<value>[^\"<]{0,300})\"")
_XTML_ARGUMENT = re.compile(r"\s*+<\|open\|>argument\s(?P<attributes>[^<\n]{0,400})<\|sep\|>")
_XTML_VALUE_STOP = re.compile(r"<\|close\|>argument<\|sep\|>|(?=<\|(?:open|close)\|>)")
_XTML_JSON = re.compile(r"\s*+<\|open\|>json[^<\n]{0,200}<\|sep\|>")
_XTML_JSON_STOP = re.compile(r"<\|close\|>json<\|sep\|>|(?=<\|(?:open|close)\|>)")
_XTML_CLOSING = re.compile(r"\s*+<\|close\|>call<\|sep\|>")


def read_xtml(text: str, mark: Mark, _: Pattern) -> Reading:
    """Kimi's tags: the name and the type of an argument are attributes."""
    name = _read_attributes(mark[0]).get("tool", "")
    json_head = _XTML_JSON.match(text, mark.end())
    if json_head is not None:
        reading = read_arguments("kimi", text, json_head.end(), _XTML_JSON_STOP, name)
        return Reading(skip(_XTML_CLOSING, text, reading.end), "kimi", reading.calls)
    arguments: dict[str, Any] = {}
    is_valid = True
    end = mark.end()
    while head := _XTML_ARGUMENT.match(text, end):
        value_end, end = find_stop(text, head.end(), _XTML_VALUE_STOP)
        attributes = _read_attributes(head["attributes"])
        value: Any = text[head.end() : value_end]
        if attributes.get("type", "string") != "string":
            value, is_json = try_json(value)
            is_valid = is_valid and is_json
        arguments[attributes.get("key", "")] = value
    call = WrittenCall(name, arguments, is_valid and "" not in arguments)
    return Reading(skip(_XTML_CLOSING, text, end), "kimi", [call])


def _read_attributes(written: str) -> dict[str, str]:
    attributes = {}
    for attribute in _ATTRIBUTE.finditer(written):
        value = attribute["value"].replace("&quot;", '"').replace("&amp;", "&")
        attributes[attribute["key"]] = value
    return attributes


# A name, then its arguments in JSON.

# DeepSeek's bars and blanks are characters of their own, which some servers turn into ASCII; Kimi's
# always are ASCII.
CALL_BEGIN = r"<[｜|]tool[▁_]call[▁_]begin[｜|]>"
CALL_END = r"<[｜|]tool[▁_]calls?[▁_](?:section[▁_])?end[｜|]>"
_SEPARATOR = r"<[｜|]tool[▁_]sep[｜|]>"
_NAME_HEADS = {
    "mistral": re.compile(
        rf"\s*+(?P<name>{WRITTEN_NAME})(?:\[CALL_ID\][^\s\[\]{{}}]{{1,100}})?"
        r"\s*+(?:\[ARGS\]|(?=\{))"
    ),
    "deepseek": re.compile(
        rf"\s*+(?:function\s*+{_SEPARATOR})?\s*+(?P<name>{WRITTEN_NAME})"
        rf"\s*+(?:{_SEPARATOR}|(?=```|\{{))"
    ),
    "kimi": re.compile(
        rf"\s*+(?P<name>{WRITTEN_NAME}?)(?::[0-9]+)?\s*+<\|tool_call_argument_begin\|>"
    ),
}


def named_reader(format_id: str) -> Reader:
    """A reader of a name and, behind it, its arguments in JSON."""
    return partial(_read_named, format_id, _NAME_HEADS[format_id])


def _read_named(
    format_id: str, name_head: Pattern, text: str, mark: Mark, stop: Pattern
) -> Reading | None:
    head = name_head.match(text, mark.end())
    if head is None:
        return None
    return read_arguments(format_id, text, head.end(), stop, head["name"])


# Harmony, of OpenAI's open models.

HARMONY_OPENING = r"<\|(?:start|channel)\|>"
HARMONY_CLOSING = r"<\|(?:call|end|return)\|>"
_HARMONY_HEAD = re.compile(
    r"(?:<\|start\|>(?P<author>[^<\n]{0,200}))?(?:<\|channel\|>(?P<channel>[^<\n]{0,200}))?"
    r"(?:<\|constrain\|>[^<\n]{0,100})?<\|message\|>"
)
_RECIPIENT = re.compile(r"(?:^|\s)to=([^\s<]{1,200})")
_PEOPLE = frozenset(("assistant", "user", "system", "developer"))
# Takes source code where every other tool takes an object.
_CODE_TOOL = "python"


def read_harmony(text: str, mark: Mark, stop: Pattern) -> Reading | None:
    """A message of Harmony: a call if it goes to a tool. One that is thinking holds none."""
    head = _HARMONY_HEAD.match(text, mark.start())
    if head is None:
        return None
    author = head["author"] or ""
    channel = head["channel"] or ""
    recipient_match = _RECIPIENT.search(author) or _RECIPIENT.search(channel)
    recipient = recipient_match[1] if recipient_match else None
    body_end, end = find_stop(text, head.end(), stop)
    if recipient == _CODE_TOOL:
        call = WrittenCall(_CODE_TOOL, text[head.end() : body_end].strip())
        return Reading(end, "harmony", [call])
    if recipient is not None and recipient not in _PEOPLE:
        return read_arguments("harmony", text, head.end(), stop, recipient)
    is_thinking = channel.split()[:1] == ["analysis"]
    return Reading(end, "harmony", []) if is_thinking else None


# Gemma.

_GEMMA_HEAD = re.compile(rf"\s*+call:\s*+(?P<name>{WRITTEN_NAME})\s*+\{{")


def read_gemma(text: str, mark: Mark, stop: Pattern) -> Reading | None:
    """Calls as `call:NAME{key:value}`."""
    calls: list[WrittenCall] = []
    end = mark.end()
    while head := _GEMMA_HEAD.match(text, end):
        try:
            arguments, end = read_gemma_value(text, head.end() - 1, -1)
        except LiteralRefused:
            payload_end, end = find_stop(text, head.end(), stop)
            written = text[head.end() : payload_end].strip()
            calls.append(WrittenCall(head["name"], written, valid=False))
            return Reading(end, "gemma", calls)
        calls.append(WrittenCall(head["name"], arguments))
    if not calls:
        return None
    closing = stop.match(text, skip_space(text, end))
    return Reading(closing.end() if closing else end, "gemma", calls)
