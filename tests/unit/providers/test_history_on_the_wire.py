"""How the earlier turns of a task are put to a model, in both protocols."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from clawgauge.providers.base import Turn
from clawgauge.records import MadeCall, Message, ToolInvocation
from support.scripted_server import ScriptedServer
from unit.providers.observed import attempt

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {}}}
    for name in ("readFile", "exec")
]


def made(name: str, arguments: Any, *, valid: bool = True) -> ToolInvocation:
    return ToolInvocation(name=name, arguments=arguments, channel="native", valid=valid)


HISTORY = (
    Turn(
        "Looking.",
        (made("exec", {"command": "ls"}), made("readfile", {"path": "/é"})),
        ("a.txt", "text of é"),
    ),
    Turn("", (made("exec", '{"comm', valid=False),), ("Error: not an object",)),
)


MESSAGES = (
    Message(role="user", content="look"),
    Message(
        role="assistant",
        content="Looking.",
        calls=[MadeCall(name="EXEC", arguments={"command": "ls"})],
    ),
    Message(role="tool", content="a.txt"),
    Message(role="assistant", content="One file."),
)


def test_messages_come_before_the_prompt_and_its_turns(server: ScriptedServer) -> None:
    """A suite's conversation is sent natively in each protocol, under the same ids whatever comes after it."""
    asked: dict[str, Any] = {"prompt": "tidy up", "tools": TOOLS, "messages": MESSAGES}
    attempt("openai_chat", server.v1_url, **asked, history=HISTORY[:1])
    attempt("openai_responses", server.v1_url, **asked, history=HISTORY[:1])
    chat, responses = server.calls[0].json["messages"], server.calls[1].json["input"]
    roles = ["user", "assistant", "tool", "assistant", "user", "assistant", "tool", "tool"]
    assert [message["role"] for message in chat] == roles
    assert chat[1]["tool_calls"][0]["function"] == {
        "name": "exec",
        "arguments": '{"command": "ls"}',
    }
    assert chat[2] == {
        "role": "tool",
        "tool_call_id": chat[1]["tool_calls"][0]["id"],
        "content": "a.txt",
    }
    assert (
        chat[3] == {"role": "assistant", "content": "One file."} and chat[4]["content"] == "tidy up"
    )
    kinds = ["message", "message", "function_call", "function_call_output", "message", "message"]
    assert [item["type"] for item in responses[:6]] == kinds
    assert responses[3] == {
        "type": "function_call_output",
        "call_id": responses[2]["call_id"],
        "output": "a.txt",
    }


def test_a_conversation_may_end_with_a_result(server: ScriptedServer) -> None:
    """Nothing is added to it: the model is to go on."""
    attempt("openai_chat", server.v1_url, prompt="", tools=TOOLS, messages=MESSAGES[:3])
    attempt("openai_responses", server.v1_url, prompt="", tools=TOOLS, messages=MESSAGES[:3])
    assert server.calls[0].json["messages"][-1]["role"] == "tool"
    assert server.calls[1].json["input"][-1]["type"] == "function_call_output"


def test_chat_gets_assistant_and_tool_messages(server: ScriptedServer) -> None:
    """Each turn is a message with its calls, followed by a message for every answer, under one id each."""
    attempt(
        "openai_chat",
        server.v1_url,
        prompt="tidy up",
        system="Be brief.",
        tools=TOOLS,
        history=HISTORY,
    )
    system, user, first, listing, text, second, refused = server.calls[0].json["messages"]
    assert (system["role"], user) == ("system", {"role": "user", "content": "tidy up"})
    assert (first["role"], first["content"], second["content"]) == ("assistant", "Looking.", "")
    calls = first["tool_calls"] + second["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["exec", "readFile", "exec"], (
        "as the tools were offered"
    )
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [
        {"command": "ls"},
        {"path": "/é"},
        {},
    ]
    ids = [call["id"] for call in calls]
    assert len(set(ids)) == 3 and all(re.fullmatch("[a-zA-Z0-9]{9}", call_id) for call_id in ids)
    assert [answer["tool_call_id"] for answer in (listing, text, refused)] == ids
    assert [answer["content"] for answer in (listing, text, refused)] == [
        "a.txt",
        "text of é",
        "Error: not an object",
    ]


def test_responses_gets_items(server: ScriptedServer) -> None:
    """The conversation is sent whole as messages, calls and outputs; an empty text is no message."""
    attempt("openai_responses", server.v1_url, prompt="tidy up", tools=TOOLS, history=HISTORY)
    body = server.calls[0].json
    items = body["input"]
    assert [item["type"] for item in items] == [
        "message", "message", "function_call", "function_call", "function_call_output", "function_call_output",
        "function_call", "function_call_output",
    ]  # fmt: skip
    assert items[0] == {"type": "message", "role": "user", "content": "tidy up"}
    assert (items[1]["role"], items[1]["content"][0]["text"]) == ("assistant", "Looking.")
    calls = {item["call_id"]: item for item in items if item["type"] == "function_call"}
    answers = {
        item["call_id"]: item["output"] for item in items if item["type"] == "function_call_output"
    }
    assert list(calls) == list(answers) and list(answers.values()) == [
        "a.txt",
        "text of é",
        "Error: not an object",
    ]
    assert [call["name"] for call in calls.values()] == ["exec", "readFile", "exec"]
    assert "previous_response_id" not in body and body["store"] is False


def test_reasoning_goes_back_where_it_came_from(server: ScriptedServer) -> None:
    """A server that shows its reasoning gets it back with the call it led to; one that shows none is sent none."""
    thoughtful = Turn("", (made("exec", {}),), ("ok",), "let me look first")
    attempt("openai_chat", server.v1_url, tools=TOOLS, history=(thoughtful, HISTORY[0]))
    first, second = (m for m in server.calls[0].json["messages"] if m["role"] == "assistant")
    assert first["reasoning_content"] == "let me look first" and "reasoning_content" not in second


@pytest.mark.parametrize("kind", ["openai_chat", "openai_responses"])
def test_ids_stay_the_same_from_request_to_request(kind: str, server: ScriptedServer) -> None:
    """A later request repeats the earlier turns word for word, ids included, so that caches can serve them."""
    attempt(kind, server.v1_url, tools=TOOLS, history=HISTORY[:1])
    attempt(kind, server.v1_url, tools=TOOLS, history=HISTORY)
    earlier, later = (call.json.get("messages") or call.json["input"] for call in server.calls)
    assert later[: len(earlier)] == earlier


@pytest.mark.parametrize(
    ("name", "sent"), [("", "unnamed"), ("rm -rf /", "rm_-rf__"), ("x" * 300, "x" * 64)]
)
def test_a_name_no_server_takes_is_made_sendable(
    name: str, sent: str, server: ScriptedServer
) -> None:
    """A model that calls something impossible gets its error back, instead of a refused request."""
    attempt(
        "openai_chat",
        server.v1_url,
        tools=TOOLS,
        history=(Turn("", (made(name, {}),), ("no such tool",)),),
    )
    assert server.calls[0].json["messages"][1]["tool_calls"][0]["function"]["name"] == sent


def test_broken_unicode_in_arguments_is_sent(server: ScriptedServer) -> None:
    """Half a surrogate pair in a call does not stop the task."""
    _, failure = attempt(
        "openai_chat",
        server.v1_url,
        tools=TOOLS,
        history=(Turn("\ud800", (made("exec", {"c": "\udc00"}),), ("x",)),),
    )
    assert failure is None
