"""The tools as a model is told of them, from `tools.toml`: names, descriptions, JSON Schema parameters."""

from __future__ import annotations

import copy
import functools
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clawgauge.errors import SuiteError

TOOL_NAMES = (
    "exec", "read", "write", "edit", "web_fetch", "message", "ask_user", "cron", "memory", "process",
)  # fmt: skip


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
