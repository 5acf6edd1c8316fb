"""Calls in tags: `<function=NAME>`, `<invoke name="NAME">`, and pairs of keys and values."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from clawgauge.checks.detection.json_calls import read_arguments
from clawgauge.checks.detection.payloads import (
    WRITTEN_NAME,
    Mark,
    Pattern,
    Reader,
    Reading,
    WrittenCall,
    find_stop,
    skip,
)
from clawgauge.checks.json import try_json

_PREFIX = r"(?:[A-Za-z]{1,20}:|[｜|]DSML[｜|])?"
_ARGUMENT = rf"{_PREFIX}param(?:eter)?"
_NAMED = r"(?:\s*=\s*|\s+name\s*=\s*)"
_NAME = rf"(?:\"[^\"<>\n]{{1,200}}\"|'[^'<>\n]{{1,200}}'|{WRITTEN_NAME})"
_ATTRIBUTES = r"(?:\s[^<>]{0,200})?"
_ARGUMENT_HEAD = re.compile(
    rf"\s*+<{_ARGUMENT}{_NAMED}(?P<key>{_NAME})(?P<attributes>{_ATTRIBUTES})>"
)
_IS_TEXT = re.compile(r"\sstring\s*=\s*[\"'](true|false)[\"']")
_QUOTES = "\"'"
_VERBATIM_OPENING = "<![CDATA["
_VERBATIM_CLOSING = "]]>"


def tag_opening(word: str) -> str:
    """The pattern of the tag that opens a call."""
    return rf"<{_PREFIX}{word}{_NAMED}{_NAME}{_ATTRIBUTES}>"


class TagReader:
    """Reads calls in tags of one word (`function`, `invoke`).

    The other word may stand in a value.
    """

    def __init__(self, word: str) -> None:
        tag = _PREFIX + word
        self._word = word
        self._head = re.compile(rf"<(?P<tag>{tag})(?P<naming>{_NAMED})(?P<name>{_NAME})")
        self._body = re.compile(
            rf"\s*+(?:(?=<{_ARGUMENT}[\s=])|(?P<json>(?=\{{))|(?=</{tag}\s*>)|\Z)"
        )
        self._value_stop = re.compile(
            rf"</{_ARGUMENT}\s*>|(?=<{_ARGUMENT}[\s=])|(?=</?{tag}[\s=>])"
        )
        self._stop = re.compile(rf"</{tag}\s*>|(?=<{tag}[\s=])")
        self._closing = re.compile(rf"\s*+</{tag}\s*>")

    def __call__(self, text: str, mark: Mark, _: Pattern) -> Reading | None:
        head = self._head.match(text, mark.start())
        body = self._body.match(text, mark.end())
        if head is None or body is None:
            return None
        is_json = body["json"] is not None
        format_id = self._format_of(head, is_json=is_json)
        name = head["name"].strip(_QUOTES)
        if is_json:
            return read_arguments(format_id, text, body.end(), self._stop, name)
        call, end = self._read_call(text, body.end(), name)
        return Reading(skip(self._closing, text, end), format_id, [call])

    def _format_of(self, head: re.Match[str], *, is_json: bool) -> str:
        if "DSML" in head["tag"]:
            return "deepseek"
        if self._word == "invoke":
            return "invoke"
        if "name" in head["naming"]:
            return "minicpm"
        return "llama3_json" if is_json else "qwen3_coder"

    def _read_call(self, text: str, start: int, name: str) -> tuple[WrittenCall, int]:
        """The call whose arguments stand in tags from `start`, and where the last of them ends."""
        arguments: dict[str, Any] = {}
        is_valid = True
        end = start
        while head := _ARGUMENT_HEAD.match(text, end):
            is_verbatim = text.startswith(_VERBATIM_OPENING, head.end())
            search_start = head.end()
            if is_verbatim:
                closing = text.find(_VERBATIM_CLOSING, head.end())
                search_start = closing if closing >= 0 else len(text)
            value_end, end = find_stop(text, search_start, self._value_stop)
            written = _without_line_breaks(text[head.end() : value_end])
            if is_verbatim:
                written = written.removeprefix(_VERBATIM_OPENING).removesuffix(_VERBATIM_CLOSING)
            value, is_value = _read_value(written, head["attributes"])
            arguments[head["key"].strip(_QUOTES)] = value
            is_valid = is_valid and is_value
        return WrittenCall(name, arguments, is_valid), end


def _without_line_breaks(value: str) -> str:
    """A value without the line breaks that templates put on either side of it."""
    return value.removeprefix("\n").removesuffix("\n")


def _read_value(written: str, attributes: str) -> tuple[Any, bool]:
    """The value, and whether it is of the type that its tag names, if it names one."""
    is_text = _IS_TEXT.match(attributes)
    if is_text is None:
        return _decode_container(written), True
    if is_text[1] == "false":
        return try_json(written)
    return written, True


def _decode_container(text: str) -> Any:
    """An argument without a type: a list or an object if its text is one in JSON, else the text."""
    if text.lstrip()[:1] in ("[", "{"):
        return try_json(text)[0]
    return text


_CAT = r"(?:longcat_)?"
_PAIR_HEAD = re.compile(
    rf"\s*+(?P<name>{WRITTEN_NAME})\s*+(?=<{_CAT}arg_key>)"
    rf"|\n?(?P<alone>{WRITTEN_NAME})\n?(?=</{_CAT}tool_call>)"
)
_PAIR_KEY = re.compile(
    rf"\s*+<{_CAT}arg_key>(?P<key>[^<\n]{{1,200}}+)</{_CAT}arg_key>\s*+<{_CAT}arg_value>"
)
_PAIR_VALUE_STOP = re.compile(rf"</{_CAT}arg_value>|(?=<{_CAT}arg_key>)|(?=</{_CAT}tool_call>)")
_PAIR_CLOSING = re.compile(rf"\s*+</{_CAT}tool_call>")
_KEY_WITHOUT_VALUE = re.compile(rf"\s*+<{_CAT}arg_key>")


def pair_reader(format_id: str) -> Reader:
    """A reader of calls whose arguments are pairs of `<arg_key>` and `<arg_value>`."""
    return partial(_read_pairs, format_id)


def _read_pairs(format_id: str, text: str, mark: Mark, stop: Pattern) -> Reading | None:
    head = _PAIR_HEAD.match(text, mark.end())
    if head is None:
        return None
    name = head["name"] or head["alone"]
    end = head.end()
    arguments: dict[str, Any] = {}
    while key := _PAIR_KEY.match(text, end):
        value_end, end = find_stop(text, key.end(), _PAIR_VALUE_STOP)
        value = _without_line_breaks(text[key.end() : value_end])
        arguments[key["key"].strip()] = _decode_container(value)
    if _KEY_WITHOUT_VALUE.match(text, end):
        payload_end, end = find_stop(text, end, stop)
        call = WrittenCall(name, text[head.end() : payload_end].strip(), valid=False)
        return Reading(end, format_id, [call])
    return Reading(skip(_PAIR_CLOSING, text, end), format_id, [WrittenCall(name, arguments)])
