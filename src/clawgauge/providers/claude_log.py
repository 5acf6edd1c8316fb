"""What the tools' server logged, beside what the stream showed: each call once, with its answer.

Owns: which logged call is which streamed one. Refuses: the clock; the log is read when the CLI is gone, so nothing in
it may count as a moment of the answer.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any

from clawgauge.providers.base import Sink
from clawgauge.providers.claude_stream import ClaudeStream
from clawgauge.world.mcp import LoggedCall


def report_answers(sink: Sink, stream: ClaudeStream, logged: Iterable[LoggedCall]) -> None:
    """Tell `sink` what every call was answered, and of any call that no line of the stream showed."""
    calls = list(logged)
    unclaimed = _by_content(stream, {call.id for call in calls})
    for number, call in enumerate(calls):
        if call.id in stream.calls:
            index = call.id
        elif alike := unclaimed[_content(call.name, call.arguments)]:
            index = alike.popleft()
        else:
            index = call.id or f"logged {number}"
            if not stream.said_anything:
                sink.note(first_token_captured=False)
            sink.tool_delta(stream.last_said_ns, index, call.name, _written(call.arguments))
        sink.tool_answer(index, call.answer)


def _by_content(stream: ClaudeStream, claimed: set[str | None]) -> defaultdict[str, deque[str]]:
    """The streamed calls that no logged one names by its id, in order: not every CLI tells the server its ids."""
    found: defaultdict[str, deque[str]] = defaultdict(deque)
    for index, (name, fragments) in stream.calls.items():
        if index not in claimed:
            try:
                arguments = json.loads("".join(fragments) or "{}")
            except (ValueError, RecursionError):
                continue  # the CLI passes no such call on
            found[_content(name, arguments)].append(index)
    return found


def _content(name: str, arguments: Any) -> str:
    """What two sightings of one call have in common."""
    return f"{name} {_written(arguments or {})}"


def _written(arguments: Any) -> str:
    try:
        return json.dumps(arguments, sort_keys=True)
    except RecursionError:
        return '"nested too deeply to be written"'
