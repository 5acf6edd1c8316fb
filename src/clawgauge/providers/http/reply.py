"""One HTTP reply from its status to its last byte: decompressed, capped, told apart; server-sent events among them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Sink
from clawgauge.providers.http.errors import classify_error_reply

LINE_CAP_BYTES = 4 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
# One dispatched event: its name, empty where the stream named none, and its data. Plain: there is one per token.
SseEvent: TypeAlias = tuple[bytes, bytes]
REPLY_CAP_BYTES = 16 * 1024 * 1024
ERROR_BODY_CAP_BYTES = 64 * 1024
# What is read in one go: a deadline and the stamps of others wait for no more than this.
SLICE_BYTES = 16 * 1024
_EVENT_OPENINGS = (b"data:", b"event:", b"id:", b"retry:", b":")
_BODY_OPENINGS = (b"{", b"[", b"<")
_WINDOW_BITS = {"gzip": zlib.MAX_WBITS | 32, "x-gzip": zlib.MAX_WBITS | 32, "deflate": zlib.MAX_WBITS}
_BLANKS = b" \t\r\n"
_BLANK_OPENINGS = (b" ", b"\t", b"\r", b"\n", _BOM)


@dataclass(slots=True)
class SseDecoder:
    """Feed it chunks cut anywhere; it returns the events that are complete."""

    line_cap: int = LINE_CAP_BYTES
    # The beginning of a line. It grows in place: a long line is not copied with every chunk.
    _rest: bytearray = field(default_factory=bytearray)
    _data: list[bytes] = field(default_factory=list)
    _size: int = 0
    _n_counted: int = 0
    _name: bytes = b""
    _skip_lf: bool = False
    _at_start: bool = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        if self._skip_lf and chunk:
            self._skip_lf = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return []
        if b"\r" in chunk:
            # A CR ends its line at once, or a CR-only server would lag one event behind; the LF that may
            # follow in the next chunk is then swallowed.
            self._skip_lf = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._at_start:
            chunk = self._completed(chunk) if self._rest else chunk
            if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
                self._rest += chunk
                return []
            self._at_start = False
            chunk = chunk.removeprefix(_BOM)
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._rest:
            lines[0] = self._completed(lines[0])
        if rest:
            self._rest += rest
            if len(self._rest) > self.line_cap:
                raise CallFailure("error", "response_too_large", f"a line of the stream exceeds {self.line_cap} bytes")
        return self._dispatch(lines) if lines else []

    def flush(self) -> list[SseEvent]:
        """What stood at the end without its blank line: many servers leave out the last one."""
        return self._dispatch([rest, b""] if (rest := self._completed(b"")) else [b""])

    def _completed(self, end: bytes) -> bytes:
        """The line that had begun, with what `end` adds to it."""
        line = b"".join((self._rest, end))
        self._rest.clear()
        return line

    def _dispatch(self, lines: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    events.append((self._name, data[0] if len(data) == 1 else b"\n".join(data)))
                    data.clear()
                self._name = b""
            elif line[:6] == b"data: ":
                data.append(line[6:])
            elif line[:5] == b"data:":
                data.append(line[5:])
            elif line.startswith(b"event:"):
                self._name = line[6:].removeprefix(b" ")
            elif line == b"data":
                data.append(b"")
            elif line == b"event":
                self._name = b""
        if events:
            self._size = self._n_counted = 0
        if len(data) > 1:
            # The lines of the event under way, each once and with its newline, however many chunks bring them.
            self._size += sum(len(line) + 1 for line in data[self._n_counted :])
            self._n_counted = len(data)
            if self._size > self.line_cap:
                words = f"an event of the stream exceeds {self.line_cap} bytes"
                raise CallFailure("error", "response_too_large", words)
        return events


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

    def __init__(self, sink: Sink, reader: Reader, at_ns: int, status: int, headers: Mapping[str, str]) -> None:
        if 300 <= status < 400:
            words = f"the server answered {status} with a redirect; set the final address instead"
            raise CallFailure("error", "redirect_refused", words, http_status=status)
        # Whether the status has decided the call: what comes now are words about it, not worth a long wait.
        self.is_error = status >= 400
        self._sink = sink
        self._reader = reader
        self._status = status
        self._headers = headers
        self._declared = headers.get("Content-Type", "").partition(";")[0].strip().lower() == "text/event-stream"
        self._encoding = headers.get("Content-Encoding", "").strip().lower()
        window_bits = _WINDOW_BITS.get(self._encoding)
        self._inflate = None if window_bits is None else zlib.decompressobj(window_bits)
        self._n_bytes = 0
        self._decoder: SseDecoder | None = None
        self._held = bytearray()
        self._last_ns = at_ns
        self.behind = False

    def feed(self, at_ns: int, chunk: bytes) -> bool:
        """A piece of the payload, which arrived then. Returns True when the stream said that it is over."""
        self._last_ns = at_ns
        try:
            if self._encoding not in ("", "identity"):
                chunk = self._inflated(chunk)
            self._n_bytes += len(chunk)
            if self._n_bytes > REPLY_CAP_BYTES:
                raise too_large()
        except CallFailure:
            self.behind = False
            if not self.is_error:
                raise
            return False  # what cannot be read of an error's words is left out
        if self.is_error:
            self._held += chunk
            if len(self._held) >= ERROR_BODY_CAP_BYTES:
                raise self.failure()
            return False
        if self._decoder is None:
            self._held += chunk
            while self._held.startswith(_BLANK_OPENINGS):
                # Keep-alive, of any length: it is no part of a body, and hides whether this is one.
                self._held = self._held.removeprefix(_BOM).lstrip(_BLANKS)
            # Some servers stream under another content type, some send a page as if it were a stream: its first word
            # tells.
            opens_body = not self._declared or self._held.startswith(_BODY_OPENINGS)
            if _BOM.startswith(self._held) or (opens_body and not self._held.startswith(_EVENT_OPENINGS)):
                return False
            self._decoder = SseDecoder()
            chunk = bytes(self._held)
        event = self._reader.event
        for name, data in self._decoder.feed(chunk):
            if event(at_ns, name, data):
                self._sink.end(at_ns)
                self.behind = False
                return True
        return False

    def finish(self) -> None:
        """The payload ended, as its framing says or with the connection."""
        at_ns = self._last_ns
        if self.is_error:
            raise self.failure()
        self._sink.end(at_ns)
        if self._decoder is None and not (self._declared and not self._held):
            self._reader.body(at_ns, bytes(self._held))
            return
        for name, data in self._decoder.flush() if self._decoder else ():
            if self._reader.event(at_ns, name, data):
                return
        self._reader.close()

    def failure(self, words: str = "") -> CallFailure:
        """What a reply is called that ended before its framing said so; a refusal is one with or without its end."""
        if self.is_error:
            body = bytes(self._held[:ERROR_BODY_CAP_BYTES])
            return classify_error_reply(self._status, self._headers, body, self._reader.model)
        return CallFailure("error", "stream_interrupted", f"the reply broke off: {words}")

    def _inflated(self, chunk: bytes) -> bytes:
        """One slice of what was compressed unasked: a few kilobytes of a bomb must not become megabytes in one go."""
        inflate, self.behind = self._inflate, False
        if inflate is None:
            words = f"the server used a content encoding that was not asked for: {self._encoding}"
            raise CallFailure("error", "invalid_response", words)
        if inflate.eof:
            # Whatever stands behind the end of the compressed data is no part of it.
            return b""
        try:
            block = inflate.decompress(inflate.unconsumed_tail + chunk, SLICE_BYTES)
        except zlib.error as fault:
            words = f"the compressed reply cannot be read: {fault}"
            raise CallFailure("error", "invalid_response", words) from fault
        self.behind = not inflate.eof and (len(block) == SLICE_BYTES or bool(inflate.unconsumed_tail))
        return block


def too_large() -> CallFailure:
    """A reply without end, however its bytes are spent."""
    return CallFailure("error", "response_too_large", f"the reply exceeds {REPLY_CAP_BYTES} bytes")
