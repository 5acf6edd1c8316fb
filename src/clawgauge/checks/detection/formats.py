"""Calls in the formats that models are trained to write: every opening mark, its closing one, and what reads them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from clawgauge.checks.detection import payloads as of
from clawgauge.checks.detection.payloads import Mark, Pattern, Reading, WrittenCall, find_stop, skip
from clawgauge.checks.detection.prose import read_script
from clawgauge.checks.detection.shell import Call, Find, Lexicon, Vocabulary, mention, read_name
from clawgauge.checks.json import try_json
from clawgauge.records import ToolInvocation

# --- tags and pairs of tags ------------------------------------------------------------------------------------------

_WORD = of.WRITTEN_NAME
_PREFIX = r"(?:[A-Za-z]{1,20}:|[｜|]DSML[｜|])?"
_ARGUMENT = rf"{_PREFIX}param(?:eter)?"
_NAMED = r"(?:\s*=\s*|\s+name\s*=\s*)"
_NAME = rf"(?:\"[^\"<>\n]{{1,200}}\"|'[^'<>\n]{{1,200}}'|{_WORD})"
_ATTRIBUTES = r"(?:\s[^<>]{0,200})?"
_ARGUMENT_HEAD = re.compile(
    rf"\s*+<{_ARGUMENT}{_NAMED}(?P<key>{_NAME})(?P<attributes>{_ATTRIBUTES})>"
)
_IS_TEXT = re.compile(r"\sstring\s*=\s*[\"'](true|false)[\"']")
_QUOTES = "\"'"
_VERBATIM, _VERBATIM_END = "<![CDATA[", "]]>"
TAG_OPENINGS = {
    word: rf"<{_PREFIX}{word}{_NAMED}{_NAME}{_ATTRIBUTES}>" for word in ("function", "invoke")
}


def _decode_containers(text: str) -> Any:
    """An argument without a type: a list or an object where the text is one in JSON, else the text."""
    return try_json(text)[0] if text.lstrip()[:1] in ("[", "{") else text


def tag_reader(word: str) -> of.Reader:
    """The reader of calls in tags of this word; the other word may stand in a value."""
    tool = _PREFIX + word
    head_of = re.compile(rf"<(?P<tag>{tool})(?P<naming>{_NAMED})(?P<name>{_NAME})")
    body_of = re.compile(rf"\s*+(?:(?=<{_ARGUMENT}[\s=])|(?P<json>(?=\{{))|(?=</{tool}\s*>)|\Z)")
    value_stop = re.compile(rf"</{_ARGUMENT}\s*>|(?=<{_ARGUMENT}[\s=])|(?=</?{tool}[\s=>])")
    stop = re.compile(rf"</{tool}\s*>|(?=<{tool}[\s=])")
    closing = re.compile(rf"\s*+</{tool}\s*>")

    def read(text: str, mark: Mark, _: Pattern) -> Reading | None:
        head, body = head_of.match(text, mark.start()), body_of.match(text, mark.end())
        if head is None or body is None:
            return None
        is_json, name = body["json"] is not None, head["name"].strip(_QUOTES)
        by_naming = (
            "minicpm" if "name" in head["naming"] else "llama3_json" if is_json else "qwen3_coder"
        )
        format_id = (
            "deepseek" if "DSML" in head["tag"] else "invoke" if word == "invoke" else by_naming
        )
        if is_json:
            return of.read_object(format_id, text, body.end(), stop, name)
        call, end = _read_arguments(text, body.end(), name, value_stop)
        return Reading(skip(closing, text, end), format_id, [call])

    return read


def _read_arguments(
    text: str, start: int, name: str, value_stop: Pattern
) -> tuple[WrittenCall, int]:
    arguments: dict[str, Any] = {}
    valid, end = True, start
    while head := _ARGUMENT_HEAD.match(text, end):
        is_verbatim = text.startswith(_VERBATIM, head.end())
        verbatim_end = text.find(_VERBATIM_END, head.end()) if is_verbatim else head.end()
        value_end, end = find_stop(
            text, verbatim_end if verbatim_end >= 0 else len(text), value_stop
        )
        # Templates put a line break on either side of a value.
        value: Any = text[head.end() : value_end].removeprefix("\n").removesuffix("\n")
        if is_verbatim:
            value = value.removeprefix(_VERBATIM).removesuffix(_VERBATIM_END)
        if (is_text := _IS_TEXT.match(head["attributes"])) is None:
            value = _decode_containers(value)
        elif is_text[1] == "false":
            value, is_json = try_json(value)
            valid = valid and is_json
        arguments[head["key"].strip(_QUOTES)] = value
    return WrittenCall(name, arguments, valid), end


_CAT = r"(?:longcat_)?"
_PAIR_HEAD = re.compile(
    rf"\s*+(?P<name>{_WORD})\s*+(?=<{_CAT}arg_key>)|\n?(?P<alone>{_WORD})\n?(?=</{_CAT}tool_call>)"
)
_PAIR_KEY = re.compile(
    rf"\s*+<{_CAT}arg_key>(?P<key>[^<\n]{{1,200}}+)</{_CAT}arg_key>\s*+<{_CAT}arg_value>"
)
_PAIR_VALUE_STOP = re.compile(rf"</{_CAT}arg_value>|(?=<{_CAT}arg_key>)|(?=</{_CAT}tool_call>)")
_PAIR_CLOSING = re.compile(rf"\s*+</{_CAT}tool_call>")
_KEY_WITHOUT_VALUE = re.compile(rf"\s*+<{_CAT}arg_key>")


def read_pairs(format_id: str, text: str, mark: Mark, stop: Pattern) -> Reading | None:
    if (head := _PAIR_HEAD.match(text, mark.end())) is None:
        return None
    name, end = head["name"] or head["alone"], head.end()
    arguments: dict[str, Any] = {}
    while key := _PAIR_KEY.match(text, end):
        value_end, end = find_stop(text, key.end(), _PAIR_VALUE_STOP)
        value = text[key.end() : value_end].removeprefix("\n").removesuffix("\n")
        arguments[key["key"].strip()] = _decode_containers(value)
    if _KEY_WITHOUT_VALUE.match(text, end):
        payload_end, end = find_stop(text, end, stop)
        return Reading(
            end, format_id, [WrittenCall(name, text[head.end() : payload_end].strip(), valid=False)]
        )
    return Reading(skip(_PAIR_CLOSING, text, end), format_id, [WrittenCall(name, arguments)])


# --- single families -------------------------------------------------------------------------------------------------

XTML_OPENING = r"<\|open\|>call\s[^<\n]{0,400}<\|sep\|>"
_ATTRIBUTE = re.compile(r"(?P<key>[A-Za-z_]{1,40})=\"(?P<value>[^\"<]{0,300})\"")
_XTML_ARGUMENT = re.compile(r"\s*+<\|open\|>argument\s(?P<attributes>[^<\n]{0,400})<\|sep\|>")
_XTML_VALUE_STOP = re.compile(r"<\|close\|>argument<\|sep\|>|(?=<\|(?:open|close)\|>)")
_JSON = re.compile(r"\s*+<\|open\|>json[^<\n]{0,200}<\|sep\|>")
_JSON_STOP = re.compile(r"<\|close\|>json<\|sep\|>|(?=<\|(?:open|close)\|>)")
_XTML_CLOSING = re.compile(r"\s*+<\|close\|>call<\|sep\|>")


def read_xtml(text: str, mark: Mark, _: Pattern) -> Reading:
    name = _attributes(mark[0]).get("tool", "")
    if whole := _JSON.match(text, mark.end()):
        reading = of.read_object("kimi", text, whole.end(), _JSON_STOP, name)
        return Reading(skip(_XTML_CLOSING, text, reading.end), "kimi", reading.calls)
    arguments: dict[str, Any] = {}
    valid, end = True, mark.end()
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


# DeepSeek's bars and blanks are characters of their own, which some servers turn into ASCII; Kimi's always are ASCII.
CALL_BEGIN = r"<[｜|]tool[▁_]call[▁_]begin[｜|]>"
CALL_END = r"<[｜|]tool[▁_]calls?[▁_](?:section[▁_])?end[｜|]>"
_SEP = r"<[｜|]tool[▁_]sep[｜|]>"
MISTRAL = re.compile(
    rf"\s*+(?P<name>{_WORD})(?:\[CALL_ID\][^\s\[\]{{}}]{{1,100}})?\s*+(?:\[ARGS\]|(?=\{{))"
)
DEEPSEEK = re.compile(
    rf"\s*+(?:function\s*+{_SEP})?\s*+(?P<name>{_WORD})\s*+(?:{_SEP}|(?=```|\{{))"
)
KIMI = re.compile(rf"\s*+(?P<name>{_WORD}?)(?::[0-9]+)?\s*+<\|tool_call_argument_begin\|>")


def read_named(
    format_id: str, head: Pattern, text: str, mark: Mark, stop: Pattern
) -> Reading | None:
    found = head.match(text, mark.end())
    return of.read_object(format_id, text, found.end(), stop, found["name"]) if found else None


HARMONY_OPENING, HARMONY_CLOSING = r"<\|(?:start|channel)\|>", r"<\|(?:call|end|return)\|>"
_HARMONY_HEAD = re.compile(
    r"(?:<\|start\|>(?P<author>[^<\n]{0,200}))?(?:<\|channel\|>(?P<channel>[^<\n]{0,200}))?"
    r"(?:<\|constrain\|>[^<\n]{0,100})?<\|message\|>"
)
_RECIPIENT = re.compile(r"(?:^|\s)to=([^\s<]{1,200})")
_PEOPLE = frozenset(("assistant", "user", "system", "developer"))
# Takes source code where every other tool takes an object.
_CODE_TOOL = "python"


def read_message(text: str, mark: Mark, stop: Pattern) -> Reading | None:
    if (head := _HARMONY_HEAD.match(text, mark.start())) is None:
        return None
    author, channel = head["author"] or "", head["channel"] or ""
    recipient = _RECIPIENT.search(author) or _RECIPIENT.search(channel)
    body_end, end = find_stop(text, head.end(), stop)
    if recipient and recipient[1] == _CODE_TOOL:
        return Reading(
            end, "harmony", [WrittenCall(_CODE_TOOL, text[head.end() : body_end].strip())]
        )
    if recipient and recipient[1] not in _PEOPLE:
        return of.read_object("harmony", text, head.end(), stop, recipient[1])
    return Reading(end, "harmony", []) if channel.split()[:1] == ["analysis"] else None


_GEMMA_HEAD = re.compile(rf"\s*+call:\s*+(?P<name>{_WORD})\s*+\{{")


def read_gemma(text: str, mark: Mark, stop: Pattern) -> Reading | None:
    calls: list[WrittenCall] = []
    end = mark.end()
    while head := _GEMMA_HEAD.match(text, end):
        try:
            arguments, end = of.read_gemma_value(text, head.end() - 1, -1)
        except of.LiteralRefused:
            payload_end, end = find_stop(text, head.end(), stop)
            written = text[head.end() : payload_end].strip()
            return Reading(end, "gemma", [*calls, WrittenCall(head["name"], written, valid=False)])
        calls.append(WrittenCall(head["name"], arguments))
    closed = stop.match(text, of.skip_space(text, end))
    return Reading(closed.end() if closed else end, "gemma", calls) if calls else None


# --- the table -------------------------------------------------------------------------------------------------------

_json, _named, _pairs, _python = (
    partial(partial, f) for f in (of.read_json, read_named, read_pairs, of.read_marked)
)
# Patterns of the opening mark, free of groups, and of the closing one, if it has any; then the readers, of which the
# first that finds something counts.
_FORMATS: tuple[tuple[str, str | None, tuple[of.Reader, ...]], ...] = (
    (r"<tool_calls>", r"</tool_calls>", (_json("jamba"),)),
    (r"<\|tool_call\|>", r"<\|/tool_call\|>", (_json("granite"),)),
    (r"<function_call>", r"</function_call>", (_json("granite"),)),
    (r"<\|tools_prefix\|>", r"<\|tools_suffix\|>", (_json("apertus", keyed=True),)),
    (r"<\|action_start\|>\s*<\|plugin\|>", r"<\|action_end\|>", (_json("internlm"),)),
    (r"<\|START_ACTION\|>", r"<\|END_ACTION\|>", (_json("cohere"),)),
    (r"(?<![\w.])functools(?=\[)", None, (_json("phi4"),)),
    (r"\[TOOL_CALLS\]", r"\[/TOOL_CALLS\]", (_json("mistral"), _named("mistral", MISTRAL))),
    (CALL_BEGIN, CALL_END, (_named("kimi", KIMI), _named("deepseek", DEEPSEEK))),
    (r"<tool_call>", r"</tool_call>", (_json("hermes"), _pairs("glm"))),
    (r"<longcat_tool_call>", r"</longcat_tool_call>", (_json("longcat"), _pairs("longcat"))),
    *((opening, None, (tag_reader(word),)) for word, opening in TAG_OPENINGS.items()),
    (XTML_OPENING, None, (read_xtml,)),
    (HARMONY_OPENING, HARMONY_CLOSING, (read_message,)),
    (r"<start_function_call>", r"<end_function_call>", (read_gemma,)),
    (r"<\|tool_call>", r"<tool_call\|>", (read_gemma,)),
    (r"<function_calls>", r"</function_calls>", (_python("olmo"),)),
    (r"<\|python_start\|>", r"<\|python_end\|>", (_python("pythonic"),)),
    (r"<\|tool_call_start\|>", r"<\|tool_call_end\|>", (_json("lfm2"), _python("lfm2"))),
    # Llama's built-in tools are called by their method of that name.
    (
        r"<\|python_tag\|>",
        r"<\|eo[mt]_id\|>",
        (_json("llama3_json"), _python("pythonic", method=".call")),
    ),
)
_STOPS = [
    re.compile(f"{closing}|(?={opening})" if closing else f"(?={opening})")
    for opening, closing, _ in _FORMATS
]
# Every opening mark starts so, and this is much cheaper to look for.
_MARK_START = re.compile(r"<(?=[|｜A-Za-z])|\[(?=[T\s{])|\{(?=[\s\"])|functools(?=\[)")
_OPENING = re.compile(
    "|".join(f"({opening})" for opening in (*(mark for mark, _, _ in _FORMATS), of.BARE_OPENING))
)
_CLOSING_OF_THINKING = {
    "<|START_THINKING|>": "<|END_THINKING|>", "<|open|>think<|sep|>": "<|close|>think<|sep|>", "[THINK]": "[/THINK]",
    "<|inner_prefix|>": "<|inner_suffix|>", "<seed:think>": "</seed:think>",
}  # fmt: skip


def find_structured(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    position, start = 0, len(text) - len(text.lstrip())
    for opening, closing in _CLOSING_OF_THINKING.items():
        if text.startswith(opening, start):
            place = text.find(closing, start + len(opening))
            position = place + len(closing) if place >= 0 else len(text)
            yield Find(0, position)
    if reading := of.read_whole_message(text, position):
        yield Find(position, reading.end, _invoke(reading, position, vocabulary))
        return
    bare = of.BareJson(text)
    while found := _MARK_START.search(text, position):
        position, start = found.end(), found.start()
        mark = _OPENING.match(text, start)
        if mark is None or mark.lastindex is None:
            continue
        if mark.lastindex > len(_FORMATS):
            reading = bare.read(start)
        else:
            stop, readers = _STOPS[mark.lastindex - 1], _FORMATS[mark.lastindex - 1][2]
            reading = next(filter(None, (read(text, mark, stop) for read in readers)), None)
        if reading:
            yield Find(start, reading.end, _invoke(reading, start, vocabulary))
            position = reading.end


def _invoke(reading: Reading, at: int, vocabulary: Vocabulary) -> list[Call]:
    """The invocations in a span, all at its start and in its order. A call without a name that can be is malformed."""
    channel = f"text:{reading.format}"
    calls: list[Call] = []
    for written in reading.calls:
        name = of.read_tool_name(written.name)
        valid = written.valid and name is not None
        invocation = ToolInvocation(
            name=name or "", arguments=written.arguments, channel=channel, valid=valid
        )
        calls.append(Call(at, invocation))
        if valid and name in vocabulary.lexicon.exec_tools and isinstance(written.arguments, dict):
            for key, value in written.arguments.items():
                if key.lower() in vocabulary.lexicon.exec_args:
                    scripts = _scripts_in(value, key.lower() == "commands", vocabulary.lexicon)
                    commands = [
                        command for script in scripts for command in read_script(script, vocabulary)
                    ]
                    calls += [
                        Call(at, mention(command, 0, channel).invocation) for command in commands
                    ]
    return calls


def _scripts_in(value: Any, is_lines: bool, lexicon: Lexicon) -> list[str]:
    """The command lines an argument holds: text, a list of lines, or the words of one line."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        return []
    if is_lines or len(value[0].split()) > 1:
        return value
    # What a shell is told to run by `-c` is what runs.
    if read_name(value[0]) in lexicon.shell_info:
        for option, script in pairwise(value[1:]):
            if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
                return [script]
    return [shlex.join(value)]
