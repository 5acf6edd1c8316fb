"""The scripted server does what its script says, seen from a client that is not ours."""

from __future__ import annotations

import gc
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.plain_client import CHAT, RESPONSES, ask, events, open_raw, read_until_closed
from support.scripted_server import (
    BadJson200,
    Cut,
    Drip,
    Endless,
    EndlessLine,
    GzipBomb,
    Hang,
    HeaderFlood,
    Html200,
    InstalledModel,
    RawBytes,
    Redirect,
    Reset,
    ScriptedServer,
    SseBytes,
    Status,
    Text,
    chunked_garbage,
)
from support.waiting import PATIENCE_S, wait_until

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def test_script_runs_out_into_the_fallback(server: ScriptedServer) -> None:
    """Scripted replies come once each and in order; after them the function answers."""
    server.script(Status(429, headers={"Retry-After": "2"}), Text("first"))
    server.reply_with(lambda request: Text(f"echo {request.prompt}"))
    statuses = [ask(server)[0] for _ in range(3)]
    assert statuses == [429, 200, 200]
    assert b"echo hi" in ask(server)[1]
    assert [request.model for request in server.calls] == ["m"] * 4


@pytest.mark.parametrize(
    ("hang", "last_words"),
    [
        (Hang("before_headers"), b""),
        (Hang("after_headers"), b"chunked\r\n\r\n"),
        (Hang("mid_stream", after_chunks=2, text="one two three"), b'" two"'),
    ],
)
def test_hang_says_nothing_more(server: ScriptedServer, hang: Hang, last_words: bytes) -> None:
    """A hanging reply says what it was told to, then keeps the connection open and silent."""
    server.script(hang)
    with open_raw(server) as raw:
        received = b""
        while last_words not in received:
            received += raw.recv(4096)
        raw.settimeout(0.1)
        with pytest.raises(TimeoutError):
            while data := raw.recv(4096):
                received += data
    assert not [word for word in (b"three", b'finish_reason":"stop', b"[DONE]") if word in received]
    assert (b"data:" in received) is (hang.where == "mid_stream")


def test_cut_closes_before_the_end(server: ScriptedServer) -> None:
    """A cut stream ends without its last chunk, so a client knows that bytes are missing."""
    server.script(Cut(after_chunks=1))
    with pytest.raises(http.client.IncompleteRead):
        ask(server, stream=True)
    server.script(Cut())
    with pytest.raises(http.client.IncompleteRead):
        ask(server)


def test_clean_cut_is_whole_for_http_only(server: ScriptedServer) -> None:
    """A clean cut ends the body properly but says neither finish nor [DONE]."""
    server.script(Cut(after_chunks=2, clean=True))
    _, raw = ask(server, stream=True)
    assert [chunk["choices"][0]["finish_reason"] for chunk in events(raw)] == [None, None, None]


def test_reset_is_a_reset(server: ScriptedServer) -> None:
    """A reset reaches the client as ECONNRESET, not as an orderly end."""
    server.script(Reset(), Reset(after_chunks=1))
    for _ in range(2):
        with open_raw(server) as raw, pytest.raises(ConnectionResetError):
            while raw.recv(4096):
                pass


def test_raw_bytes_go_out_unchanged(server: ScriptedServer) -> None:
    """Raw bytes arrive as written, garbage included."""
    server.script(RawBytes(b"\x00\xffnot http"), RawBytes(b""))
    for expected in (b"\x00\xffnot http", b""):
        with open_raw(server) as raw:
            assert read_until_closed(raw) == expected


def test_chunked_garbage_is_not_valid_chunking(server: ScriptedServer) -> None:
    """A standard client cannot read the garbled chunks."""
    server.script(chunked_garbage())
    with pytest.raises(http.client.IncompleteRead):
        ask(server, stream=True)


@pytest.mark.parametrize("reply", [Endless(), EndlessLine(), HeaderFlood(), HeaderFlood(one_line=True)])
@pytest.mark.parametrize("stream", [True, False])
def test_endless_replies_go_on_until_the_client_leaves(server: ScriptedServer, reply: Any, stream: bool) -> None:
    """An endless reply is still coming after a megabyte, and stops when the client goes away."""
    server.script(reply)
    with open_raw(server, stream=stream) as raw:
        assert len(read_until_closed(raw)) >= 1 << 20
    wait_until(lambda: server.requests[0].client_left)


def test_endless_line_has_no_newline(server: ScriptedServer) -> None:
    """The endless line is one line: after `data: ` there is no newline but those of the chunk framing."""
    server.script(EndlessLine(max_bytes=300_000))
    with open_raw(server) as raw:
        payload = read_until_closed(raw).split(b"\r\n\r\n", 1)[1]
    assert set(payload.split(b"\r\n")[1::2]) == {b"data: ", b"x" * 65536}


@pytest.mark.parametrize("stream", [True, False])
def test_gzip_bomb_is_small_on_the_wire_and_proper_inside(server: ScriptedServer, stream: bool) -> None:
    """The bomb is a valid answer, at least a hundred times larger than what was sent."""
    server.script(GzipBomb(size_bytes=4 << 20))
    _, raw = ask(server, stream=stream)
    unpacked = zlib.decompress(raw, wbits=31)
    assert len(unpacked) > 4 << 20
    assert len(unpacked) > 100 * len(raw)
    assert (events(unpacked)[-1] == "[DONE]") if stream else json.loads(unpacked)["choices"]


def test_drip_keeps_coming(server: ScriptedServer) -> None:
    """A drip sends piece after piece and no end; as comments it sends no piece at all."""
    server.script(Drip(interval_s=0.01), Drip(interval_s=0.01, comments=True))
    for expected, count in ((b"spam ", 3), (b": keep-alive", 3)):
        with open_raw(server) as raw:
            received = b""
            while received.count(expected) < count:
                received += raw.recv(4096)
            assert b"[DONE]" not in received
            assert (b"spam" in received) is (expected == b"spam ")


def test_replies_that_are_not_the_protocol(server: ScriptedServer) -> None:
    """HTML, broken JSON and a redirect come as scripted."""
    server.script(Html200(), BadJson200(), Redirect("http://127.0.0.1:9/elsewhere"))
    assert ask(server)[1].startswith(b"<!doctype html>")
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(ask(server)[1])
    assert ask(server)[0] == 307


@pytest.mark.parametrize("every", [1, 7])
def test_sse_bytes_are_cut_where_asked(server: ScriptedServer, every: int) -> None:
    """Custom bytes arrive whole, in chunks of the size asked for, even inside a character."""
    data = "data: é\r\n\r\n".encode()
    server.script(SseBytes(data, every=every), SseBytes(data, splits=[3, 7]))
    with open_raw(server) as raw:
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            received += raw.recv(4096)
    assert received.split(b"\r\n\r\n", 1)[1].startswith(b"%x\r\n%b\r\n" % (every, data[:every]))
    assert ask(server, stream=True)[1] == data


def test_keep_alive_serves_many_requests_on_one_connection(server: ScriptedServer) -> None:
    """A client that keeps its connection gets every reply on it, and `Connection: close` ends it."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    for stream in (True, False, True):
        connection.request("POST", CHAT, json.dumps({"model": "m", "stream": stream}))
        connection.getresponse().read()
    connection.request("GET", "/v1/models", headers={"Connection": "close"})
    connection.getresponse().read()
    connection.close()
    assert {request.connection for request in server.requests} == {1}
    assert len(server.requests) == 4


def test_requests_keep_what_was_sent(server: ScriptedServer) -> None:
    """A test can look at headers, body, query and prompt of each request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    body = {"model": "gpt", "input": [{"role": "user", "content": [{"type": "input_text", "text": "what now"}]}]}
    connection.request("POST", f"{RESPONSES}?beta=1", iter([json.dumps(body).encode()]), {"Authorization": "Bearer k"})
    connection.getresponse().read()
    connection.close()
    (request,) = server.calls
    assert (request.method, request.path, request.query) == ("POST", RESPONSES, "beta=1")
    assert request.headers["authorization"] == "Bearer k"
    assert request.json == body
    assert request.prompt == "what now"
    assert request.received_ns <= time.perf_counter_ns()


def test_ollama_lists_loads_and_unloads() -> None:
    """The native paths show installed and loaded models, a call loads one, and keep_alive 0 unloads it."""
    model = InstalledModel("llama3.2:3b", quantization_level="Q8_0")
    with ScriptedServer(models=[model], loaded=["old:7b"]) as server:

        def get(path: str) -> Any:
            with urllib.request.urlopen(server.base_url + path, timeout=PATIENCE_S) as reply:
                return json.load(reply)

        assert get("/api/version")["version"]
        assert get("/api/tags")["models"][0]["details"]["quantization_level"] == "Q8_0"
        ask(server, model="llama3.2:3b")
        assert [row["name"] for row in get("/api/ps")["models"]] == ["old:7b", "llama3.2:3b"]
        _, raw = ask(server, "/api/generate", model="old:7b", keep_alive=0)
        assert json.loads(raw)["done_reason"] == "unload"
        assert [row["name"] for row in get("/api/ps")["models"]] == ["llama3.2:3b"]
        assert get("/v1/models")["data"][0]["id"] == "llama3.2:3b"
        assert ask(server, "/api/generate", model="nope")[0] == 404


def test_without_ollama_its_paths_are_not_there() -> None:
    """A server that is not Ollama answers 404 to Ollama's paths; any path can be routed to another reply."""
    with ScriptedServer(ollama=False) as server:
        server.route("/v1/models", Status(500))
        for path, code in (("/api/tags", 404), ("/v1/models", 500)):
            with pytest.raises(urllib.error.HTTPError, match=str(code)) as caught:
                urllib.request.urlopen(server.base_url + path, timeout=PATIENCE_S)
            caught.value.close()


def test_untrusted_certificate_is_refused_by_a_standard_client() -> None:
    """The TLS server runs on a certificate that nobody trusts, and answers those who do not check."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "tls" / "untrusted.pem")
    careless = ssl.create_default_context()
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
    with ScriptedServer(ssl_context=context) as server:
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(f"{server.v1_url}/models", timeout=PATIENCE_S)
        with urllib.request.urlopen(f"{server.v1_url}/models", timeout=PATIENCE_S, context=careless) as reply:
            assert reply.status == 200


def test_leaving_stops_everything() -> None:
    """After the block no thread and no socket of the server is left, even with clients connecting at that moment."""
    with warnings.catch_warnings(record=True) as leaks:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(5):
            with ScriptedServer() as server:
                server.script(Hang(), Endless())
                clients = [open_raw(server), open_raw(server)]
                wait_until(lambda server=server: len(server.requests) == 2)
                clients += [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
            for client in clients:
                client.close()
        gc.collect()
    assert not [str(leak.message) for leak in leaks]
    assert not [thread for thread in threading.enumerate() if thread.name == "scripted-server"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_a_reply_that_raises_fails_the_test() -> None:
    """A mistake in a test's own reply function is not swallowed."""

    def broken(request: Any) -> Any:
        raise LookupError("no such reply")

    with pytest.raises(RuntimeError, match="while answering"), ScriptedServer() as server:
        server.reply_with(broken)
        with pytest.raises(http.client.RemoteDisconnected):
            ask(server)
