"""The calibrated server: it says what protocols say, keeps its schedule, and logs what it did."""

from __future__ import annotations

import http.client
import json
import socket
import time
from typing import Any

import pytest
from bench.server_process import CalibratedServer
from bench.truth import CLIENT_GONE, TruthRow

from support.waiting import PATIENCE_S, wait_until

MS = 1_000_000
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


def post(
    server: CalibratedServer,
    api: str,
    model: str,
    *,
    stream: bool = True,
    tag: str = "",
    **headers: str,
) -> bytes:
    body = {
        "model": model,
        "stream": stream,
        "stream_options": {"include_usage": True},
        "text": f"[[id:{tag}]]",
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        connection.request("POST", PATHS[api], json.dumps(body), headers)
        return connection.getresponse().read()
    finally:
        connection.close()


def events(stream: bytes) -> list[dict[str, Any]]:
    data = [line[6:] for line in stream.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line) for line in data if line != b"[DONE]"]


def row_of(server: CalibratedServer, tag: str) -> TruthRow:
    (row,) = [row for row in server.rows() if row.id == tag]
    return row


def test_a_chat_stream_holds_reasoning_text_and_a_tool_call(server: CalibratedServer) -> None:
    """A chat client reads both channels, the call's arguments piece by piece, why it ended and what it used."""
    chunks = events(post(server, "chat", "t0-n3-r2-c2"))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    calls = [call["function"] for delta in deltas for call in delta.get("tool_calls", [])]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "w0000 w0001 "
    assert "".join(delta.get("content", "") for delta in deltas) == "w0000 w0001 w0002 "
    assert json.loads("".join(call["arguments"] for call in calls)) == {"q": "w0000 w0001 "}
    assert [call["name"] for call in calls if "name" in call] == ["lookup"]
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["usage"]["completion_tokens"] == 7


def test_a_responses_stream_tells_by_deltas_what_it_ends_with(server: CalibratedServer) -> None:
    """The deltas add up to the text of the completed response."""
    told = events(post(server, "responses", "t0-n3-r2"))
    said = "".join(
        event["delta"] for event in told if event["type"] == "response.output_text.delta"
    )
    final = told[-1]["response"]
    assert told[-1]["type"] == "response.completed"
    assert final["output"][1]["content"][0]["text"] == said == "w0000 w0001 w0002 "
    assert final["usage"]["output_tokens_details"]["reasoning_tokens"] == 2


def test_a_messages_stream_opens_and_closes_each_block(server: CalibratedServer) -> None:
    """Thinking, text and tool use are blocks of their own, in order."""
    told = events(post(server, "messages", "t0-n1-r1-c1"))
    opened = [
        event["content_block"]["type"] for event in told if event["type"] == "content_block_start"
    ]
    closed = [event["index"] for event in told if event["type"] == "content_block_stop"]
    assert opened == ["thinking", "text", "tool_use"]
    assert closed == [0, 1, 2]
    assert told[-2]["delta"]["stop_reason"] == "tool_use"


@pytest.mark.parametrize("api", sorted(PATHS))
def test_a_whole_reply_holds_the_same_text(server: CalibratedServer, api: str) -> None:
    """Without streaming the same words come in one JSON body."""
    body = json.loads(post(server, api, "t0-n3", stream=False))
    assert "w0000 w0001 w0002 " in json.dumps(body)
    assert "usage" in body


@pytest.mark.parametrize("api", sorted(PATHS))
def test_nothing_is_written_before_it_is_due(server: CalibratedServer, api: str) -> None:
    """The log shows first reasoning, first answer token and last token no earlier than their schedule."""
    post(server, api, "t20-i5-n3-r2", tag=f"due-{api}")
    row = row_of(server, f"due-{api}")
    assert row.reason_ns - row.recv_ns >= 20 * MS
    assert row.first_ns - row.recv_ns >= 30 * MS
    assert row.last_ns - row.recv_ns >= 40 * MS
    assert row.tokens == 5
    assert (
        row.recv_ns <= row.head_ns <= row.reason_ns <= row.first_ns <= row.last_ns <= row.written_ns
    )


def test_its_clock_is_the_clients_clock(server: CalibratedServer) -> None:
    """Stamps of the server lie between what a client on the same machine saw before and after."""
    before_ns = time.perf_counter_ns()
    post(server, "chat", "t1-n2", tag="clock")
    after_ns = time.perf_counter_ns()
    row = row_of(server, "clock")
    assert before_ns <= row.recv_ns <= row.last_ns <= after_ns


def test_lateness_is_reported(server: CalibratedServer) -> None:
    """How far the server missed its schedule is logged, and is what the stamps say."""
    post(server, "chat", "t5-n1", tag="late")
    row = row_of(server, "late")
    assert row.late_ns == row.first_ns - row.recv_ns - 5 * MS
    assert server.figures()["late"]["max"] >= row.late_ns / 1e3 - 0.1


def test_a_request_id_header_wins_over_the_mark_in_the_prompt(server: CalibratedServer) -> None:
    """Both name a request; the header is the more deliberate one."""
    post(server, "chat", "t0-n1", tag="from-prompt", **{"X-Request-Id": "from-header"})
    assert [row.id for row in server.rows() if row.id.startswith("from-")] == ["from-header"]


def test_one_connection_serves_many_requests(server: CalibratedServer) -> None:
    """Connections are kept, and each request on one gets its own reply and its own row."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    replies = []
    for number in range(3):
        body = {"model": f"t0-n{number + 1}", "stream": True, "text": f"[[id:kept-{number}]]"}
        connection.request("POST", PATHS["chat"], json.dumps(body))
        replies.append(connection.getresponse().read())
    connection.close()
    assert [reply.count(b'"content":"w0000 "') for reply in replies] == [1, 1, 1]
    assert [row_of(server, f"kept-{number}").tokens for number in range(3)] == [1, 2, 3]


def test_a_reply_larger_than_the_socket_arrives_whole(server: CalibratedServer) -> None:
    """A slow reader of a long instant stream gets every token, in order."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    connection.request("POST", PATHS["chat"], json.dumps({"model": "t0-n40000", "stream": True}))
    reply = connection.getresponse()
    time.sleep(0.1)
    text = "".join(
        chunk["choices"][0]["delta"].get("content", "")
        for chunk in events(reply.read())
        if chunk["choices"]
    )
    connection.close()
    assert text.split() == [f"w{k % 10_000:04d}" for k in range(40_000)]


def test_a_client_that_leaves_is_logged_as_gone(server: CalibratedServer) -> None:
    """A broken call cannot be taken for a complete one."""
    body = json.dumps({"model": "t3600000-n1", "stream": True, "text": "[[id:gone]]"}).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:
        client.sendall(
            b"POST /v1/responses HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
        )
        client.recv(1)
    wait_until(lambda: any(row.id == "gone" for row in server.rows()))
    assert row_of(server, "gone").end == CLIENT_GONE


def test_a_reset_forgets(server: CalibratedServer) -> None:
    """After a reset the log holds only what came later."""
    post(server, "chat", "t0-n1", tag="before")
    server.reset()
    post(server, "chat", "t0-n1", tag="after")
    assert [row.id for row in server.rows()] == ["after"]


@pytest.mark.parametrize(
    ("path", "status"), [("/nowhere", 404), ("/v1/models", 200), ("/health", 200)]
)
def test_other_addresses_are_answered(server: CalibratedServer, path: str, status: int) -> None:
    """A client that looks around before it asks gets answers."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    connection.request("GET", path)
    assert connection.getresponse().status == status
    connection.close()


def test_a_body_that_is_no_request_is_refused(server: CalibratedServer) -> None:
    """A mistake in a measurement shows as a 400, not as an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    connection.request("POST", PATHS["chat"], "{")
    assert connection.getresponse().status == 400
    connection.close()
