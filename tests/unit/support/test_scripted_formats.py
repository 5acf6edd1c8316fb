"""The scripted server's answers have the shapes of the real protocols, as recorded or as documented."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.plain_client import CHAT, MESSAGES, RESPONSES, ask, events
from support.scripted_server import ScriptedServer, Text

DATA = Path(__file__).parents[2] / "data"
ALL_PATHS = (CHAT, RESPONSES, MESSAGES)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def recorded(name: str) -> tuple[list[Any], bytes]:
    raw = (DATA / "wire" / "llama_cpp" / f"{name}.txt").read_bytes()
    body = raw.split(b"\n\n", 1)[1] if b"\r\n\r\n" not in raw else raw.split(b"\r\n\r\n", 1)[1]
    return events(body), body


def shape(value: Any) -> Any:
    """The keys of an object at every depth, without llama.cpp's private timings."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items() if key != "timings"}
    if isinstance(value, list):
        return [shape(part) for part in value[:1]]
    return type(value).__name__


def test_chat_stream_has_role_text_finish_usage_and_done(server: ScriptedServer) -> None:
    """A chat stream opens with a role-only chunk and ends with finish, usage without choices, and [DONE]."""
    server.script(Text("The capital is Paris.", usage=(39, 7)))
    _, raw = ask(server, stream=True, stream_options={"include_usage": True})
    role, *texts, finish, usage, done = events(raw)
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert (
        "".join(chunk["choices"][0]["delta"]["content"] for chunk in texts)
        == "The capital is Paris."
    )
    assert finish["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "stop"}
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 7
    assert done == "[DONE]"


@pytest.mark.parametrize("name", ["llama_chat_stream_usage", "final_tools_required_stream"])
def test_llama_chat_chunks_have_the_recorded_shape(name: str) -> None:
    """Every kind of chunk llama.cpp was recorded sending has the same keys from the scripted server."""
    real, _ = recorded(name)
    text = (
        Text("", tool_calls=[("get_weather", "{", '"city"', "}")])
        if "tools" in name
        else Text("L'Étoile.")
    )
    with ScriptedServer(dialect="llama_cpp") as server:
        server.script(Text(**{**vars(text), "cached_tokens": 38}))
        _, raw = ask(server, stream=True, stream_options={"include_usage": True})
    fake = events(raw)
    for index in (0, 1, -3, -2):
        assert shape(fake[index]) == shape(real[index])
    assert fake[0]["choices"][0]["delta"] == real[0]["choices"][0]["delta"]


def test_llama_messages_stream_has_the_recorded_events(server: ScriptedServer) -> None:
    """The Messages stream names its events in the order llama.cpp was recorded using, pings aside."""
    _, real = recorded("llama_messages_stream")
    server.script(Text("France is", finish="length"))
    _, fake = ask(server, MESSAGES, stream=True)

    def order(raw: bytes) -> list[bytes]:
        names = [
            name for name in re.findall(rb"^event: (.*)$", raw, re.MULTILINE) if name != b"ping"
        ]
        return [name for index, name in enumerate(names) if index == 0 or names[index - 1] != name]

    assert order(fake) == order(real)
    assert events(fake)[-2]["delta"]["stop_reason"] == "max_tokens"


def test_responses_stream_counts_its_events(server: ScriptedServer) -> None:
    """OpenAI's events are numbered from 0 without a gap, and each delta says which item it belongs to."""
    server.script(
        Text("Paris it is.", reasoning="Let me think.", tool_calls=[("look", '{"a":', "1}")])
    )
    _, raw = ask(server, RESPONSES, stream=True)
    received = events(raw)
    assert [event["sequence_number"] for event in received] == list(range(len(received)))
    assert {event["output_index"] for event in received if event["type"].endswith(".delta")} == {
        0,
        1,
        2,
    }
    assert received[0]["type"] == "response.created"
    assert received[-1]["type"] == "response.completed"
    kinds = [item["type"] for item in received[-1]["response"]["output"]]
    assert kinds == ["reasoning", "message", "function_call"]
    assert b"[DONE]" not in raw


def test_llama_responses_stream_has_the_recorded_events() -> None:
    """llama.cpp's Responses events come in the recorded order and carry no index and no number."""
    real, _ = recorded("llama_responses_stream")
    with ScriptedServer(dialect="llama_cpp") as server:
        server.script(Text("L'Étoile.", chunks=6))
        _, raw = ask(server, RESPONSES, stream=True)
    fake = events(raw)
    assert [event["type"] for event in fake] == [event["type"] for event in real]
    assert not any("sequence_number" in event or "output_index" in event for event in fake)
    delta = next(event for event in fake if event["type"] == "response.output_text.delta")
    assert set(delta) == {"type", "item_id", "delta"}


@pytest.mark.parametrize(
    ("dialect", "last", "status"),
    [
        ("openai", "response.incomplete", "incomplete"),
        ("llama_cpp", "response.completed", "completed"),
    ],
)
def test_responses_cut_by_the_limit(dialect: Any, last: str, status: str) -> None:
    """A reply cut by the token limit is incomplete at OpenAI and still completed at llama.cpp."""
    with ScriptedServer(dialect=dialect) as server:
        server.reply_with(Text("a b c", finish="length"))
        _, raw = ask(server, RESPONSES, stream=True)
        _, whole = ask(server, RESPONSES)
    assert events(raw)[-1]["type"] == last
    assert json.loads(whole)["status"] == status


def test_ollama_sends_a_tool_call_whole_and_repeats_the_role() -> None:
    """Ollama's documented chunks have the role in each delta and all arguments in one."""
    with ScriptedServer(dialect="ollama") as server:
        server.script(Text("", tool_calls=[("free", '{"unit":', '"MB"}')], reasoning="hm"))
        _, raw = ask(server, stream=True)
    deltas = [chunk["choices"][0]["delta"] for chunk in events(raw)[:-1]]
    assert all(delta["role"] == "assistant" for delta in deltas)
    assert deltas[0]["reasoning"] == "hm"
    assert deltas[1]["tool_calls"][0]["function"] == {"name": "free", "arguments": '{"unit":"MB"}'}
