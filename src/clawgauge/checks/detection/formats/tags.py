"""Calls as tags, one for the tool and one for each argument: `<invoke name="f"><parameter name="a">1</parameter>`.

Owns: the one grammar behind several families. The tool's tag is `function` or `invoke`, an argument's `parameter` or
`param`; the name follows an equals sign or is an attribute; a prefix may stand before the word. In place of the
arguments' tags there may be one JSON object. A tag that is not closed runs up to the next one, or to the end. Refuses:
types that are not written. Text stays text, but for lists and objects, which all these templates write as JSON.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from clawgauge.checks.detection.formats.json_arguments import read_named_arguments
from clawgauge.checks.detection.formats.readings import WRITTEN_NAME, Format, Reader, Reading, WrittenCall, find_stop
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.strict_json import JsonRefused, decode_strictly

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


FORMATS = tuple(Format(_opening(word), _reader(word)) for word in ("function", "invoke"))
