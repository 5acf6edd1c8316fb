"""Anthropic's Messages API: what is sent, what is read, what goes wrong, and whom the key is sent to."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import msgspec
import pytest

from clawgauge.config.providers import provider_settings
from clawgauge.config.settings import Configuration, ProviderTable
from clawgauge.errors import CallFailure
from clawgauge.outcomes import Reply
from clawgauge.providers.base import Call, ProviderSettings, Turn, create_provider
from clawgauge.providers.claude.messages import MessagesReader, SignedThinking
from clawgauge.records import MadeCall, Message, ToolInvocation
from clawgauge.timeline import Timeline
from support.messages_format import frames
from support.rows import every_row
from support.scripted_server import (
    BadJson200,
    Cut,
    Html200,
    RawBytes,
    ScriptedServer,
    SseBytes,
    Status,
    StreamError,
    Text,
)
from support.wire_frames import named_event
from unit.providers.observed import attempt
from unit.providers.test_native_tools import recorded

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "exec", "description": "Run it."}}
]
MESSAGES = (
    Message(role="user", content="look"),
    Message(role="user", content="closely"),
    Message(
        role="assistant",
        content="Looking.",
        calls=[MadeCall(name="exec", arguments={"command": "ls"})],
    ),
    Message(role="tool", content="a.txt"),
)


def ask(server: ScriptedServer, **call: Any) -> tuple[Reply, CallFailure | None]:
    return attempt("anthropic_messages", server.base_url, **call)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_an_answer_with_thinking_calls_and_cached_tokens(
    server: ScriptedServer, stream: bool
) -> None:
    """Text, thinking and calls are told apart; input is all that was read, cached the part that came from a cache."""
    calls = [("exec", '{"comm', 'and": "df"}'), ("exec", "{}")]
    server.script(
        Text("Let me look.", reasoning="hm well", tool_calls=calls, usage=(7, 3), cached_tokens=5)
    )
    done, failure = ask(server, tools=TOOLS, stream=stream)
    assert failure is None and (done.text, done.reasoning_text) == ("Let me look.", "hm well")
    assert [(call.name, call.arguments) for call in done.native_calls] == [
        ("exec", {"command": "df"}),
        ("exec", {}),
    ]
    assert (done.input_tokens, done.output_tokens, done.cached_tokens) == (12, 3, 5)
    assert (done.finish_reason, done.model_reported) == ("tool_calls", "scripted-model")
    assert (done.ttft_ns is not None) is stream


def test_what_is_sent(server: ScriptedServer) -> None:
    """Roles take turns, results go back under the ids of their calls, tools and choice have the API's own shape."""
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    settings = {"api_key": "k" * 20, "api_key_env": "ANTHROPIC_API_KEY"}
    attempt("anthropic_messages", server.v1_url, settings=settings, prompt="go on", system="Be brief.", tools=TOOLS,
            messages=MESSAGES, max_tokens=9, temperature=0.5, seed=3, tool_choice="required",
            response_format=form)  # fmt: skip
    request = server.calls[0]
    assert request.path == "/v1/messages" and "authorization" not in {
        name.lower() for name in request.headers
    }
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("k" * 20, "2023-06-01")
    call = {"type": "tool_use", "id": "call00001", "name": "exec", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "call00001", "content": "a.txt"}
    assert request.json == {
        "model": "scripted-model", "stream": True, "max_tokens": 9, "temperature": 0.5, "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "text", "text": "closely"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Looking."}, call]},
            {"role": "user", "content": [result, {"type": "text", "text": "go on"}]},
        ],
        "tools": [{"name": "exec", "description": "Run it.", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "any"},
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
    }  # fmt: skip


def test_thinking_has_a_budget_of_its_own(server: ScriptedServer) -> None:
    """The level is a budget on top of the answer's tokens, without a temperature, which the API would refuse."""
    ask(server, thinking_level="low", max_tokens=100, temperature=0.5)
    sent = server.calls[0].json
    assert (sent["thinking"], sent["max_tokens"]) == (
        {"type": "enabled", "budget_tokens": 2048},
        2148,
    )
    assert "temperature" not in sent


def test_thinking_goes_on_only_from_what_the_api_signed(server: ScriptedServer) -> None:
    """A task's later turns carry the signed thinking back; a suite's own calls have none, so thinking is off."""
    made = ToolInvocation(name="exec", arguments={}, channel="native")
    turn = Turn("", (made,), ("ok",), "foreign thought")
    done, failure = ask(server, tools=TOOLS, history=(turn,), thinking_level="low")
    forced, _ = ask(server, tools=TOOLS, tool_choice="required", thinking_level="low")
    assert failure is None and not any("thinking" in call.json for call in server.calls)
    for seen in (done, forced):
        assert [warning.partition(":")[0] for warning in seen.warnings] == ["thinking_off"]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_signed_thinking_goes_back_with_its_calls(server: ScriptedServer, stream: bool) -> None:
    """The turn that the API thought about is put to it with that thinking, under its signature."""
    server.script(Text("Looking.", reasoning="first a look", tool_calls=[("exec", "{}")]))
    asked = Call(model="m", prompt="go", tools=TOOLS, thinking_level="high", stream=stream)

    async def run() -> None:
        async with create_provider(
            ProviderSettings("a", "anthropic_messages", server.base_url)
        ) as provider:
            first = Timeline()
            await provider.attempt(asked, first)
            seen = first.fold(0)
            turn = Turn(
                seen.text, tuple(seen.native_calls), ("ok",), seen.reasoning_text, seen.replay
            )
            await provider.attempt(dataclasses.replace(asked, history=(turn,)), Timeline())

    asyncio.run(run())
    said = server.calls[1].json["messages"][1]["content"]
    assert [block["type"] for block in said] == ["thinking", "text", "tool_use"]
    assert (said[0]["thinking"], said[0]["signature"]) == ("first a look", "c2NyaXB0ZWQ=")
    assert server.calls[1].json["thinking"]["budget_tokens"] == 16_384


def test_every_block_of_thinking_goes_back_under_its_own_signature(server: ScriptedServer) -> None:
    """A text of nothing but white space, which the API refuses, does not."""
    blocks = [{"type": "thinking", "thinking": word, "signature": word * 2} for word in "AB"]
    deltas = [
        {"type": f"{kind}_delta", kind: block[kind]} for block in blocks for kind in ("thinking", "signature")
    ]  # fmt: skip
    deltas += [{"type": "text_delta", "text": "\n\n"}]
    events = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    ending = [
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    server.script(
        Text("x", reasoning="old"), SseBytes(b"".join(map(named_event, [*events, *ending])))
    )
    asked = Call(model="m", prompt="go", tools=TOOLS, thinking_level="low")

    async def run() -> None:
        async with create_provider(
            ProviderSettings("a", "anthropic_messages", server.base_url)
        ) as provider:
            first = Timeline()
            await provider.attempt(asked, Timeline())
            await provider.attempt(asked, first)
            seen, made = first.fold(0), ToolInvocation(name="exec", arguments={}, channel="native")
            turn = Turn(seen.text, (made,), ("ok",), seen.reasoning_text, seen.replay)
            await provider.attempt(dataclasses.replace(asked, history=(turn,)), Timeline())

    asyncio.run(run())
    assert server.calls[2].json["messages"][1]["content"][:-1] == blocks


def test_an_event_stream_ends_with_its_last_event(server: ScriptedServer) -> None:
    """Pings and unknown events are passed over; without message_stop the reason it stopped is enough."""
    server.script(Text("fine"))
    ask(server)
    events = [frame.data for frame in frames(Text("fine", usage=(7, 3)), server.calls[0], "openai")]
    odd = b'event: new_thing\ndata: {"type":"new_thing","index":"x"}\n\n'
    server.script(
        SseBytes(odd.join(events)), SseBytes(b"".join(events[:-1])), SseBytes(b"".join(events[:-2]))
    )
    assert [ask(server)[0].text for _ in range(2)] == ["fine", "fine"]
    done, failure = ask(server)
    assert failure is not None and (failure.failure_type, done.text) == (
        "stream_interrupted",
        "fine",
    )


@pytest.mark.parametrize("name", ["llama_messages_stream", "llama_messages_nonstream"])
def test_a_recorded_answer_of_a_real_model(name: str, server: ScriptedServer) -> None:
    """What llama.cpp really sent on /v1/messages is read as that answer, with its tokens."""
    content_type, body = recorded(name)
    streamed = content_type == "text/event-stream"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    server.script(RawBytes(head.encode() + body))
    done, failure = ask(server, stream=streamed)
    assert failure is None and done.text and (done.ttft_ns is not None) == streamed
    assert (
        done.finish_reason in ("stop", "length")
        and (done.input_tokens or 0) > 20
        and (done.output_tokens or 0) > 5
    )


FAULTS: list[tuple[str, Any, tuple[str, str, bool]]] = [
    ("no key", Status(401), ("auth_error", "http_401", False)),
    ("forbidden", Status(403), ("auth_error", "http_403", False)),
    ("no model", Status(404, message="model: scripted-model"), ("skipped_unavailable", "model_not_found", False)),
    ("too long", Status(400, message="prompt is too long: 9 > 8 tokens"), ("error", "context_length_exceeded", False)),
    ("limited", Status(429, headers={"Retry-After": "2"}), ("rate_limited", "http_429", True)),
    ("overloaded", Status(529), ("error", "http_529", True)),
    ("a page", Html200(), ("error", "invalid_response", False)),
    ("not JSON", BadJson200(), ("error", "invalid_response", False)),
    ("overloaded inside", StreamError(529, after_text="one two"), ("error", "stream_error", False)),
    ("llama.cpp's words", SseBytes(b'event: error\ndata: {"code":500,"message":"m","type":"server_error"}\n\n'),
     ("error", "stream_error", False)),
    ("a limit inside", StreamError(429), ("rate_limited", "stream_error", True)),
    ("cut off", Cut(clean=True), ("error", "stream_interrupted", False)),
]  # fmt: skip


@every_row(("name", "reply", "found"), FAULTS)
def test_what_goes_wrong_is_called_by_its_name(
    name: str, reply: Any, found: tuple[str, str, bool]
) -> None:
    with ScriptedServer() as server:
        server.script(reply)
        _, failure = ask(server)
        assert (
            failure is not None
            and (failure.status, failure.failure_type, failure.retryable) == found
        )
        assert failure.retry_after_s == (2.0 if name == "limited" else None)


def test_a_refusal_and_a_cut_reply(server: ScriptedServer) -> None:
    """`refusal` is told as one, `max_tokens` as a reply cut by its limit."""
    server.script(Text("", finish="refusal"), Text("half a sen", finish="length"))
    (refused, _), (cut, _) = ask(server), ask(server)
    assert (refused.finish_reason, bool(refused.refusal)) == ("refusal", True)
    assert (cut.finish_reason, cut.text) == ("length", "half a sen")


def test_an_answer_that_is_any_json_cannot_be_asked_for(server: ScriptedServer) -> None:
    """The API takes a schema; what it cannot be told is refused, and nothing is sent."""
    _, failure = ask(server, response_format={"type": "json_object"})
    assert failure is not None and failure.failure_type == "invalid_prompt" and server.calls == []


ADDRESSES = [
    (None, {}, True),
    (None, {"ANTHROPIC_BASE_URL": "http://box:1"}, True),
    ("https://api.anthropic.com", {}, True),
    ("https://api.anthropic.com:443/v1", {}, True),
    ("https://api.anthropic.com.evil.example", {}, False),
    ("https://api.anthropic.com@evil.example", {}, False),
    ("http://api.anthropic.com", {}, False),
    ("http://127.0.0.1:8080", {"ANTHROPIC_BASE_URL": "https://api.anthropic.com"}, False),
]


@every_row(("address", "environ", "gets_key"), ADDRESSES)
def test_the_key_goes_to_its_vendor_and_where_the_same_environment_points(
    address: str | None, environ: dict[str, str], gets_key: bool
) -> None:
    tables = {"anthropic_messages": ProviderTable(base_url=address)} if address else {}
    environ = {"ANTHROPIC_API_KEY": "sk-ant-canary", "OPENAI_API_KEY": "other", **environ}
    found = provider_settings(Configuration(providers=tables), environ, lambda line: None)[
        "anthropic_messages"
    ]
    assert (found.api_key == "sk-ant-canary") is gets_key and found.api_key != "other"
    assert found.base_url == (address or environ.get("ANTHROPIC_BASE_URL"))


def signed_turn(thinking: str, signature: str) -> bytes:
    """A reply that thinks, signs its thinking and calls a tool."""
    deltas = [
        {"type": "thinking_delta", "thinking": thinking},
        {"type": "signature_delta", "signature": signature},
    ]
    events = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    call = {"type": "tool_use", "id": "t1", "name": "exec", "input": {}}
    events.append({"type": "content_block_start", "index": 1, "content_block": call})
    arguments = {"type": "input_json_delta", "partial_json": "{}"}
    events.append({"type": "content_block_delta", "index": 1, "delta": arguments})
    events.append({"type": "content_block_stop", "index": 1})
    events.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    events.append({"type": "message_stop"})
    return b"".join(map(named_event, events))


def test_a_task_gets_its_own_signature_back_though_all_thoughts_look_alike(
    server: ScriptedServer,
) -> None:
    """The API may show nothing of what it thought: then two tasks have the same thinking and two signatures."""
    server.script(SseBytes(signed_turn("", "first")), SseBytes(signed_turn("", "second")))
    asked = Call(model="m", prompt="go", tools=TOOLS, thinking_level="low")

    async def run() -> None:
        async with create_provider(
            ProviderSettings("a", "anthropic_messages", server.base_url)
        ) as provider:
            turns = []
            for _ in range(2):
                timeline = Timeline()
                await provider.attempt(asked, timeline)
                seen = timeline.fold(0)
                turns.append(
                    Turn(
                        seen.text,
                        tuple(seen.native_calls),
                        ("ok",),
                        seen.reasoning_text,
                        seen.replay,
                    )
                )
            for turn in turns:
                await provider.attempt(dataclasses.replace(asked, history=(turn,)), Timeline())

    asyncio.run(run())
    sent_back = [call.json["messages"][1]["content"] for call in server.calls[2:]]
    for blocks, signature in zip(sent_back, ["first", "second"], strict=True):
        thinking, tool_use = blocks
        assert thinking["signature"] == signature
        assert tool_use["type"] == "tool_use"


def test_redacted_thinking_goes_back_as_it_came(server: ScriptedServer) -> None:
    """What the API thought and does not show it wants back unchanged."""
    redacted = {"type": "redacted_thinking", "data": "b3BhcXVl"}
    start = named_event({"type": "content_block_start", "index": 0, "content_block": redacted})
    server.script(SseBytes(start + signed_turn("a look", "s")))
    asked = Call(model="m", prompt="go", tools=TOOLS, thinking_level="low")

    async def run() -> None:
        async with create_provider(
            ProviderSettings("a", "anthropic_messages", server.base_url)
        ) as provider:
            timeline = Timeline()
            await provider.attempt(asked, timeline)
            seen = timeline.fold(0)
            turn = Turn(
                seen.text, tuple(seen.native_calls), ("ok",), seen.reasoning_text, seen.replay
            )
            await provider.attempt(dataclasses.replace(asked, history=(turn,)), Timeline())

    asyncio.run(run())
    said = server.calls[1].json["messages"][1]["content"]
    assert said[0] == redacted
    assert said[1] == {"type": "thinking", "thinking": "a look", "signature": "s"}


def test_thinking_is_reported_once_however_often_a_stream_says_that_it_ends() -> None:
    """A megabyte of empty endings after a thousand signatures costs no copies of these."""
    reported: list[object] = []

    class CountingTimeline(Timeline):
        def replay(self, state: object) -> None:
            reported.append(state)
            super().replay(state)

    reader = MessagesReader(CountingTimeline(), "m")
    signature = {"type": "signature_delta", "signature": "s"}
    for n in range(10):
        event = {"type": "content_block_delta", "index": n, "delta": signature}
        reader.event(0, b"", msgspec.json.encode(event))
    for _ in range(1_000):
        reader.event(0, b"", b'{"type": "message_delta", "delta": {}}')
    for _ in range(1_000):
        reader.event(0, b"", b'{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}')
    assert len(reported) == 1
    assert isinstance(reported[0], SignedThinking) and len(reported[0].blocks) == 10


@pytest.mark.parametrize(("thought", "is_kept"), [("t", True), ("t" * 1_000, False)])
def test_thinking_that_is_signed_a_thousand_times_is_bounded(thought: str, is_kept: bool) -> None:
    """A stream may sign as often as it likes: what goes back has an end."""
    timeline = Timeline()
    reader = MessagesReader(timeline, "m")
    for n in range(1_000):
        for delta in (
            {"type": "thinking_delta", "thinking": thought},
            {"type": "signature_delta", "signature": "s"},
        ):
            event = {"type": "content_block_delta", "index": n, "delta": delta}
            reader.event(0, b"", msgspec.json.encode(event))
    reader.event(0, b"", b'{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}')
    replay = timeline.fold(0).replay
    if is_kept:
        assert isinstance(replay, SignedThinking) and len(replay.blocks) == 1_000
    else:
        assert replay is None
