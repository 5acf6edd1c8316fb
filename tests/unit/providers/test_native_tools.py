"""Native tool calls over chat completions and Responses: what is sent, and what is made of every shape of reply."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.scripted_server import RawBytes, ScriptedServer, SseBytes, Text
from support.wire_frames import data_event
from unit.providers.observed import attempt

RECORDINGS = Path(__file__).parents[2] / "data" / "wire" / "llama_cpp"
PROTOCOLS = ["openai_chat", "openai_responses"]
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather for a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def recorded(name: str) -> tuple[str, bytes]:
    """The content type and the body of a recorded reply."""
    raw = (RECORDINGS / f"{name}.txt").read_bytes()
    head, _, body = raw.partition(b"HTTP/1.1 200 OK\r\n")[2].partition(b"\r\n\r\n")
    kind = next(line.split(b": ")[1] for line in head.split(b"\r\n") if line.startswith(b"Content-Type"))
    return kind.decode(), body.rpartition(b"\n### http=")[0]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", ["openai", "llama_cpp", "ollama"])
@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize(
    ("reply", "text", "calls"),
    [
        (Text("", tool_calls=[("f", '{"a": 1}')]), "", [("f", {"a": 1}, True)]),
        (Text(None, tool_calls=[("f", '{"a"', ": ", "1", "}")]), "", [("f", {"a": 1}, True)]),
        (Text("Let me see.", tool_calls=[("f", "{}")]), "Let me see.", [("f", {}, True)]),
        (
            Text("", tool_calls=[("f", '{"a": 1}'), ("g", '{"b":', ' "x"}'), ("f", '{"a": 2}')]),
            "",
            [("f", {"a": 1}, True), ("g", {"b": "x"}, True), ("f", {"a": 2}, True)],
        ),
        (Text("", tool_calls=[("f", '{"a": ', "tru")]), "", [("f", '{"a": tru', False)]),
        (Text("", tool_calls=[("f", '["a"]')]), "", [("f", ["a"], False)]),
        (Text("", tool_calls=[("f", '{"a": NaN}')]), "", [("f", '{"a": NaN}', False)]),
        (Text("", tool_calls=[("f",)]), "", [("f", {}, True)]),
        (Text("", tool_calls=[("Get_Weather", "{}")]), "", [("get_weather", {}, True)]),
    ],
    ids=["one", "fragments", "call and text", "parallel", "malformed", "array", "NaN", "no arguments", "capitals"],
)
def test_every_shape_of_call(
    kind: str, dialect: Any, stream: bool, reply: Text, text: str, calls: list[tuple[str, Any, bool]]
) -> None:
    """Fragments become whole calls, parallel ones stay apart, and arguments that do not parse are kept as they came."""
    with ScriptedServer(dialect=dialect) as server:
        server.script(reply)
        done, failure = attempt(kind, server.v1_url, stream=stream, tools=[WEATHER])
    assert failure is None
    assert done.text == text
    assert [(call.name, call.arguments, call.valid) for call in done.native_calls] == calls
    assert done.finish_reason == "tool_calls" and {call.channel for call in done.native_calls} == {"native"}


def test_fragments_of_parallel_calls_may_be_mixed(server: ScriptedServer) -> None:
    """Chat servers tell calls apart by index alone: fragments that come in turns still find their own call."""

    def chunk(*calls: dict[str, Any], finish: str | None = None) -> bytes:
        return data_event({"choices": [{"index": 0, "delta": {"tool_calls": list(calls)}, "finish_reason": finish}]})

    def begin(index: int, name: str) -> dict[str, Any]:
        return {"index": index, "id": f"c{index}", "function": {"name": name, "arguments": ""}}

    def go_on(index: int, fragment: str) -> dict[str, Any]:
        return {"index": index, "function": {"arguments": fragment}}

    mixed = [
        chunk(begin(0, "f"), begin(1, "g")),
        chunk(go_on(1, '{"b":'), go_on(0, '{"a"')),
        chunk(go_on(0, ": 1}")),
        chunk(go_on(1, " 2}"), finish="tool_calls"),
        b"data: [DONE]\n\n",
    ]
    server.script(SseBytes(b"".join(mixed)))
    done, failure = attempt("openai_chat", server.v1_url, tools=[WEATHER])
    assert failure is None
    assert [(call.name, call.arguments) for call in done.native_calls] == [("f", {"a": 1}), ("g", {"b": 2})]


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_call_is_a_first_token_and_a_first_answer(kind: str, server: ScriptedServer) -> None:
    """A reply that begins with thinking has its first token there, and its first answer at the call."""
    server.script(Text("", reasoning="hm hm hm", tool_calls=[("f", "{", "}")], apart=True))
    done, failure = attempt(kind, server.v1_url, tools=[WEATHER])
    assert failure is None
    assert done.ttft_ns is not None and done.ttfa_ns is not None
    assert done.ttft_ns < done.ttfa_ns
    server.script(Text("", tool_calls=[("f", "{", "}")]))
    done, failure = attempt(kind, server.v1_url, tools=[WEATHER])
    assert failure is None and done.ttft_ns is not None and done.ttfa_ns == done.ttft_ns


def test_chat_is_sent_tools_as_the_suite_wrote_them(server: ScriptedServer) -> None:
    """Definitions and choice go out untouched; without tools neither is sent."""
    choice = {"type": "function", "function": {"name": "get_weather"}}
    attempt("openai_chat", server.v1_url, tools=[WEATHER], tool_choice=choice)
    attempt("openai_chat", server.v1_url, tool_choice="required")
    offered, plain = (call.json for call in server.calls)
    assert (offered["tools"], offered["tool_choice"]) == ([WEATHER], choice)
    assert "tools" not in plain and "tool_choice" not in plain


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", "required"),
        ("auto", "auto"),
        ({"type": "function", "function": {"name": "get_weather"}}, {"type": "function", "name": "get_weather"}),
    ],
    ids=["required", "auto", "named"],
)
def test_responses_is_sent_flat_tools(choice: Any, sent: Any, server: ScriptedServer) -> None:
    """A function's fields stand beside its type, a named choice too, and strictness is as in chat unless asked for."""
    strict = {"type": "function", "function": {**WEATHER["function"], "name": "exactly", "strict": True}}
    attempt("openai_responses", server.v1_url, tools=[WEATHER, strict], tool_choice=choice)
    body = server.calls[0].json
    assert body["tools"][0] == {"type": "function", "strict": False, **WEATHER["function"]}
    assert (body["tools"][1]["name"], body["tools"][1]["strict"]) == ("exactly", True)
    assert body["tool_choice"] == sent


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("openai_chat", "final_tools_required_stream"),
        ("openai_chat", "final_tools_required"),
        ("openai_responses", "final_responses_tools_stream"),
        ("openai_responses", "final_responses_tools"),
    ],
)
def test_a_recorded_call_of_a_real_model(kind: str, name: str, server: ScriptedServer) -> None:
    """What llama.cpp really sent for a call is read as that call, with its tokens."""
    content_type, body = recorded(name)
    streamed = content_type == "text/event-stream"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    server.script(RawBytes(head.encode() + body))
    done, failure = attempt(kind, server.v1_url, stream=streamed, tools=[WEATHER])
    assert failure is None
    assert [(c.name, c.arguments, c.valid) for c in done.native_calls] == [("get_weather", {"city": "Paris"}, True)]
    assert (done.text, done.finish_reason, done.output_tokens) == ("", "tool_calls", 46)
    assert (done.ttft_ns is not None) == streamed
