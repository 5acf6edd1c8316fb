"""Calls in markup: tags, pairs of tags, and the notations of Kimi, harmony and Gemma."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from clawgauge.checks.detection.formats.json import (
    LONGCAT_TOOL_CALL,
    TOOL_CALL,
    read_hermes,
    read_longcat,
    read_named_arguments,
)
from clawgauge.checks.detection.formats.python import MAX_DEPTH, LiteralRefused, read_literal, skip_comma, skip_space
from clawgauge.checks.detection.formats.readings import WRITTEN_NAME, Format, Reader, Reading, WrittenCall, find_stop
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


class Grammar(msgspec.Struct, frozen=True):
    """The patterns around one word for the tool's tag; the other word may stand in a value."""

    head: re.Pattern[str]
    body: re.Pattern[str]
    value_stop: re.Pattern[str]
    stop: re.Pattern[str]
    closing: re.Pattern[str]


def _opening(word: str) -> str:
    return rf"<{_PREFIX}{word}{_NAMED}{_NAME}{_ATTRIBUTES}>"


def _grammar(word: str) -> Grammar:
    tool = _PREFIX + word
    return Grammar(
        head=lazy_pattern(rf"<(?P<tag>{tool})(?P<naming>{_NAMED})(?P<name>{_NAME})"),
        body=lazy_pattern(rf"\s*+(?:(?=<{_ARGUMENT}[\s=])|(?P<json>(?=\{{))|(?=</{tool}\s*>)|\Z)"),
        value_stop=lazy_pattern(rf"</{_ARGUMENT}\s*>|(?=<{_ARGUMENT}[\s=])|(?=</?{tool}[\s=>])"),
        stop=lazy_pattern(rf"</{tool}\s*>|(?=<{tool}[\s=])"),
        closing=lazy_pattern(rf"\s*+</{tool}\s*>"),
    )


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
    grammar = _grammar(word)

    def read(text: str, mark: re.Match[str]) -> Reading | None:
        head = grammar.head.match(text, mark.start())
        body = grammar.body.match(text, mark.end())
        if head is None or body is None:
            return None
        name = head["name"].strip(_QUOTES)
        is_json = body["json"] is not None
        if is_json:
            call, end = read_named_arguments(text, body.end(), grammar.stop, name)
        else:
            call, end = _read_arguments(text, body.end(), name, grammar)
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


def _read_arguments(text: str, start: int, name: str, grammar: Grammar) -> tuple[WrittenCall, int]:
    arguments: dict[str, Any] = {}
    valid = True
    end = start
    while head := _ARGUMENT_HEAD.match(text, end):
        key = head["key"].strip(_QUOTES)
        value, end = _read_value(text, head.end(), grammar.value_stop)
        is_text = _IS_TEXT.match(head["attributes"])
        arguments[key] = value if is_text else decode_containers(value)
        if is_text and is_text[1] == "false":
            try:
                arguments[key] = decode_strictly(value)
            except JsonRefused:
                valid = False
    closing = grammar.closing.match(text, end)
    return WrittenCall(name, arguments, valid), closing.end() if closing else end


def _read_value(text: str, start: int, stop: re.Pattern[str]) -> tuple[str, int]:
    """A value and where its tag ends."""
    is_verbatim = text.startswith(_VERBATIM, start)
    verbatim_end = text.find(_VERBATIM_END, start) if is_verbatim else start
    value_end, end = find_stop(text, verbatim_end if verbatim_end >= 0 else len(text), stop)
    value = trim_line_ends(text[start:value_end])
    if is_verbatim:
        value = value.removeprefix(_VERBATIM).removesuffix(_VERBATIM_END)
    return value, end


TAG_FORMATS = tuple(Format(_opening(word), _reader(word)) for word in ("function", "invoke"))


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


def _read_pairs(text: str, mark: re.Match[str], format_id: str) -> Reading | None:
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


def _read_tool_call(text: str, mark: re.Match[str]) -> Reading | None:
    return read_hermes(text, mark) or _read_pairs(text, mark, "glm")


def _read_longcat_tool_call(text: str, mark: re.Match[str]) -> Reading | None:
    return read_longcat(text, mark) or _read_pairs(text, mark, "longcat")


ARG_PAIR_FORMATS = (Format(TOOL_CALL, _read_tool_call), Format(LONGCAT_TOOL_CALL, _read_longcat_tool_call))


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


XTML_FORMATS = (Format(_XTML_OPENING, _read_xtml_call),)


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
    if recipient and recipient[1] not in _PEOPLE:
        return _read_harmony_call(text, head.end(), recipient[1])
    if channel.split()[:1] == ["analysis"]:
        return Reading(find_stop(text, head.end(), _HARMONY_STOP)[1], "harmony", [])
    return None


def _read_harmony_call(text: str, start: int, recipient: str) -> Reading:
    if recipient == _CODE_TOOL:
        body_end, end = find_stop(text, start, _HARMONY_STOP)
        return Reading(end, "harmony", [WrittenCall(recipient, text[start:body_end].strip())])
    call, end = read_named_arguments(text, start, _HARMONY_STOP, recipient)
    return Reading(end, "harmony", [call])


HARMONY_FORMATS = (Format(_HARMONY_OPENING, _read_message),)


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
        if depth == MAX_DEPTH:
            raise LiteralRefused
        return (_read_members if text[at] == "{" else _read_items)(text, at + 1, depth + 1)
    bare = _BARE.match(text, at)
    return (_read_bare(bare[0].rstrip()), bare.end()) if bare else read_literal(text, at)


def _read_bare(word: str) -> Any:
    """A number or a constant; whatever else stands without marks is text that lost its own."""
    try:
        value, end = read_literal(word, 0)
    except LiteralRefused:
        return word
    return value if end == len(word) else word


def _read_members(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    at = skip_space(text, at)
    while text[at : at + 1] != "}":
        key = _GEMMA_KEY.match(text, at)
        if key is None:
            raise LiteralRefused
        members[key["key"]], at = _read_gemma_value(text, key.end(), depth)
        at = skip_comma(text, at, "}")
    return members, at + 1


def _read_items(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    at = skip_space(text, at)
    while text[at : at + 1] != "]":
        item, at = _read_gemma_value(text, at, depth)
        items.append(item)
        at = skip_comma(text, at, "]")
    return items, at + 1


def _gemma_reader(opening: str, closing: str) -> Reader:
    stop = lazy_pattern(f"{closing}|(?={opening})")

    def read(text: str, mark: re.Match[str]) -> Reading | None:
        calls: list[WrittenCall] = []
        end = mark.end()
        while head := _GEMMA_HEAD.match(text, end):
            try:
                arguments, end = _read_members(text, head.end(), 0)
            except LiteralRefused:
                payload_end, end = find_stop(text, head.end(), stop)
                written = text[head.end() : payload_end].strip()
                return Reading(end, "gemma", [*calls, WrittenCall(head["name"], written, valid=False)])
            calls.append(WrittenCall(head["name"], arguments))
        closed = stop.match(text, skip_space(text, end))
        return Reading(closed.end() if closed else end, "gemma", calls) if calls else None

    return read


GEMMA_FORMATS = (
    Format(r"<start_function_call>", _gemma_reader(r"<start_function_call>", r"<end_function_call>")),
    Format(r"<\|tool_call>", _gemma_reader(r"<\|tool_call>", r"<tool_call\|>")),
)
