"""The tools a prompt offers, written out or by name, and the keys that make a prompt a task."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from clawgauge.checks.spec import (
    ByType,
    Fields,
    Named,
    Shape,
    Value,
    an_object,
    any_text,
    anything,
    choice,
    some_text,
    suggest,
    true_or_false,
)
from clawgauge.suites.document import Place
from clawgauge.world import TOOL_NAMES, tool_definitions
from clawgauge.world.mailbox import is_heard

Tool = dict[str, Any]
Toolbox = Mapping[str, Tool]
DEFAULT_MAX_TURNS = 12
MOST_TURNS = 100
VALIDATOR = "world_state"


_FUNCTION: dict[str, Shape] = {"description": any_text, "parameters": an_object, "strict": anything}
_TOOL = Fields(
    {"type": choice("function"), "function": Fields({"name": some_text}, _FUNCTION, closed=False)}, closed=False
)
_format_name = Value(
    "up to 64 letters, digits, underscores and hyphens", (str,), pattern=re.compile(r"\A[A-Za-z0-9_-]{1,64}\Z")
)
_SCHEMA = Fields({"name": _format_name, "schema": an_object}, {"description": any_text, "strict": true_or_false})
RESPONSE_FORMAT = ByType({"json_schema": Fields({"json_schema": _SCHEMA}), "json_object": Fields({})}, "a format")
TOOLBOX = Named(Fields({}, _FUNCTION), "tools by name")


def read_tools(entries: list[Any], toolbox: Toolbox, place: Place) -> list[Tool]:
    """The tools of a prompt, those named from the toolbox written out."""
    tools: list[Tool] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        here = place.at(index)
        if isinstance(entry, str) and entry not in toolbox:
            found = (
                f"has no {entry!r}{suggest(entry, toolbox)}" if toolbox else f"is missing, so {entry!r} cannot be named"
            )
            raise here.refusal(f"must be an object, or the name of a tool in the suite's 'toolbox', which {found}")
        tool = toolbox[entry] if isinstance(entry, str) else entry
        here.check(_TOOL, tool)
        name = tool["function"]["name"]
        # Calls are matched without regard to case, so two names that differ in it alone are one.
        if name.lower() in seen:
            raise here.refusal(f"{name!r} is offered twice; keep one of them")
        seen.add(name.lower())
        tools.append(tool)
    return tools


def check_tool_choice(wanted: Any, tools: list[Tool], place: Place) -> None:
    """Refuse what the model is told about using the tools where it does not fit those on offer."""
    if not tools:
        raise place.refusal("given without 'tools'; offer some, or leave it out")
    offered = [tool["function"]["name"] for tool in tools]
    match wanted:
        case "auto" | "none" | "required":
            return
        case {"type": "function", "function": {"name": name}}:
            if name not in offered:
                raise place.refusal(f"names {name!r}, which is not offered; the tools are {', '.join(offered)}")
        case _:
            raise place.refusal('must be "auto", "none", "required" or {"type": "function", "function": {"name": "…"}}')


@functools.cache
def world_toolbox() -> Toolbox:
    """The tools that a task may name: those its world answers."""
    return {tool["function"]["name"]: tool for tool in tool_definitions(TOOL_NAMES)}


def expected_tools_of(validator: Mapping[str, Any]) -> list[str]:
    """The tools that a checked validator expects to be called, as it writes them."""
    names = [*validator.get("expected_tools", []), *(call["name"] for call in validator.get("expected_calls", []))]
    for condition in validator.get("expect", []) if validator["type"] == VALIDATOR else []:
        called = condition.get("called", [])
        names += called if isinstance(called, list) else [called]
    return names


def check_task(world: Any, validator: Mapping[str, Any], tools: list[Tool], place: Place) -> None:
    """Refuse a task without tools or with foreign ones, and one that waits for words nobody will say."""
    if not tools:
        raise place.at("tools").refusal(f"missing; a task offers some of {', '.join(TOOL_NAMES)}")
    replies = world.get("replies", [])
    for index, condition in enumerate(validator.get("forbid", [])):
        until = condition.get("until")
        if until is not None and not any(is_heard(until, reply["from"], reply["text"]) for reply in replies):
            reason = f"{until!r} fits no reply of the world; write it as 'name: text', with * for any characters"
            raise place.at("validator", "forbid", index, "until").refusal(reason)
    for index, tool in enumerate(tools):
        name = tool["function"]["name"]
        if name not in TOOL_NAMES:
            reason = f"{name!r} is not a tool of the simulated world, whose tools are {', '.join(TOOL_NAMES)}"
            raise place.at("tools", index).refusal(reason)
