"""What a prompt stands in: the conversation it goes on from, and the tools on offer.

An agent's own prompt is captured once (`clawgauge capture`). That file is JSON for its owner's eyes
alone; secrets are masked before it is written, and by shape once more on reading.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from clawgauge.checks import spec as shape
from clawgauge.errors import ConfigError, SuiteError
from clawgauge.records import Context, MadeCall, Message, Prompt
from clawgauge.records.run import IN_CONTEXT
from clawgauge.secrets import mask_shapes, mask_strings
from clawgauge.suites.document import Place, read_document

CONTEXT_SUITES = ("native_tools", "restraint", "agentic")
_CONTEXT_VERSION = 1

Tool: TypeAlias = dict[str, Any]
Toolbox: TypeAlias = Mapping[str, Tool]
Shapes: TypeAlias = dict[str, shape.Shape]

FUNCTION: Shapes = {
    "description": shape.any_text,
    "parameters": shape.an_object,
    "strict": shape.anything,
}
_NAMED_FUNCTION = shape.Fields({"name": shape.some_text}, FUNCTION, closed=False)
_TOOL = shape.Fields({"type": shape.choice("function"), "function": _NAMED_FUNCTION}, closed=False)
_CALL = shape.Fields(
    {"name": shape.some_text}, {"id": shape.some_text, "arguments": shape.an_object}
)
_ROLES: Mapping[str, shape.Fields] = {
    "system": shape.Fields({"content": shape.some_text}),
    "user": shape.Fields({"content": shape.some_text}),
    "assistant": shape.Fields(
        {}, {"content": shape.any_text, "calls": shape.ListOf(_CALL, "calls")}
    ),
    "tool": shape.Fields({"content": shape.any_text}, {"call": shape.some_text}),
}


def _message(value: Any, place: str) -> None:
    """A shape: one message of a conversation, with the keys of its role."""
    shape.check(shape.an_object, value, place)
    role = value.get("role", shape.MISSING)
    if role not in _ROLES:
        raise shape.refuse(shape.at(place, "role"), f"one of {', '.join(_ROLES)}", role)
    others = {key: item for key, item in value.items() if key != "role"}
    shape.check(_ROLES[role], others, place)
    if role == "assistant" and not value.get("content", "").strip() and "calls" not in value:
        raise SuiteError(f"key '{place}' says nothing; give it 'content' or 'calls'")


class _OpenCall(NamedTuple):
    """A call that has no result yet: where that belongs, and where the call stands in the file."""

    result_index: int
    place: Place


def read_messages(written: Mapping[str, Any], place: Place) -> tuple[str | None, list[Message]]:
    """The system text, given or the first message, and all other messages of a prompt or context.

    Results come in the order of their calls.
    """
    conversation = _Conversation(written.get("system"), place)
    for index, entry in enumerate(written.get("messages", [])):
        message_place = place.at("messages", index)
        message_place.check(_message, entry)
        if entry["role"] == "tool":
            conversation.add_result(entry, message_place)
            continue
        conversation.refuse_open_calls()
        if entry["role"] == "system":
            conversation.set_system(entry["content"], message_place, is_first=index == 0)
        else:
            conversation.add_speech(entry, message_place)
    conversation.refuse_open_calls()
    return conversation.system, conversation.messages


class _Conversation:
    """Messages as they are read, each call with a place for its result right behind it."""

    def __init__(self, system: str | None, place: Place) -> None:
        self.system = system
        self.messages: list[Message] = []
        self._place = place
        self._open_calls: dict[str, _OpenCall] = {}  # by the id of the call

    def add_result(self, entry: Mapping[str, Any], place: Place) -> None:
        call_id = entry.get("call") or next(iter(self._open_calls), "")
        if call_id not in self._open_calls:
            named = ""
            if call_id:
                named = f" {call_id!r}{shape.suggest(call_id, self._open_calls)},"
            wanted = "it must follow an assistant's message with a call that has none"
            raise place.refusal(f"is the result of no call:{named} {wanted}")
        open_call = self._open_calls.pop(call_id)
        self.messages[open_call.result_index] = Message(role="tool", content=entry["content"])

    def set_system(self, content: str, place: Place, *, is_first: bool) -> None:
        if not is_first:
            reason = "a system message can only be the first; say it as a user, or put it there"
            raise place.refusal(reason)
        if self.system is not None:
            reason = "given beside a system message; keep one of them"
            raise self._place.at("system").refusal(reason)
        self.system = content

    def add_speech(self, entry: Mapping[str, Any], place: Place) -> None:
        """A message of the user or the assistant, and behind it room for the results of its
        calls."""
        calls = entry.get("calls", [])
        made_calls = []
        for call in calls:
            made_calls.append(MadeCall(name=call["name"], arguments=call.get("arguments", {})))
        message = Message(role=entry["role"], content=entry.get("content", ""), calls=made_calls)
        self.messages.append(message)
        for index, call in enumerate(calls):
            call_id = call.get("id") or f"call {index + 1}"
            call_place = place.at("calls", index)
            if call_id in self._open_calls:
                reason = "is the id of two calls of this message; give each its own"
                raise call_place.refusal(f"{call_id!r} {reason}")
            self._open_calls[call_id] = _OpenCall(len(self.messages), call_place)
            self.messages.append(Message(role="tool"))

    def refuse_open_calls(self) -> None:
        for open_call in self._open_calls.values():
            reason = (
                'has no result; add a message with role = "tool" behind it,'
                " before anybody speaks again"
            )
            raise open_call.place.refusal(reason)


def read_tools(entries: list[Any], toolbox: Toolbox, place: Place) -> list[Tool]:
    """The tools of a prompt, those named from the toolbox written out."""
    tools: list[Tool] = []
    names: set[str] = set()
    for index, entry in enumerate(entries):
        tool_place = place.at(index)
        if isinstance(entry, str) and entry not in toolbox:
            problem = f"is missing, so {entry!r} cannot be named"
            if toolbox:
                problem = f"has no {entry!r}{shape.suggest(entry, toolbox)}"
            wanted = "an object, or the name of a tool in the suite's 'toolbox'"
            raise tool_place.refusal(f"must be {wanted}, which {problem}")
        tool = toolbox[entry] if isinstance(entry, str) else entry
        tool_place.check(_TOOL, tool)
        name = tool["function"]["name"]
        # Calls are matched without regard to case, so two names that differ in it alone are one.
        if name.lower() in names:
            raise tool_place.refusal(f"{name!r} is offered twice; keep one of them")
        names.add(name.lower())
        tools.append(tool)
    return tools


def tool_name(tool: Tool) -> str:
    """A tool's name as calls are matched with it: in lower case."""
    return str(tool["function"]["name"]).lower()


def load_context(path: Path) -> Context:
    """The captured context in a file. Raises `SuiteError`, in one sentence, for anything else."""
    document = read_document(path, str(path))
    place = Place(str(path))
    try:
        context = msgspec.convert(mask_strings(document, mask_shapes), Context)
        is_version_known = (
            isinstance(document, dict) and document.get("version") == _CONTEXT_VERSION
        )
        if not context.system or not is_version_known:
            raise msgspec.ValidationError(f"not of version {_CONTEXT_VERSION}")
    except msgspec.ValidationError as error:
        advice = "`clawgauge capture openclaw` makes one"
        raise place.refusal(f"no captured context ({error}); {advice}") from None
    read_tools(context.tools, {}, place.at("tools"))
    return context


def add_context(prompts: list[Prompt], context: Context) -> list[Prompt]:
    """The prompts, and after them those that offer tools once more, inside the context.

    They come last, not in turns: a server that keeps the beginning of a prompt can then do so, as
    in use. `agreement` is in its context already.
    """
    inside = []
    for prompt in prompts:
        if prompt.tools and prompt.validator.get("type") != "agreement":
            inside.append(_inside(context, prompt))
    if not inside:
        reason = "is for prompts that offer tools, and none of the chosen do: see -s"
        raise ConfigError(f"--in-context {reason}")
    return [*prompts, *inside]


def _inside(context: Context, prompt: Prompt) -> Prompt:
    prompt_names = {tool_name(tool) for tool in prompt.tools}
    other_tools = [tool for tool in context.tools if tool_name(tool) not in prompt_names]
    # Prompts of which this is the same begin with the same words.
    beginning = repr((prompt.system, [tool_name(tool) for tool in other_tools]))
    return msgspec.structs.replace(
        prompt,
        suite=prompt.suite + IN_CONTEXT,
        in_context=True,
        system=f"{context.system}\n\n{prompt.system or ''}".strip(),
        tools=[*other_tools, *prompt.tools],
        context=hashlib.sha256(beginning.encode()).hexdigest()[:8],
    )
