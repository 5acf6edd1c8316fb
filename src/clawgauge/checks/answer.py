"""What a validator is given, and what it says of it: an answer and a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from clawgauge.characters import CONTROL_SEQUENCES
from clawgauge.records import ToolInvocation

NATIVE = "native"
TEXT_PREFIX = "text:"

_MAX_DETAIL_CHARS = 200
_MAX_QUOTED_CHARS = 60
_THINK_TAG = re.compile(r"<(/?)think>", re.IGNORECASE)
_VISIBLE = re.compile(r"\S")
_CONTROL_SEQUENCE = re.compile(CONTROL_SEQUENCES)


def _answer_spans(text: str) -> list[tuple[int, int]]:
    """Where in `text` the answer stands, and not the thinking."""
    if "<" not in text:
        return [(0, len(text))]
    spans: list[tuple[int, int]] = []
    start = 0
    is_thinking = False
    for tag in _THINK_TAG.finditer(text):
        if tag[1]:
            if not is_thinking:  # it closes thinking that was opened before the text began
                spans.clear()
            start = tag.end()
            is_thinking = False
        elif not is_thinking:
            spans.append((start, tag.start()))
            is_thinking = True
    if not is_thinking:
        spans.append((start, len(text)))
    return spans


def split_thinking(text: str, *, joint: str = "") -> str:
    """The answer alone: `text` with its thinking removed, and `joint` in its place."""
    return joint.join(text[start:end] for start, end in _answer_spans(text))


def answer_start(text: str) -> int | None:
    """The offset in `text` of the answer's first visible character.

    None where there is only thinking or space.
    """
    for start, end in _answer_spans(text):
        visible = _VISIBLE.search(text, start, end)
        if visible:
            return visible.start()
    return None


class Answer(msgspec.Struct, frozen=True):
    """One answer of a model, and what the prompt says of it.

    `text` is raw and uncut; `expected_tools` are in lower case; `world` and `max_turns` are a
    task's.
    """

    text: str
    tool_invocations: list[ToolInvocation] = []
    expected_tools: list[str] = []
    tools_offered: bool = False
    tools: list[dict[str, Any]] = []
    world: dict[str, Any] | None = None
    max_turns: int | None = None

    @property
    def native_calls(self) -> list[ToolInvocation]:
        return [call for call in self.tool_invocations if call.channel == NATIVE]


class Verdict(msgspec.Struct, frozen=True):
    """The three fields of a record that a validator decides.

    `violation` is set only where `objective_pass` is false.
    """

    objective_pass: bool | None
    violation: str | None = None
    parsed_output: dict[str, Any] | None = None


def passed(parsed_output: dict[str, Any] | None) -> Verdict:
    return Verdict(True, None, parsed_output)


def failed(code: str, detail: str, parsed_output: dict[str, Any] | None) -> Verdict:
    """A failure. `code` is stable; `detail` is cut to one short line."""
    return Verdict(False, f"{code}: {_one_line(detail, _MAX_DETAIL_CHARS)}", parsed_output)


def quoted(text: str) -> str:
    return f'"{_one_line(text, _MAX_QUOTED_CHARS)}"'


def _one_line(text: str, limit: int) -> str:
    # Twice the limit leaves room for runs of white space to shrink; the rest of a long answer need
    # not be looked at.
    # A control sequence goes as a whole: without its first character the rest would be text, and
    # split what it is in.
    line = " ".join(_CONTROL_SEQUENCE.sub("", text[: 2 * limit]).split())
    line = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)
    if len(line) <= limit and len(text) <= 2 * limit:
        return line
    return line[: limit - 1] + "…"


def tool_calls_of(
    invocations: Iterable[ToolInvocation], *, native: bool | None = None
) -> list[str]:
    """The names of the valid calls, lower case, without repeats.

    With `native`, only of those on that channel (true), or off it (false).
    """
    names: dict[str, None] = {}
    for call in invocations:
        if call.valid and native in (None, call.channel == NATIVE):
            names[call.name.lower()] = None
    return list(names)


def parsed_tools(native_calls: Iterable[ToolInvocation]) -> dict[str, Any]:
    """What a verdict on native calls keeps of them."""
    return {"tools": tool_calls_of(native_calls)}


def channel_of(invocations: Sequence[ToolInvocation]) -> str:
    """How an answer's calls came, the best way first.

    One of `native`, `text:<format>`, `malformed`, `mention` and `none`.
    """
    valid_channels = [call.channel for call in invocations if call.valid]
    if NATIVE in valid_channels:
        return NATIVE
    for channel in valid_channels:
        if channel.startswith(TEXT_PREFIX):
            return channel
    if len(valid_channels) < len(invocations):
        return "malformed"
    return "mention" if valid_channels else "none"
