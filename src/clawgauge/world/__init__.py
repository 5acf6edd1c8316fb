"""A simulated server for multi-turn tasks, and the tools a model has on it.

Files, processes, disks, services, web pages, messages, jobs, notes and a clock are ours, in Python; the language of the
shell and its text tools are bashkit's, over our files. Nothing runs on the host, nothing is read from it, and the same
calls on the same specification give the same answers.

    world = World({"files": {"/srv/a.log": "x"}})
    world.call("exec", {"command": "rm /srv/a.log"}).text     # what a model is shown
    world.machine.effects.effects                             # [Effect("deleted", "/srv/a.log")]

A world is made from a task's `world`; a new one costs about a millisecond, a line in it another. `World.call` answers
as a model is answered; `World.shell.run(line, workdir)` gives the text and the exit code alone. Both leave what they
did in `World.machine`: its nouns, and `effects` in order (`created`, `changed`, `deleted`, `read`, `killed`, `service`,
`fetched`, `sent`, …), on which conditions are judged. Whoever runs what a model wrote does so in the judging process.

`World` and `check_world` are loaded when they are first asked for, and the shell with the first world: a run without
tasks pays for neither, and a suite is checked without the shell.
"""

import functools
import importlib.util
from typing import TYPE_CHECKING, Any

from clawgauge.world.definitions import TOOL_NAMES, tool_definitions
from clawgauge.world.refusals import ToolAnswer

if TYPE_CHECKING:
    from clawgauge.world.machine import check_world
    from clawgauge.world.world import World

__all__ = ["TOOL_NAMES", "ToolAnswer", "World", "can_run", "check_world", "engine", "tool_definitions"]

_LATE = {"World": "clawgauge.world.world", "check_world": "clawgauge.world.machine"}


def can_run() -> bool:
    """Whether the shell is installed; where it is not, no world can be made."""
    return importlib.util.find_spec("bashkit") is not None


@functools.cache
def engine() -> str | None:
    """The shell's name and version, such as `bashkit 0.20.1`; None where it is not installed."""
    metadata = importlib.import_module("importlib.metadata")
    try:
        return f"bashkit {metadata.version('bashkit')}"
    except metadata.PackageNotFoundError:
        return None


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
