"""The tools of a prompt for a program that takes them from MCP servers: names, files and the log.

The server itself is `clawgauge.world.mcp`, which the program starts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import msgspec

from clawgauge.child_processes import isolated_module
from clawgauge.providers.base import Call
from clawgauge.world.mcp import LoggedCall, read_log

_NOT_TAKEN = re.compile(r"[^a-zA-Z0-9_-]")


class ToolServer:
    """One call's tools, with the server's files in a folder of their own."""

    names: dict[str, str]
    """Our name of each tool, by that under which it is served."""

    def __init__(self, call: Call, folder: Path) -> None:
        self._call = call
        self._folder = folder
        self._log = folder / "calls.jsonl"
        self.names = served_names([tool["function"]["name"] for tool in call.tools])

    def write_files(self) -> list[str]:
        """Write what the server reads. Returns the command that starts it."""
        served_by_name = {name: served for served, name in self.names.items()}
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
        return isolated_module("clawgauge.world.mcp", str(serving_path))

    def logged_calls(self) -> list[LoggedCall]:
        """The calls that reached the server, by our names. For when the program is gone."""
        calls = []
        for call in read_log(self._log):
            name = self.names.get(call.name, call.name)
            calls.append(msgspec.structs.replace(call, name=name))
        return calls


def served_names(names: Sequence[str]) -> dict[str, str]:
    """Each tool's name by the one that it is served under.

    Programs replace characters that they do not take, so that two names may become one; those are
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
