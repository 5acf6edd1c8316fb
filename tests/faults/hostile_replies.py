"""A seeded source of hostile replies: to requests in every protocol, to questions about a server, and from a CLI.

`hostile_reply(protocol, seed, n)` is case `n` of a seed, always the same. The proper answer underneath comes from the
scripted server's own formats and from recordings of the real CLI; what is done to it is drawn from the seed. No case
says that a whole target cannot answer (a 401, a missing model): the cases after it would not be asked.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Literal

from faults.hostile_json import damage, encode_text, hostile_value, spoil, write_json
from support import chat_format, gemini_format, messages_format, ollama_format, responses_format
from support.http_exchange import Exchange, ReceivedRequest
from support.replies import Text

Protocol = Literal["chat", "responses", "messages", "gemini", "ollama"]
_WIRES = {
    "chat": chat_format,
    "responses": responses_format,
    "messages": messages_format,
    "gemini": gemini_format,
    "ollama": ollama_format,
}
RECORDINGS = Path(__file__).parents[1] / "data" / "wire" / "claude_cli_stream"
# Recordings of a target that cannot answer at all.
_TARGET_ENDING = frozenset({"status_401", "status_404", "reset_before_reply", "not_an_api"})
_STATUSES = (
    200,
    200,
    201,
    204,
    206,
    299,
    300,
    304,
    400,
    402,
    404,
    408,
    413,
    418,
    422,
    429,
    499,
    500,
    503,
    529,
    599,
    700,
    999,
)
_TEXTS = (
    Text("A plain answer of several words."),
    Text("", tool_calls=[("get_weather", '{"city": ', '"Paris"}'), ("free", "{}")]),
    Text("42", reasoning="let me think", reasoning_tokens=3, cached_tokens=1),
    Text("", refusal="I cannot do that."),
    Text(None, finish="length"),
    Text('{"a": 1, "b": [true, null]}', finish="content_filter"),
)


@dataclass(frozen=True)
class HostileReply:
    """Exactly these bytes on the socket, in pieces, and then the end of the connection."""

    data: bytes
    cuts: tuple[int, ...]
    reset: bool

    async def play(self, exchange: Exchange) -> None:
        exchange.keep_alive = False
        for start, end in pairwise([0, *self.cuts, len(self.data)]):
            await exchange.send(self.data[start:end])
            await asyncio.sleep(0)
        if self.reset:
            exchange.reset()


@dataclass(frozen=True)
class HostileProgram:
    """What a CLI prints and how it exits."""

    stdout: bytes
    stderr: bytes
    exit_code: int


def hostile_reply(protocol: Protocol, seed: int, n: int) -> HostileReply:
    """Case `n` of `seed`: a reply to one call."""
    rng = Random(f"{protocol} {seed} {n}")
    # Now and then the answer of another protocol: a wrong path, a gateway that translates badly.
    spoken: Protocol = protocol if rng.random() < 0.9 else rng.choice(("chat", "responses"))
    streamed = rng.random() < 0.75
    payload = _stream(spoken, rng) if streamed else _body(spoken, rng)
    if rng.random() < 0.02:
        payload += rng.choice((b"x", b"\n", b":\n", b"data: x\n", b" ", b"[],")) * rng.choice(
            (100_000, 3_000_000)
        )
    return _reply(payload, "text/event-stream" if streamed else "application/json", rng)


def hostile_listing(seed: int, n: int) -> HostileReply:
    """Case `n` of `seed`: a reply to a question about the server itself (`/models`, `/api/tags`, `/api/ps`)."""
    rng = Random(f"listing {seed} {n}")
    details = {"family": "llama", "parameter_size": "3B", "quantization_level": "Q4_0"}
    model = {"id": "m", "name": "m", "size": 5, "digest": "d", "details": details}
    listing = {"object": "list", "data": [model, model], "models": [model, model], "version": "0.1"}
    return _reply(_written(spoil(listing, rng, rng.randrange(6)), rng), "application/json", rng)


def hostile_program(seed: int, n: int) -> HostileProgram:
    """Case `n` of `seed`: one run of a CLI that prints stream-json."""
    rng = Random(f"program {seed} {n}")
    lines = [
        _written(spoil(line, rng, rng.choice((1, 1, 2, 5))) if rng.random() < 0.3 else line, rng)
        for line in rng.choice(_recordings())
        if rng.random() < 0.95
    ]
    if rng.random() < 0.1:
        rng.shuffle(lines)
    if rng.random() < 0.2:
        lines.insert(rng.randrange(len(lines) + 1), _written(hostile_value(rng), rng))
    stdout = rng.choice((b"\n", b"\n", b"\n", b"\r\n", b"\n\n")).join(lines) + rng.choice(
        (b"\n", b"")
    )
    if rng.random() < 0.25:
        stdout = damage(stdout, rng, rng.choice((1, 3, 20)))
    stderr = rng.choice((b"", b"", b"warning: \xff\xfe", b"Error: " + b"x" * 100_000))
    return HostileProgram(stdout, stderr, rng.choice((0, 0, 0, 1, 1, 2, 143)))


def _stream(protocol: Protocol, rng: Random) -> bytes:
    """Events, some of them spoilt, in every way a stream can be written badly."""
    events = list(rng.choice(_events(protocol)))
    if rng.random() < 0.1:
        rng.shuffle(events)
    if rng.random() < 0.2:
        del events[rng.randrange(len(events)) :]
    spoilt_share = rng.choice((0.0, 0.1, 0.3, 1.0))
    as_lines = _json_line if protocol == "ollama" else _event_lines
    lines = b"".join(
        as_lines(
            name,
            spoil(data, rng, rng.choice((1, 1, 3))) if rng.random() < spoilt_share else data,
            rng,
        )
        for name, data in events
    )
    if rng.random() < 0.8 and protocol != "ollama":
        lines += rng.choice(
            (b"data: [DONE]\n\n", b"data:[DONE]\n\n", b"data: [DONE]", b"data: [DONE]\r\r")
        )
    if rng.random() < 0.3:
        lines = lines.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"\n \n")))
    return damage(lines, rng, rng.choice((1, 4, 30))) if rng.random() < 0.25 else lines


def _json_line(name: str, data: Any, rng: Random) -> bytes:
    return _written(data, rng) + rng.choice((b"\n",) * 12 + (b"", b"\n\n", b"\r\n", b" \n", b"x\n"))


def _event_lines(name: str, data: Any, rng: Random) -> bytes:
    written = _written(data, rng)
    prefix = rng.choice(
        (b"data: ",) * 12 + (b"data:", b" data: ", b"DATA: ", b"data", b"", b"data:  ")
    )
    if rng.random() < 0.05:
        written = written.replace(b",", b",\ndata: ")
    head = f"event: {name}\n".encode() if name else b""
    if rng.random() < 0.1:
        head += rng.choice(
            (
                b"event: error\n",
                b"id: 1\n",
                b": comment\n",
                b"retry: -1\n",
                b"event\n",
                b"\x00: x\n",
                b"\n",
            )
        )
    return head + prefix + written + rng.choice((b"\n\n",) * 12 + (b"\n", b"", b"\n\n\n"))


def _body(protocol: Protocol, rng: Random) -> bytes:
    whole: dict[str, Any] = _WIRES[protocol].body(rng.choice(_TEXTS), _request(), "openai")
    if rng.random() < 0.15:
        whole = rng.choice(
            (
                {"error": {"message": "no", "code": 7}},
                {"error": "no"},
                {"error": None},
                {"detail": "no"},
            )
        )
    written = _written(spoil(whole, rng, rng.randrange(5)), rng)
    return damage(written, rng, rng.choice((1, 5))) if rng.random() < 0.2 else written


def _written(value: Any, rng: Random) -> bytes:
    return encode_text(write_json(value, ascii_only=rng.random() < 0.5), rng)


def _reply(payload: bytes, content_type: str, rng: Random) -> HostileReply:
    """The payload as an HTTP reply, which may itself be wrong."""
    headers: list[bytes] = [b"Content-Type: " + _content_type(content_type, rng)]
    if rng.random() < 0.1:
        encoding, payload = _compressed(payload, rng)
        headers.append(b"Content-Encoding: " + encoding)
    framing, payload = _framed(payload, rng)
    headers += framing
    if rng.random() < 0.15:
        headers += _odd_headers(rng)
    status = rng.choice(_STATUSES) if rng.random() < 0.15 else 200
    line = b"HTTP/1.1 %d OK" % status
    if rng.random() < 0.03:
        line = rng.choice(
            (
                b"HTTP/1.1 200",
                b"HTTP/3 200 OK",
                b"ICY 200 OK",
                b"",
                b"HTTP/1.1 -1 \xff",
                b"HTTP/1.0 200 OK",
            )
        )
    data = b"\r\n".join([line, *headers, b"", b""]) + payload
    if rng.random() < 0.05:
        data = damage(data, rng, rng.choice((1, 3)))
    cuts = sorted(rng.sample(range(1, len(data)), min(rng.choice((0, 0, 1, 3, 9)), len(data) - 1)))
    return HostileReply(data, tuple(cuts), reset=rng.random() < 0.05)


def _content_type(usual: str, rng: Random) -> bytes:
    if rng.random() < 0.85:
        return usual.encode()
    return rng.choice(
        (
            b"text/html",
            b"application/json",
            b"text/event-stream; charset=utf-16",
            b"",
            b";;;",
            b"\xff\xfe/x",
        )
    )


def _compressed(payload: bytes, rng: Random) -> tuple[bytes, bytes]:
    kind = rng.randrange(5)
    if kind == 0:
        return b"gzip", gzip.compress(payload)
    if kind == 1:
        return b"deflate", zlib.compress(payload)
    if kind == 2:
        return b"gzip", gzip.compress(payload)[: rng.randrange(1, 60)]
    if kind == 3:
        return rng.choice((b"gzip", b"deflate")), payload
    return rng.choice((b"br", b"zstd", b"gzip, gzip", b"\xff", b"none")), payload


def _framed(payload: bytes, rng: Random) -> tuple[list[bytes], bytes]:
    kind = rng.random()
    if kind < 0.45:
        size = rng.choice((1, 7, 100, 5000, 1 << 20)) if len(payload) < 20_000 else 1 << 20
        parts = [payload[at : at + size] for at in range(0, len(payload), size)]
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
        return [b"Transfer-Encoding: chunked"], chunks + rng.choice(
            (b"0\r\n\r\n",) * 6 + (b"", b"ZZ\r\n", b"ffffffffffffffffff\r\n")
        )
    if kind < 0.8:
        return [b"Content-Length: %d" % len(payload)], payload
    if kind < 0.95:
        return [], payload
    return [
        rng.choice(
            (
                b"Content-Length: 5",
                b"Content-Length: 99999999",
                b"Content-Length: -3",
                b"Content-Length: x",
            )
        )
    ], payload


def _odd_headers(rng: Random) -> list[bytes]:
    return rng.choice(
        (
            [b"X-Long: " + b"a" * rng.choice((8000, 9000, 200_000))],
            [b"X-Many: %d" % number for number in range(rng.choice((50, 130, 5000)))],
            [
                b"Retry-After: "
                + rng.choice((b"-1", b"99999999999999", b"soon", b"\xff", b"1e5", b"0" * 5000))
            ],
            [b"X-Bytes: \xff\xfe\x80", b"Set-Cookie: a=b; Domain=\x01"],
            [b"Bad Name: x", b": x", b"NoColon"],
            [b"Server: llama.cpp", b"Connection: keep-alive, close, \xe9"],
            [b"Location: http://127.0.0.1:1/", b"Upgrade: h2c", b"Trailer: X"],
            [b" folded: line", b"\tfolded"],
        )
    )


@cache
def _events(protocol: Protocol) -> list[list[tuple[str, Any]]]:
    """Whole proper streams, as (name, data) each."""
    streams = []
    for text in _TEXTS:
        written = [
            frame.data.decode() for frame in _WIRES[protocol].frames(text, _request(), "openai")
        ]
        pairs = (event.rpartition("data: ") for event in written if "[DONE]" not in event)
        streams.append(
            [(head.removeprefix("event: ").strip(), json.loads(data)) for head, _, data in pairs]
        )
    return streams


@cache
def _recordings() -> list[list[Any]]:
    paths = sorted(path for path in RECORDINGS.glob("*.stdout") if path.stem not in _TARGET_ENDING)
    return [[json.loads(line) for line in path.read_bytes().splitlines()] for path in paths]


def _request() -> ReceivedRequest:
    body = json.dumps(
        {"model": "scripted-model", "stream_options": {"include_usage": True}}
    ).encode()
    return ReceivedRequest("POST", "/", {}, body, 0, 0)
