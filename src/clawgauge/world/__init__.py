"""A simulated server for multi-turn tasks, and the tools a model has on it.

Files, processes, disks, services, web pages, messages, jobs, notes and a clock are ours, in Python; the language of the
shell and its text tools are bashkit's, over our files. Nothing runs on the host, nothing is read from it, and the same
calls on the same specification give the same answers.

    world = World({"files": {"/srv/a.log": "x"}})
    world.call("exec", {"command": "rm /srv/a.log"}).text     # what a model is shown
    world.machine.effects                                     # [Effect("deleted", "/srv/a.log")]

`World` and `check_world` are loaded when they are first asked for, and the shell with the first world: a run without
tasks pays for neither, and a suite is checked without the shell. Whoever runs what a model wrote does so in the judging
process.
"""

import copy
import functools
import importlib.util
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clawgauge.errors import SuiteError
from clawgauge.world.effects import ToolAnswer as ToolAnswer

if TYPE_CHECKING:
    from clawgauge.world.machine import check_world as check_world
    from clawgauge.world.world import World as World

TOOL_NAMES = (
    "exec", "read", "write", "edit", "web_fetch", "message", "ask_user", "cron", "memory", "process",
)  # fmt: skip


def can_run() -> bool:
    """Whether the shell is installed; where it is not, no world can be made."""
    return importlib.util.find_spec("bashkit") is not None


@functools.cache
def engine() -> str | None:
    """The shell's name and version, such as `bashkit 0.20.1`; None where it is not installed."""
    metadata = importlib.import_module("importlib.metadata")
    return f"bashkit {metadata.version('bashkit')}" if can_run() else None


@functools.cache
def _load() -> dict[str, dict[str, Any]]:
    definitions = {}
    for name, tool in tomllib.loads(Path(__file__).with_name("tools.toml").read_text("utf-8")).items():
        properties = {
            argument: {"type": "string", "description": given} if isinstance(given, str) else given
            for argument, given in tool["arguments"].items()
        }
        required = list(properties)[: tool["n_required"]]
        parameters = {"type": "object", "properties": properties, "required": required}
        function = {"name": name, "description": tool["description"], "parameters": parameters}
        definitions[name] = {"type": "function", "function": function}
    return definitions


def tool_definitions(names: Iterable[str]) -> list[dict[str, Any]]:
    """The definitions of the tools called `names`, in that order, in the shape of chat completions."""
    definitions = []
    for name in names:
        if name not in TOOL_NAMES:
            raise SuiteError(f"no built-in tool is called '{name}'; the tools are {', '.join(TOOL_NAMES)}")
        definitions.append(copy.deepcopy(_load()[name]))
    return definitions


def __getattr__(name: str) -> Any:
    module = {"World": "clawgauge.world.world", "check_world": "clawgauge.world.machine"}.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)
