"""One entry of a suite file → its prompts, in all their variants, with their tools, or a refusal that names the key."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from clawgauge.checks import check_offer, check_spec
from clawgauge.checks.spec import (
    ByType,
    Fields,
    ListOf,
    Named,
    Shape,
    Value,
    a_world,
    an_object,
    any_text,
    anything,
    at,
    check,
    choice,
    is_number,
    kind_of,
    refuse,
    some_text,
    suggest,
    true_or_false,
    whole_number,
)
from clawgauge.errors import SuiteError
from clawgauge.records import Prompt
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
_format_name = Value("up to 64 letters, digits, underscores and hyphens", (str,), pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")
_SCHEMA = Fields({"name": _format_name, "schema": an_object}, {"description": any_text, "strict": true_or_false})
RESPONSE_FORMAT = ByType({"json_schema": Fields({"json_schema": _SCHEMA}), "json_object": Fields({})}, "a format")
TOOLBOX = Named(Fields({}, _FUNCTION), "tools by name")
FILLED_KEYS = ("prompt", "system", "validator")
NUMBER_MARK = "#"
_TEXTS = ("prompt", "system")
# `\p{Greek}` and `\x{FF}` belong to patterns.
_FIELD = re.compile(r"(?<!\\[pPx])\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def unfold(entry: object, place: Place) -> Iterator[tuple[Any, str | None]]:
    """The forms of one entry of a suite, each with the id it is a variant of; itself, where it has no variants."""
    variants = entry.get("variants") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or variants is None:
        yield entry, None
        return
    own_id = entry.get("id")
    if isinstance(own_id, str) and NUMBER_MARK in own_id:
        raise place.at("id").refusal(
            f"{own_id!r} holds a '{NUMBER_MARK}', which numbers the forms of a prompt with variants; take it out"
        )
    place.at("variants").check(_VARIANTS, variants)
    bare = {key: value for key, value in entry.items() if key != "variants"}
    for number, values in enumerate(variants, start=1):
        form = _fill(bare, values, place.at("variants", number - 1))
        if number > 1 and isinstance(own_id, str):
            form["id"] = f"{own_id}{NUMBER_MARK}{number}"
        yield form, own_id if isinstance(own_id, str) else None


def _values(value: Any, place: str) -> None:
    if not value or not isinstance(value, dict):
        found = "is empty" if value == {} else f"is {kind_of(value)}"
        raise SuiteError(
            f'key \'{place}\' {found}; give an object with a value for each field, such as {{"city": "Paris"}}'
        )
    for name, item in value.items():
        if not _NAME.fullmatch(name):
            raise SuiteError(f"key '{at(place, name)}' is no name for a field; use letters, digits and underscores")
        if item is None:
            raise SuiteError(f"key '{at(place, name)}' has no value; give one")


_VARIANTS = ListOf(_values, "objects, one for each form")


def _fill(entry: Mapping[str, Any], values: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """`entry` with the values of one variant in the place of its fields."""
    used: set[str] = set()

    def value_of(name: str) -> Any:
        if name not in values:
            raise place.refusal(f"has no value for the field {{{name}}}; give one")
        used.add(name)
        return values[name]

    def text_of(field: re.Match[str]) -> str:
        value = value_of(field[1])
        if not isinstance(value, str) and not is_number(value):
            raise place.at(field[1]).refusal(f"stands in a text and must be text or a number, not {kind_of(value)}")
        return str(value)

    def fill(value: Any, *, is_text: bool = False) -> Any:
        if isinstance(value, str):
            whole = None if is_text else _FIELD.fullmatch(value)
            return value_of(whole[1]) if whole else _FIELD.sub(text_of, value)
        if isinstance(value, list):
            return [fill(item) for item in value]
        return {key: fill(item) for key, item in value.items()} if isinstance(value, dict) else value

    filled = {key: fill(value, is_text=key in _TEXTS) if key in FILLED_KEYS else value for key, value in entry.items()}
    for name in values:
        if name not in used:
            where = f"{', '.join(FILLED_KEYS[:-1])} or {FILLED_KEYS[-1]}"
            raise place.at(name).refusal(f"fills nothing; write {{{name}}} in {where}")
    return filled


_LABEL = re.compile(r"[^\s,\x00-\x1f\x7f](?:[^,\x00-\x1f\x7f]*[^\s,\x00-\x1f\x7f])?")


def label(value: Any, place: str) -> None:
    """A text by which something is selected on the command line, where commas separate and control characters hide."""
    check(some_text, value, place)
    if not _LABEL.fullmatch(value):
        raise refuse(place, "a short plain word without comma, control character, or white space at an end", value)


_temperature = Value("a number, 0 or more", (int, float), low=0)
_validator = Value('an object such as {"type": "noop"}, which records the answer without judging it', (dict,))
# What a suite says for all its prompts, and each prompt may say for itself.
SAMPLING: dict[str, Shape] = {"system": any_text, "temperature": _temperature, "max_tokens": whole_number(1)}
_REQUIRED: dict[str, Shape] = {"id": label, "name": some_text, "prompt": some_text, "validator": _validator}
PROMPT_KEYS: dict[str, Shape] = {
    **_REQUIRED,
    "expected_tool_calls": ListOf(some_text, "tool names", least=0),
    "category": any_text,
    **SAMPLING,
    "tools": ListOf(anything, "tool definitions", least=0),
    "tool_choice": anything,
    "response_format": RESPONSE_FORMAT,
    "variants": anything,
    "draw": anything,
    "long": anything,
    "world": a_world,
    "max_turns": whole_number(2, MOST_TURNS),  # with a single message the model could not answer after a call
}
_PROMPT = Fields(_REQUIRED, PROMPT_KEYS)


class SuiteContext(NamedTuple):
    """What a prompt takes from the suite it stands in: its name, its defaults, its tools by name.

    `validator_defaults` holds, by the type of a validator, the keys it has unless it says otherwise. Of a built-in
    suite the tests know that its effects can be: a run need not load the simulated world to find that out.
    """

    name: str
    sampling: Mapping[str, Any]
    toolbox: Toolbox
    validator_defaults: Mapping[str, Mapping[str, Any]]
    is_builtin: bool = False


def build_prompt(entry: object, suite: SuiteContext, place: Place, variant_of: str | None = None) -> Prompt:
    """Check one entry and fold the suite's defaults into it. `place` already names the prompt."""
    if isinstance(entry, dict):
        entry = {key: value for key, value in entry.items() if value is not None or key not in PROMPT_KEYS}
    place.check(_PROMPT, entry)
    given: dict[str, Any] = entry  # type: ignore[assignment]  # or it would have been refused
    world = given.get("world")
    if world is None and "max_turns" in given:
        raise place.at("max_turns").refusal("given without 'world'; only a task takes turns")
    if world is not None and "response_format" in given:
        raise place.at("response_format").refusal("given with 'world'; a task's answers may be calls, so leave it out")
    toolbox = suite.toolbox if world is None else world_toolbox()
    tools = read_tools(given.get("tools", []), toolbox, place.at("tools"))
    validator = fold_defaults(given["validator"], suite)
    if not suite.is_builtin or validator.get("type") != "effect":
        try:
            check_spec(validator)
            check_offer(validator, tools)
        except SuiteError as error:
            raise place.refusal(f"validator: {error}") from None
    if world is not None:
        check_task(world, validator, tools, place)
    elif validator["type"] == VALIDATOR:
        raise place.at("validator").refusal(f"type '{VALIDATOR}' looks at a world; give the prompt one in 'world'")
    if "tool_choice" in given:
        check_tool_choice(given["tool_choice"], tools, place.at("tool_choice"))
    sampling = {**suite.sampling, **given}
    expected = [*expected_tools_of(validator), *given.get("expected_tool_calls", [])]
    return Prompt(
        id=given["id"],
        name=given["name"],
        prompt=given["prompt"],
        validator=validator,
        suite=suite.name,
        expected_tools=list(dict.fromkeys(name.strip().lower() for name in expected)),
        category=given.get("category"),
        system=sampling.get("system") or None,
        temperature=None if sampling.get("temperature") is None else float(sampling["temperature"]),
        max_tokens=sampling.get("max_tokens"),
        tools=tools,
        tool_choice=given.get("tool_choice"),
        response_format=given.get("response_format"),
        variant_of=variant_of,
        world=world,
        max_turns=None if world is None else given.get("max_turns", DEFAULT_MAX_TURNS),
    )


def fold_defaults(validator: dict[str, Any], suite: SuiteContext) -> dict[str, Any]:
    """A validator with what the suite says for all of its type: of a world its keys, of the files in it each one."""
    defaults = suite.validator_defaults.get(str(validator.get("type")), {})
    own, shared = validator.get("world"), defaults.get("world")
    folded = {**defaults, **validator}
    if isinstance(own, dict) and isinstance(shared, dict):
        folded["world"] = {**shared, **own}
        if isinstance(own.get("files"), dict) and isinstance(shared.get("files"), dict):
            folded["world"]["files"] = {**shared["files"], **own["files"]}
    return folded


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
