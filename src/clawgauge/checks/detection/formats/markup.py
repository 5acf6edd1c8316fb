"""Calls in markup: tags, pairs of tags, and the notations of Kimi, harmony and Gemma."""

from __future__ import annotations

import re
from typing import Any

from clawgauge.checks.detection.formats.json import read_named_arguments
from clawgauge.checks.detection.formats.python import LiteralRefused, read_container, read_literal, skip_space
from clawgauge.checks.detection.formats.readings import WRITTEN_NAME, Reader, Reading, WrittenCall, find_stop, skip
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


TAG_OPENINGS = {word: rf"<{_PREFIX}{word}{_NAMED}{_NAME}{_ATTRIBUTES}>" for word in ("function", "invoke")}


def tag_reader(word: str) -> Reader:
    """The reader of calls in tags of this word; the other word may stand in a value."""
    tool = _PREFIX + word
    head_of = lazy_pattern(rf"<(?P<tag>{tool})(?P<naming>{_NAMED})(?P<name>{_NAME})")
    body_of = lazy_pattern(rf"\s*+(?:(?=<{_ARGUMENT}[\s=])|(?P<json>(?=\{{))|(?=</{tool}\s*>)|\Z)")
    value_stop = lazy_pattern(rf"</{_ARGUMENT}\s*>|(?=<{_ARGUMENT}[\s=])|(?=</?{tool}[\s=>])")
    stop = lazy_pattern(rf"</{tool}\s*>|(?=<{tool}[\s=])")
    closing = lazy_pattern(rf"\s*+</{tool}\s*>")

    def read(text: str, mark: re.Match[str], _: re.Pattern[str]) -> Reading | None:
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
            end = skip(closing, text, end)
        if "DSML" in head["tag"]:
            return Reading(end, "deepseek", [call])
        if word == "invoke":
            return Reading(end, "invoke", [call])
        if "name" in head["naming"]:
            return Reading(end, "minicpm", [call])
        return Reading(end, "llama3_json" if is_json else "qwen3_coder", [call])

    return read


def _read_arguments(text: str, start: int, name: str, value_stop: re.Pattern[str]) -> tuple[WrittenCall, int]:
    arguments: dict[str, Any] = {}
    valid = True
    end = start
    while head := _ARGUMENT_HEAD.match(text, end):
        is_verbatim = text.startswith(_VERBATIM, head.end())
        verbatim_end = text.find(_VERBATIM_END, head.end()) if is_verbatim else head.end()
        value_end, end = find_stop(text, verbatim_end if verbatim_end >= 0 else len(text), value_stop)
        value: Any = trim_line_ends(text[head.end() : value_end])
        if is_verbatim:
            value = value.removeprefix(_VERBATIM).removesuffix(_VERBATIM_END)
        is_text = _IS_TEXT.match(head["attributes"])
        if is_text is None:
            value = decode_containers(value)
        elif is_text[1] == "false":
            try:
                value = decode_strictly(value)
            except JsonRefused:
                valid = False
        arguments[head["key"].strip(_QUOTES)] = value
    return WrittenCall(name, arguments, valid), end


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


def read_pairs(format_id: str, text: str, mark: re.Match[str], stop: re.Pattern[str]) -> Reading | None:
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
        payload_end, end = find_stop(text, end, stop)
        return Reading(end, format_id, [WrittenCall(name, text[head.end() : payload_end].strip(), valid=False)])
    return Reading(skip(_PAIR_CLOSING, text, end), format_id, [WrittenCall(name, arguments)])


XTML_OPENING = r"<\|open\|>call\s[^<\n]{0,400}<\|sep\|>"
_ATTRIBUTE = lazy_pattern(r"(?P<key>[A-Za-z_]{1,40})=\"(?P<value>[^\"<]{0,300})\"")
_XTML_ARGUMENT = lazy_pattern(r"\s*+<\|open\|>argument\s(?P<attributes>[^<\n]{0,400})<\|sep\|>")
_XTML_VALUE_STOP = lazy_pattern(r"<\|close\|>argument<\|sep\|>|(?=<\|(?:open|close)\|>)")
_JSON = lazy_pattern(r"\s*+<\|open\|>json[^<\n]{0,200}<\|sep\|>")
_JSON_STOP = lazy_pattern(r"<\|close\|>json<\|sep\|>|(?=<\|(?:open|close)\|>)")
_XTML_CLOSING = lazy_pattern(r"\s*+<\|close\|>call<\|sep\|>")


def read_xtml(text: str, mark: re.Match[str], _: re.Pattern[str]) -> Reading:
    name = _attributes(mark[0]).get("tool", "")
    whole = _JSON.match(text, mark.end())
    if whole:
        call, end = read_named_arguments(text, whole.end(), _JSON_STOP, name)
        return Reading(skip(_XTML_CLOSING, text, end), "kimi", [call])
    arguments: dict[str, Any] = {}
    valid = True
    end = mark.end()
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
    call = WrittenCall(name, arguments, valid and "" not in arguments)
    return Reading(skip(_XTML_CLOSING, text, end), "kimi", [call])


def _attributes(written: str) -> dict[str, str]:
    return {
        attribute["key"]: attribute["value"].replace("&quot;", '"').replace("&amp;", "&")
        for attribute in _ATTRIBUTE.finditer(written)
    }


HARMONY_OPENING, HARMONY_CLOSING = r"<\|(?:start|channel)\|>", r"<\|(?:call|end|return)\|>"
_HARMONY_HEAD = lazy_pattern(
    r"(?:<\|start\|>(?P<author>[^<\n]{0,200}))?(?:<\|channel\|>(?P<channel>[^<\n]{0,200}))?"
    r"(?:<\|constrain\|>[^<\n]{0,100})?<\|message\|>"
)
_RECIPIENT = lazy_pattern(r"(?:^|\s)to=([^\s<]{1,200})")
_PEOPLE = frozenset(("assistant", "user", "system", "developer"))
# Takes source code where every other tool takes an object.
_CODE_TOOL = "python"


def read_message(text: str, mark: re.Match[str], stop: re.Pattern[str]) -> Reading | None:
    head = _HARMONY_HEAD.match(text, mark.start())
    if head is None:
        return None
    author, channel = head["author"] or "", head["channel"] or ""
    recipient = _RECIPIENT.search(author) or _RECIPIENT.search(channel)
    body_end, end = find_stop(text, head.end(), stop)
    if recipient and recipient[1] == _CODE_TOOL:
        return Reading(end, "harmony", [WrittenCall(_CODE_TOOL, text[head.end() : body_end].strip())])
    if recipient and recipient[1] not in _PEOPLE:
        call, end = read_named_arguments(text, head.end(), stop, recipient[1])
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


def read_gemma(text: str, mark: re.Match[str], stop: re.Pattern[str]) -> Reading | None:
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
