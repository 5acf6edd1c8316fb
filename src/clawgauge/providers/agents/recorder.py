"""The recorder between an agent program and its model passes bodies on, and reads along.

It listens on loopback for the length of one attempt, under an address that holds a secret token, so
that no other user of the machine can spend the key that it puts in. Before the first request is
passed on, its tools are compared with ours. At the first failure, at a request too many and at a
call of a tool of the program's own it asks for the program to be ended.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast
from urllib.parse import unquote

from httptools import HttpParserError, HttpRequestParser, HttpResponseParser

from clawgauge.errors import CallFailure
from clawgauge.providers.agents.ledger import WireTurn
from clawgauge.providers.agents.wires import WireFormat
from clawgauge.providers.base import Sink
from clawgauge.providers.http.client import HttpClient
from clawgauge.providers.http.errors import decode_lenient
from clawgauge.records.agent import EndedBy

_MAX_BODY_BYTES = 64 * 1024 * 1024
_MAX_HEAD_BYTES = 64 * 1024
_READ_BYTES = 256 * 1024
_TOKEN_BYTES = 24
# Passed on later than this after it came, a piece counts as late.
_LATE_NS = 5_000_000
# What a program may ask beside its model; none of it costs anything.
_LISTS = ("/models", "/api/tags", "/api/show", "/api/version", "/api/ps")
# They are between two neighbours on the wire, or ours to say.
_NOT_FORWARDED = frozenset(
    {
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-api-key",
        "x-goog-api-key",
    }
)
_NOT_RETURNED = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What the requests of a program must look like."""

    model: str
    tool_names: Mapping[str, str]
    """Our name of each tool that is to be offered, by its name on the wire."""
    harmless_tools: frozenset[str]
    """Tools of the program's own that it may offer beside ours."""
    max_requests: int
    withhold_own_tools: bool
    """Whether a call of a tool that is not ours is to be stopped before the program sees it."""
    own_tools: frozenset[str] = frozenset()
    """Names of tools that the program has when it is used as it comes."""


@dataclass(slots=True)
class _Request:
    """A request of the program, as far as it has come."""

    method: str = ""
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    n_head_bytes: int = 0
    has_head: bool = False
    is_complete: bool = False
    keeps_alive: bool = False


class _RequestReader:
    """Reads one request with httptools."""

    def __init__(self) -> None:
        self.request = _Request()
        self.parser = HttpRequestParser(self)

    def feed(self, data: bytes) -> None:
        """Raises `ValueError` for what is no request, or too large a one."""
        if not self.request.has_head:
            self.request.n_head_bytes += len(data)
            if self.request.n_head_bytes > _MAX_HEAD_BYTES + _READ_BYTES:
                raise ValueError("the head of the request is too large")
        try:
            self.parser.feed_data(data)
        except HttpParserError as fault:
            raise ValueError(f"this is no HTTP request: {fault}") from fault

    def on_url(self, url: bytes) -> None:
        self.request.path += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.request.headers[name.decode("latin-1")] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.request.has_head = True
        self.request.method = self.parser.get_method().decode("latin-1")

    def on_body(self, piece: bytes) -> None:
        self.request.body += piece
        if len(self.request.body) > _MAX_BODY_BYTES:
            raise ValueError("the body of the request is too large")

    def on_message_complete(self) -> None:
        self.request.is_complete = True
        self.request.keeps_alive = self.parser.should_keep_alive()


class _ReplyPasser:
    """Passes the bytes of a reply on to the program: its head as it was, its body in our chunks."""

    def __init__(self, writer: asyncio.StreamWriter, keeps_alive: bool) -> None:
        self._writer = writer
        self._keeps_alive = keeps_alive
        self._parser = HttpResponseParser(self)
        self._headers: list[tuple[str, str]] = []
        self._reason = b""
        self.status: int | None = None
        self.first_byte_ns: int | None = None
        self.has_begun = False
        self.is_complete = False
        self.is_late = False

    def take(self, at_ns: int, data: bytes) -> None:
        """Pass on a piece of the reply that came at `at_ns`."""
        if self.first_byte_ns is None:
            self.first_byte_ns = at_ns
        with suppress(HttpParserError):
            # What is no HTTP is the reader's to refuse.
            self._parser.feed_data(data)
        if time.perf_counter_ns() - at_ns > _LATE_NS:
            self.is_late = True

    def finish(self) -> None:
        """End a reply whose answer is whole, where its framing has not."""
        if self.has_begun and not self.is_complete:
            self.is_complete = True
            self._writer.write(b"0\r\n\r\n")

    def on_status(self, reason: bytes) -> None:
        self._reason = reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_begun:
            self._headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 100 <= status < 200:
            self._headers.clear()
            return
        self.status = status
        self.has_begun = True
        lines = [f"HTTP/1.1 {status} {self._reason.decode('latin-1')}"]
        for name, value in self._headers:
            if name.lower() not in _NOT_RETURNED:
                lines.append(f"{name}: {value}")
        lines.append("Transfer-Encoding: chunked")
        lines.append("Connection: keep-alive" if self._keeps_alive else "Connection: close")
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def on_body(self, piece: bytes) -> None:
        if piece:
            self._writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))

    def on_message_complete(self) -> None:
        if self.has_begun:
            self.finish()


class _Ignored:
    """The reader of a reply that is no call's: nobody looks into it."""

    by_line: ClassVar[bool] = False
    model: str = ""

    def __init__(self) -> None:
        self.sink = cast(Sink, WireTurn(0))

    def event(self, at_ns: int, name: bytes, data: bytes) -> bool:
        return False

    def body(self, at_ns: int, data: bytes) -> None:
        pass

    def close(self) -> None:
        pass


class Recorder:
    """Serves one attempt of a program. Use it as an async context manager."""

    turns: list[WireTurn]
    stopped: asyncio.Event
    """Set when the program is to be ended."""
    ended_by: EndedBy | None
    failure: CallFailure | None
    """Why there is no answer; None as long as nothing went wrong."""
    prompt_chars: int | None
    prompt_sha256: str | None
    tools_left: list[str]
    """Harmless tools of the program's own that were offered."""
    added_messages: int
    is_late: bool

    def __init__(self, client: HttpClient, wire_format: WireFormat, expected: Expectation) -> None:
        self.turns = []
        self.stopped = asyncio.Event()
        self.ended_by = None
        self.failure = None
        self.prompt_chars = None
        self.prompt_sha256 = None
        self.tools_left = []
        self.added_messages = 0
        self.is_late = False
        self._client = client
        self._wire_format = wire_format
        self._expected = expected
        self._token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    @property
    def address(self) -> str:
        """What takes the place of the model server's address, without a path of its own."""
        assert self._server is not None  # noqa: S101  # entered
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/{self._token}"

    def stop(self, reason: EndedBy, failure: CallFailure | None = None) -> None:
        """Ask for the program to be ended. The first reason counts."""
        if self.ended_by is None:
            self.ended_by = reason
            self.failure = failure
        self.stopped.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after the other."""
        leftover = b""
        try:
            while True:
                request, leftover = await _read_request(reader, writer, leftover)
                if request is None:
                    return
                leftover = await self._answer(request, reader, writer, leftover)
                await writer.drain()
                if not request.keeps_alive:
                    return
        except (ValueError, ConnectionError, OSError):
            # A client that sends no HTTP, or has gone, is not answered.
            return
        finally:
            writer.close()

    async def _answer(
        self,
        request: _Request,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        leftover: bytes,
    ) -> bytes:
        """Answer one request. Returns what came of the next one meanwhile."""
        path = self._path_of(request)
        if path is None:
            _refuse(writer, 404, "no such path")
            return leftover
        if self._wire_format.is_model_request(request.method, path):
            return await self._ask_model(request, path, reader, writer, leftover)
        plain_path = path.partition("?")[0]
        if not plain_path.endswith(_LISTS):
            _refuse(writer, 404, "this is passed on to no server")
            return leftover
        passer = _ReplyPasser(writer, request.keeps_alive)
        await self._forward(request, path, _Ignored(), passer)
        return leftover

    def _path_of(self, request: _Request) -> str | None:
        """The path behind the token; None where the token is missing or wrong."""
        token, slash, path = request.path.removeprefix("/").partition("/")
        is_ours = hmac.compare_digest(unquote(token).encode(), self._token.encode())
        return f"/{path}" if is_ours and slash else None

    async def _ask_model(
        self,
        request: _Request,
        path: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        leftover: bytes,
    ) -> bytes:
        """Pass a request on to the model, and its reply back."""
        turn = WireTurn(arrived_ns=time.perf_counter_ns())
        body = decode_lenient(bytes(request.body))
        refusal = self._check(body, turn)
        self.turns.append(turn)
        if refusal is not None or turn.is_extra:
            turn.failure = refusal
            turn.end_ns = turn.arrived_ns
            self.stop("failure" if refusal is not None else "turns", refusal)
            _refuse(writer, 503, "this request is not passed on")
            return leftover
        wire_reader = self._wire_format.make_reader(cast(Sink, turn), self._expected.model)
        passer = _ReplyPasser(writer, request.keeps_alive)

        def read_along(at_ns: int, data: bytes) -> None:
            if self._calls_own_tool(turn):
                self.stop("withheld")
                return
            passer.take(at_ns, data)

        has_answer = False
        asking = asyncio.ensure_future(
            self._forward(request, path, wire_reader, passer, read_along)
        )
        watching = asyncio.ensure_future(reader.read(_READ_BYTES))
        try:
            await asyncio.wait({asking, watching}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done() and not asking.done():
                early = watching.result()
                if early:
                    leftover += early
                    await asyncio.wait({asking})
                else:
                    # Some programs close once the answer is whole, before its framing has ended.
                    has_answer = turn.end_ns is not None
                    turn.client_left = not has_answer
                    asking.cancel()
                    await asyncio.wait({asking})
            elif watching.done():
                leftover += watching.result()
        finally:
            for task in (asking, watching):
                if not task.done():
                    task.cancel()
            await asyncio.wait({asking, watching})
        turn.first_byte_ns = passer.first_byte_ns
        turn.status = passer.status
        self.is_late = self.is_late or passer.is_late
        if turn.client_left:
            turn.end_ns = time.perf_counter_ns()
            return leftover
        failure = None if has_answer else _failure_of(asking)
        if failure is not None:
            turn.failure = failure
            turn.status = failure.http_status or turn.status
            turn.end_ns = turn.end_ns or time.perf_counter_ns()
            self.stop("failure", failure)
        return leftover

    async def _forward(
        self,
        request: _Request,
        path: str,
        wire_reader: Any,
        passer: _ReplyPasser,
        tap: Callable[[int, bytes], None] | None = None,
    ) -> None:
        """Send a request on, and pass the reply back. Raises `CallFailure`."""
        headers = {}
        for name, value in request.headers.items():
            if name.lower() not in _NOT_FORWARDED:
                headers[name] = value
        await self._client.forward(
            request.method,
            self._upstream_url(path),
            headers,
            bytes(request.body),
            wire_reader,
            tap or passer.take,
        )
        passer.finish()

    def _upstream_url(self, path: str) -> str:
        """Where a request to the recorder is meant for.

        Some programs put `/v1` before their path by themselves, which the address may have already.
        """
        base_url = self._client.base_url
        if base_url.endswith("/v1") and path.startswith(("/v1/", "/api/")):
            base_url = base_url.removesuffix("/v1")
        return base_url + path

    def _check(self, body: dict[str, Any] | None, turn: WireTurn) -> CallFailure | None:
        """Why a request is not passed on; None where it is, or is one too many."""
        if body is None:
            return CallFailure("error", "agent_error", "the program sent its model no JSON")
        model = body.get("model")
        if model != self._expected.model:
            message = f"the program asked for the model {str(model)[:100]!r}, not for this one"
            return CallFailure("error", "model_mismatch", message)
        failure = self._check_offer(self._wire_format.offered_tools(body))
        if failure is not None:
            return failure
        turn.n_user_messages = self._wire_format.count_user_messages(body)
        if not self.turns:
            self.prompt_chars, self.prompt_sha256 = self._wire_format.describe_prompt(body)
        else:
            n_added = turn.n_user_messages - self.turns[0].n_user_messages
            self.added_messages = max(self.added_messages, n_added)
        turn.is_extra = len(self.turns) >= self._expected.max_requests
        return None

    def _check_offer(self, offered: list[str]) -> CallFailure | None:
        """Compare the tools on offer with ours: nothing more but what is harmless, nothing less."""
        expected = self._expected
        others = [name for name in offered if name not in expected.tool_names]
        open_tools = [name for name in others if name not in expected.harmless_tools]
        if open_tools:
            listed = ", ".join(open_tools[:5])
            message = (
                f"the program offered its model tools of its own ({listed}): nothing was sent; "
                "this version of it is not known to be safe"
            )
            return CallFailure("error", "agent_tools_open", message)
        missing = [name for name in expected.tool_names if name not in offered]
        if missing:
            listed = ", ".join(missing[:5])
            message = f"the program did not offer its model these tools: {listed}"
            return CallFailure("error", "tools_dropped", message)
        if not self.turns:
            self.tools_left = others
        return None

    def _calls_own_tool(self, turn: WireTurn) -> bool:
        """Whether the model has begun to call a tool of the program's own, and must not."""
        if not self._expected.withhold_own_tools:
            return False
        return any(call.name in self._expected.own_tools for call in turn.calls.values())


async def _read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, leftover: bytes
) -> tuple[_Request | None, bytes]:
    """The next request of a connection, None at its end, and what came behind it.

    Raises `ValueError` for what is no request.
    """
    request_reader = _RequestReader()
    request = request_reader.request
    is_continued = False
    data = leftover or await reader.read(_READ_BYTES)
    while data:
        request_reader.feed(data)
        if request.is_complete:
            return request, b""
        if request.has_head and not is_continued and _awaits_continue(request):
            is_continued = True
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        data = await reader.read(_READ_BYTES)
    return None, b""


def _awaits_continue(request: _Request) -> bool:
    for name, value in request.headers.items():
        if name.lower() == "expect":
            return value.strip().lower() == "100-continue"
    return False


def _refuse(writer: asyncio.StreamWriter, status: int, text: str) -> None:
    body = json.dumps({"error": {"message": text}}).encode()
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


def _failure_of(asking: asyncio.Future[None]) -> CallFailure | None:
    if asking.cancelled():
        return CallFailure("error", "stream_interrupted", "the request was given up")
    fault = asking.exception()
    if fault is None:
        return None
    if isinstance(fault, CallFailure):
        return fault
    return CallFailure("error", "exception", f"{type(fault).__name__}: {fault}")
