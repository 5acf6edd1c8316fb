"""The calls a task made, looked through.

Owns: which calls fit a tool's name and a pattern on their arguments. Refuses: what the calls did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from clawgauge.checks.patterns import compile_pattern
from clawgauge.checks.well_formed import well_formed
from clawgauge.world import World


def calls_of(world: World, tools: str | list[str], pattern: str | None = None) -> list[Mapping[str, Any]]:
    """The arguments of every call of one of `tools` in which `pattern` is found; they are looked at as JSON."""
    names = tools if isinstance(tools, list) else [tools]
    made = [call.arguments for call in world.calls if call.name in names and call.arguments is not None]
    if pattern is None:
        return made
    expression = compile_pattern(pattern)
    return [arguments for arguments in made if expression.search(_shown(arguments)) is not None]


def _shown(arguments: Mapping[str, Any]) -> str:
    return well_formed(json.dumps(arguments, ensure_ascii=False, sort_keys=True, default=str))
