"""What a validator is given and what it says.

Owns: the answer under judgement, the verdict, and the one way a violation is worded. Refuses: judging.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clawgauge.records import ToolInvocation

_MAX_DETAIL_CHARS = 200
_MAX_QUOTED_CHARS = 60


class Answer(msgspec.Struct, frozen=True):
    """One model answer. `text` is raw and uncut; `expected_tools` is what the prompt expects, lower case.

    `tools` are the definitions that were offered, as they were sent. `world` and `max_turns` are a task's.
    """

    text: str
    tool_invocations: list[ToolInvocation] = []
    expected_tools: list[str] = []
    tools_offered: bool = False
    tools: list[dict[str, Any]] = []
    world: dict[str, Any] | None = None
    max_turns: int | None = None


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
    """`text` for use in a detail: short, on one line, in double quotes."""
    return f'"{_one_line(text, _MAX_QUOTED_CHARS)}"'


def _one_line(text: str, limit: int) -> str:
    # Twice the limit leaves room for runs of white space to shrink; the rest of a long answer need not be looked at.
    line = " ".join(text[: 2 * limit].split())
    line = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)
    return line if len(line) <= limit and len(text) <= 2 * limit else line[: limit - 1] + "…"
