"""One prompt of a suite: what its author may write, and the `Prompt` that becomes of it."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from clawgauge.checks import check_offer, check_spec
from clawgauge.checks import spec as shape
from clawgauge.errors import SuiteError
from clawgauge.records import Context, Message, Prompt
from clawgauge.suites.context import Shapes, Tool, Toolbox, read_messages, read_tools, tool_name
from clawgauge.suites.document import Place
from clawgauge.world import TOOL_NAMES, tool_definitions
from clawgauge.world.people import is_heard

DEFAULT_MAX_TURNS = 12
_MAX_TURNS = 100
# With a single turn the model could not answer after a call.
_MIN_TURNS = 2
# The validator of a task.
_TASK_VALIDATOR = "world_state"
_LABEL = re.compile(r"[^\s,\x00-\x1f\x7f](?:[^,\x00-\x1f\x7f]*[^\s,\x00-\x1f\x7f])?")


def label(value: Any, place: str) -> None:
    """A shape: a text by which something is selected on the command line.

    There commas separate, and control characters hide.
    """
    shape.check(shape.some_text, value, place)
    if not _LABEL.fullmatch(value):
        wanted = "a short plain word without comma, control character, or white space at an end"
        raise shape.refuse(place, wanted, value)


_format_name = shape.Value(
    "up to 64 letters, digits, underscores and hyphens",
    (str,),
    pattern=r"\A[A-Za-z0-9_-]{1,64}\Z",
)
_format_schema = shape.Fields(
    {"name": _format_name, "schema": shape.an_object},
    {"description": shape.any_text, "strict": shape.true_or_false},
)
_FORMATS: Shapes = {
    "json_schema": shape.Fields({"json_schema": _format_schema}),
    "json_object": shape.Fields({}),
}
_validator = shape.Value(
    'an object such as {"type": "noop"}, which records the answer without judging it', (dict,)
)
_temperature = shape.Value("a number, 0 or more", (int, float), low=0)
# What a suite says for all its prompts, and each prompt may say for itself.
SAMPLING: Shapes = {
    "system": shape.any_text,
    "temperature": _temperature,
    "max_tokens": shape.whole_number(1),
}
_REQUIRED: Shapes = {
    "id": label,
    "name": shape.some_text,
    "prompt": shape.some_text,
    "validator": _validator,
}
PROMPT_KEYS: Shapes = {
    **_REQUIRED,
    "expected_tool_calls": shape.ListOf(shape.some_text, "tool names", least=0),
    "category": shape.any_text,
    **SAMPLING,
    "tools": shape.ListOf(shape.anything, "tool definitions", least=0),
    "tool_choice": shape.anything,
    "response_format": shape.ByType(_FORMATS, _FORMATS.__getitem__, "a format"),
    "variants": shape.anything,
    "draw": shape.anything,
    "long": shape.anything,
    "world": shape.a_world,
    "max_turns": shape.whole_number(_MIN_TURNS, _MAX_TURNS),
    "messages": shape.ListOf(shape.anything, "messages"),
    "context": shape.some_text,
    "pair": label,
    "session": label,
}
_PROMPT = shape.Fields(_REQUIRED, PROMPT_KEYS)
# One that goes on with a conversation may leave the prompt itself out.
_GOING_ON = shape.Fields({key: _REQUIRED[key] for key in _REQUIRED if key != "prompt"}, PROMPT_KEYS)


class SuiteContext(NamedTuple):
    """What a prompt takes from its suite.

    A built-in suite is checked by the tests: a run need not find out again that it is sound, nor
    load the simulated machine for it. `validator_defaults` are keys by the type of a validator.
    """

    name: str
    sampling: Mapping[str, Any]
    toolbox: Toolbox
    validator_defaults: Mapping[str, Mapping[str, Any]]
    is_builtin: bool = False
    contexts: Mapping[str, Context] = {}


def build_prompt(
    entry: object, suite: SuiteContext, place: Place, variant_of: str | None = None
) -> Prompt:
    """Check one entry and fold the suite's defaults into it. `place` already names the prompt."""
    written = _check_entry(entry, suite, place)
    world = written.get("world")
    toolbox = suite.toolbox if world is None else world_toolbox()
    validator = fold_defaults(written["validator"], suite)
    before = _context_of(written, suite, place)
    if suite.is_builtin:
        tools = [
            toolbox[tool] if isinstance(tool, str) else tool for tool in written.get("tools", [])
        ]
    else:
        tools = _checked_tools(written, validator, toolbox, before.tools, place)
    opening = _read_opening(written, before, place)
    if not tools and any(message.calls for message in opening.messages):
        reason = "the messages call tools, and not every server takes a call where none is offered"
        raise place.at("tools").refusal(f"missing; {reason}")
    sampling = {**suite.sampling, **written}
    system = opening.system if opening.system is not None else sampling.get("system")
    temperature = sampling.get("temperature")
    max_turns = None if world is None else written.get("max_turns", DEFAULT_MAX_TURNS)
    return Prompt(
        id=written["id"],
        name=written["name"],
        prompt=opening.prompt,
        validator=validator,
        suite=suite.name,
        category=written.get("category"),
        system=system or None,
        temperature=None if temperature is None else float(temperature),
        max_tokens=sampling.get("max_tokens"),
        expected_tools=_expected_tools(written, validator),
        tools=tools,
        tool_choice=written.get("tool_choice"),
        response_format=written.get("response_format"),
        variant_of=variant_of,
        world=world,
        max_turns=max_turns,
        messages=opening.messages,
        context=written.get("context"),
        pair=written.get("pair"),
        session=written.get("session"),
    )


def _check_entry(entry: object, suite: SuiteContext, place: Place) -> dict[str, Any]:
    """The entry without the keys that are null, which are as good as left out."""
    if isinstance(entry, dict):
        entry = {
            key: value
            for key, value in entry.items()
            if value is not None or key not in PROMPT_KEYS
        }
    if not suite.is_builtin:
        is_going_on = isinstance(entry, dict) and _goes_on(entry)
        place.check(_GOING_ON if is_going_on else _PROMPT, entry)
    checked: dict[str, Any] = entry  # type: ignore[assignment]  # or it would have been refused
    return checked


def _goes_on(written: Mapping[str, Any]) -> bool:
    """Whether a prompt goes on with a conversation."""
    return "messages" in written or "context" in written


def _context_of(written: Mapping[str, Any], suite: SuiteContext, place: Place) -> Context:
    name = written.get("context")
    if name is None:
        return Context()
    if name not in suite.contexts:
        advice = shape.suggest(name, suite.contexts)
        if not advice:
            advice = f"; the suite has {', '.join(suite.contexts) or 'none'}"
        raise place.at("context").refusal(f"{name!r} is not known{advice}")
    return suite.contexts[name]


def _expected_tools(written: Mapping[str, Any], validator: Mapping[str, Any]) -> list[str]:
    """The tools whose use counts as success: those the validator expects, and the prompt's own."""
    names = list(validator.get("expected_tools", []))
    for call in validator.get("expected_calls", []):
        names.append(call["name"])
    if validator["type"] == _TASK_VALIDATOR:
        for condition in validator.get("expect", []):
            called = condition.get("called", [])
            names += called if isinstance(called, list) else [called]
    names += written.get("expected_tool_calls", [])
    return list(dict.fromkeys(name.strip().lower() for name in names))


class _Opening(NamedTuple):
    """What is sent of a prompt: `prompt` is said last, `messages` before that.

    `system` is None where the suite's is to be had.
    """

    system: str | None
    prompt: str
    messages: list[Message]


def _read_opening(written: Mapping[str, Any], before: Context, place: Place) -> _Opening:
    """The conversation that a prompt goes on with, if it does, and its own text."""
    if not _goes_on(written):
        return _Opening(None, written["prompt"], [])
    messages_place = place.at("messages")
    system, own_messages = read_messages(written, place)
    if system is None:
        system = before.system
    messages = [*before.messages, *own_messages] if own_messages else before.messages
    if messages and messages[0].role != "user":
        raise messages_place.refusal("the first to speak must be a user")
    text = written.get("prompt")
    if text is not None:
        return _Opening(system, text, messages)
    if not messages:
        place.check(_PROMPT, written)  # which says that the prompt is missing
    last_role = messages[-1].role
    if last_role == "assistant":
        advice = "end with a user or a tool's result, or give a 'prompt'"
        raise messages_place.refusal(f"the last to speak is the assistant; {advice}")
    if last_role == "user":
        return _Opening(system, messages[-1].content, messages[:-1])
    return _Opening(system, "", messages)


def _checked_tools(
    written: Mapping[str, Any],
    validator: Mapping[str, Any],
    toolbox: Toolbox,
    shared_tools: list[Tool],
    place: Place,
) -> list[Tool]:
    """The tools of a prompt; what does not go together with them is refused."""
    world = written.get("world")
    if world is None and "max_turns" in written:
        reason = "given without 'world'; only a task takes turns"
        raise place.at("max_turns").refusal(reason)
    if world is not None and "response_format" in written:
        reason = "given with 'world'; a task's answers may be calls, so leave it out"
        raise place.at("response_format").refusal(reason)
    own_tools = read_tools(written.get("tools", []), toolbox, place.at("tools"))
    tools = _merge_tools(own_tools, shared_tools)
    check_validator(validator, tools, place)
    if world is not None:
        check_task(world, validator, tools, place)
    elif validator["type"] == _TASK_VALIDATOR:
        reason = f"type '{_TASK_VALIDATOR}' looks at a world; give the prompt one in 'world'"
        raise place.at("validator").refusal(reason)
    if "tool_choice" in written:
        _check_tool_choice(written["tool_choice"], tools, place.at("tool_choice"))
    return tools


def _merge_tools(own_tools: list[Tool], shared_tools: list[Tool]) -> list[Tool]:
    """A prompt's own tools beside those it shares, in the place of those of the same name."""
    if not own_tools:
        return shared_tools
    own_by_name = {tool_name(tool): tool for tool in own_tools}
    merged = [own_by_name.pop(tool_name(tool), tool) for tool in shared_tools]
    return [*merged, *own_by_name.values()]


def check_validator(validator: Mapping[str, Any], tools: list[Tool], place: Place) -> None:
    try:
        check_spec(validator)
        check_offer(validator, tools)
    except SuiteError as error:
        raise place.refusal(f"validator: {error}") from None


def _check_tool_choice(choice: Any, tools: list[Tool], place: Place) -> None:
    offered = [tool["function"]["name"] for tool in tools]
    if not offered:
        raise place.refusal("given without 'tools'; offer some, or leave it out")
    match choice:
        case "auto" | "none" | "required":
            pass
        case {"type": "function", "function": {"name": name}}:
            if name not in offered:
                reason = f"which is not offered; the tools are {', '.join(offered)}"
                raise place.refusal(f"names {name!r}, {reason}")
        case _:
            example = '{"type": "function", "function": {"name": "…"}}'
            raise place.refusal(f'must be "auto", "none", "required" or {example}')


def fold_defaults(validator: dict[str, Any], suite: SuiteContext) -> dict[str, Any]:
    """A validator with what the suite says for all of its type.

    Of a world each key is folded in, and of the files in it each one.
    """
    defaults = suite.validator_defaults.get(str(validator.get("type")))
    if not defaults:
        return validator
    folded = {**defaults, **validator}
    world = validator.get("world")
    shared_world = defaults.get("world")
    if isinstance(world, dict) and isinstance(shared_world, dict):
        folded["world"] = {**shared_world, **world}
        files = world.get("files")
        shared_files = shared_world.get("files")
        if isinstance(files, dict) and isinstance(shared_files, dict):
            folded["world"]["files"] = {**shared_files, **files}
    return folded


@functools.cache
def world_toolbox() -> Toolbox:
    """The tools of the simulated machine by name."""
    return {tool["function"]["name"]: tool for tool in tool_definitions(TOOL_NAMES)}


def check_task(
    world: Mapping[str, Any], validator: Mapping[str, Any], tools: list[Tool], place: Place
) -> None:
    """Refuse a task without tools or with foreign ones, and one that waits for words nobody will
    say."""
    if not tools:
        reason = f"missing; a task offers some of {', '.join(TOOL_NAMES)}"
        raise place.at("tools").refusal(reason)
    # Most suites do without the simulated machine.
    from clawgauge.checks.world_state import find_impossible

    fault = find_impossible(validator.get("expect", []), world)
    if fault is not None:
        key, reason = fault
        raise place.refusal(f"validator: key '{key}' {reason}")
    for index, condition in enumerate(validator.get("forbid", [])):
        until = condition.get("until")
        if until is not None and not _is_ever_heard(until, world):
            reason = (
                "fits no reply of the world; write it as 'name: text', with * for any characters"
            )
            condition_place = place.at("validator", "forbid", index, "until")
            raise condition_place.refusal(f"{until!r} {reason}")
    for index, tool in enumerate(tools):
        name = tool["function"]["name"]
        if name not in TOOL_NAMES:
            known = f"whose tools are {', '.join(TOOL_NAMES)}"
            reason = f"{name!r} is not a tool of the simulated world, {known}"
            raise place.at("tools", index).refusal(reason)


def _is_ever_heard(until: str, world: Mapping[str, Any]) -> bool:
    replies = world.get("replies", [])
    return any(is_heard(until, reply["from"], reply["text"]) for reply in replies)
