"""What a prompt stands in: the conversation it goes on from, with every result behind its call; the tools on offer; and
an agent's own prompt, captured once (`clawgauge capture`). That file is JSON for its owner's eyes alone; secrets are
masked before it is written, and by shape once more on reading."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.checks import spec as shape
from clawgauge.errors import ConfigError, SuiteError
from clawgauge.records import Context, MadeCall, Message, Prompt
from clawgauge.records.run import IN_CONTEXT
from clawgauge.secrets import mask_shapes, mask_strings
from clawgauge.suites.document import Place, read_document

CONTEXT_SUITES = ("native_tools", "restraint", "agentic")
Tool = dict[str, Any]
Toolbox = Mapping[str, Tool]
Shapes = dict[str, shape.Shape]
FUNCTION: Shapes = {"description": shape.any_text, "parameters": shape.an_object, "strict": shape.anything}
_NAMED_FUNCTION = shape.Fields({"name": shape.some_text}, FUNCTION, closed=False)
_TOOL = shape.Fields({"type": shape.choice("function"), "function": _NAMED_FUNCTION}, closed=False)
_CALL = shape.Fields({"name": shape.some_text}, {"id": shape.some_text, "arguments": shape.an_object})
_ROLES: dict[str, shape.Fields] = {
    **dict.fromkeys(("system", "user"), shape.Fields({"content": shape.some_text})),
    "assistant": shape.Fields({}, {"content": shape.any_text, "calls": shape.ListOf(_CALL, "calls")}),
    "tool": shape.Fields({"content": shape.any_text}, {"call": shape.some_text}),
}


def _message(value: Any, place: str) -> None:
    shape.check(shape.an_object, value, place)
    role = value.get("role", shape.MISSING)
    if role not in _ROLES:
        raise shape.refuse(shape.at(place, "role"), f"one of {', '.join(_ROLES)}", role)
    shape.check(_ROLES[role], {key: item for key, item in value.items() if key != "role"}, place)
    if role == "assistant" and not value.get("content", "").strip() and "calls" not in value:
        raise SuiteError(f"key '{place}' says nothing; give it 'content' or 'calls'")


def read_messages(owner: Mapping[str, Any], place: Place) -> tuple[str | None, list[Message]]:
    """The system text, given or the first message, and all other messages, results in the order of their calls."""
    system, messages = owner.get("system"), list[Message]()
    # The calls that have no result yet, by id: where it belongs, and where the call stands in the file.
    waiting: dict[str, tuple[int, Place]] = {}
    for index, entry in enumerate(owner.get("messages", [])):
        here = place.at("messages", index)
        here.check(_message, entry)
        role, content, calls = entry["role"], entry.get("content", ""), entry.get("calls", [])
        if role == "tool":
            answered = entry.get("call") or next(iter(waiting), "")
            if answered not in waiting:
                named = f" {answered!r}{shape.suggest(answered, waiting)}," if answered else ""
                wanted = "it must follow an assistant's message with a call that has none"
                raise here.refusal(f"is the result of no call:{named} {wanted}")
            messages[waiting.pop(answered)[0]] = Message(role=role, content=content)
            continue
        _refuse_unanswered(waiting)
        if role == "system":
            if index:
                raise here.refusal("a system message can only be the first; say it as a user, or put it there")
            if system is not None:
                raise place.at("system").refusal("given beside a system message; keep one of them")
            system = content
            continue
        made = [MadeCall(name=call["name"], arguments=call.get("arguments", {})) for call in calls]
        messages.append(Message(role=role, content=content, calls=made))
        for number, call in enumerate(calls):
            call_id, at_call = call.get("id") or f"call {number + 1}", here.at("calls", number)
            if call_id in waiting:
                raise at_call.refusal(f"{call_id!r} is the id of two calls of this message; give each its own")
            waiting[call_id] = len(messages), at_call
            messages.append(Message(role="tool"))
    _refuse_unanswered(waiting)
    return system, messages


def _refuse_unanswered(waiting: dict[str, tuple[int, Place]]) -> None:
    for _, place in waiting.values():
        raise place.refusal('has no result; add a message with role = "tool" behind it, before anybody speaks again')


def read_tools(entries: list[Any], toolbox: Toolbox, place: Place) -> list[Tool]:
    """The tools of a prompt, those named from the toolbox written out."""
    tools, seen = list[Tool](), set[str]()
    for index, entry in enumerate(entries):
        here = place.at(index)
        if isinstance(entry, str) and entry not in toolbox:
            known = f"has no {entry!r}{shape.suggest(entry, toolbox)}"
            found = known if toolbox else f"is missing, so {entry!r} cannot be named"
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


def load_context(path: Path) -> Context:
    """The captured context in a file. Raises `SuiteError`, in one sentence, for anything that is none."""
    found, place = read_document(path, str(path)), Place(str(path))
    try:
        context = msgspec.convert(mask_strings(found, mask_shapes), Context)
        if not context.system or not isinstance(found, dict) or found.get("version") != 1:
            raise msgspec.ValidationError("not of version 1")
    except msgspec.ValidationError as fault:
        raise place.refusal(f"no captured context ({fault}); `clawgauge capture openclaw` makes one") from None
    read_tools(context.tools, {}, place.at("tools"))
    return context


def add_context(prompts: list[Prompt], context: Context) -> list[Prompt]:
    """The prompts, and after them those that offer tools once more, inside the context. They come last, not in turns: a
    server that keeps the beginning of a prompt can then do so, as in use. `agreement` is in its context already."""
    inside = []
    for prompt in prompts:
        if prompt.tools and prompt.validator.get("type") != "agreement":
            own = set(map(_name, prompt.tools))
            tools = [tool for tool in context.tools if _name(tool) not in own]
            alike = hashlib.sha256(repr((prompt.system, list(map(_name, tools)))).encode()).hexdigest()[:8]
            system = f"{context.system}\n\n{prompt.system or ''}".strip()
            around: dict[str, Any] = {"system": system, "tools": [*tools, *prompt.tools], "context": alike}
            inside.append(msgspec.structs.replace(prompt, suite=prompt.suite + IN_CONTEXT, in_context=True, **around))
    if not inside:
        raise ConfigError("--in-context is for prompts that offer tools, and none of the chosen do: see -s")
    return [*prompts, *inside]


def _name(tool: Tool) -> str:
    return str(tool["function"]["name"]).lower()
