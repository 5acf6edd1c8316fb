"""One HTTP reply, from its status to its last byte: decompressed, capped, told apart, and handed on as it arrives.

Owns: what a status means before anything is read, size caps, and whether a payload is events or one body. Refuses:
knowing any vendor's payload (a `Reader` is given), connections, clocks (stamps are handed in) and deadlines (the
runner's). Nothing here waits, so that whoever sees bytes arrive can hand them on in the same breath.
"""

from __future__ import annotations

import contextlib
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, Protocol

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Sink
from clawgauge.providers.http_errors import classify_error_reply
from clawgauge.providers.sse import SseDecoder

REPLY_CAP_BYTES = 16 * 1024 * 1024
ERROR_BODY_CAP_BYTES = 64 * 1024
_INFLATE_BLOCK_BYTES = 64 * 1024
_EVENT_OPENINGS = (b"data:", b"event:", b"id:", b"retry:", b":")
_BODY_OPENINGS = (b"{", b"[", b"<")
_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_BLANK_OPENINGS = (b" ", b"\t", b"\r", b"\n", _BOM)


class Reader(Protocol):
    """Turns one reply's payload into reports to a sink. Knows a wire format and which model was asked; no HTTP."""

    model: str

    def event(self, at_ns: int, name: bytes, data: bytes) -> bool:
        """One server-sent event. Returns True when the stream said that it is over."""

    def body(self, at_ns: int, data: bytes) -> None:
        """A whole JSON reply."""

    def close(self) -> None:
        """The stream ended. Raises `CallFailure` if it ended before its end."""


class Intake:
    """Takes one reply in, piece by piece. Every method raises `CallFailure` where the reply is no answer.

    `feed` until it returns True or the payload ends; then `finish`, unless it returned True.
    """

    __slots__ = ("_body", "_declared", "_decoder", "_headers", "_held", "_last_ns", "_reader", "_sink", "_status")

    def __init__(self, sink: Sink, reader: Reader, at_ns: int, status: int, headers: Mapping[str, str]) -> None:
        if 300 <= status < 400:
            raise CallFailure(
                "error",
                "redirect_refused",
                f"the server answered {status} with a redirect; set the final address instead",
                http_status=status,
            )
        self._sink = sink
        self._reader = reader
        self._status = status
        self._headers = headers
        self._declared = headers.get("Content-Type", "").partition(";")[0].strip().lower() == "text/event-stream"
        self._body = CappedBody(headers.get("Content-Encoding", ""))
        self._decoder: SseDecoder | None = None
        self._held = bytearray()
        self._last_ns = at_ns

    @property
    def is_error(self) -> bool:
        """Whether the status has decided the call: what comes now are words about it, not worth a long wait."""
        return self._status >= 400

    def feed(self, at_ns: int, chunk: bytes) -> bool:
        """A piece of the payload, which arrived then. Returns True when the stream said that it is over."""
        self._last_ns = at_ns
        if self._status >= 400:
            self._hold_words(chunk)
            return False
        return any(map(self._take, repeat(at_ns), self._body.parts(chunk)))

    def finish(self) -> None:
        """The payload ended, as its framing says or with the connection."""
        at_ns = self._last_ns
        if self._status >= 400:
            raise self._error_reply()
        self._sink.end(at_ns)
        if self._decoder is None and not (self._declared and not self._held):
            self._reader.body(at_ns, bytes(self._held))
            return
        for name, data in self._decoder.flush() if self._decoder else ():
            if self._reader.event(at_ns, name, data):
                return
        self._reader.close()

    def broken_off(self, words: str) -> CallFailure:
        """What a payload is called that ended before its framing said so."""
        if self._status >= 400:
            return self._error_reply()
        return CallFailure("error", "stream_interrupted", f"the reply broke off: {words}")

    def _take(self, at_ns: int, chunk: bytes) -> bool:
        """Pass a piece on, as events or towards one body, whichever the payload turns out to be."""
        if self._decoder is None:
            self._held += chunk
            while self._held.startswith(_BLANK_OPENINGS):
                # Keep-alive, of any length: it is no part of a body, and hides whether this is one.
                self._held = self._held.removeprefix(_BOM).lstrip(_BLANKS)
            if _BOM.startswith(self._held) or not _is_stream(self._held, declared=self._declared):
                return False
            self._decoder = SseDecoder()
            chunk = bytes(self._held)
        event = self._reader.event
        for name, data in self._decoder.feed(chunk):
            if event(at_ns, name, data):
                self._sink.end(at_ns)
                return True
        return False

    def _hold_words(self, chunk: bytes) -> None:
        """The beginning of an error's words; what cannot be read of them is left out."""
        with contextlib.suppress(CallFailure):
            for part in self._body.parts(chunk):
                self._held += part
                if len(self._held) >= ERROR_BODY_CAP_BYTES:
                    break
        if len(self._held) >= ERROR_BODY_CAP_BYTES:
            raise self._error_reply()

    def _error_reply(self) -> CallFailure:
        words = bytes(self._held[:ERROR_BODY_CAP_BYTES])
        return classify_error_reply(self._status, self._headers, words, now_s=time.time(), model=self._reader.model)


class CappedBody:
    """A payload made readable: decompressed if the server compressed unasked, and never more than the cap in all."""

    __slots__ = ("_encoding", "_inflate", "_n_bytes")

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding.strip().lower()
        self._inflate: Any = None
        self._n_bytes = 0

    def parts(self, chunk: bytes) -> Iterable[bytes]:
        """What `chunk` adds. Raises `CallFailure` for what cannot be read, or is too much."""
        if self._encoding not in ("", "identity"):
            return self._inflated(chunk)
        self._count(chunk)
        return (chunk,)

    def _inflated(self, chunk: bytes) -> Iterator[bytes]:
        """What `chunk` holds, in blocks: a few kilobytes of a bomb must not become megabytes before they count."""
        self._inflate = self._inflate or _inflater(self._encoding)
        block = b""
        while chunk or len(block) == _INFLATE_BLOCK_BYTES:
            try:
                block = self._inflate.decompress(chunk, _INFLATE_BLOCK_BYTES)
            except zlib.error as fault:
                words = f"the compressed reply cannot be read: {fault}"
                raise CallFailure("error", "invalid_response", words) from fault
            chunk = self._inflate.unconsumed_tail
            self._count(block)
            yield block

    def _count(self, part: bytes) -> None:
        self._n_bytes += len(part)
        if self._n_bytes > REPLY_CAP_BYTES:
            raise CallFailure("error", "response_too_large", f"the reply exceeds {REPLY_CAP_BYTES} bytes")


def _is_stream(head: bytearray, *, declared: bool) -> bool:
    """Some servers stream under another content type, some send a page as if it were a stream: the first word tells."""
    return head.startswith(_EVENT_OPENINGS) or (declared and not head.startswith(_BODY_OPENINGS))


def _inflater(encoding: str) -> Any:
    if encoding in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(zlib.MAX_WBITS | 32 if encoding != "deflate" else zlib.MAX_WBITS)
    words = f"the server used a content encoding that was not asked for: {encoding}"
    raise CallFailure("error", "invalid_response", words)
