"""A simulated server for multi-turn tasks, and the tools a model has on it.

Owns: the state (files, processes, disks, services, web pages, messages, jobs, notes, a clock), the tools that look at
it and change it, and the faults a task injects. Pure and deterministic: nothing runs on the host, nothing is read from
it, and the same calls on the same specification always give the same answers. Refuses: judging what a model did.

`World` and `check_world` are loaded when they are first asked for: a run without tasks does not pay for fifty modules.
"""

import importlib
from typing import TYPE_CHECKING, Any

from clawgauge.world.answer import ToolAnswer
from clawgauge.world.definitions import TOOL_NAMES, tool_definitions

if TYPE_CHECKING:
    from clawgauge.world.world import World, check_world

__all__ = ["TOOL_NAMES", "ToolAnswer", "World", "check_world", "tool_definitions"]


def __getattr__(name: str) -> Any:
    if name in ("World", "check_world"):
        return getattr(importlib.import_module("clawgauge.world.world"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
