"""One HTTP reply, from its status to its last byte: decompressed, capped, told apart, and handed on as it arrives.

Owns: what a status means before anything is read, size caps, and whether a payload is events or one body. Refuses:
knowing any vendor's payload (a `Reader` is given), connections, clocks (stamps are handed in) and deadlines (the
runner's). Nothing here waits, so that whoever sees bytes arrive can hand them on in the same breath.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from typing import Any, Protocol

from clawgauge.errors import CallFailure
from clawgauge.providers.http_errors import classify_error_reply
from clawgauge.providers.sse import SseDecoder

REPLY_CAP_BYTES = 16 * 1024 * 1024
ERROR_BODY_CAP_BYTES = 64 * 1024
# What is read in one go: a deadline and the stamps of others wait for no more than this.
SLICE_BYTES = 16 * 1024
_EVENT_OPENINGS = (b"data:", b"event:", b"id:", b"retry:", b":")
_BODY_OPENINGS = (b"{", b"[", b"<")
_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_BLANK_OPENINGS = (b" ", b"\t", b"\r", b"\n", _BOM)


class Clock(Protocol):
    """The part of a `Sink` that is about the connection."""

    def start(self, at_ns: int) -> None: ...

    def connected(self, took_ns: int | None) -> None: ...

    def end(self, at_ns: int) -> None: ...


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

    `feed` until it returns True or the payload ends; then `finish`, unless it returned True. While it is `behind`, it
    has more to read of what it was fed: feed it nothing until it has.
    """

    __slots__ = (
        "_body",
        "_declared",
        "_decoder",
        "_headers",
        "_held",
        "_last_ns",
        "_reader",
        "_sink",
        "_status",
        "behind",
    )

    def __init__(self, sink: Clock, reader: Reader, at_ns: int, status: int, headers: Mapping[str, str]) -> None:
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
        self.behind = False

    @property
    def is_error(self) -> bool:
        """Whether the status has decided the call: what comes now are words about it, not worth a long wait."""
        return self._status >= 400

    def feed(self, at_ns: int, chunk: bytes) -> bool:
        """A piece of the payload, which arrived then. Returns True when the stream said that it is over."""
        self._last_ns = at_ns
        body = self._body
        try:
            part = body.take(chunk)
        except CallFailure:
            self.behind = False
            if self._status < 400:
                raise
            return False  # what cannot be read of an error's words is left out
        self.behind = body.behind
        if self._status >= 400:
            self._hold_words(part)
            return False
        if self._take(at_ns, part):
            self.behind = False
            return True
        return False

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

    def _hold_words(self, part: bytes) -> None:
        """The beginning of an error's words."""
        self._held += part
        if len(self._held) >= ERROR_BODY_CAP_BYTES:
            raise self._error_reply()

    def _error_reply(self) -> CallFailure:
        words = bytes(self._held[:ERROR_BODY_CAP_BYTES])
        return classify_error_reply(self._status, self._headers, words, now_s=time.time(), model=self._reader.model)


class CappedBody:
    """A payload made readable: decompressed if the server compressed unasked, and never more than the cap in all.

    A few kilobytes of a bomb must not become megabytes in one go: where a slice was not all, the body is `behind`, and
    taking nothing gives the next.
    """

    __slots__ = ("_encoding", "_inflate", "_n_bytes", "behind")

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding.strip().lower()
        self._inflate: Any = None
        self._n_bytes = 0
        self.behind = False

    def take(self, chunk: bytes) -> bytes:
        """What `chunk` adds. Raises `CallFailure` for what cannot be read, or is too much."""
        if self._encoding not in ("", "identity"):
            chunk = self._inflated(chunk)
        self._n_bytes += len(chunk)
        if self._n_bytes > REPLY_CAP_BYTES:
            raise too_large()
        return chunk

    def _inflated(self, chunk: bytes) -> bytes:
        inflate = self._inflate = self._inflate or _inflater(self._encoding)
        self.behind = False
        if inflate.eof:
            # Whatever stands behind the end of the compressed data is no part of it.
            return b""
        try:
            block: bytes = inflate.decompress(inflate.unconsumed_tail + chunk, SLICE_BYTES)
        except zlib.error as fault:
            words = f"the compressed reply cannot be read: {fault}"
            raise CallFailure("error", "invalid_response", words) from fault
        self.behind = not inflate.eof and (len(block) == SLICE_BYTES or bool(inflate.unconsumed_tail))
        return block


def too_large(cap: int = REPLY_CAP_BYTES) -> CallFailure:
    """A reply without end, however its bytes are spent."""
    return CallFailure("error", "response_too_large", f"the reply exceeds {cap} bytes")


def _is_stream(head: bytearray, *, declared: bool) -> bool:
    """Some servers stream under another content type, some send a page as if it were a stream: the first word tells."""
    return head.startswith(_EVENT_OPENINGS) or (declared and not head.startswith(_BODY_OPENINGS))


def _inflater(encoding: str) -> Any:
    if encoding in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(zlib.MAX_WBITS | 32 if encoding != "deflate" else zlib.MAX_WBITS)
    words = f"the server used a content encoding that was not asked for: {encoding}"
    raise CallFailure("error", "invalid_response", words)
