"""Scripted models for the suites that offer tools: a perfect one, and several that are terrible in one way each.

A model is a function from a prompt to what it answers. The perfect one knows the reference answers by heart; the
terrible ones know the tools on offer, and what is expected, only to get it wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clawgauge.records import Prompt, ToolInvocation

DATA = Path(__file__).parents[1] / "data"
WRONG_TYPES: dict[str, Any] = {
    "string": 7,
    "integer": "7",
    "number": "7",
    "boolean": "true",
    "array": "one, two",
    "object": "one",
}


@dataclass(frozen=True)
class ToolAnswer:
    """Text and calls; the arguments of a call that is malformed are the text it was."""

    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def invocations(self) -> list[ToolInvocation]:
        """The calls as a completion holds them."""
        return [
            ToolInvocation(
                name=name, arguments=arguments, channel="native", valid=isinstance(arguments, dict)
            )
            for name, arguments in self.calls
        ]


ToolModel = Callable[[Prompt], ToolAnswer]


def read_references(suite: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(
        (DATA / f"{suite}_reference_answers.json").read_text("utf-8")
    )
    return loaded


def read_answer(written: dict[str, Any] | str) -> ToolAnswer:
    """A reference answer as it stands in the file."""
    if isinstance(written, str):
        return ToolAnswer(written)
    calls = [(call["name"], call["arguments"]) for call in written.get("calls", [])]
    return ToolAnswer(written.get("text", ""), calls)


def perfect(suite: str) -> ToolModel:
    """The model that gives the first right answer to every prompt of a suite."""
    by_id = {
        each["id"]: read_answer(each["right"][0])
        for each in read_references(suite)
        if each.get("right")
    }
    return lambda prompt: by_id.get(prompt.id, ToolAnswer("As you wish."))


def only_talks(prompt: Prompt) -> ToolAnswer:
    return ToolAnswer("I would look that up for you, but I cannot.")


def calls_another_tool(prompt: Prompt) -> ToolAnswer:
    names = [tool["function"]["name"] for tool in prompt.tools]
    other = next(name for name in names if name not in prompt.expected_tools)
    return ToolAnswer(
        calls=[(other, dict(call.get("arguments", {}))) for call in _expected(prompt)]
    )


def gives_no_arguments(prompt: Prompt) -> ToolAnswer:
    return ToolAnswer(calls=[(call["name"], {}) for call in _expected(prompt)])


def gives_wrong_types(prompt: Prompt) -> ToolAnswer:
    schemas = {
        tool["function"]["name"]: tool["function"]["parameters"]["properties"]
        for tool in prompt.tools
    }
    return ToolAnswer(
        calls=[
            (
                call["name"],
                {
                    name: WRONG_TYPES[schemas[call["name"]][name]["type"]]
                    for name in call["arguments"]
                },
            )
            for call in _expected(prompt)
        ]
    )


def writes_calls_as_text(prompt: Prompt) -> ToolAnswer:
    """The right calls, in the format of Hermes and Qwen, but in the text."""
    answer = perfect(prompt.suite)(prompt)
    calls = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in answer.calls]
    return ToolAnswer("\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in calls))


def always_calls(prompt: Prompt) -> ToolAnswer:
    """A call of the first tool on offer, whatever was asked, with a sentence and a question for good measure."""
    return ToolAnswer("Here you are. Anything else?", [(prompt.tools[0]["function"]["name"], {})])


def always_writes_a_call(prompt: Prompt) -> ToolAnswer:
    name = prompt.tools[0]["function"]["name"]
    call = json.dumps({"name": name, "arguments": {}})
    return ToolAnswer(f"Shall I?\n<tool_call>{call}</tool_call>")


def breaks_off_a_call(prompt: Prompt) -> ToolAnswer:
    return ToolAnswer(
        "One moment, shall I?", [(prompt.tools[0]["function"]["name"], '{"command": "l')]
    )


def says_nothing(prompt: Prompt) -> ToolAnswer:
    return ToolAnswer()


TERRIBLE: dict[str, tuple[ToolModel, ...]] = {
    "native_tools": (
        only_talks,
        calls_another_tool,
        gives_no_arguments,
        gives_wrong_types,
        writes_calls_as_text,
        breaks_off_a_call,
    ),
    "restraint": (always_calls, always_writes_a_call, breaks_off_a_call),
}


def _expected(prompt: Prompt) -> list[dict[str, Any]]:
    """The calls a prompt expects; where their effect counts, what they are made of is left open."""
    ran = [{"name": name, "arguments": {"command": "*"}} for name in prompt.expected_tools]
    calls: list[dict[str, Any]] = prompt.validator.get("expected_calls", ran)
    return calls
