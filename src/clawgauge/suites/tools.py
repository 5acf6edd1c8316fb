"""The tools a prompt offers, written out or by name, and the keys that make a prompt a task."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import clawgauge.world as simulation
from clawgauge.errors import SuiteError
from clawgauge.suites.document import Place, describe_kind, refuse_unknown_keys, suggest
from clawgauge.world import TOOL_NAMES, tool_definitions
from clawgauge.world.mailbox import is_heard

TOOL_CHOICES = ("auto", "none", "required")
_FUNCTION_KEYS = ("description", "parameters", "strict")

Tool = dict[str, Any]
Toolbox = Mapping[str, Tool]
DEFAULT_MAX_TURNS = 12
MOST_TURNS = 100
VALIDATOR = "world_state"


def read_toolbox(header: Mapping[str, Any], place: Place) -> Toolbox:
    """The suite's own tools by name, each as it is sent."""
    entries = header.get("toolbox")
    place = place.at("toolbox")
    if entries is None:
        return {}
    if not isinstance(entries, dict):
        raise place.refusal(f"must be an object of tools by name, not {describe_kind(entries)}")
    return {name: _read_definition(name, entry, place.at(name)) for name, entry in entries.items()}


def read_tools(fields: Mapping[str, Any], toolbox: Toolbox, place: Place) -> list[Tool]:
    """The tools of a prompt, those named from the toolbox written out."""
    entries = fields.get("tools", [])
    place = place.at("tools")
    if not isinstance(entries, list):
        raise place.refusal(f"must be a list of tool definitions, not {describe_kind(entries)}")
    tools: list[Tool] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        here = place.at(index)
        tool = _look_up(entry, toolbox, here) if isinstance(entry, str) else entry
        name = _read_tool_name(tool, here)
        # Calls are matched without regard to case, so two names that differ in it alone are one.
        if name.lower() in seen:
            where = here if isinstance(entry, str) else here.at("function").at("name")
            raise where.refusal(f"{name!r} is offered twice; keep one of them")
        seen.add(name.lower())
        tools.append(tool)
    return tools


def read_tool_choice(fields: Mapping[str, Any], tools: list[Tool], place: Place) -> Any:
    """What the model is told about using the tools, checked against those on offer."""
    choice = fields.get("tool_choice")
    place = place.at("tool_choice")
    if choice is None:
        return None
    if not tools:
        raise place.refusal("given without 'tools'; offer some, or leave it out")
    if choice in TOOL_CHOICES:
        return choice
    offered = [tool["function"]["name"] for tool in tools]
    match choice:
        case {"type": "function", "function": {"name": str() as name}} if name in offered:
            return choice
        case {"type": "function", "function": {"name": name}}:
            raise place.refusal(f"names {name!r}, which is not offered; the tools are {', '.join(offered)}")
    raise place.refusal('must be "auto", "none", "required" or {"type": "function", "function": {"name": "…"}}')


def _read_definition(name: str, entry: object, place: Place) -> Tool:
    if not name.strip():
        raise place.refusal("a tool's name must not be empty")
    if not isinstance(entry, dict):
        raise place.refusal(f"must be an object with a description and parameters, not {describe_kind(entry)}")
    refuse_unknown_keys(entry, _FUNCTION_KEYS, place)
    _check_function(entry, place)
    return {"type": "function", "function": {"name": name, **entry}}


def _look_up(name: str, toolbox: Toolbox, place: Place) -> Tool:
    if name not in toolbox:
        found = f"has no {name!r}{suggest(name, toolbox)}" if toolbox else f"is missing, so {name!r} cannot be named"
        raise place.refusal(
            f'must be an object {{"type": "function", "function": {{…}}}} or the name of a tool in the suite\'s '
            f"'toolbox', which {found}"
        )
    return toolbox[name]


def _read_tool_name(tool: object, place: Place) -> str:
    if not isinstance(tool, dict):
        raise place.refusal(f'must be an object {{"type": "function", "function": {{…}}}}, not {describe_kind(tool)}')
    if tool.get("type") != "function":
        raise place.at("type").refusal('must be "function"')
    function = tool.get("function")
    place = place.at("function")
    if not isinstance(function, dict):
        raise place.refusal(f"must be an object with a name and parameters, not {describe_kind(function)}")
    name = function.get("name")
    if not isinstance(name, str) or not name.strip():
        raise place.at("name").refusal("must be the name of the tool, as text that is not empty")
    _check_function(function, place)
    return name


def _check_function(function: Mapping[str, Any], place: Place) -> None:
    description, parameters = function.get("description", ""), function.get("parameters", {})
    if not isinstance(description, str):
        raise place.at("description").refusal(f"must be text, not {describe_kind(description)}")
    if not isinstance(parameters, dict):
        raise place.at("parameters").refusal(f"must be a JSON Schema object, not {describe_kind(parameters)}")


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
    return _world_toolbox()


@functools.cache
def _world_toolbox() -> Toolbox:
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
    _check_replies(task.world, validator, place)
    for index, tool in enumerate(tools):
        name = tool["function"]["name"]
        if name not in TOOL_NAMES:
            raise (
                place.at("tools")
                .at(index)
                .refusal(f"{name!r} is not a tool of the simulated world, whose tools are {', '.join(TOOL_NAMES)}")
            )


def _check_replies(world: Mapping[str, Any], validator: Mapping[str, Any], place: Place) -> None:
    """Refuse a condition that waits for words nobody will say."""
    replies = world.get("replies", [])
    for index, condition in enumerate(validator.get("forbid", [])):
        until = condition.get("until")
        if until is not None and not any(is_heard(until, reply["from"], reply["text"]) for reply in replies):
            raise (
                place.at("validator")
                .at("forbid")
                .at(index)
                .at("until")
                .refusal(f"{until!r} fits no reply of the world; write it as 'name: text', with * for any characters")
            )
