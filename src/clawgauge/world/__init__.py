"""A simulated server for multi-turn tasks, and the tools a model has on it.

The machine is ours, in Python; the language of the shell and its text tools are bashkit's, over our
files. Nothing runs on the host, nothing is read from it, and the same calls on the same
specification give the same answers. Whoever runs what a model wrote does so in the judging process.

    world = clawgauge.world.world.World({"files": {"/srv/a.log": "x"}})
    world.call("exec", {"command": "rm /srv/a.log"}).text     # what a model is shown
    world.machine.effects                                     # [Effect("deleted", "/srv/a.log")]
"""

import copy
import functools
import importlib.util
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clawgauge.errors import SuiteError
from clawgauge.world.effects import ToolAnswer as ToolAnswer

TOOL_NAMES = (
    "exec",
    "read",
    "write",
    "edit",
    "web_fetch",
    "message",
    "ask_user",
    "cron",
    "memory",
    "process",
)


def can_run() -> bool:
    """Whether the shell is installed; where it is not, no simulated machine can be made."""
    return importlib.util.find_spec("bashkit") is not None


@functools.cache
def engine() -> str | None:
    """The shell's name and version, such as `bashkit 0.20.1`; None where it is not installed."""
    if not can_run():
        return None
    metadata = importlib.import_module("importlib.metadata")
    return f"bashkit {metadata.version('bashkit')}"


@functools.cache
def _load_definitions() -> dict[str, dict[str, Any]]:
    path = Path(__file__).with_name("tools.toml")
    tools = tomllib.loads(path.read_text("utf-8"))
    return {name: _define_tool(name, tool) for name, tool in tools.items()}


def _define_tool(name: str, tool: dict[str, Any]) -> dict[str, Any]:
    """A tool as a request offers it."""
    properties = {}
    for argument, schema in tool["arguments"].items():
        if isinstance(schema, str):
            schema = {"type": "string", "description": schema}
        properties[argument] = schema
    required = list(properties)[: tool["n_required"]]
    parameters = {"type": "object", "properties": properties, "required": required}
    function = {"name": name, "description": tool["description"], "parameters": parameters}
    return {"type": "function", "function": function}


def tool_definitions(names: Iterable[str]) -> list[dict[str, Any]]:
    """The tools of these names, each a copy. Raises `SuiteError` for a name that is none."""
    definitions = []
    for name in names:
        if name not in TOOL_NAMES:
            raise SuiteError(
                f"no built-in tool is called '{name}'; the tools are {', '.join(TOOL_NAMES)}"
            )
        definitions.append(copy.deepcopy(_load_definitions()[name]))
    return definitions
