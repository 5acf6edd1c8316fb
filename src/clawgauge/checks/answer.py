"""What a validator is given and what it says.

Owns: the answer under judgement, the verdict, and the one way a violation is worded. Refuses: judging.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from clawgauge.records import ToolInvocation

_MAX_DETAIL_CHARS = 200
_MAX_QUOTED_CHARS = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """One model answer. `text` is raw and uncut; `expected_tools` is what the prompt expects, lower case."""

    text: str
    tool_invocations: list[ToolInvocation] = field(default_factory=list)
    expected_tools: list[str] = field(default_factory=list)
    tools_offered: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
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
