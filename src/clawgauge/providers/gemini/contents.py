"""A call as the Gemini API takes it: its contents, its tools, the form of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from clawgauge.providers.base import Call
from clawgauge.providers.conversation import PastCall, PastTurn, conversation

# The API's name for each tool choice of a chat.
_CALLING_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
# From version 3 on the API refuses calls that it has not signed. Google's documents have this value
# for those that no Gemini model made.
_UNSIGNED = "skip_thought_signature_validator"


class ReplayedPart(NamedTuple):
    """A part of a reply, as far as nothing else knows it."""

    text: str | None = None
    """None for a call, whose name and arguments are those of the turn."""
    is_thought: bool = False
    call_id: str | None = None
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class ReplayedParts:
    """The parts of one reply in their order, with the API's signatures of its thoughts.

    The API goes on from its own thoughts only where each signature comes back in its own part.
    """

    parts: tuple[ReplayedPart, ...]


def contents_of(call: Call, *, with_signatures: bool) -> list[dict[str, Any]]:
    """What the model is to read, in order.

    `with_signatures`: whether calls that the API has not signed are marked as such.
    """
    contents: list[dict[str, Any]] = []
    for entry in conversation(call):
        if isinstance(entry, str):
            contents.append({"role": "user", "parts": [{"text": entry}]})
            continue
        parts = _replayed_parts(entry)
        if parts is None:
            parts = _rebuilt_parts(entry, with_signatures)
        # The API refuses a content without parts.
        if parts:
            contents.append({"role": "model", "parts": parts})
        if entry.calls:
            contents.append({"role": "user", "parts": _result_parts(entry, parts)})
    return contents


def _replayed_parts(turn: PastTurn) -> list[dict[str, Any]] | None:
    """One earlier turn of the model as the API sent it; None where that is not known.

    A call without a result is left out, as everywhere.
    """
    if not isinstance(turn.replay, ReplayedParts):
        return None
    parts: list[dict[str, Any]] = []
    n_calls = 0
    for replayed in turn.replay.parts:
        part: dict[str, Any]
        if replayed.text is not None:
            part = {"text": replayed.text}
        elif n_calls < len(turn.calls):
            past_call = turn.calls[n_calls]
            n_calls += 1
            part = {"functionCall": _function_call(past_call, replayed.call_id)}
        else:
            continue
        if replayed.is_thought:
            part["thought"] = True
        if replayed.signature is not None:
            part["thoughtSignature"] = replayed.signature
        parts.append(part)
    return parts if n_calls == len(turn.calls) else None


def _rebuilt_parts(turn: PastTurn, with_signatures: bool) -> list[dict[str, Any]]:
    """One earlier turn that no model behind this API made, or that was too long to be kept."""
    parts: list[dict[str, Any]] = []
    if turn.text:
        parts.append({"text": turn.text})
    for past_call in turn.calls:
        part: dict[str, Any] = {"functionCall": _function_call(past_call)}
        # Of calls side by side the API signs the first.
        if with_signatures and past_call is turn.calls[0]:
            part["thoughtSignature"] = _UNSIGNED
        parts.append(part)
    return parts


def _function_call(past_call: PastCall, call_id: str | None = None) -> dict[str, Any]:
    function_call = {"name": past_call.name, "args": past_call.arguments}
    if call_id is not None:
        function_call["id"] = call_id
    return function_call


def _result_parts(turn: PastTurn, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The results of a turn's calls, each under the id that its call has."""
    function_calls = [part["functionCall"] for part in parts if "functionCall" in part]
    results = []
    for past_call, function_call in zip(turn.calls, function_calls, strict=True):
        response = {"name": past_call.name, "response": {"output": past_call.answer}}
        if "id" in function_call:
            response["id"] = function_call["id"]
        results.append({"functionResponse": response})
    return results


def tools_of(call: Call) -> list[dict[str, Any]] | None:
    """The definitions of a call's tools, from those of a chat."""
    declarations = []
    for tool in call.tools:
        function = tool["function"]
        declaration = {"name": function["name"]}
        if function.get("description"):
            declaration["description"] = function["description"]
        if function.get("parameters"):
            # `parameters` takes a part of JSON Schema only.
            declaration["parametersJsonSchema"] = function["parameters"]
        declarations.append(declaration)
    return [{"functionDeclarations": declarations}] if declarations else None


def tool_config_of(call: Call) -> dict[str, Any] | None:
    """The tool choice of a call; None where it has none."""
    choice = call.tool_choice
    if not call.tools or not choice:
        return None
    if isinstance(choice, dict):
        config = {"mode": "ANY", "allowedFunctionNames": [choice["function"]["name"]]}
    else:
        config = {"mode": _CALLING_MODES.get(str(choice), choice)}
    return {"functionCallingConfig": config}


def answer_format(response_format: Mapping[str, Any] | None) -> dict[str, Any]:
    """The form of the answer, as fields of `generationConfig`."""
    if response_format is None:
        return {}
    fields = {"responseMimeType": "application/json"}
    if "json_schema" in response_format:
        fields["responseJsonSchema"] = response_format["json_schema"]["schema"]
    return fields
