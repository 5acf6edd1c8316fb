"""Calls in markup: tags, pairs of tags, and the notations of Kimi, harmony and Gemma."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from clawgauge.checks.detection.formats.json import (
    LONGCAT_TOOL_CALL,
    TOOL_CALL,
    read_hermes,
    read_longcat,
    read_named_arguments,
)
from clawgauge.checks.detection.formats.python import LiteralRefused, read_container, read_literal, skip_space
from clawgauge.checks.detection.formats.readings import (
    WRITTEN_NAME,
    Format,
    Reader,
    Reading,
    WrittenCall,
    find_stop,
    first_of,
)
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.json import JsonRefused, decode_strictly

_PREFIX = r"(?:[A-Za-z]{1,20}:|[｜|]DSML[｜|])?"
_ARGUMENT = rf"{_PREFIX}param(?:eter)?"
_NAMED = r"(?:\s*=\s*|\s+name\s*=\s*)"
_NAME = rf"(?:\"[^\"<>\n]{{1,200}}\"|'[^'<>\n]{{1,200}}'|{WRITTEN_NAME})"
_ATTRIBUTES = r"(?:\s[^<>]{0,200})?"
_ARGUMENT_HEAD = lazy_pattern(rf"\s*+<{_ARGUMENT}{_NAMED}(?P<key>{_NAME})(?P<attributes>{_ATTRIBUTES})>")
_IS_TEXT = lazy_pattern(r"\sstring\s*=\s*[\"'](true|false)[\"']")
_QUOTES = "\"'"
_VERBATIM, _VERBATIM_END = "<![CDATA[", "]]>"


def decode_containers(text: str) -> Any:
    """An argument without a type: a list or an object where the text is one in JSON, else the text."""
    if text.lstrip()[:1] not in ("[", "{"):
        return text
    try:
        return decode_strictly(text)
    except JsonRefused:
        return text


def trim_line_ends(text: str) -> str:
    """`text` without the line break that templates put on either side of it."""
    return text.removeprefix("\n").removesuffix("\n")


def _reader(word: str) -> Reader:
    """The reader of calls in tags of this word; the other word may stand in a value."""
    tool = _PREFIX + word
    head_of = lazy_pattern(rf"<(?P<tag>{tool})(?P<naming>{_NAMED})(?P<name>{_NAME})")
    body_of = lazy_pattern(rf"\s*+(?:(?=<{_ARGUMENT}[\s=])|(?P<json>(?=\{{))|(?=</{tool}\s*>)|\Z)")
    value_stop = lazy_pattern(rf"</{_ARGUMENT}\s*>|(?=<{_ARGUMENT}[\s=])|(?=</?{tool}[\s=>])")
    stop = lazy_pattern(rf"</{tool}\s*>|(?=<{tool}[\s=])")
    closing = lazy_pattern(rf"\s*+</{tool}\s*>")

    def read(text: str, mark: re.Match[str]) -> Reading | None:
        head = head_of.match(text, mark.start())
        body = body_of.match(text, mark.end())
        if head is None or body is None:
            return None
        name = head["name"].strip(_QUOTES)
        is_json = body["json"] is not None
        if is_json:
            call, end = read_named_arguments(text, body.end(), stop, name)
        else:
            call, end = _read_arguments(text, body.end(), name, value_stop)
            closed = closing.match(text, end)
            end = closed.end() if closed else end
        return Reading(end, _format_of(head, is_json=is_json), [call])

    return read


def _format_of(head: re.Match[str], *, is_json: bool) -> str:
    if "DSML" in head["tag"]:
        return "deepseek"
    if head["tag"].endswith("invoke"):
        return "invoke"
    if "name" in head["naming"]:
        return "minicpm"
    return "llama3_json" if is_json else "qwen3_coder"


def _read_arguments(text: str, start: int, name: str, value_stop: re.Pattern[str]) -> tuple[WrittenCall, int]:
    arguments: dict[str, Any] = {}
    valid = True
    end = start
    while head := _ARGUMENT_HEAD.match(text, end):
        key = head["key"].strip(_QUOTES)
        value, end = _read_value(text, head.end(), value_stop)
        is_text = _IS_TEXT.match(head["attributes"])
        arguments[key] = value if is_text else decode_containers(value)
        if is_text and is_text[1] == "false":
            try:
                arguments[key] = decode_strictly(value)
            except JsonRefused:
                valid = False
    return WrittenCall(name, arguments, valid), end


def _read_value(text: str, start: int, stop: re.Pattern[str]) -> tuple[str, int]:
    """A value and where its tag ends."""
    is_verbatim = text.startswith(_VERBATIM, start)
    verbatim_end = text.find(_VERBATIM_END, start) if is_verbatim else start
    value_end, end = find_stop(text, verbatim_end if verbatim_end >= 0 else len(text), stop)
    value = trim_line_ends(text[start:value_end])
    if is_verbatim:
        value = value.removeprefix(_VERBATIM).removesuffix(_VERBATIM_END)
    return value, end


_LONGCAT_PREFIX = r"(?:longcat_)?"
_PAIR_HEAD = lazy_pattern(
    rf"\s*+(?P<name>{WRITTEN_NAME})\s*+(?=<{_LONGCAT_PREFIX}arg_key>)"
    rf"|\n?(?P<alone>{WRITTEN_NAME})\n?(?=</{_LONGCAT_PREFIX}tool_call>)"
)
_PAIR_KEY = lazy_pattern(
    rf"\s*+<{_LONGCAT_PREFIX}arg_key>(?P<key>[^<\n]{{1,200}}+)</{_LONGCAT_PREFIX}arg_key>\s*+<{_LONGCAT_PREFIX}arg_value>"
)
_PAIR_VALUE_STOP = lazy_pattern(
    rf"</{_LONGCAT_PREFIX}arg_value>|(?=<{_LONGCAT_PREFIX}arg_key>)|(?=</{_LONGCAT_PREFIX}tool_call>)"
)
_PAIR_CLOSING = lazy_pattern(rf"\s*+</{_LONGCAT_PREFIX}tool_call>")
_KEY_WITHOUT_VALUE = lazy_pattern(rf"\s*+<{_LONGCAT_PREFIX}arg_key>")
_PAIR_STOP = lazy_pattern(rf"</{_LONGCAT_PREFIX}tool_call>|(?=<{_LONGCAT_PREFIX}tool_call>)")


def _read_pairs(format_id: str, text: str, mark: re.Match[str]) -> Reading | None:
    head = _PAIR_HEAD.match(text, mark.end())
    if head is None:
        return None
    name = head["name"] or head["alone"]
    arguments: dict[str, Any] = {}
    end = head.end()
    while key := _PAIR_KEY.match(text, end):
        value_end, end = find_stop(text, key.end(), _PAIR_VALUE_STOP)
        arguments[key["key"].strip()] = decode_containers(trim_line_ends(text[key.end() : value_end]))
    if _KEY_WITHOUT_VALUE.match(text, end):
        payload_end, end = find_stop(text, end, _PAIR_STOP)
        return Reading(end, format_id, [WrittenCall(name, text[head.end() : payload_end].strip(), valid=False)])
    closing = _PAIR_CLOSING.match(text, end)
    return Reading(closing.end() if closing else end, format_id, [WrittenCall(name, arguments)])


_XTML_OPENING = r"<\|open\|>call\s[^<\n]{0,400}<\|sep\|>"
_ATTRIBUTE = lazy_pattern(r"(?P<key>[A-Za-z_]{1,40})=\"(?P<value>[^\"<]{0,300})\"")
_XTML_ARGUMENT = lazy_pattern(r"\s*+<\|open\|>argument\s(?P<attributes>[^<\n]{0,400})<\|sep\|>")
_XTML_VALUE_STOP = lazy_pattern(r"<\|close\|>argument<\|sep\|>|(?=<\|(?:open|close)\|>)")
_JSON = lazy_pattern(r"\s*+<\|open\|>json[^<\n]{0,200}<\|sep\|>")
_JSON_STOP = lazy_pattern(r"<\|close\|>json<\|sep\|>|(?=<\|(?:open|close)\|>)")
_XTML_CLOSING = lazy_pattern(r"\s*+<\|close\|>call<\|sep\|>")


def _read_xtml_call(text: str, mark: re.Match[str]) -> Reading:
    name = _attributes(mark[0]).get("tool", "")
    whole = _JSON.match(text, mark.end())
    if whole:
        call, end = read_named_arguments(text, whole.end(), _JSON_STOP, name)
    else:
        call, end = _read_xtml_arguments(text, mark.end(), name)
    closing = _XTML_CLOSING.match(text, end)
    return Reading(closing.end() if closing else end, "kimi", [call])


def _read_xtml_arguments(text: str, start: int, name: str) -> tuple[WrittenCall, int]:
    arguments: dict[str, Any] = {}
    valid = True
    end = start
    while head := _XTML_ARGUMENT.match(text, end):
        value_end, end = find_stop(text, head.end(), _XTML_VALUE_STOP)
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


_HARMONY_OPENING = r"<\|(?:start|channel)\|>"
_HARMONY_HEAD = lazy_pattern(
    r"(?:<\|start\|>(?P<author>[^<\n]{0,200}))?(?:<\|channel\|>(?P<channel>[^<\n]{0,200}))?"
    r"(?:<\|constrain\|>[^<\n]{0,100})?<\|message\|>"
)
_RECIPIENT = lazy_pattern(r"(?:^|\s)to=([^\s<]{1,200})")
_HARMONY_STOP = lazy_pattern(rf"<\|(?:call|end|return)\|>|(?={_HARMONY_OPENING})")
_PEOPLE = frozenset(("assistant", "user", "system", "developer"))
# Takes source code where every other tool takes an object.
_CODE_TOOL = "python"


def _read_message(text: str, mark: re.Match[str]) -> Reading | None:
    head = _HARMONY_HEAD.match(text, mark.start())
    if head is None:
        return None
    author, channel = head["author"] or "", head["channel"] or ""
    recipient = _RECIPIENT.search(author) or _RECIPIENT.search(channel)
    body_end, end = find_stop(text, head.end(), _HARMONY_STOP)
    if recipient and recipient[1] == _CODE_TOOL:
        return Reading(end, "harmony", [WrittenCall(_CODE_TOOL, text[head.end() : body_end].strip())])
    if recipient and recipient[1] not in _PEOPLE:
        call, end = read_named_arguments(text, head.end(), _HARMONY_STOP, recipient[1])
        return Reading(end, "harmony", [call])
    return Reading(end, "harmony", []) if channel.split()[:1] == ["analysis"] else None


_GEMMA_HEAD = lazy_pattern(rf"\s*+call:\s*+(?P<name>{WRITTEN_NAME})\s*+\{{")
_TEXT_MARK = lazy_pattern(r"<escape>|<\|\"\|>")
_GEMMA_KEY = lazy_pattern(
    r"(?:<escape>|<\|\"\|>|\")?(?P<key>[^\s<>{}\[\],:\"|]{1,200})(?:<escape>|<\|\"\|>|\")?\s*+:\s*+"
)
_BARE = lazy_pattern(r"[^\s,{}\[\]<>\"'][^,{}\[\]<>\n]*+")


def _read_gemma_value(text: str, at: int, depth: int) -> tuple[Any, int]:
    mark = _TEXT_MARK.match(text, at)
    if mark:
        end = text.find(mark[0], mark.end())
        if end < 0:
            raise LiteralRefused
        return text[mark.end() : end], end + len(mark[0])
    if text[at : at + 1] in ("{", "["):
        return read_container(text, at, depth, _read_gemma_key, _read_gemma_value)
    bare = _BARE.match(text, at)
    if bare is None:
        return read_literal(text, at)
    # A number or a constant; whatever else stands without marks is text that lost its own.
    word = bare[0].rstrip()
    try:
        value, end = read_literal(word, 0)
    except LiteralRefused:
        return word, bare.end()
    return value if end == len(word) else word, bare.end()


def _read_gemma_key(text: str, at: int) -> tuple[str, int]:
    key = _GEMMA_KEY.match(text, at)
    if key is None:
        raise LiteralRefused
    return key["key"], key.end()


def _gemma_reader(opening: str, closing: str) -> Reader:
    stop = lazy_pattern(f"{closing}|(?={opening})")

    def read(text: str, mark: re.Match[str]) -> Reading | None:
        calls: list[WrittenCall] = []
        end = mark.end()
        while head := _GEMMA_HEAD.match(text, end):
            try:
                arguments, end = read_container(text, head.end() - 1, -1, _read_gemma_key, _read_gemma_value)
            except LiteralRefused:
                payload_end, end = find_stop(text, head.end(), stop)
                written = text[head.end() : payload_end].strip()
                return Reading(end, "gemma", [*calls, WrittenCall(head["name"], written, valid=False)])
            calls.append(WrittenCall(head["name"], arguments))
        closed = stop.match(text, skip_space(text, end))
        return Reading(closed.end() if closed else end, "gemma", calls) if calls else None

    return read


MARKUP_FORMATS: tuple[Format, ...] = (
    (TOOL_CALL, first_of(read_hermes, partial(_read_pairs, "glm"))),
    (LONGCAT_TOOL_CALL, first_of(read_longcat, partial(_read_pairs, "longcat"))),
    *((rf"<{_PREFIX}{word}{_NAMED}{_NAME}{_ATTRIBUTES}>", _reader(word)) for word in ("function", "invoke")),
    (_XTML_OPENING, _read_xtml_call),
    (_HARMONY_OPENING, _read_message),
    (r"<start_function_call>", _gemma_reader(r"<start_function_call>", r"<end_function_call>")),
    (r"<\|tool_call>", _gemma_reader(r"<\|tool_call>", r"<tool_call\|>")),
)
