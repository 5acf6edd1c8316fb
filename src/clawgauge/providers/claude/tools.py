"""The tools of a prompt, offered to Claude Code by an MCP server of ours, and their answers."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clawgauge.providers.base import Call, Sink
from clawgauge.providers.claude.stream import ClaudeStream
from clawgauge.providers.tool_server import ToolServer
from clawgauge.world.mcp import SERVER_NAME, LoggedCall

NAME_PREFIX = f"mcp__{SERVER_NAME}__"
# Used with a login, the CLI otherwise holds tools back behind a search of its own and shows the
# model a placeholder.
TOOL_ENVIRONMENT = {"ENABLE_TOOL_SEARCH": "false"}
NEEDED_FLAGS = ("--mcp-config", "--allowedTools", "--strict-mcp-config")


class OfferedTools:
    """One call's tools, with their files in a folder of their own."""

    names: dict[str, str]
    """Our name of each tool, by the CLI's."""
    is_task: bool
    max_turns: int
    """How often the model is asked."""

    def __init__(self, call: Call, folder: Path) -> None:
        self._folder = folder
        self._server = ToolServer(call, folder)
        self.names = {}
        for served, name in self._server.names.items():
            self.names[NAME_PREFIX + served] = name
        self.is_task = call.world is not None
        self.max_turns = 1
        if self.is_task and call.max_turns:
            self.max_turns = call.max_turns

    def arguments(self) -> tuple[str, ...]:
        """Write the server's files and give the flags that make the CLI start it."""
        command, *args = self._server.write_files()
        server = {"command": command, "args": args, "env": {}}
        config_path = self._folder / "mcp.json"
        config_path.write_text(json.dumps({"mcpServers": {SERVER_NAME: server}}), encoding="ascii")
        return (
            "--mcp-config",
            str(config_path),
            "--allowedTools",
            ",".join(self.names),
            # It is in no help text, but every version takes it.
            "--max-turns",
            str(self.max_turns),
        )

    def logged_calls(self) -> list[LoggedCall]:
        """The calls that reached the server, in order, by our names. For when the CLI is gone."""
        return self._server.logged_calls()


def report_answers(sink: Sink, stream: ClaudeStream, logged_calls: Sequence[LoggedCall]) -> None:
    """Report what every call was answered, and any call that no line of the stream showed."""
    unclaimed = _unclaimed_calls(stream, logged_calls)
    for number, call in enumerate(logged_calls):
        same_calls = unclaimed[call.name, _canonical(call.arguments or {})]
        if call.id is not None and call.id in stream.calls:
            index = call.id
        elif same_calls:
            index = same_calls.popleft()
        else:
            index = call.id or f"logged {number}"
            if stream.last_output_ns is None:
                sink.note(first_token_captured=False)
            at_ns = stream.last_output_ns or stream.started_ns
            sink.tool_delta(at_ns, index, call.name, _canonical(call.arguments))
        sink.tool_answer(index, call.answer)


def _unclaimed_calls(
    stream: ClaudeStream, logged_calls: Sequence[LoggedCall]
) -> defaultdict[tuple[str, str], deque[str]]:
    """The ids of the streamed calls that no logged one names, in order, by name and arguments.

    Not every CLI tells the server its ids.
    """
    logged_ids = {call.id for call in logged_calls}
    unclaimed: defaultdict[tuple[str, str], deque[str]] = defaultdict(deque)
    for call_id, call in stream.calls.items():
        if call_id in logged_ids:
            continue
        # A call that cannot be read is one that the CLI did not pass on.
        with contextlib.suppress(ValueError, RecursionError):
            arguments = json.loads("".join(call.arguments) or "{}") or {}
            unclaimed[call.name, _canonical(arguments)].append(call_id)
    return unclaimed


def _canonical(arguments: Any) -> str:
    """Arguments as a text that is the same for the same arguments."""
    try:
        return json.dumps(arguments, sort_keys=True)
    except RecursionError:
        return '"nested too deeply to be written"'
