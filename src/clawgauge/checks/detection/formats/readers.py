"""What reads on from an opening mark: JSON, Python's notation, tags and pairs, and those of single families.

Reads up to what matches the closing mark or, with no width, the next opening one. None: the mark is only mentioned, and
the text goes on right behind it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import msgspec

from clawgauge.checks.detection.formats.values import (
    LiteralRefused,
    find_stop,
    read_gemma_value,
    read_literal,
    read_payload,
    require,
    scan_json,
    skip,
    skip_comma,
    skip_space,
)
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.prose import Block, scan_blocks
from clawgauge.checks.detection.shell import is_number, read_name
from clawgauge.checks.json import try_json

# A name as it may stand between marks; what is a tool's name and what is not is decided in `read_tool_name`.
_WRITTEN_NAME = r"[^\s<>{}()\[\]`\"'|｜=]{1,200}"
# The namespace in which chat servers list the tools on offer; it is no part of a tool's name.
_NAMESPACE = "functions."


class WrittenCall(msgspec.Struct, frozen=True, gc=False):
    """A call as written: its name, its arguments decoded. One that does not decode is not valid and keeps its text."""

    name: str
    arguments: Any = None
    valid: bool = True


class Reading(msgspec.Struct, frozen=True, gc=False):
    """A span that ends at `end`, the format it is in, and the calls in it; there may be none."""

    end: int
    format: str
    calls: list[WrittenCall]


Mark = re.Match[str]
Pattern = re.Pattern[str]
Reader = Callable[[str, Mark, Pattern], Reading | None]


def read_tool_name(written: str) -> str | None:
    """The name in lower case, or None where a tool cannot be called so."""
    name = read_name(written.strip().removeprefix(_NAMESPACE))
    return None if name is None or is_number(name) else name.lower()


# --- JSON ------------------------------------------------------------------------------------------------------------

_NAME_KEYS = ("name", "tool_name")
_ARGUMENT_KEYS = ("arguments", "parameters")
_RULE_WORDS = frozenset(("type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf"))
_SCHEMA_WORDS = _RULE_WORDS | {"properties", "required", "additionalProperties", "title", "description", "$schema"}
_NAME_MEMBER = lazy_pattern(r"(?<![A-Za-z0-9_])(?:tool_)?name[\"']?\s*+:\s*+[\"']([^\"'\\\n]{1,200}+)[\"']")
_FIRST_KEY = lazy_pattern(r"[\"']([^\"'\\\n]{1,200}+)[\"']\s*+:")
_PAYLOAD = lazy_pattern(r"(?=\s*+(?:```[A-Za-z_]*+\s*+)?(?:\{|\[\s*+[\[{\]\"]))")


def _unwrapped(value: Any) -> Iterator[Any]:
    """The objects of a value, out of the list and the members that some servers' own formats put around calls."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    for item in value if isinstance(value, list) else [value]:
        is_wrapped = isinstance(item, dict) and isinstance(item.get("function"), dict)
        yield item["function"] if is_wrapped else item


def _read_meant(item: Any) -> WrittenCall:
    """The call that `item` is meant to be; its arguments must be an object, or the text of one, or left out."""
    name = next((item[key] for key in _NAME_KEYS if key in item), None) if isinstance(item, dict) else None
    if not isinstance(name, str):
        return WrittenCall("", item, valid=False)
    if not any(key in item for key in _ARGUMENT_KEYS):
        return WrittenCall(name)
    given = _given(item)
    if given is None or given == "":
        return WrittenCall(name, {})
    decoded = try_json(given)[0] if isinstance(given, str) else given
    is_object = isinstance(decoded, dict)
    return WrittenCall(name, decoded if is_object else given, is_object)


def _given(item: dict[str, Any]) -> Any:
    return next((item[key] for key in _ARGUMENT_KEYS if key in item), None)


def _is_definition(item: dict[str, Any]) -> bool:
    """Whether `item` describes a tool, and its `parameters` arguments, rather than being some."""
    schema = item.get("parameters")
    if "description" in item or not isinstance(schema, dict):
        return "description" in item
    if schema.get("type") == "object" and schema.keys() <= _SCHEMA_WORDS:
        return True
    rules = schema.get("properties")
    told = rules.values() if isinstance(rules, dict) else [None]
    return all(isinstance(rule, dict) and _RULE_WORDS & rule.keys() for rule in told)


def read_json(format_id: str, text: str, mark: Mark, stop: Pattern, *, keyed: bool = False) -> Reading | None:
    """The calls behind a mark, malformed ones included.

    `keyed` where an object's keys are the names and its values the arguments: `[{"f": {"a": 1}}]`.
    """
    if _PAYLOAD.match(text, mark.end()) is None:
        return None
    values, written, end = read_payload(text, mark.end(), stop)
    if values is None:
        # Under the name it seems to have.
        member = (_FIRST_KEY if keyed else _NAME_MEMBER).search(written)
        return Reading(end, format_id, [WrittenCall(member[1] if member else "", written, valid=False)])
    calls: list[WrittenCall] = []
    for item in (item for value in values for item in _unwrapped(value)):
        if keyed and isinstance(item, dict) and not any(isinstance(item.get(key), str) for key in _NAME_KEYS):
            calls += [WrittenCall(name, given, isinstance(given, dict)) for name, given in item.items()]
        else:
            calls.append(_read_meant(item))
    return Reading(end, format_id, calls)


# DeepSeek's bars and blanks are characters of their own, which some servers turn into ASCII; Kimi's always are ASCII.
CALL_BEGIN = r"<[｜|]tool[▁_]call[▁_]begin[｜|]>"
CALL_END = r"<[｜|]tool[▁_]calls?[▁_](?:section[▁_])?end[｜|]>"
_SEP = r"<[｜|]tool[▁_]sep[｜|]>"
MISTRAL = lazy_pattern(rf"\s*+(?P<name>{_WRITTEN_NAME})(?:\[CALL_ID\][^\s\[\]{{}}]{{1,100}})?\s*+(?:\[ARGS\]|(?=\{{))")
DEEPSEEK = lazy_pattern(rf"\s*+(?:function\s*+{_SEP})?\s*+(?P<name>{_WRITTEN_NAME})\s*+(?:{_SEP}|(?=```|\{{))")
KIMI = lazy_pattern(rf"\s*+(?P<name>{_WRITTEN_NAME}?)(?::[0-9]+)?\s*+<\|tool_call_argument_begin\|>")


def read_named(format_id: str, head: Pattern, text: str, mark: Mark, stop: Pattern) -> Reading | None:
    """One call behind a mark: its `head`, which has the name, then the object of its arguments."""
    found = head.match(text, mark.end())
    return _read_object(format_id, text, found.end(), stop, found["name"]) if found else None


def _read_object(format_id: str, text: str, start: int, stop: Pattern, name: str) -> Reading:
    """The call of `name` with the object at `start` as its arguments."""
    values, written, end = read_payload(text, start, stop, most=1)
    arguments = written if values is None else values[0] if values else {}
    return Reading(end, format_id, [WrittenCall(name, arguments, isinstance(arguments, dict))])


BARE_OPENING = r"\{(?=\s*+\")|\[(?=\s*+\{\s*+\")"
_NEXT_OBJECT = lazy_pattern(r"[^\S\n]*+(?:[;,][^\S\n]*+)?(?=[\[{])")
# A fence squeezed into one line closes right behind the object.
_LINE_END = lazy_pattern(r"[^\S\n]*+(?:```++[^\S\n]*+)?(?:\n|\Z)")
_JSON_BLOCKS = ("", "json", "jsonc", "json5", "jsonl", "tool_call", "tool_calls", "tool_use", "function_call")


class BareJson:
    """The reader of one text. What it has looked at once it does not look at again, so that it stays linear."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._seen_until = 0

    @cached_property
    def _blocks(self) -> list[Block]:
        return list(scan_blocks(self._text))

    def read(self, start: int) -> Reading | None:
        """The calls in a run of objects that starts there, if it is one."""
        if start < self._seen_until:
            return None
        calls: list[WrittenCall] = []
        at = start
        while found := self._read_object(at):
            calls += found
            following = _NEXT_OBJECT.match(self._text, self._seen_until)
            if following is None:
                if _LINE_END.match(self._text, self._seen_until) is None:
                    return None
                place = bisect_right(self._blocks, start, key=lambda block: block.start)
                block = self._blocks[place - 1] if place else None
                may_hold_calls = block is None or start >= block.end or block.info in _JSON_BLOCKS
                return Reading(self._seen_until, "json", calls) if may_hold_calls else None
            at = following.end()
        return None

    def _read_object(self, at: int) -> list[WrittenCall]:
        """The calls in the object or list at `at`; none where it is broken, or any object of it is data."""
        self._seen_until, is_whole = scan_json(self._text, at)
        written = self._text[at : self._seen_until]
        if not is_whole or 'name"' not in written:
            return []
        value, is_json = try_json(written)
        calls = []
        for item in _unwrapped(value) if is_json else []:
            if not isinstance(item, dict) or _is_definition(item) or not isinstance(_given(item), dict | str):
                return []
            call = _read_meant(item)
            if not call.valid or _given(item) == "" or read_tool_name(call.name) is None:
                return []
            calls.append(call)
        return calls


# --- Python's notation -----------------------------------------------------------------------------------------------

_CALL = lazy_pattern(r"(?P<name>[A-Za-z_][A-Za-z0-9_.:-]{0,199})\(")
_STARTS_LIKE_CALLS = lazy_pattern(r"\s*+\[?\s*+(?P<name>[A-Za-z_][A-Za-z0-9_.:-]{0,199})\(")
_KEYWORD = lazy_pattern(r"(?P<key>[A-Za-z_][A-Za-z0-9_-]{0,199})\s*+=(?!=)\s*+")
_BETWEEN = lazy_pattern(r"\s*+[,;]?\s*+")


def read_whole_message(text: str, start: int) -> Reading | None:
    """The calls of a message that is, from `start`, one list of calls; None for every other message."""
    start = skip_space(text, start)
    end = len(text.rstrip())
    if not text.startswith("[", start) or not text.endswith("]", start, end):
        return None
    try:
        calls, list_end = _read_calls(text, start)
    except LiteralRefused:
        return None
    return Reading(end, "pythonic", calls) if calls and list_end == end else None


def read_marked(format_id: str, text: str, mark: Mark, stop: Pattern, *, method: str = "") -> Reading | None:
    """Calls between marks; `method` is what ends a name without being part of it."""
    head = _STARTS_LIKE_CALLS.match(text, mark.end())
    if head is None:
        return None
    start = skip_space(text, mark.end())
    try:
        calls, end = _read_calls(text, start)
        tail = skip_space(text, end)
        found = stop.search(text, tail)
        if found and found.start() == tail:
            end = found.end()
        elif found and found.end() > found.start():
            raise LiteralRefused
    except LiteralRefused:
        payload_end, end = find_stop(text, start, stop)
        calls = [WrittenCall(head["name"], text[start:payload_end].strip(), valid=False)]
    named = [WrittenCall(call.name.removesuffix(method), call.arguments, call.valid) for call in calls]
    return Reading(end, format_id, named)


def _read_calls(text: str, at: int) -> tuple[list[WrittenCall], int]:
    """The calls in the list that opens at `at`; without brackets around them, one a line."""
    calls: list[WrittenCall] = []
    end = at
    if text[at] == "[":
        at = skip_space(text, at + 1)
        while text[at : at + 1] != "]":
            call, at = _read_call(text, at)
            calls.append(call)
            at = skip_comma(text, at, "]")
        return calls, at + 1
    while _CALL.match(text, at):
        call, end = _read_call(text, at)
        calls.append(call)
        at = skip(_BETWEEN, text, end)
    return calls, end


def _read_call(text: str, at: int) -> tuple[WrittenCall, int]:
    head = require(_CALL.match(text, at))
    arguments: dict[str, Any] = {}
    at = skip_space(text, head.end())
    while text[at : at + 1] != ")":
        keyword = require(_KEYWORD.match(text, at))
        arguments[keyword["key"]], at = read_literal(text, keyword.end())
        at = skip_comma(text, at, ")")
    return WrittenCall(head["name"], arguments), at + 1


# --- tags and pairs of tags ------------------------------------------------------------------------------------------

_PREFIX = r"(?:[A-Za-z]{1,20}:|[｜|]DSML[｜|])?"
_ARGUMENT = rf"{_PREFIX}param(?:eter)?"
_NAMED = r"(?:\s*=\s*|\s+name\s*=\s*)"
_NAME = rf"(?:\"[^\"<>\n]{{1,200}}\"|'[^'<>\n]{{1,200}}'|{_WRITTEN_NAME})"
_ATTRIBUTES = r"(?:\s[^<>]{0,200})?"
_ARGUMENT_HEAD = lazy_pattern(rf"\s*+<{_ARGUMENT}{_NAMED}(?P<key>{_NAME})(?P<attributes>{_ATTRIBUTES})>")
_IS_TEXT = lazy_pattern(r"\sstring\s*=\s*[\"'](true|false)[\"']")
_QUOTES = "\"'"
_VERBATIM, _VERBATIM_END = "<![CDATA[", "]]>"
TAG_OPENINGS = {word: rf"<{_PREFIX}{word}{_NAMED}{_NAME}{_ATTRIBUTES}>" for word in ("function", "invoke")}


def _decode_containers(text: str) -> Any:
    """An argument without a type: a list or an object where the text is one in JSON, else the text."""
    return try_json(text)[0] if text.lstrip()[:1] in ("[", "{") else text


def tag_reader(word: str) -> Reader:
    """The reader of calls in tags of this word; the other word may stand in a value."""
    tool = _PREFIX + word
    head_of = lazy_pattern(rf"<(?P<tag>{tool})(?P<naming>{_NAMED})(?P<name>{_NAME})")
    body_of = lazy_pattern(rf"\s*+(?:(?=<{_ARGUMENT}[\s=])|(?P<json>(?=\{{))|(?=</{tool}\s*>)|\Z)")
    value_stop = lazy_pattern(rf"</{_ARGUMENT}\s*>|(?=<{_ARGUMENT}[\s=])|(?=</?{tool}[\s=>])")
    stop = lazy_pattern(rf"</{tool}\s*>|(?=<{tool}[\s=])")
    closing = lazy_pattern(rf"\s*+</{tool}\s*>")

    def read(text: str, mark: Mark, _: Pattern) -> Reading | None:
        head = head_of.match(text, mark.start())
        body = body_of.match(text, mark.end())
        if head is None or body is None:
            return None
        is_json = body["json"] is not None
        if "DSML" in head["tag"]:
            format_id = "deepseek"
        elif word == "invoke":
            format_id = "invoke"
        elif "name" in head["naming"]:
            format_id = "minicpm"
        else:
            format_id = "llama3_json" if is_json else "qwen3_coder"
        name = head["name"].strip(_QUOTES)
        if is_json:
            return _read_object(format_id, text, body.end(), stop, name)
        call, end = _read_arguments(text, body.end(), name, value_stop)
        return Reading(skip(closing, text, end), format_id, [call])

    return read


def _read_arguments(text: str, start: int, name: str, value_stop: Pattern) -> tuple[WrittenCall, int]:
    arguments: dict[str, Any] = {}
    valid = True
    end = start
    while head := _ARGUMENT_HEAD.match(text, end):
        is_verbatim = text.startswith(_VERBATIM, head.end())
        verbatim_end = text.find(_VERBATIM_END, head.end()) if is_verbatim else head.end()
        value_end, end = find_stop(text, verbatim_end if verbatim_end >= 0 else len(text), value_stop)
        # Templates put a line break on either side of a value.
        value: Any = text[head.end() : value_end].removeprefix("\n").removesuffix("\n")
        if is_verbatim:
            value = value.removeprefix(_VERBATIM).removesuffix(_VERBATIM_END)
        is_text = _IS_TEXT.match(head["attributes"])
        if is_text is None:
            value = _decode_containers(value)
        elif is_text[1] == "false":
            value, is_json = try_json(value)
            valid = valid and is_json
        arguments[head["key"].strip(_QUOTES)] = value
    return WrittenCall(name, arguments, valid), end


_CAT = r"(?:longcat_)?"
_PAIR_HEAD = lazy_pattern(
    rf"\s*+(?P<name>{_WRITTEN_NAME})\s*+(?=<{_CAT}arg_key>)"
    rf"|\n?(?P<alone>{_WRITTEN_NAME})\n?(?=</{_CAT}tool_call>)"
)
_PAIR_KEY = lazy_pattern(rf"\s*+<{_CAT}arg_key>(?P<key>[^<\n]{{1,200}}+)</{_CAT}arg_key>\s*+<{_CAT}arg_value>")
_PAIR_VALUE_STOP = lazy_pattern(rf"</{_CAT}arg_value>|(?=<{_CAT}arg_key>)|(?=</{_CAT}tool_call>)")
_PAIR_CLOSING = lazy_pattern(rf"\s*+</{_CAT}tool_call>")
_KEY_WITHOUT_VALUE = lazy_pattern(rf"\s*+<{_CAT}arg_key>")


def read_pairs(format_id: str, text: str, mark: Mark, stop: Pattern) -> Reading | None:
    head = _PAIR_HEAD.match(text, mark.end())
    if head is None:
        return None
    name = head["name"] or head["alone"]
    arguments: dict[str, Any] = {}
    end = head.end()
    while key := _PAIR_KEY.match(text, end):
        value_end, end = find_stop(text, key.end(), _PAIR_VALUE_STOP)
        value = text[key.end() : value_end].removeprefix("\n").removesuffix("\n")
        arguments[key["key"].strip()] = _decode_containers(value)
    if _KEY_WITHOUT_VALUE.match(text, end):
        payload_end, end = find_stop(text, end, stop)
        return Reading(end, format_id, [WrittenCall(name, text[head.end() : payload_end].strip(), valid=False)])
    return Reading(skip(_PAIR_CLOSING, text, end), format_id, [WrittenCall(name, arguments)])


# --- single families -------------------------------------------------------------------------------------------------

XTML_OPENING = r"<\|open\|>call\s[^<\n]{0,400}<\|sep\|>"
_ATTRIBUTE = lazy_pattern(r"(?P<key>[A-Za-z_]{1,40})=\"(?P<value>[^\"<]{0,300})\"")
_XTML_ARGUMENT = lazy_pattern(r"\s*+<\|open\|>argument\s(?P<attributes>[^<\n]{0,400})<\|sep\|>")
_XTML_VALUE_STOP = lazy_pattern(r"<\|close\|>argument<\|sep\|>|(?=<\|(?:open|close)\|>)")
_JSON = lazy_pattern(r"\s*+<\|open\|>json[^<\n]{0,200}<\|sep\|>")
_JSON_STOP = lazy_pattern(r"<\|close\|>json<\|sep\|>|(?=<\|(?:open|close)\|>)")
_XTML_CLOSING = lazy_pattern(r"\s*+<\|close\|>call<\|sep\|>")


def read_xtml(text: str, mark: Mark, _: Pattern) -> Reading:
    name = _attributes(mark[0]).get("tool", "")
    if whole := _JSON.match(text, mark.end()):
        reading = _read_object("kimi", text, whole.end(), _JSON_STOP, name)
        return Reading(skip(_XTML_CLOSING, text, reading.end), "kimi", reading.calls)
    arguments: dict[str, Any] = {}
    valid = True
    end = mark.end()
    while head := _XTML_ARGUMENT.match(text, end):
        value_end, end = find_stop(text, head.end(), _XTML_VALUE_STOP)
        attributes = _attributes(head["attributes"])
        value: Any = text[head.end() : value_end]
        if attributes.get("type", "string") != "string":
            value, is_json = try_json(value)
            valid = valid and is_json
        arguments[attributes.get("key", "")] = value
    call = WrittenCall(name, arguments, valid and "" not in arguments)
    return Reading(skip(_XTML_CLOSING, text, end), "kimi", [call])


def _attributes(written: str) -> dict[str, str]:
    pairs = (attribute.groups() for attribute in _ATTRIBUTE.finditer(written))
    return {key: value.replace("&quot;", '"').replace("&amp;", "&") for key, value in pairs}


HARMONY_OPENING, HARMONY_CLOSING = r"<\|(?:start|channel)\|>", r"<\|(?:call|end|return)\|>"
_HARMONY_HEAD = lazy_pattern(
    r"(?:<\|start\|>(?P<author>[^<\n]{0,200}))?(?:<\|channel\|>(?P<channel>[^<\n]{0,200}))?"
    r"(?:<\|constrain\|>[^<\n]{0,100})?<\|message\|>"
)
_RECIPIENT = lazy_pattern(r"(?:^|\s)to=([^\s<]{1,200})")
_PEOPLE = frozenset(("assistant", "user", "system", "developer"))
# Takes source code where every other tool takes an object.
_CODE_TOOL = "python"


def read_message(text: str, mark: Mark, stop: Pattern) -> Reading | None:
    head = _HARMONY_HEAD.match(text, mark.start())
    if head is None:
        return None
    author, channel = head["author"] or "", head["channel"] or ""
    recipient = _RECIPIENT.search(author) or _RECIPIENT.search(channel)
    body_end, end = find_stop(text, head.end(), stop)
    if recipient and recipient[1] == _CODE_TOOL:
        return Reading(end, "harmony", [WrittenCall(_CODE_TOOL, text[head.end() : body_end].strip())])
    if recipient and recipient[1] not in _PEOPLE:
        return _read_object("harmony", text, head.end(), stop, recipient[1])
    return Reading(end, "harmony", []) if channel.split()[:1] == ["analysis"] else None


_GEMMA_HEAD = lazy_pattern(rf"\s*+call:\s*+(?P<name>{_WRITTEN_NAME})\s*+\{{")


def read_gemma(text: str, mark: Mark, stop: Pattern) -> Reading | None:
    calls: list[WrittenCall] = []
    end = mark.end()
    while head := _GEMMA_HEAD.match(text, end):
        try:
            arguments, end = read_gemma_value(text, head.end() - 1, -1)
        except LiteralRefused:
            payload_end, end = find_stop(text, head.end(), stop)
            written = text[head.end() : payload_end].strip()
            return Reading(end, "gemma", [*calls, WrittenCall(head["name"], written, valid=False)])
        calls.append(WrittenCall(head["name"], arguments))
    closed = stop.match(text, skip_space(text, end))
    return Reading(closed.end() if closed else end, "gemma", calls) if calls else None
