"""Replies that break the protocol: silence, cuts, resets, floods, bombs and things that are not the protocol at all.

The endless ones stop when the client leaves, and at `max_bytes` at the latest, so that a client without a cap fails
its test instead of filling the machine.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from support.http_exchange import Exchange
from support.replies import JSON_TYPE, Text, send_frames
from support.wire_frames import dump_json, opening

BLOCK = b"x" * 65536
MARK = "\N{BLACK FLAG}"


@dataclass(frozen=True)
class Hang:
    """Stops talking and keeps the connection open."""

    where: Literal["before_headers", "after_headers", "mid_stream"] = "before_headers"
    after_chunks: int = 1
    text: str = "one two three four"

    async def play(self, exchange: Exchange) -> None:
        if self.where == "mid_stream":
            await send_beginning(exchange, self.text, self.after_chunks)
        elif self.where == "after_headers":
            await exchange.start_chunks()
        await exchange.wait_until_client_leaves()


@dataclass(frozen=True)
class Drip:
    """Sends a little, for ever: a piece of the answer (or only a keep-alive comment) every `interval_s`."""

    interval_s: float = 0.4
    comments: bool = False

    async def play(self, exchange: Exchange) -> None:
        opened, piece, _ = _endless_parts(exchange)
        if not exchange.request.streaming:
            piece = b" "
        elif self.comments:
            piece = b": keep-alive\n\n"
        await exchange.start_chunks()
        if opened:
            await exchange.send_chunk(opened)
        while True:
            await asyncio.sleep(self.interval_s)
            await exchange.send_chunk(piece)


@dataclass(frozen=True)
class Cut:
    """Ends before the answer does: the connection closes, or (`clean`) the body ends as if all had been said."""

    after_chunks: int = 2
    text: str = "one two three four"
    clean: bool = False

    async def play(self, exchange: Exchange) -> None:
        await send_beginning(exchange, self.text, self.after_chunks)
        if self.clean and exchange.request.streaming:
            await exchange.end_chunks()
        else:
            exchange.keep_alive = False


@dataclass(frozen=True)
class Reset:
    """A TCP reset, before the first byte of the reply or (`after_chunks`) in the middle of it."""

    after_chunks: int | None = None
    text: str = "one two three four"

    async def play(self, exchange: Exchange) -> None:
        if self.after_chunks is not None:
            await send_beginning(exchange, self.text, self.after_chunks)
        exchange.reset()


@dataclass(frozen=True)
class RawBytes:
    """Exactly these bytes in place of an HTTP reply; empty closes the connection without a word."""

    data: bytes
    then: Literal["close", "hang", "reset"] = "close"

    async def play(self, exchange: Exchange) -> None:
        exchange.keep_alive = False
        await exchange.send(self.data)
        if self.then == "hang":
            await exchange.wait_until_client_leaves()
        elif self.then == "reset":
            exchange.reset()


def chunked_garbage() -> RawBytes:
    """A chunked reply whose second chunk size is not a number."""
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    return RawBytes(head + b"4\r\ndata\r\nZZZ\r\nnot a chunk\r\n")


@dataclass(frozen=True)
class Endless:
    """An answer that never ends, as fast as the client takes it."""

    max_bytes: int = 1 << 30

    async def play(self, exchange: Exchange) -> None:
        opened, piece, _ = _endless_parts(exchange)
        await exchange.start_chunks(
            "text/event-stream" if exchange.request.streaming else "application/json"
        )
        if opened:
            await exchange.send_chunk(opened)
        await _flood(exchange, _repeated(piece), self.max_bytes)


@dataclass(frozen=True)
class EndlessLine:
    """One event line with no newline, ever."""

    max_bytes: int = 1 << 30

    async def play(self, exchange: Exchange) -> None:
        await exchange.start_chunks()
        await exchange.send_chunk(b"data: ")
        await _flood(exchange, BLOCK, self.max_bytes)


@dataclass(frozen=True)
class GzipBomb:
    """A proper answer of `size_bytes` that arrives as a few kilobytes of gzip."""

    size_bytes: int = 64 << 20

    async def play(self, exchange: Exchange) -> None:
        opened, piece, closed = _endless_parts(exchange)
        content_type = "text/event-stream" if exchange.request.streaming else "application/json"
        await exchange.start_chunks(content_type, {"Content-Encoding": "gzip"})
        for part in _compress(opened, _repeated(piece), closed, self.size_bytes):
            await exchange.send_chunk(part)
        await exchange.end_chunks()


@dataclass(frozen=True)
class HeaderFlood:
    """Headers without end: many short ones, or (`one_line`) a single one that never stops."""

    one_line: bool = False
    max_bytes: int = 64 << 20

    async def play(self, exchange: Exchange) -> None:
        exchange.keep_alive = False
        await exchange.send(b"HTTP/1.1 200 OK\r\n" + (b"X-Flood: " if self.one_line else b""))
        block = BLOCK if self.one_line else b"X-Flood: all work and no play\r\n" * 1024
        while exchange.request.sent_bytes < self.max_bytes:
            await exchange.send(block)


@dataclass(frozen=True)
class Html200:
    """What a captive portal or a wrong port answers."""

    body: bytes = b"<!doctype html><html><body><h1>It works!</h1></body></html>"

    async def play(self, exchange: Exchange) -> None:
        await exchange.send_whole(200, self.body, {"Content-Type": "text/html; charset=utf-8"})


@dataclass(frozen=True)
class BadJson200:
    """Success, with a body that is not JSON although it says so."""

    body: bytes = b'{"choices": [{"message": '

    async def play(self, exchange: Exchange) -> None:
        await exchange.send_whole(200, self.body, JSON_TYPE)


async def send_beginning(exchange: Exchange, text: str, token_count: int) -> None:
    """The first pieces of an answer; without streaming, half of a body whose length promises the rest."""
    answer = Text(text)
    if exchange.request.streaming:
        await exchange.start_chunks()
        frames = exchange.wire.frames(answer, exchange.request, exchange.dialect)
        await send_frames(exchange, opening(frames, token_count), answer)
        return
    body = dump_json(exchange.wire.body(answer, exchange.request, exchange.dialect))
    await exchange.send_head(200, {**JSON_TYPE, "Content-Length": str(len(body))})
    await exchange.send(body[: len(body) // 2])


def _endless_parts(exchange: Exchange) -> tuple[bytes, bytes, bytes]:
    """A proper answer as (what comes before its text, a piece of text that may be repeated, what comes after)."""
    if not exchange.request.streaming:
        body = dump_json(exchange.wire.body(Text(MARK), exchange.request, exchange.dialect))
        before, _, after = body.partition(MARK.encode())
        return before, b"spam ", after
    frames = exchange.wire.frames(Text(chunks=["spam "]), exchange.request, exchange.dialect)
    before = b"".join(frame.data for frame in opening(frames, 0))
    piece = next(frame.data for frame in frames if frame.token)
    after = b"".join(frame.data for frame in frames if frame.closing)
    return before, piece, after


def _repeated(piece: bytes) -> bytes:
    return piece * (len(BLOCK) // len(piece) + 1)


async def _flood(exchange: Exchange, block: bytes, max_bytes: int) -> None:
    exchange.keep_alive = False
    while exchange.request.sent_bytes < max_bytes:
        await exchange.send_chunk(block)


def _compress(opened: bytes, block: bytes, closed: bytes, size_bytes: int) -> Iterator[bytes]:
    gzip = zlib.compressobj(level=1, wbits=31)
    yield gzip.compress(opened) + gzip.flush(zlib.Z_SYNC_FLUSH)
    for _ in range(size_bytes // len(block) + 1):
        if part := gzip.compress(block):
            yield part
    yield gzip.compress(closed) + gzip.flush()
