"""One HTTP reply from its first byte to its last: framed, decompressed, told apart; server-sent events among them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeAlias

from httptools import HttpParserError, HttpResponseParser

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Sink
from clawgauge.providers.http.errors import classify_error_reply

LINE_CAP_BYTES = 4 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
STREAM_END = b"\n\n"
# One dispatched event: its name, empty where the stream named none, and its data. Plain: there is one per token.
SseEvent: TypeAlias = tuple[bytes, bytes]
REPLY_CAP_BYTES = 16 * 1024 * 1024
_TOO_LARGE = f"the reply exceeds {REPLY_CAP_BYTES} bytes"
ERROR_BODY_CAP_BYTES = 64 * 1024
# What is read in one go: a deadline and the stamps of others wait for no more than this.
SLICE_BYTES = 16 * 1024
_EVENT_OPENINGS = (b"data:", b"event:", b"id:", b"retry:", b":")
_BODY_OPENINGS = (b"{", b"[", b"<")
# Headers with the interim replies before them, or trailers, or what else is no part of a payload. The parser joins a
# long header piece by piece, which takes its square: much more would hold the loop up.
FRAMING_CAP_BYTES = 1 << 16
# What servers get wrong and every client forgives.
_LENIENT = dict.fromkeys(("lenient_headers", "lenient_optional_cr_before_lf", "lenient_spaces_after_chunk_size"), True)
# The headers anything here asks for. No other is kept, however many a server sends.
_KEPT = "Content-Encoding Content-Length Content-Type Retry-After retry-after-ms Server Transfer-Encoding"
_KEPT_HEADERS = {name.lower().encode(): name for name in _KEPT.split()}
_WINDOW_BITS = {"gzip": zlib.MAX_WBITS | 32, "x-gzip": zlib.MAX_WBITS | 32, "deflate": zlib.MAX_WBITS}
_BLANKS = b" \t\r\n"
_BLANK_OPENINGS = (b" ", b"\t", b"\r", b"\n", _BOM)


@dataclass(slots=True)
class SseDecoder:
    """Feed it chunks cut anywhere; it returns the events that are complete. Many servers leave out the last blank line:
    at the end of a stream feed it `STREAM_END`. With `by_line` every line is an event, whole and without a name."""

    line_cap: int = LINE_CAP_BYTES
    by_line: bool = False
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
            # A CR ends its line at once, or a CR-only server would lag one event behind; an LF after it is swallowed.
            self._skip_lf = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._at_start:
            chunk = bytes(self._rest) + chunk
            self._rest.clear()
            if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
                self._rest += chunk
                return []
            self._at_start = False
            chunk = chunk.removeprefix(_BOM)
        lines, data, cap = chunk.split(b"\n"), self._data, self.line_cap
        rest = lines.pop()
        if lines and self._rest:
            self._rest += lines[0]
            lines[0] = bytes(self._rest)
            self._rest.clear()
        if rest:
            self._rest += rest
            if len(self._rest) > cap:
                raise CallFailure("error", "response_too_large", f"a line of the stream exceeds {cap} bytes")
        if self.by_line:
            return [(b"", line) for line in lines if line.strip()]
        events: list[SseEvent] = []
        for line in lines:
            if not line:
                if data:
                    events.append((self._name, data[0] if len(data) == 1 else b"\n".join(data)))
                    data.clear()
                self._name = b""
            elif line[:5] == b"data:" or line == b"data":
                data.append(line[5:].removeprefix(b" "))
            elif line[:6] == b"event:" or line == b"event":
                self._name = line[6:].removeprefix(b" ")
        if events:
            self._size = self._n_counted = 0
        if len(data) > 1:
            # The lines of the event under way, each once and with its newline, however many chunks bring them.
            self._size += sum(len(line) + 1 for line in data[self._n_counted :])
            self._n_counted = len(data)
            if self._size > cap:
                raise CallFailure("error", "response_too_large", f"an event of the stream exceeds {cap} bytes")
        return events


class Reader(Protocol):
    """Turns one reply's payload into reports to a sink. Knows a wire format and which model was asked; no HTTP. `event`
    is a server-sent event, or with `by_line` a line, of a whole reply too; it returns True when the stream said that it
    is over. `body` is a whole JSON reply. `close`: the stream ended; raises `CallFailure` if before its end."""

    by_line: ClassVar[bool]
    model: str

    @property
    def sink(self) -> Sink: ...
    def event(self, at_ns: int, name: bytes, data: bytes) -> bool: ...
    def body(self, at_ns: int, data: bytes) -> None: ...
    def close(self) -> None: ...


class HttpReply:
    """One HTTP reply: framed, decompressed, capped, told apart. Raises `CallFailure` where it is no answer. `feed` it
    what comes over the connection. It `is_answered` once the reader has all it wants, and `is_complete` where its
    framing ends. While it is `behind`, it has more to read of what it was fed: feed it nothing until it has."""

    def __init__(self, reader: Reader) -> None:
        self.status = 0
        # Those with a use, by their usual names.
        self.headers: dict[str, str] = {}
        self.has_head = self.is_error = self.is_complete = self.is_answered = self.keeps_alive = self.behind = False
        self.sink, self._reader = reader.sink, reader
        self._n_received = self._n_framing = self.n_payload = self._last_ns = 0
        self._held = bytearray()
        self._decoder: SseDecoder | None = None
        self._encoding, self._is_stream = "", False
        self._payload: list[bytes] = []
        # The list's own method: there is a call for every chunk, and mostly a chunk for every token.
        self.on_body = self._payload.append
        self.parser = HttpResponseParser(self)
        self.parser.set_dangerous_leniencies(**_LENIENT)

    def feed(self, at_ns: int, data: bytes) -> None:
        """What arrived then. What came before a fault counts: a whole answer is one, whatever stands behind it."""
        # The payload has a cap of its own; these are for what is spent around it.
        self._n_received += len(data)
        self._n_framing += len(data)
        if self._n_framing > FRAMING_CAP_BYTES:
            words = f"the reply has more than {FRAMING_CAP_BYTES} bytes of headers or trailers"
            raise CallFailure("error", "invalid_response", words)
        if self._n_received > REPLY_CAP_BYTES:
            raise CallFailure("error", "response_too_large", _TOO_LARGE)
        fault: BaseException | None = None
        try:
            if data:
                self.parser.feed_data(data)
        except HttpParserError as error:
            self.keeps_alive = False
            # What a callback raised comes wrapped: a ValueError is about the reply, anything else about this machine.
            fault = error.__context__ or error
            if not isinstance(fault, HttpParserError | ValueError):
                raise fault from None
        if self.has_head:
            if 300 <= self.status < 400:
                words = f"the server answered {self.status} with a redirect; set the final address instead"
                raise CallFailure("error", "redirect_refused", words, http_status=self.status)
            if chunk := b"".join(self._payload):
                self._payload.clear()
                self._n_framing = 0
            # Past the stream's own end only the end of the framing is looked for.
            if not self.is_answered:
                if chunk or self.behind or not self._last_ns:
                    self._last_ns = at_ns
                if chunk or self.behind:
                    self._read(at_ns, chunk)
                if self.is_complete and not (self.behind or self.is_answered):
                    # The payload ended, as its framing says or with the connection.
                    if self.is_error:
                        raise self.failure()
                    self.sink.end(self._last_ns)
                    if self._decoder is None and (self._held or not self._is_stream):
                        self._reader.body(self._last_ns, bytes(self._held))
                    else:
                        last = self._decoder.feed(STREAM_END) if self._decoder else ()
                        if not any(self._reader.event(self._last_ns, name, data) for name, data in last):
                            self._reader.close()
        if fault is not None and not self.is_complete:
            raise CallFailure("error", "invalid_response", f"the reply is not HTTP: {fault}")

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise ValueError("a second reply to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        if 0 in value:
            raise ValueError("there is a NUL in a header")
        known = _KEPT_HEADERS.get(name.lower())
        # The first of a name counts, but the last of the codings is that of the framing. No trailer is a header.
        if known is not None and not self.has_head and (known not in self.headers or known == "Transfer-Encoding"):
            self.headers[known] = value.decode("utf-8", "replace")

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if status == 101:
            raise ValueError("the server switched to another protocol, which nobody asked for")
        self.keeps_alive = self.parser.should_keep_alive()
        if 100 <= status < 200:
            return
        self.status, self.has_head, self._n_framing = status, True, 0
        # Where the status has decided the call, what comes now are words about it, not worth a long wait.
        self.is_error = status >= 400
        self._is_stream = self.headers.get("Content-Type", "").partition(";")[0].strip().lower() == "text/event-stream"
        self._encoding = self.headers.get("Content-Encoding", "").strip().lower()
        self._inflate = zlib.decompressobj(_WINDOW_BITS[self._encoding]) if self._encoding in _WINDOW_BITS else None

    def on_message_complete(self) -> None:
        if self.has_head:
            self.is_complete = True
        else:
            self.headers.clear()

    def connection_ended(self) -> None:
        """That is the end of a payload whose length nothing else tells."""
        coding = self.headers.get("Transfer-Encoding", "").rpartition(",")[2].strip().lower()
        self.is_complete = self.is_complete or ("Content-Length" not in self.headers and coding != "chunked")

    def _read(self, at_ns: int, chunk: bytes) -> None:
        try:
            if self._encoding not in ("", "identity"):
                chunk = self._inflated(chunk)
            self.n_payload += len(chunk)
            if self.n_payload > REPLY_CAP_BYTES:
                raise CallFailure("error", "response_too_large", _TOO_LARGE)
        except CallFailure:
            self.behind = False
            if not self.is_error:
                raise
            return  # what cannot be read of an error's words is left out
        if self.is_error:
            self._held += chunk
            if len(self._held) >= ERROR_BODY_CAP_BYTES:
                raise self.failure()
            return
        if self._decoder is None and self._reader.by_line:
            self._decoder = SseDecoder(REPLY_CAP_BYTES, by_line=True)
        if self._decoder is None:
            self._held += chunk
            while self._held.startswith(_BLANK_OPENINGS):
                # Keep-alive, of any length: it is no part of a body, and hides whether this is one.
                self._held = self._held.removeprefix(_BOM).lstrip(_BLANKS)
            # Some servers stream under another content type, some send a page as a stream: its first word tells.
            opens_body = not self._is_stream or self._held.startswith(_BODY_OPENINGS)
            if _BOM.startswith(self._held) or (opens_body and not self._held.startswith(_EVENT_OPENINGS)):
                return
            self._decoder = SseDecoder()
            chunk = bytes(self._held)
        event = self._reader.event
        for name, data in self._decoder.feed(chunk):
            if event(at_ns, name, data):
                self.sink.end(at_ns)
                self.is_answered, self.behind = True, False
                return

    def failure(self, words: object = "") -> CallFailure:
        """What a reply is called that ended before its framing said so; a refusal is one with or without its end."""
        if self.is_error:
            body = bytes(self._held[:ERROR_BODY_CAP_BYTES])
            return classify_error_reply(self.status, self.headers, body, self._reader.model)
        return CallFailure("error", "stream_interrupted", f"the reply broke off: {words}")

    def _inflated(self, chunk: bytes) -> bytes:
        """One slice of what was compressed unasked: a few kilobytes of a bomb must not become megabytes in one go."""
        inflate, self.behind = self._inflate, False
        if inflate is None:
            words = f"the server used a content encoding that was not asked for: {self._encoding}"
            raise CallFailure("error", "invalid_response", words)
        if inflate.eof:
            return b""  # whatever stands behind the end of the compressed data is no part of it
        try:
            block = inflate.decompress(inflate.unconsumed_tail + chunk, SLICE_BYTES)
        except zlib.error as fault:
            raise CallFailure("error", "invalid_response", f"the compressed reply cannot be read: {fault}") from fault
        self.behind = not inflate.eof and (len(block) == SLICE_BYTES or bool(inflate.unconsumed_tail))
        return block
