"""Connections as a user meets them: kept while they are warm, not trusted too long, never in the way of a call."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop

from clawgauge.errors import CallFailure
from clawgauge.outcomes import Reply
from clawgauge.providers.base import Call, Provider, ProviderSettings, create_provider
from clawgauge.providers.http import client as http_client
from clawgauge.providers.http.client import HttpClient
from clawgauge.providers.http.reply import HttpReply
from clawgauge.providers.openai.chat import ChatReader
from clawgauge.timeline import Timeline
from support import scripted_server
from support.http_exchange import Exchange
from support.scripted_server import RawBytes, ScriptedServer, SseBytes, Text
from support.waiting import FOREVER_S, growing_deadlines, happening
from unit.providers.observed import attempt

LOOPBACK = Path(__file__).parents[2] / "data" / "tls" / "loopback.pem"
STREAM = b'data: {"choices":[{"index":0,"delta":{"content":"yes"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=request.param) as running:
        yield running


async def ask(provider: Provider, **call: object) -> Reply:
    timeline = Timeline()
    await provider.attempt(Call(**{"model": "scripted-model", "prompt": "hi", **call}), timeline)  # type: ignore[arg-type]
    return timeline.fold(time.perf_counter_ns())


async def ask_in_turn(
    url: str, n_calls: int, settled: Callable[[int], object] = lambda n_asked: True
) -> list[Reply]:
    """So many calls over one client, each after the other, once the one before has `settled`."""
    given = ProviderSettings(name="openai_chat", type="openai_chat", base_url=url)
    done = []
    async with create_provider(given) as provider:
        for n_asked in range(1, n_calls + 1):
            done.append(await ask(provider))
            await happening(lambda n_asked=n_asked: settled(n_asked))
    return done


@dataclass(frozen=True)
class Framed:
    """These bytes as the whole reply, in pieces with a pause between, on a connection that stays open."""

    pieces: tuple[bytes, ...]
    gap_s: float = 0.0
    close: bool = False

    async def play(self, exchange: Exchange) -> None:
        for piece in self.pieces:
            await exchange.send(piece)
            await asyncio.sleep(self.gap_s)
        exchange.keep_alive = not self.close


def test_a_warm_connection_is_used_again(server: ScriptedServer, runner: asyncio.Runner) -> None:
    """Only the first of several calls has a connect, on either event loop."""
    done = runner.run(ask_in_turn(server.v1_url, 4))
    assert [one.connect_ns is None for one in done] == [False, True, True, True]
    assert server.connections == 1


def test_a_connection_the_server_has_closed_costs_nothing(
    server: ScriptedServer, runner: asyncio.Runner
) -> None:
    """A server that closes after its reply without having said so: the next call goes over a new connection."""
    size = b"Content-Length: %d\r\n\r\n" % len(STREAM)
    server.reply_with(Framed((HEAD + size + STREAM,), close=True))
    done = runner.run(
        ask_in_turn(server.v1_url, 3, lambda n_asked: server.closed_connections == n_asked)
    )
    assert [one.text for one in done] == ["yes"] * 3
    assert len(server.calls) == server.connections == 3


def test_a_server_known_to_close_is_never_asked_twice_on_one_connection(
    server: ScriptedServer, runner: asyncio.Runner
) -> None:
    """llama.cpp announces keep-alive and closes after a stream: every call to it gets a connection of its own."""
    size = b"Server: llama.cpp\r\nContent-Length: %d\r\n\r\n" % len(STREAM)
    server.reply_with(Framed((HEAD + size + STREAM,)))
    done = runner.run(ask_in_turn(server.v1_url, 3))
    assert [one.text for one in done] == ["yes"] * 3
    assert [one.connect_ns is None for one in done] == [False, False, False]
    assert server.connections == 3


INTERIM = (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "close"),
    [
        ((*INTERIM, HEAD + b"\r\n", STREAM), True),
        ((HEAD + b"\r\n", STREAM), True),
        ((HEAD + b"Content-Length: %d\r\n\r\n" % len(STREAM), STREAM[:9], STREAM[9:]), False),
        ((CHUNKED, b"%x;ext=1\r\n" % len(STREAM) + STREAM, b"\r\n0\r\nX: y\r\n\r\n"), False),
        ([bytes([byte]) for byte in HEAD + b"\r\n" + STREAM], True),
        ((HEAD.replace(b"1.1", b"1.0") + b"\r\n" + STREAM,), True),
        (
            (
                HEAD
                + b"X: a\r\n  folded\r\nX: \x01\r\nContent-Length: %d\r\n\r\n" % len(STREAM)
                + STREAM,
            ),
            False,
        ),
        (
            (
                HEAD + b"X: " + b"a" * 50_000,
                b"a\r\nContent-Length: %d\r\n\r\n" % len(STREAM),
                STREAM,
            ),
            False,
        ),
        (
            (
                CHUNKED.replace(b"\r\n", b"\n")
                + b"%x  \r\n" % len(STREAM)
                + STREAM
                + b"\r\n0\r\n\r\n",
            ),
            False,
        ),
    ],
    ids=[
        *(
            "interim replies",
            "until the end",
            "length",
            "chunk extension and trailer",
            "byte by byte",
        ),
        *("old", "folded", "a long header", "bare line ends and blanks"),
    ],
)
def test_every_framing_is_read(
    pieces: tuple[bytes, ...], close: bool, server: ScriptedServer, runner: asyncio.Runner
) -> None:
    """Interim replies, bodies without a length, lengths, chunk extensions and trailers all give the text."""
    server.reply_with(Framed(tuple(pieces), gap_s=0.001, close=close))
    (done,) = runner.run(ask_in_turn(server.v1_url, 1))
    assert (done.text, done.finish_reason) == ("yes", "stop")
    assert done.ttft_ns is not None and done.ttft_ns <= done.e2e_ns


@pytest.mark.parametrize(
    "reply",
    [
        HEAD + b"Content-Length: 900\r\n\r\n" + STREAM[:40],
        HEAD.replace(b"text/event-stream", b"application/json") + b"Content-Length: 5\r\n\r\n{}",
        HEAD.replace(b"text/event-stream", b"application/json")
        + b"Transfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:",
        CHUNKED + b"%x\r\n" % len(STREAM) + STREAM[:40],
        CHUNKED + b"5\r\ndata:\r\n0\r\n",
    ],
    ids=[
        "length",
        "length of a body",
        "no chunk",
        "two codings",
        "in a chunk",
        "before the last line",
    ],
)
def test_a_reply_that_ends_before_its_framing_does_is_told_from_one_that_ends(
    reply: bytes, server: ScriptedServer
) -> None:
    """A length or chunks that are not fulfilled when the connection closes are stream_interrupted, with the reason."""
    server.script(RawBytes(reply))
    _, failure = attempt("openai_chat", server.v1_url)
    assert failure is not None and failure.failure_type == "stream_interrupted"
    assert "closed before its end" in failure.message


LENGTH = HEAD + b"Content-Length: %d\r\n\r\n" % len(STREAM)
BLANKS = b"\r\n" * 100


@pytest.mark.parametrize(
    "stray",
    [b"garbage", b"HTTP/1.1 wrong\r\n\r\n", b"HTTP/1.1 200 "],
    ids=["words", "another reply", "half of one"],
)
@pytest.mark.parametrize(
    "pieces",
    [
        (LENGTH + STREAM,),
        (LENGTH[:-3], LENGTH[-3:] + STREAM),
        (INTERIM[0] + LENGTH.replace(b"\r\n", b"\n") + STREAM,),
        (HEAD + b"Connection: close\r\nContent-Length: 22\r\n\r\n" + b'data: {"error": "no"}\n\n',),
        (CHUNKED + b"%x\r\n" % len(STREAM) + STREAM + b"\r\n0\r\n\r\n",),
    ],
    ids=["length", "head in two", "interim", "closing", "chunks"],
)
def test_stray_bytes_do_not_cost_the_answer_they_follow(
    pieces: tuple[bytes, ...], stray: bytes, server: ScriptedServer, runner: asyncio.Runner
) -> None:
    """Whatever stands behind a whole reply in the same read, the reply counts; the connection is not used again."""
    *before, last = pieces
    server.script(Framed((*before, last + stray), gap_s=0.02), Text("mine"))

    async def two() -> list[str]:
        given = ProviderSettings(name="openai_chat", type="openai_chat", base_url=server.v1_url)
        texts = []
        async with create_provider(given) as provider:
            for _ in range(2):
                try:
                    texts.append((await ask(provider)).text)
                except CallFailure as failure:
                    texts.append(failure.failure_type)
        return texts

    assert runner.run(two()) == ["stream_error" if b"error" in last else "yes", "mine"]
    assert server.connections == 2


@pytest.mark.parametrize(
    "blanks", [BLANKS, b"\xef\xbb\xbf" + BLANKS], ids=["blank", "byte-order mark"]
)
@pytest.mark.parametrize("gap_s", [0.0, 0.01], ids=["together", "apart"])
def test_keep_alive_before_an_undeclared_stream(
    blanks: bytes, gap_s: float, server: ScriptedServer
) -> None:
    """A stream under another content type is known for one however many blank lines come before it."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
    server.script(Framed((head, blanks[:70], blanks[70:], STREAM), gap_s=gap_s, close=True))
    done, failure = attempt("openai_chat", server.v1_url)
    assert failure is None and done.text == "yes"


def test_a_server_that_dawdles_after_the_end_does_not_hold_the_answer_up(
    server: ScriptedServer,
) -> None:
    """The answer's time ends with its own end, and the call does not wait for a body that never closes."""
    size = b"Content-Length: %d\r\n\r\n" % (len(STREAM) + 5)
    server.script(Framed((HEAD + size + STREAM,), gap_s=FOREVER_S))
    began_ns = time.perf_counter_ns()
    done, failure = attempt("openai_chat", server.v1_url)
    assert failure is None and done.text == "yes"
    assert done.e2e_ns < time.perf_counter_ns() - began_ns


def test_an_idle_connection_is_closed_before_the_server_would(
    server: ScriptedServer, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection is used again while it is warm; after the keep-alive time it is closed, and the next one is new."""

    async def three(keepalive_s: float) -> list[bool]:
        monkeypatch.setattr(http_client, "KEEPALIVE_S", keepalive_s)
        before = server.closed_connections
        done = await ask_in_turn(
            server.v1_url, 3, lambda n_asked: n_asked != 2 or server.closed_connections > before
        )
        return [one.connect_ns is None for one in done]

    # A busy machine may let the shorter times pass between two calls that follow each other at once.
    assert any(
        runner.run(three(keepalive_s)) == [False, True, False]
        for keepalive_s in growing_deadlines(0.1)
    )


def test_a_deadline_gives_the_connection_up(server: ScriptedServer, runner: asyncio.Runner) -> None:
    """A call that was cut off in the middle leaves no half-read reply to the next."""
    server.script(SseBytes(STREAM, splits=[20], gap_s=FOREVER_S), Text("mine"))

    async def come_once_asked(deadline: asyncio.Timeout) -> None:
        await happening(lambda: server.calls and server.calls[0].sent_bytes)
        deadline.reschedule(asyncio.get_running_loop().time())

    async def two() -> str:
        given = ProviderSettings(name="openai_chat", type="openai_chat", base_url=server.v1_url)
        async with create_provider(given) as provider:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as tasks:
                    tasks.create_task(come_once_asked(deadline))
                    await ask(provider)
            return (await ask(provider)).text

    assert runner.run(two()) == "mine"
    assert server.connections == 2


def test_a_prompt_larger_than_the_socket_takes_arrives_whole(
    server: ScriptedServer, runner: asyncio.Runner
) -> None:
    """Megabytes of prompt are sent as they are, and answered."""
    prompt = "long " * 1_000_000

    async def one() -> Reply:
        given = ProviderSettings(name="openai_chat", type="openai_chat", base_url=server.v1_url)
        async with create_provider(given) as provider:
            return await ask(provider, prompt=prompt)

    assert runner.run(one()).text
    assert server.calls[0].prompt == prompt


def test_an_answer_that_comes_before_the_prompt_is_read_does_not_mix_two_prompts(
    runner: asyncio.Runner,
) -> None:
    """A connection on which a long prompt is still under way is not used for the next one."""
    reply = HEAD + b"Content-Length: %d\r\n\r\n" % len(STREAM) + STREAM
    beginnings: list[bytes] = []

    def answer_without_reading(listener: socket.socket) -> None:
        kept = []
        for _ in range(2):
            connection, _ = listener.accept()
            kept.append(connection)
            beginnings.append(connection.recv(100))
            connection.sendall(reply)
        finished.wait()
        for connection in kept:
            connection.close()

    async def two(url: str) -> list[str]:
        given = ProviderSettings(name="openai_chat", type="openai_chat", base_url=url)
        async with create_provider(given) as provider:
            return [(await ask(provider, prompt="long " * 2_000_000)).text for _ in range(2)]

    finished = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=answer_without_reading, args=(listener,))
        answering.start()
        texts = runner.run(two(f"http://127.0.0.1:{listener.getsockname()[1]}/v1"))
        finished.set()
        answering.join()
    assert texts == ["yes", "yes"]
    assert all(
        beginning.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n") for beginning in beginnings
    )


def test_many_calls_at_once_are_all_read(server: ScriptedServer, runner: asyncio.Runner) -> None:
    """Replies that come in the same moment are read one after another, each whole and in its own time."""
    server.reply_with(Text("one two three", first_delay_s=0.05))

    async def all_at_once() -> list[Reply]:
        given = ProviderSettings(
            name="openai_chat", type="openai_chat", base_url=server.v1_url, concurrency=48
        )
        async with create_provider(given) as provider:
            return list(await asyncio.gather(*(ask(provider) for _ in range(48))))

    done = runner.run(all_at_once())
    assert {one.text for one in done} == {"one two three"}
    assert all(one.ttft_ns is not None and 0.05e9 <= one.ttft_ns <= one.e2e_ns for one in done)


def test_tls_is_spoken_where_the_address_says_so(
    runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server with a certificate we trust is asked over TLS, and its connection used again."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(LOOPBACK)
    monkeypatch.setenv("SSL_CERT_FILE", str(LOOPBACK))
    with ScriptedServer(ssl_context=context) as server:
        done = runner.run(ask_in_turn(server.v1_url, 3))
        assert [(one.text != "", one.connect_ns is None) for one in done] == [
            (True, False),
            (True, True),
            (True, True),
        ]
        assert server.connections == 1


def contexts() -> list[ssl.SSLContext]:
    """All that this process has, in use or not yet collected."""
    return [thing for thing in gc.get_objects() if isinstance(thing, ssl.SSLContext)]


def test_the_certificates_are_read_once() -> None:
    """Any number of clients for servers under TLS share what takes long to load."""
    first = HttpClient("https://one.invalid/v1", headers={})
    before = contexts()  # kept, so that none is collected meanwhile
    more = [HttpClient(f"https://more{n}.invalid/v1", headers={}) for n in range(3)]
    assert [context for context in contexts() if context not in before] == []
    assert first.base_url not in {client.base_url for client in more}


@pytest.mark.parametrize(
    ("reply", "failure_type"),
    [
        (Text("through the proxy"), None),
        (RawBytes(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\nnope"), "http_502"),
        (
            RawBytes(b"HTTP/1.1 429 Slow Down\r\nContent-Length: 40\r\n\r\nwait", then="hang"),
            "http_429",
        ),
        (RawBytes(HEAD + b"Content-Length: 900\r\n\r\n" + STREAM[:90]), "stream_interrupted"),
        (
            RawBytes(HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZZ\r\n", then="hang"),
            "invalid_response",
        ),
        (RawBytes(b""), "connection_reset"),
    ],
    ids=["answer", "error", "stalled error", "cut", "garbage", "closed"],
)
def test_a_proxy_is_used_where_the_environment_names_one(
    reply: scripted_server.Reply,
    failure_type: str | None,
    server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call to another machine goes through HTTP_PROXY, timed from a connected socket, and fails by the same names."""
    monkeypatch.setenv("http_proxy", server.base_url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.script(reply)
    done, failure = attempt("openai_chat", "http://model.invalid/v1")
    assert (failure and failure.failure_type) == failure_type
    assert done.started and (done.text == "through the proxy") == (failure_type is None)
    assert server.calls[0].target == "http://model.invalid/v1/chat/completions"


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/v1", "http:///v1"])
def test_an_address_that_is_none_is_named(address: str) -> None:
    """What is not an HTTP address fails as such, before anything is looked up."""
    _, failure = attempt("openai_chat", address)
    assert isinstance(failure, CallFailure) and failure.failure_type == "invalid_response"


def test_a_key_that_would_break_the_request_is_not_sent(server: ScriptedServer) -> None:
    """A line break in a key cannot smuggle a header in: nothing goes out."""
    key = {"api_key": "sk-one\r\nX-Smuggled: 1", "api_key_env": "K"}
    _, failure = attempt("openai_chat", server.v1_url, settings=key)
    assert failure is not None and failure.failure_type == "exception"
    assert server.requests == []


class Stumbling:
    """A reader with a defect of its own."""

    model = "m"
    by_line = False
    sink = Timeline()

    def event(self, at_ns: int, name: bytes, data: bytes) -> bool:
        raise KeyError("never foreseen")

    def body(self, at_ns: int, data: bytes) -> None:
        raise KeyError("never foreseen")

    def close(self) -> None:
        return


def test_memory_that_runs_out_while_a_head_is_read_is_not_the_servers_fault(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is raised as it is, and not told as a reply that is no HTTP."""

    def exhausted(self: HttpReply, name: bytes, value: bytes) -> None:
        raise MemoryError

    monkeypatch.setattr(HttpReply, "on_header", exhausted)
    with pytest.raises(MemoryError):
        attempt("openai_chat", server.v1_url)


@pytest.mark.parametrize("body", [STREAM, b"{}"], ids=["stream", "body"])
def test_a_defect_in_reading_ends_the_call_and_not_the_loop(
    body: bytes, server: ScriptedServer, runner: asyncio.Runner
) -> None:
    """A fault nobody foresaw reaches whoever asked at once, and the next call is read as ever."""
    server.script(Framed((b"HTTP/1.1 200 OK\r\n\r\n", body), close=True), Text("mine"))

    async def two() -> str:
        async with contextlib.aclosing(HttpClient(server.v1_url, headers={})) as client:
            with pytest.raises(KeyError, match="never foreseen"):
                await client.exchange(f"{client.base_url}/chat/completions", b"{}", Stumbling())
            timeline = Timeline()
            payload = b'{"model": "m", "stream": true}'
            await client.exchange(
                f"{client.base_url}/chat/completions", payload, ChatReader(timeline, "m")
            )
        return timeline.fold(time.perf_counter_ns()).text

    assert runner.run(two()) == "mine"
