"""A simulated server for multi-turn tasks, and the tools a model has on it.

Files, processes, disks, services, web pages, messages, jobs, notes and a clock are ours, in Python; the language of the
shell and its text tools are bashkit's, over our files. Nothing runs on the host, nothing is read from it, and the same
calls on the same specification give the same answers.

    world = World({"files": {"/srv/a.log": "x"}})
    world.call("exec", {"command": "rm /srv/a.log"}).text     # what a model is shown
    world.machine.effects.effects                             # [Effect("deleted", "/srv/a.log")]

`World` and `check_world` are loaded when they are first asked for, and the shell with the first world: a run without
tasks pays for neither, and a suite is checked without the shell. Whoever runs what a model wrote does so in the judging
process.
"""

import functools
import importlib.util
from typing import TYPE_CHECKING, Any

from clawgauge.world.definitions import TOOL_NAMES as TOOL_NAMES
from clawgauge.world.definitions import tool_definitions as tool_definitions
from clawgauge.world.refusals import ToolAnswer as ToolAnswer

if TYPE_CHECKING:
    from clawgauge.world.machine import check_world as check_world
    from clawgauge.world.world import World as World


def can_run() -> bool:
    """Whether the shell is installed; where it is not, no world can be made."""
    return importlib.util.find_spec("bashkit") is not None


@functools.cache
def engine() -> str | None:
    """The shell's name and version, such as `bashkit 0.20.1`; None where it is not installed."""
    metadata = importlib.import_module("importlib.metadata")
    return f"bashkit {metadata.version('bashkit')}" if can_run() else None


def __getattr__(name: str) -> Any:
    module = {"World": "clawgauge.world.world", "check_world": "clawgauge.world.machine"}.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)
