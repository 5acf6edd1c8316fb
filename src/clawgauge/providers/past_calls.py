"""The tool calls of a task's earlier turns, as every protocol sends them back: an id, a name, arguments as text.

Owns: the ids, and the shape in which a call that was not well formed can be sent at all. Refuses: any one protocol's
message; `chat_messages` and `responses_input` make those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from clawgauge.providers.base import Call, Turn
from clawgauge.records import ToolInvocation

_UNSENDABLE = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS = 64


@dataclass(frozen=True, slots=True)
class PastCall:
    """One call and its answer."""

    id: str
    name: str
    arguments: str
    answer: str


def past_turns(call: Call) -> Iterator[tuple[Turn, list[PastCall]]]:
    """Every earlier turn with its calls.

    The ids are ours: servers differ in what they send, some send none, and one family takes nothing but nine letters
    and digits. They are counted from the start of the task, so a call keeps its id in every later request.
    """
    ids = (f"call{number:05d}" for number in count(1))
    names = {_offered_name(tool).lower(): _offered_name(tool) for tool in call.tools}
    for turn in call.history:
        calls = [
            PastCall(next(ids), _sendable_name(made.name, names), _written(made), answer)
            for made, answer in zip(turn.calls, turn.answers, strict=True)
        ]
        yield turn, calls


def _offered_name(tool: dict[str, object]) -> str:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else ""


def _sendable_name(name: str, offered: dict[str, str]) -> str:
    """As the tool was offered; a name the model made up is sent as servers accept names, or they refuse the request."""
    return offered.get(name) or _UNSENDABLE.sub("_", name)[:_NAME_CHARS] or "unnamed"


def _written(made: ToolInvocation) -> str:
    """The arguments as text. Malformed ones go back as none: servers that parse them again would refuse the request,
    and the answer beside them tells the model what was wrong.
    """
    if not isinstance(made.arguments, dict):
        return "{}"
    return json.dumps(made.arguments, ensure_ascii=False)
