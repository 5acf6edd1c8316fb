"""The recorder between an agent program and its model: what passes through it, and what does not."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawgauge.providers.agents.recorder import Expectation, Recorder
from clawgauge.providers.agents.wires import WIRE_FORMATS
from clawgauge.providers.http.client import HttpClient
from clawgauge.registry import Wire
from support.http_exchange import Exchange
from support.scripted_server import Cut, Reset, ScriptedServer, Status, Text
from support.waiting import PATIENCE_S, happening

MODEL = "scripted-model"
PATHS = {
    Wire.CHAT: "/chat/completions",
    Wire.RESPONSES: "/responses",
    Wire.MESSAGES: "/v1/messages",
    Wire.OLLAMA: "/api/chat",
}


def expectation(**changes: Any) -> Expectation:
    values: dict[str, Any] = {
        "model": MODEL,
        "tool_names": {},
        "harmless_tools": frozenset(),
        "max_requests": 3,
        "withhold_own_tools": False,
    }
    return Expectation(**(values | changes))


def recording(
    server: ScriptedServer,
    work: Callable[[Recorder], Awaitable[Any]],
    wire: Wire = Wire.CHAT,
    key: str = "k",
    **changes: Any,
) -> tuple[Any, Recorder]:
    """What `work` returns, done while a recorder stands before the server; and the recorder."""

    async def do() -> tuple[Any, Recorder]:
        headers = {"Authorization": f"Bearer {key}", "Accept-Encoding": "identity"}
        client = HttpClient(server.v1_url, headers=headers)
        try:
            async with Recorder(client, WIRE_FORMATS[wire], expectation(**changes)) as recorder:
                async with asyncio.timeout(PATIENCE_S):
                    result = await work(recorder)
                return result, recorder
        finally:
            await client.aclose()

    return asyncio.run(do())


def request_body(wire: Wire = Wire.CHAT, **more: Any) -> bytes:
    body: dict[str, Any] = {"model": MODEL, "stream": True}
    if wire is Wire.CHAT:
        body["stream_options"] = {"include_usage": True}
    if wire is Wire.RESPONSES:
        body["input"] = [{"role": "user", "content": "hi"}]
    else:
        body["messages"] = [{"role": "user", "content": "hi"}]
    return json.dumps(body | more).encode()


async def post(
    address: str, path: str, body: bytes, *, headers: str = "", method: str = "POST"
) -> tuple[int, bytes]:
    """One request on a connection of its own: the status, and the body as the chunks made it."""
    _, _, rest = address.partition("://")
    host, _, token = rest.partition("/")
    name, _, port = host.partition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    head = f"{method} /{token}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}"
    writer.write(head.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    try:
        reply = await reader.read()
    finally:
        writer.close()
    head_bytes, _, payload = reply.partition(b"\r\n\r\n")
    status = int(head_bytes.split(b" ")[1])
    if b"chunked" in head_bytes:
        payload = join_chunks(payload)
    return status, payload


def join_chunks(payload: bytes) -> bytes:
    body = b""
    while payload:
        size, _, payload = payload.partition(b"\r\n")
        n = int(size, 16)
        body += payload[:n]
        payload = payload[n + 2 :]
        if n == 0:
            break
    return body


@pytest.mark.parametrize("wire", PATHS)
def test_first_token_usage_and_calls_are_read_in_every_wire_format(
    server: ScriptedServer, wire: Wire
) -> None:
    """The readers are those of the bare providers, and the program gets what the server sent."""
    server.reply_with(Text("All well.", usage=(7, 3), tool_calls=[("look", '{"at": 1}')]))

    async def ask(recorder: Recorder) -> tuple[int, bytes]:
        return await post(recorder.address, PATHS[wire], request_body(wire))

    (status, body), recorder = recording(server, ask, wire)
    assert status == 200 and body
    (turn,) = recorder.turns
    assert turn.is_whole and turn.status == 200
    assert turn.answer_text == "All well."
    assert [call.name for call in turn.calls.values()] == ["look"]
    (call,) = turn.calls.values()
    assert call.arguments() == ({"at": 1}, True)
    assert turn.output_tokens == 3
    first_token_ns = turn.first_token_ns()
    assert first_token_ns is not None and turn.sent_ns is not None and turn.end_ns is not None
    assert turn.arrived_ns <= turn.sent_ns <= first_token_ns <= turn.end_ns


class Pieces:
    """A reply whose body is sent in these pieces, each in a write of its own."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def play(self, exchange: Exchange) -> None:
        await exchange.start_chunks(headers={"Content-Type": "text/event-stream"})
        for piece in self._pieces:
            await exchange.send_chunk(piece)
        await exchange.end_chunks()


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(1, 400), max_size=12, unique=True))
def test_bytes_are_the_same_in_and_out_wherever_they_are_cut(cuts: list[int]) -> None:
    answer = "".join(
        f'data: {{"choices":[{{"delta":{{"content":"{word} "}}}}]}}\n\n'
        for word in ("naïve", "Größe", "日本", "end")
    )
    answer += 'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    whole = answer.encode()
    borders = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    pieces = [whole[begin:end] for begin, end in itertools.pairwise(borders)]

    async def ask(recorder: Recorder) -> tuple[int, bytes]:
        return await post(recorder.address, PATHS[Wire.CHAT], request_body())

    with ScriptedServer() as server:
        server.reply_with(Pieces([piece for piece in pieces if piece]))
        (status, body), recorder = recording(server, ask)
        (request,) = server.calls
    assert status == 200 and body == whole
    assert request.body == request_body()
    assert recorder.turns[0].answer_text == "naïve Größe 日本 end "


def test_the_programs_headers_pass_but_for_key_and_encoding(server: ScriptedServer) -> None:
    headers = "Authorization: Bearer none\r\nX-Api-Key: none\r\nAccept-Encoding: gzip, br\r\n"
    headers += "User-Agent: program/1\r\nX-Own: yes\r\nContent-Type: application/json\r\n"

    async def ask(recorder: Recorder) -> tuple[int, bytes]:
        return await post(recorder.address, PATHS[Wire.CHAT], request_body(), headers=headers)

    (status, _), _ = recording(server, ask, key="secret-of-ours")
    (call,) = server.calls
    assert status == 200
    assert call.headers["authorization"] == "Bearer secret-of-ours"
    assert "x-api-key" not in call.headers
    assert call.headers["accept-encoding"] == "identity"
    assert call.headers["user-agent"] == "program/1" and call.headers["x-own"] == "yes"


def test_who_does_not_know_the_token_spends_no_key(server: ScriptedServer) -> None:
    """Another user of the machine finds the port, but not the address."""

    async def ask(recorder: Recorder) -> list[int]:
        root, _, token = recorder.address.rpartition("/")
        statuses = []
        for wrong in ("", "/", f"/{token[:-1]}", f"/{token}x", "/x"):
            status, _ = await post(f"{root}{wrong}", PATHS[Wire.CHAT], request_body())
            statuses.append(status)
        return statuses

    statuses, recorder = recording(server, ask)
    assert set(statuses) == {404} and server.requests == [] and recorder.turns == []


def test_lists_pass_and_nothing_else_does(server: ScriptedServer) -> None:
    async def ask(recorder: Recorder) -> list[int]:
        statuses = []
        for method, path in (("GET", "/models"), ("GET", "/api/tags"), ("POST", "/embeddings")):
            status, _ = await post(recorder.address, path, b"{}", method=method)
            statuses.append(status)
        return statuses

    statuses, recorder = recording(server, ask)
    assert statuses == [200, 200, 404]
    assert [request.path for request in server.requests] == ["/v1/models", "/api/tags"]
    assert recorder.turns == [] and not recorder.stopped.is_set()


@pytest.mark.parametrize(
    ("changes", "more", "failure"),
    [
        ({}, {"model": "another"}, "model_mismatch"),
        ({}, {"tools": [{"type": "function", "function": {"name": "bash"}}]}, "agent_tools_open"),
        ({}, {"tools": [{"type": "web_search"}]}, "agent_tools_open"),
        ({"tool_names": {"cg__exec": "exec"}}, {}, "tools_dropped"),
    ],
)
def test_what_is_not_as_expected_is_not_sent(
    server: ScriptedServer, changes: dict[str, Any], more: dict[str, Any], failure: str
) -> None:
    async def ask(recorder: Recorder) -> tuple[int, bytes]:
        return await post(recorder.address, PATHS[Wire.CHAT], request_body(**more))

    (status, _), recorder = recording(server, ask, **changes)
    assert status == 503 and server.calls == []
    assert recorder.failure is not None and recorder.failure.failure_type == failure
    assert recorder.ended_by == "failure" and recorder.stopped.is_set()


def test_one_request_too_many_ends_the_program_and_is_no_failure(server: ScriptedServer) -> None:
    async def ask(recorder: Recorder) -> list[int]:
        statuses = []
        for _ in range(3):
            status, _ = await post(recorder.address, PATHS[Wire.CHAT], request_body())
            statuses.append(status)
        return statuses

    statuses, recorder = recording(server, ask, max_requests=2)
    assert statuses == [200, 200, 503] and len(server.calls) == 2
    assert recorder.ended_by == "turns" and recorder.failure is None
    assert [turn.is_extra for turn in recorder.turns] == [False, False, True]


@pytest.mark.parametrize(
    ("reply", "failure", "retry_after_s"),
    [
        (Status(401), "http_401", None),
        (Status(429, headers={"Retry-After": "7"}), "http_429", 7.0),
        (Status(500), "http_500", None),
        (Cut(after_chunks=1), "stream_interrupted", None),
        (Reset(), "connection_reset", None),
    ],
)
def test_the_first_failure_ends_the_program(
    server: ScriptedServer, reply: Any, failure: str, retry_after_s: float | None
) -> None:
    server.reply_with(reply)

    async def ask(recorder: Recorder) -> None:
        asking = asyncio.ensure_future(post(recorder.address, PATHS[Wire.CHAT], request_body()))
        await recorder.stopped.wait()
        asking.cancel()
        await asyncio.wait({asking})

    _, recorder = recording(server, ask)
    assert recorder.failure is not None
    assert recorder.failure.failure_type == failure
    assert recorder.failure.retry_after_s == retry_after_s
    assert recorder.turns[0].failure is recorder.failure and len(server.calls) == 1


def test_a_program_that_leaves_ends_its_request(server: ScriptedServer) -> None:
    server.reply_with(Text("one two three", head_delay_s=PATIENCE_S))

    async def ask(recorder: Recorder) -> None:
        asking = asyncio.ensure_future(post(recorder.address, PATHS[Wire.CHAT], request_body()))
        await happening(lambda: recorder.turns and recorder.turns[0].sent_ns is not None)
        asking.cancel()
        await asyncio.wait({asking})
        await happening(lambda: recorder.turns[0].end_ns is not None)

    _, recorder = recording(server, ask)
    (turn,) = recorder.turns
    assert turn.client_left and not turn.is_whole and recorder.failure is None


def test_two_requests_at_once_are_two_turns(server: ScriptedServer) -> None:
    async def ask(recorder: Recorder) -> list[tuple[int, bytes]]:
        requests = [post(recorder.address, PATHS[Wire.CHAT], request_body()) for _ in range(2)]
        return list(await asyncio.gather(*requests))

    replies, recorder = recording(server, ask)
    assert [status for status, _ in replies] == [200, 200]
    assert len(recorder.turns) == 2 and all(turn.is_whole for turn in recorder.turns)


@pytest.mark.parametrize("data", [b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"x" * 100_000, b""])
def test_what_is_no_request_is_not_answered(server: ScriptedServer, data: bytes) -> None:
    async def send(recorder: Recorder) -> bytes:
        port = int(recorder.address.split(":")[2].partition("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        writer.write_eof()
        reply = b""
        with contextlib.suppress(ConnectionError):
            reply = await reader.read()
        writer.close()
        return reply

    reply, recorder = recording(server, send)
    assert reply == b"" and recorder.turns == [] and server.requests == []


def test_messages_that_the_program_made_up_are_counted(server: ScriptedServer) -> None:
    user = {"role": "user", "content": "hi"}
    made_up = {"role": "user", "content": "go on"}

    async def ask(recorder: Recorder) -> None:
        await post(recorder.address, PATHS[Wire.CHAT], request_body())
        answer = {"role": "assistant", "content": "x"}
        more = request_body(messages=[user, answer, made_up])
        await post(recorder.address, PATHS[Wire.CHAT], more)

    _, recorder = recording(server, ask)
    assert recorder.added_messages == 1
    assert recorder.prompt_chars is not None and recorder.prompt_sha256 is not None
