"""One HTTP reply, from its status to its last byte: stamped as it arrives, decompressed, capped, told apart.

Owns: what a status means before anything is read, size caps, and whether a payload is events or one body. Refuses:
knowing any vendor's payload (a `Reader` is given), connections, and deadlines (the runner's).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

import aiohttp

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Sink
from clawgauge.providers.http_errors import classify_error_reply
from clawgauge.providers.sse import SseDecoder

REPLY_CAP_BYTES = 16 * 1024 * 1024
ERROR_BODY_CAP_BYTES = 64 * 1024
DRAIN_S = 0.2
_WATCH_S = 0.1
_INFLATE_BLOCK_BYTES = 64 * 1024
_EVENT_OPENINGS = (b"data:", b"event:", b"id:", b"retry:", b":")
_BODY_OPENINGS = (b"{", b"[", b"<")


class Reader(Protocol):
    """Turns one reply's payload into reports to a sink. Knows a wire format and which model was asked; no HTTP."""

    model: str

    def event(self, at_ns: int, name: bytes, data: bytes) -> bool:
        """One server-sent event. Returns True when the stream said that it is over."""

    def body(self, at_ns: int, data: bytes) -> None:
        """A whole JSON reply."""

    def close(self) -> None:
        """The stream ended. Raises `CallFailure` if it ended before its end."""


async def receive(reply: aiohttp.ClientResponse, sink: Sink, reader: Reader) -> None:
    """Feed a call's reply to `reader`; raise `CallFailure` where it is none."""
    if 300 <= reply.status < 400:
        sink.end(time.perf_counter_ns())
        raise CallFailure(
            "error",
            "redirect_refused",
            f"the server answered {reply.status} with a redirect; set the final address instead",
            http_status=reply.status,
        )
    with _FramingWatch(reply):
        if reply.status >= 400:
            body = await _read_error_body(reply)
            sink.end(time.perf_counter_ns())
            raise classify_error_reply(reply.status, reply.headers, body, now_s=time.time(), model=reader.model)
        try:
            await _feed(reply, sink, reader)
        except aiohttp.ClientPayloadError as fault:
            sink.end(time.perf_counter_ns())
            raise CallFailure("error", "stream_interrupted", f"the reply broke off: {fault}") from fault


async def read_whole(reply: aiohttp.ClientResponse) -> bytes:
    """All of a small reply."""
    held = bytearray()
    with _FramingWatch(reply):
        async for _, chunk in _stamped_chunks(reply):
            held += chunk
    return bytes(held)


async def _read_error_body(reply: aiohttp.ClientResponse) -> bytes:
    """The beginning of an error's words. The status stands without them, so a body that breaks changes nothing."""
    held = bytearray()
    with contextlib.suppress(CallFailure, aiohttp.ClientError, OSError):
        async for _, chunk in _stamped_chunks(reply):
            held += chunk
            if len(held) >= ERROR_BODY_CAP_BYTES:
                break
    return bytes(held[:ERROR_BODY_CAP_BYTES])


async def _feed(reply: aiohttp.ClientResponse, sink: Sink, reader: Reader) -> None:
    """Pass the payload on, as events or as one body, whichever it turns out to be."""
    decoder: SseDecoder | None = None
    held = bytearray()
    declared = reply.content_type == "text/event-stream"
    at_ns = time.perf_counter_ns()
    async for at_ns, chunk in _stamped_chunks(reply):
        if decoder is None:
            held += chunk
            if not _is_stream(held, declared=declared):
                continue
            decoder = SseDecoder()
            chunk = bytes(held)
        for name, data in decoder.feed(chunk):
            if reader.event(at_ns, name, data):
                sink.end(at_ns)
                await _drain(reply)
                return
    sink.end(at_ns)
    if decoder is None:
        reader.body(at_ns, bytes(held))
        return
    for name, data in decoder.flush():
        if reader.event(at_ns, name, data):
            return
    reader.close()


def _is_stream(head: bytearray, *, declared: bool) -> bool:
    """Some servers stream under another content type, some send a page as if it were a stream: the first word tells."""
    start = bytes(head[:64]).removeprefix(b"\xef\xbb\xbf").lstrip()
    return start.startswith(_EVENT_OPENINGS) or (declared and not start.startswith(_BODY_OPENINGS))


async def _drain(reply: aiohttp.ClientResponse) -> None:
    """Read past the stream's own end, so that the connection can be used again; a server that dawdles loses it."""
    with contextlib.suppress(TimeoutError, CallFailure, aiohttp.ClientError):
        async with asyncio.timeout(DRAIN_S):
            while not reply.content.at_eof() and await reply.content.readany():
                pass


class _FramingWatch:
    """Notices a reply whose framing breaks while it is read.

    aiohttp then closes the connection and tells its protocol, but not the reader of the body, who would wait for more
    until the deadline. Looking ten times a second costs a good reply nothing: most are over before the first look.
    """

    def __init__(self, reply: aiohttp.ClientResponse) -> None:
        self._reply = reply
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._look_later()

    def __exit__(self, *exc_info: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_WATCH_S, self._look)

    def _look(self) -> None:
        connection, content = self._reply.connection, self._reply.content
        protocol = connection.protocol if connection is not None else None
        fault = protocol.exception() if protocol is not None else None
        if fault is None or content.is_eof() or content.exception() is not None:
            self._look_later()
            return
        words = " ".join(str(fault).split())
        content.set_exception(CallFailure("error", "invalid_response", f"the reply is not HTTP: {words}"))


async def _stamped_chunks(reply: aiohttp.ClientResponse) -> AsyncIterator[tuple[int, bytes]]:
    """Every chunk with the time it arrived, decompressed if the server compressed unasked, capped in total."""
    inflate = _inflater(reply.headers.get("Content-Encoding", ""))
    total = 0
    read = reply.content.readany
    while True:
        chunk = await read()
        at_ns = time.perf_counter_ns()
        if not chunk:
            return
        for part in (chunk,) if inflate is None else _inflate(inflate, chunk):
            total += len(part)
            if total > REPLY_CAP_BYTES:
                reply.close()
                raise CallFailure("error", "response_too_large", f"the reply exceeds {REPLY_CAP_BYTES} bytes")
            yield at_ns, part


def _inflater(encoding: str) -> Any:
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(zlib.MAX_WBITS | 32 if name != "deflate" else zlib.MAX_WBITS)
    raise CallFailure("error", "invalid_response", f"the server used a content encoding that was not asked for: {name}")


def _inflate(inflate: Any, chunk: bytes) -> Iterator[bytes]:
    """What `chunk` holds, in blocks: a few kilobytes of a bomb must not become megabytes before they are counted."""
    block = b""
    while chunk or len(block) == _INFLATE_BLOCK_BYTES:
        try:
            block = inflate.decompress(chunk, _INFLATE_BLOCK_BYTES)
        except zlib.error as fault:
            raise CallFailure("error", "invalid_response", f"the compressed reply cannot be read: {fault}") from fault
        chunk = inflate.unconsumed_tail
        yield block
