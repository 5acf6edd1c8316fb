"""A prompt's own tools, offered to Claude Code by an MCP server of ours, and what that server logged."""

from __future__ import annotations

import contextlib
import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import chain, count
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.child_processes.isolated import isolated_module
from clawgauge.providers.base import Call, Sink
from clawgauge.providers.claude.stream import ClaudeStream
from clawgauge.world.mcp import SERVER_NAME, LoggedCall, read_log

NAME_PREFIX = f"mcp__{SERVER_NAME}__"
# Used with a login, the CLI otherwise holds tools back behind a search of its own and shows the model a placeholder.
ENVIRONMENT = {"ENABLE_TOOL_SEARCH": "false"}
NEEDED_FLAGS = ("--mcp-config", "--allowedTools", "--strict-mcp-config")
_REPLACED = re.compile(r"[^a-zA-Z0-9_-]")


def report_answers(sink: Sink, stream: ClaudeStream, logged: Iterable[LoggedCall]) -> None:
    """Tell `sink` what every call was answered, and of any call that no line of the stream showed."""
    calls = list(logged)
    claimed = {call.id for call in calls}
    # The streamed calls that no logged one names by its id, in order: not every CLI tells the server its ids.
    unclaimed: defaultdict[str, deque[str]] = defaultdict(deque)
    for streamed, (name, fragments) in stream.calls.items():
        if streamed not in claimed:
            with contextlib.suppress(ValueError, RecursionError):  # the CLI passes no such call on
                unclaimed[_content(name, json.loads("".join(fragments) or "{}"))].append(streamed)
    for number, call in enumerate(calls):
        if call.id in stream.calls:
            index = call.id
        elif alike := unclaimed[_content(call.name, call.arguments)]:
            index = alike.popleft()
        else:
            index = call.id or f"logged {number}"
            if stream.last_said_ns is None:
                sink.note(first_token_captured=False)
            sink.tool_delta(stream.last_said_ns or stream.started_ns, index, call.name, _written(call.arguments))
        sink.tool_answer(index, call.answer)


def _content(name: str, arguments: Any) -> str:
    """What two sightings of one call have in common."""
    return f"{name} {_written(arguments or {})}"


def _written(arguments: Any) -> str:
    try:
        return json.dumps(arguments, sort_keys=True)
    except RecursionError:
        return '"nested too deeply to be written"'


class OfferedTools:
    """One call's tools, with their files in a folder of their own. `max_turns` is how often the model is asked."""

    def __init__(self, call: Call, folder: Path) -> None:
        names = [tool["function"]["name"] for tool in call.tools]
        # Each tool's name by the one it is served under. The CLI replaces characters it does not take, so that two
        # names may become one; those are numbered instead.
        served = self._served = {name: name for name in names if not _REPLACED.search(name)}
        for name in names:
            plain = _REPLACED.sub("_", name)
            if plain != name and name not in served.values():
                candidates = chain((plain,), (f"{plain}_{number}" for number in count(2)))
                served[next(candidate for candidate in candidates if candidate not in served)] = name
        self.names = {NAME_PREFIX + served: name for served, name in self._served.items()}
        self.is_task = call.world is not None
        self.max_turns = (call.max_turns or 1) if self.is_task else 1
        self._call = call
        self._folder = folder
        self._log = folder / "calls.jsonl"

    def arguments(self) -> tuple[str, ...]:
        """Write the server's files and give the flags that make the CLI start it."""
        served = {name: cli_name for cli_name, name in self._served.items()}
        functions = [tool["function"] for tool in self._call.tools]
        tools = [{"type": "function", "function": {**one, "name": served[one["name"]]}} for one in functions]
        world = None if self._call.world is None else dict(self._call.world)
        serving, config = self._folder / "serving.json", self._folder / "mcp.json"
        content = {"tools": tools, "world": world, "log_path": str(self._log)}
        serving.write_text(json.dumps(content), encoding="ascii")
        command, *args = isolated_module("clawgauge.world.mcp", str(serving))
        server = {"command": command, "args": args, "env": {}}
        config.write_text(json.dumps({"mcpServers": {SERVER_NAME: server}}), encoding="ascii")
        # `--max-turns` is in no help text, but every version takes it.
        turns = ("--max-turns", str(self.max_turns))
        return ("--mcp-config", str(config), "--allowedTools", ",".join(self.names), *turns)

    def logged_calls(self) -> list[LoggedCall]:
        """The calls that reached the server, in order and by our names. For when the CLI is gone."""
        calls = read_log(self._log)
        return [msgspec.structs.replace(call, name=self._served.get(call.name, call.name)) for call in calls]
