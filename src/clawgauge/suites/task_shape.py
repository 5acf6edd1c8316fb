"""The keys that make a prompt a task: `world`, `max_turns`, and tools by name from the built-in set.

Owns: what a task must have, and that a prompt which is none has none of it. Refuses: a world that cannot be built, and
a validator that looks at a world where there is none. Leaves to `clawgauge.world` what a world may say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import clawgauge.world as simulation
from clawgauge.errors import SuiteError
from clawgauge.suites.place import Place, describe_kind
from clawgauge.suites.tool_shape import Toolbox
from clawgauge.world import TOOL_NAMES, tool_definitions

DEFAULT_MAX_TURNS = 12
MOST_TURNS = 100
VALIDATOR = "world_state"


@dataclass(frozen=True, slots=True)
class Task:
    """The world a prompt's tools act on and the turns the model may take; both None where the prompt is no task."""

    world: dict[str, Any] | None = None
    max_turns: int | None = None


def read_task(fields: Mapping[str, Any], place: Place) -> Task:
    """`world` and `max_turns` of a prompt."""
    world = fields.get("world")
    if world is None:
        if "max_turns" in fields:
            raise place.at("max_turns").refusal("given without 'world'; only a task takes turns")
        return Task()
    if not isinstance(world, dict):
        raise place.at("world").refusal(f"must be an object, not {describe_kind(world)}")
    try:
        simulation.check_world(world)
    except SuiteError as error:
        raise place.refusal(f"world: {error}") from None
    return Task(world, _read_max_turns(fields, place.at("max_turns")))


def _read_max_turns(fields: Mapping[str, Any], place: Place) -> int:
    turns = fields.get("max_turns", DEFAULT_MAX_TURNS)
    if isinstance(turns, bool) or not isinstance(turns, int):
        raise place.refusal(f"must be a whole number, not {describe_kind(turns)}")
    # One turn is one message of the model: with a single one it could not answer after a call.
    if not 2 <= turns <= MOST_TURNS:
        raise place.refusal(f"must be from 2 to {MOST_TURNS}, not {turns}")
    return turns


def task_toolbox(task: Task, suite_toolbox: Toolbox) -> Toolbox:
    """The tools a prompt may name: for a task those the world answers, else the suite's own."""
    if task.world is None:
        return suite_toolbox
    return {tool["function"]["name"]: tool for tool in tool_definitions(TOOL_NAMES)}


def expected_tools_of(validator: Mapping[str, Any]) -> list[str]:
    """The tools that a checked validator expects a task to call."""
    if validator["type"] != VALIDATOR:
        return []
    expected: list[str] = []
    for condition in validator.get("expect", []):
        called = condition.get("called", [])
        expected += called if isinstance(called, list) else [called]
    return expected


def check_task(task: Task, validator: Mapping[str, Any], tools: list[dict[str, Any]], place: Place) -> None:
    """Refuse a task without tools or with foreign ones, and a `world_state` without a world."""
    if task.world is None:
        if validator["type"] == VALIDATOR:
            raise place.at("validator").refusal(f"type '{VALIDATOR}' looks at a world; give the prompt one in 'world'")
        return
    if not tools:
        raise place.at("tools").refusal(f"missing; a task offers some of {', '.join(TOOL_NAMES)}")
    for index, tool in enumerate(tools):
        name = tool["function"]["name"]
        if name not in TOOL_NAMES:
            raise (
                place.at("tools")
                .at(index)
                .refusal(f"{name!r} is not a tool of the simulated world, whose tools are {', '.join(TOOL_NAMES)}")
            )
