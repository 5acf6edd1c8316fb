"""Native tool calls over chat completions and Responses: what is sent, and what is made of every shape of reply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawgauge.providers.openai.responses import ResponsesReader
from support.growth import grows_linearly
from support.rows import every_row
from support.scripted_server import RawBytes, ScriptedServer, SseBytes, Text
from support.wire_frames import data_event
from unit.providers.claude_calls import SeenCall
from unit.providers.observed import attempt

RECORDINGS = Path(__file__).parents[2] / "data" / "wire" / "llama_cpp"
PROTOCOLS = ["openai_chat", "openai_responses"]
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather for a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def recorded(name: str) -> tuple[str, bytes]:
    """The content type and the body of a recorded reply."""
    raw = (RECORDINGS / f"{name}.txt").read_bytes()
    head, _, body = raw.partition(b"HTTP/1.1 200 OK\r\n")[2].partition(b"\r\n\r\n")
    kind = next(
        line.split(b": ")[1] for line in head.split(b"\r\n") if line.startswith(b"Content-Type")
    )
    return kind.decode(), body.rpartition(b"\n### http=")[0]


@every_row("stream", [True, False], ids=["streamed", "whole"])
@every_row("dialect", ["openai", "llama_cpp", "ollama"])
@every_row("kind", PROTOCOLS)
@every_row(
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
    ids=[
        "one",
        "fragments",
        "call and text",
        "parallel",
        "malformed",
        "array",
        "NaN",
        "no arguments",
        "capitals",
    ],
)
def test_every_shape_of_call(
    kind: str,
    dialect: Any,
    stream: bool,
    reply: Text,
    text: str,
    calls: list[tuple[str, Any, bool]],
) -> None:
    """Fragments become whole calls, parallel ones stay apart, and arguments that do not parse are kept as they came."""
    with ScriptedServer(dialect=dialect) as server:
        server.script(reply)
        done, failure = attempt(kind, server.v1_url, stream=stream, tools=[WEATHER])
    assert failure is None
    assert done.text == text
    assert [(call.name, call.arguments, call.valid) for call in done.native_calls] == calls
    assert done.finish_reason == "tool_calls" and {call.channel for call in done.native_calls} == {
        "native"
    }


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


def test_a_response_format_is_sent_in_the_words_of_each_protocol(server: ScriptedServer) -> None:
    """Chat has the schema nested, Responses flat under `text`; without one neither key is sent."""
    schema = {"name": "trip", "schema": {"type": "object"}, "strict": True}
    for kind in ("openai_chat", "openai_responses"):
        attempt(kind, server.v1_url, response_format={"type": "json_schema", "json_schema": schema})
        attempt(kind, server.v1_url, response_format={"type": "json_object"})
        attempt(kind, server.v1_url)
    sent = [call.json.get("response_format", call.json.get("text")) for call in server.calls]
    assert sent[:3] == [
        {"type": "json_schema", "json_schema": schema},
        {"type": "json_object"},
        None,
    ]
    assert sent[3:] == [
        {"format": {"type": "json_schema", **schema}},
        {"format": {"type": "json_object"}},
        None,
    ]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", "required"),
        ("auto", "auto"),
        (
            {"type": "function", "function": {"name": "get_weather"}},
            {"type": "function", "name": "get_weather"},
        ),
    ],
    ids=["required", "auto", "named"],
)
def test_responses_is_sent_flat_tools(choice: Any, sent: Any, server: ScriptedServer) -> None:
    """A function's fields stand beside its type, a named choice too, and strictness is as in chat unless asked for."""
    strict = {
        "type": "function",
        "function": {**WEATHER["function"], "name": "exactly", "strict": True},
    }
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
        ("anthropic_messages", "final_messages_tools_stream"),
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
    assert [(c.name, c.arguments, c.valid) for c in done.native_calls] == [
        ("get_weather", {"city": "Paris"}, True)
    ]
    assert (done.text, done.finish_reason, done.output_tokens) == ("", "tool_calls", 46)
    assert (done.ttft_ns is not None) == streamed


ITEM = {
    "id": "fc_1",
    "call_id": "call_1",
    "type": "function_call",
    "name": "f",
    "arguments": '{"a": 1}',
}
COMPLETED = {"type": "response.completed", "response": {"status": "completed", "output": [ITEM]}}
DELTAS = [
    {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": piece}
    for piece in ('{"a"', ": 1}")
]


def added(arguments: Any, **other: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "item": {**ITEM, "arguments": arguments, **other}}


ARGUMENTS_DONE = {
    "type": "response.function_call_arguments.done",
    "item_id": "fc_1",
    "arguments": '{"a": 1}',
}
ITEM_DONE = {"type": "response.output_item.done", "item": ITEM}
EMPTY_END = {"type": "response.completed", "response": {"status": "completed", "output": []}}


@pytest.mark.parametrize(
    "events",
    [
        [added(""), *DELTAS, ARGUMENTS_DONE, ITEM_DONE, COMPLETED],
        [added('{"a": 1}'), *DELTAS, ARGUMENTS_DONE, ITEM_DONE, COMPLETED],
        [added('{"a": 1}'), *DELTAS, EMPTY_END],
        [added('{"a": 1}'), ARGUMENTS_DONE, EMPTY_END],
        [added('{"a": 1}'), ITEM_DONE, EMPTY_END],
        [added('{"a": 1}'), COMPLETED],
        [added('{"a": 1}'), EMPTY_END],
        [added('{"a"'), DELTAS[1], EMPTY_END],
        [added('{"a"'), *DELTAS, ARGUMENTS_DONE, EMPTY_END],
        [added(""), DELTAS[0], ITEM_DONE, EMPTY_END],
        [added(""), DELTAS[1], COMPLETED],
        [added({"a": 1}), *DELTAS, COMPLETED],
        [added("", name="g"), ITEM_DONE, COMPLETED],
        [*DELTAS, ITEM_DONE, COMPLETED],
        [ITEM_DONE, COMPLETED],
        [COMPLETED],
        [
            added("", id=None),
            {**DELTAS[0], "item_id": None},
            {**DELTAS[1], "item_id": None},
            EMPTY_END,
        ],
        [added("", id="other"), *({**delta, "item_id": "call_1"} for delta in DELTAS), COMPLETED],
        [
            added("", id="x", call_id="y"),
            *({**delta, "item_id": "x"} for delta in DELTAS),
            {"type": "response.output_item.done", "item": {**ITEM, "id": "x", "call_id": "y"}},
            COMPLETED,
        ],
        [added(""), *DELTAS, {**ARGUMENTS_DONE, "arguments": ""}, EMPTY_END],
        [added(""), {**ARGUMENTS_DONE, "arguments": {"a": 1}}, EMPTY_END],
    ],
)
def test_a_call_of_a_responses_stream_is_told_once(
    events: list[dict[str, Any]], server: ScriptedServer
) -> None:
    """However often a server repeats the arguments, in whatever order, the call has them once: what is whole counts."""
    server.script(SseBytes(b"".join(data_event(event) for event in events)))
    done, failure = attempt("openai_responses", server.v1_url, tools=[WEATHER])
    assert failure is None
    assert [(c.name, c.arguments, c.valid) for c in done.native_calls] == [("f", {"a": 1}, True)]


def test_two_calls_without_ids_are_two(server: ScriptedServer) -> None:
    """Items that have no id are told apart by their beginning."""
    bare = {"type": "function_call", "name": "f"}
    events = [
        event
        for n in (1, 2)
        for event in (
            {"type": "response.output_item.added", "item": {**bare, "arguments": ""}},
            {"type": "response.function_call_arguments.delta", "delta": f'{{"n": {n}}}'},
            {"type": "response.output_item.done", "item": {**bare, "arguments": f'{{"n": {n}}}'}},
        )
    ]
    server.script(SseBytes(b"".join(data_event(event) for event in [*events, EMPTY_END])))
    done, failure = attempt("openai_responses", server.v1_url, tools=[WEATHER])
    assert failure is None and [call.arguments for call in done.native_calls] == [
        {"n": 1},
        {"n": 2},
    ]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_two_calls_with_one_id_that_come_only_at_the_end_are_two(
    stream: bool, server: ScriptedServer
) -> None:
    """A server that gives every call the same id and sends no deltas loses none of them, streamed or whole."""
    output = [{**ITEM, "arguments": f'{{"n": {n}}}'} for n in (1, 2)]
    response = {"status": "completed", "output": output}
    body = msgspec.json.encode(response)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
        body
    )
    end = data_event({"type": "response.completed", "response": response})
    server.script(SseBytes(end) if stream else RawBytes(head + body))
    done, failure = attempt("openai_responses", server.v1_url, stream=stream, tools=[WEATHER])
    assert failure is None and [call.arguments for call in done.native_calls] == [
        {"n": 1},
        {"n": 2},
    ]


def message(item_id: str | None, text: str, kind: str = "output_text") -> dict[str, Any]:
    key = "refusal" if kind == "refusal" else "text"
    return {"id": item_id, "type": "message", "content": [{"type": kind, key: text}]}


@pytest.mark.parametrize(
    ("deltas", "output", "text"),
    [
        ([("a", "one")], [message("a", "one")], "one"),
        ([("a", "one")], [message("a", "one"), message("b", " two")], "one two"),
        ([(None, "one")], [message("a", "one")], "one"),
        ([("x", "one")], [message("a", "one")], "one"),
        ([("a", "one"), ("b", " two")], [message("a", "one"), message("b", " two")], "one two"),
        ([], [message("a", "one"), message("a", " two")], "one two"),
    ],
)
def test_a_message_of_a_responses_stream_is_told_once(
    deltas: list[tuple[str | None, str]],
    output: list[dict[str, Any]],
    text: str,
    server: ScriptedServer,
) -> None:
    """What deltas told is not told again at the end; a message they left out is not lost."""
    events = [
        {"type": "response.output_text.delta", "item_id": i, "delta": piece} for i, piece in deltas
    ]
    events += [
        {"type": "response.output_text.done", "item_id": i, "text": piece} for i, piece in deltas
    ]
    events.append(
        {"type": "response.completed", "response": {"status": "completed", "output": output}}
    )
    server.script(SseBytes(b"".join(data_event(event) for event in events)))
    done, failure = attempt("openai_responses", server.v1_url)
    assert failure is None and done.text == text


@pytest.mark.parametrize("streamed", [True, False])
def test_a_refusal_of_a_responses_stream_is_told_once(
    streamed: bool, server: ScriptedServer
) -> None:
    """The words of a refusal come in deltas, when done and at the end, and are kept once."""
    delta = {"type": "response.refusal.delta", "item_id": "m", "delta": "I will not"}
    over = {"type": "response.refusal.done", "item_id": "m", "refusal": "I will not"}
    end = {
        "type": "response.completed",
        "response": {"output": [message("m", "I will not", "refusal")]},
    }
    events = [delta, over, end] if streamed else [end]
    server.script(SseBytes(b"".join(data_event(event) for event in events)))
    done, failure = attempt("openai_responses", server.v1_url)
    assert failure is None and (done.text, done.refusal) == ("", "I will not")


def fragment(name: str | None = None, arguments: Any = None, **other: Any) -> dict[str, Any]:
    function = {
        key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None
    }
    return {**other, "function": function}


TWO = [("f", {"n": 1}), ("g", {"n": 2})]


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        ([[fragment("f", '{"n": 1}', index=0, id="a")], [fragment("g", '{"n": 2}', index=0, id="b")]], TWO),
        ([[fragment("f", '{"n": 1}', index=0)], [fragment("g", '{"n": 2}', index=0)]], TWO),
        ([[fragment("f", '{"n": 1}')], [fragment("g", '{"n": 2}')]], TWO),
        ([[fragment("f", '{"n": 1}'), fragment("g", '{"n": 2}')]], TWO),
        ([[fragment("f", '{"n": 1}', id="a")], [fragment("g", '{"n": 2}', id="b")]], TWO),
        ([[fragment("f", '{"n": 1}')], [fragment("f", '{"n": 2}')]], [("f", {"n": 1}), ("f", {"n": 2})]),
        ([[fragment("f", "", index=0, id="a")], [fragment(None, '{"n"', index=0, id="b")],
          [fragment(None, ": 1}", index=0, id="c")]], TWO[:1]),
        ([[fragment("f", "", index=0, id="a")], [fragment("f", '{"n"', index=0, id="a")],
          [fragment("f", ": 1}", index=0, id="a")]], TWO[:1]),
        ([[fragment("f", '{"n"', index=0)], [fragment("f", ": 1}", index=0)]], TWO[:1]),
        ([[fragment("f", {"n": 1}, index=0)], [fragment("g", {"n": 2}, index=1)]], TWO),
        ([[fragment("f", {"n": 1})], [fragment("g", {"n": 2})]], TWO),
        ([[fragment("f", '{"n": 1}', index="0")], [fragment("g", '{"n": 2}', index=True)]], TWO),
        ([[fragment("f", '{"n"', index=0), fragment("g", '{"n"', index=1)],
          [fragment(None, ": 1}", index=0), fragment(None, ": 2}", index=1)]], TWO),
        ([[fragment("f", '{"n": 1}', index=2**63)], [fragment("g", '{"n": 2}', index=-1)]], TWO),
    ],
)  # fmt: skip
def test_calls_of_a_chat_stream_are_told_apart(
    chunks: list[list[dict[str, Any]]], calls: list[tuple[str, Any]], server: ScriptedServer
) -> None:
    """An index used again or left out, ids that change, arguments as an object: as many calls as the server began."""
    deltas = [{"choices": [{"index": 0, "delta": {"tool_calls": each}}]} for each in chunks]
    deltas.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    server.script(SseBytes(b"".join(data_event(each) for each in deltas) + b"data: [DONE]\n\n"))
    done, failure = attempt("openai_chat", server.v1_url, tools=[WEATHER])
    assert failure is None
    assert [(call.name, call.arguments) for call in done.native_calls] == calls


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("0", 0), ("-0", 0), ("9999999999", 10**10 - 1), ("10000000000", None), ("1" + "0" * 400, None),
        ("1e308", None), ("1e999", None), ("-1", None), ('"12"', None), ("true", None), ("12.0", None),
        ("[1]", None), ('{"n": 1}', None), ("null", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_count_of_tokens_is_one_or_nothing(
    kind: str, said: str, kept: int | None, server: ScriptedServer
) -> None:
    """Whole, not negative, not absurd; what else a server sends is left out with one warning."""
    if kind == "openai_chat":
        chunk = (
            b'{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}],'
            b'"usage":{"completion_tokens":%b}}'
        )
        stream = b"data: " + chunk % said.encode() + b"\n\n"
        stream = stream * 50 + b"data: [DONE]\n\n"
    else:
        stream = (
            b'data: {"type":"response.completed","response":{"usage":{"output_tokens":%b}}}\n\n'
            % said.encode()
        )
    server.script(SseBytes(stream))
    done, failure = attempt(kind, server.v1_url)
    assert failure is None and done.output_tokens == kept
    assert len(done.warnings) == (0 if kept is not None or said == "null" else 1)


def test_a_response_of_many_items_is_read_in_linear_time() -> None:
    """The loop that stamps bytes is not held up by what a server can put into one event."""

    def read(n_items: int) -> None:
        output = [{"type": "reasoning", "id": str(number)} for number in range(n_items)]
        end = {"type": "response.completed", "response": {"output": output}}
        ResponsesReader(SeenCall(), "m", None).event(0, b"", msgspec.json.encode(end))

    assert grows_linearly(read, 1_000)
