"""What a validator is given and what it says: the text without its thinking, well formed, and the calls that count."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from clawgauge.characters import CONTROL_SEQUENCES
from clawgauge.records import ToolInvocation

_TAG = re.compile(r"<(/?)think>", re.IGNORECASE)
_VISIBLE = re.compile(r"\S")
_CONTROL_SEQUENCE = re.compile(CONTROL_SEQUENCES)
_MAX_DETAIL_CHARS, _MAX_QUOTED_CHARS = 200, 60
NATIVE = "native"
TEXT_PREFIX = "text:"


def _answer_spans(text: str) -> list[tuple[int, int]]:
    if "<" not in text:
        return [(0, len(text))]
    spans: list[tuple[int, int]] = []
    start, inside = 0, False
    for tag in _TAG.finditer(text):
        if tag[1]:
            if not inside:  # it closes thinking that was opened before the text began
                spans.clear()
            start, inside = tag.end(), False
        elif not inside:
            spans.append((start, tag.start()))
            inside = True
    return spans if inside else [*spans, (start, len(text))]


def split_thinking(text: str, *, joint: str = "") -> str:
    """The answer alone: `text` with its thinking removed, and `joint` in its place."""
    return joint.join(text[start:end] for start, end in _answer_spans(text))


def answer_start(text: str) -> int | None:
    """The offset in `text` of the answer's first visible character, or None where there is only thinking or space."""
    found = (_VISIBLE.search(text, start, end) for start, end in _answer_spans(text))
    return next((visible.start() for visible in found if visible), None)


class Answer(msgspec.Struct, frozen=True):
    """One model answer: `text` raw and uncut, `expected_tools` in lower case; `world` and `max_turns` are a task's."""

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
    """The three fields of a record a validator decides. `violation` is set only where `objective_pass` is false."""

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
    # Twice the limit leaves room for runs of white space to shrink; the rest of a long answer need not be looked at.
    # A control sequence goes as a whole: without its first character the rest would be text, and split what it is in.
    line = " ".join(_CONTROL_SEQUENCE.sub("", text[: 2 * limit]).split())
    line = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)
    return line if len(line) <= limit and len(text) <= 2 * limit else line[: limit - 1] + "…"


def tool_calls_of(invocations: Iterable[ToolInvocation], *, native: bool | None = None) -> list[str]:
    """The names of the valid calls, lower case, without repeats; with `native`, of those on that channel or off it."""
    counted = (call for call in invocations if call.valid and native in (None, call.channel == NATIVE))
    return list(dict.fromkeys(call.name.lower() for call in counted))


def channel_of(invocations: Sequence[ToolInvocation]) -> str:
    """How an answer's calls came, the best way first: `native`, `text:<format>`, `malformed`, `mention`, `none`."""
    valid = [call.channel for call in invocations if call.valid]
    written = [channel for channel in valid if channel.startswith(TEXT_PREFIX)]
    if NATIVE in valid or written:
        return NATIVE if NATIVE in valid else written[0]
    return "malformed" if len(valid) < len(invocations) else "mention" if valid else "none"
