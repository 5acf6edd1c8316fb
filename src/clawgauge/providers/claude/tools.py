"""The tools of a prompt, offered to Claude Code by an MCP server of ours, and their answers."""

from __future__ import annotations

import contextlib
import json
import re
from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.child_processes import isolated_module
from clawgauge.providers.base import Call, Sink
from clawgauge.providers.claude.stream import ClaudeStream
from clawgauge.world.mcp import SERVER_NAME, LoggedCall, read_log

NAME_PREFIX = f"mcp__{SERVER_NAME}__"
# Used with a login, the CLI otherwise holds tools back behind a search of its own and shows the
# model a placeholder.
TOOL_ENVIRONMENT = {"ENABLE_TOOL_SEARCH": "false"}
NEEDED_FLAGS = ("--mcp-config", "--allowedTools", "--strict-mcp-config")
_NOT_TAKEN = re.compile(r"[^a-zA-Z0-9_-]")


class OfferedTools:
    """One call's tools, with their files in a folder of their own."""

    names: dict[str, str]
    """Our name of each tool, by the CLI's."""
    is_task: bool
    max_turns: int
    """How often the model is asked."""

    def __init__(self, call: Call, folder: Path) -> None:
        self._call = call
        self._folder = folder
        self._log = folder / "calls.jsonl"
        # Our name of each tool, by that under which it is served.
        self._names_by_served = _served_names([tool["function"]["name"] for tool in call.tools])
        self.names = {}
        for served, name in self._names_by_served.items():
            self.names[NAME_PREFIX + served] = name
        self.is_task = call.world is not None
        self.max_turns = 1
        if self.is_task and call.max_turns:
            self.max_turns = call.max_turns

    def arguments(self) -> tuple[str, ...]:
        """Write the server's files and give the flags that make the CLI start it."""
        served_by_name = {name: served for served, name in self._names_by_served.items()}
        tools = []
        for tool in self._call.tools:
            function = tool["function"]
            served_function = {**function, "name": served_by_name[function["name"]]}
            tools.append({"type": "function", "function": served_function})
        serving = {
            "tools": tools,
            "world": None if self._call.world is None else dict(self._call.world),
            "log_path": str(self._log),
        }
        serving_path = self._folder / "serving.json"
        serving_path.write_text(json.dumps(serving), encoding="ascii")

        command, *args = isolated_module("clawgauge.world.mcp", str(serving_path))
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
        calls = []
        for call in read_log(self._log):
            name = self._names_by_served.get(call.name, call.name)
            calls.append(msgspec.structs.replace(call, name=name))
        return calls


def _served_names(names: Sequence[str]) -> dict[str, str]:
    """Each tool's name by the one that it is served under.

    The CLI replaces characters that it does not take, so that two names may become one; those are
    numbered instead.
    """
    names_by_served = {}
    for name in names:
        if not _NOT_TAKEN.search(name):
            names_by_served[name] = name
    for name in names:
        plain = _NOT_TAKEN.sub("_", name)
        if plain == name or name in names_by_served.values():
            continue
        served = plain
        numbers = count(2)
        while served in names_by_served:
            served = f"{plain}_{next(numbers)}"
        names_by_served[served] = name
    return names_by_served


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
