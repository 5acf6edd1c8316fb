"""Reads one HTTP reply from its first byte to its last: framing, compression, caps, stream or body.

Server-sent events are decoded here too. What the events mean is a `Reader`'s to say.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeAlias

from httptools import HttpParserError, HttpResponseParser

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Sink
from clawgauge.providers.http.errors import classify_error_reply

LINE_CAP_BYTES = 4 * 1024 * 1024
REPLY_CAP_BYTES = 16 * 1024 * 1024
ERROR_BODY_CAP_BYTES = 64 * 1024
# What is read in one go: a deadline and the stamps of others wait for no more than this.
SLICE_BYTES = 16 * 1024
# Headers with the interim replies before them, or trailers, or what else is no part of a payload.
# The parser joins a long header piece by piece, which takes its square: much more would hold the
# loop up.
FRAMING_CAP_BYTES = 1 << 16
_TOO_LARGE = f"the reply exceeds {REPLY_CAP_BYTES} bytes"

STREAM_END = b"\n\n"
_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_BLANK_OPENINGS = (b" ", b"\t", b"\r", b"\n", _BOM)
_EVENT_OPENINGS = (b"data:", b"event:", b"id:", b"retry:", b":")
_BODY_OPENINGS = (b"{", b"[", b"<")

# What servers get wrong and every client forgives.
_LENIENCIES = {
    "lenient_headers": True,
    "lenient_optional_cr_before_lf": True,
    "lenient_spaces_after_chunk_size": True,
}
# The headers anything here asks for. No other is kept, however many a server sends.
_HEADER_NAMES = (
    "Content-Encoding",
    "Content-Length",
    "Content-Type",
    "Retry-After",
    "retry-after-ms",
    "Server",
    "Transfer-Encoding",
)
_HEADERS_BY_WIRE_NAME = {name.lower().encode(): name for name in _HEADER_NAMES}
_WINDOW_BITS = {
    "gzip": zlib.MAX_WBITS | 32,
    "x-gzip": zlib.MAX_WBITS | 32,
    "deflate": zlib.MAX_WBITS,
}

SseEvent: TypeAlias = tuple[bytes, bytes]
"""A complete event: its name, empty where the stream named none, and its data.

A plain tuple: one is made for every token.
"""


@dataclass(slots=True)
class SseDecoder:
    """Turns the chunks of a stream, cut anywhere, into its complete events.

    Many servers leave out the last blank line: at the end of a stream feed it `STREAM_END`. With
    `by_line` every line that is not blank is an event, whole and without a name.
    """

    line_cap: int = LINE_CAP_BYTES
    """How long a line may become, and the data of an event of several lines."""
    by_line: bool = False

    # The line under way. It grows in place: a long line is not copied with every chunk.
    _open_line: bytearray = field(default_factory=bytearray)
    # The event under way.
    _name: bytes = b""
    _data: list[bytes] = field(default_factory=list)
    _data_size: int = 0
    _n_sized: int = 0
    # Where in the stream it is.
    _is_at_start: bool = True
    _last_was_cr: bool = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Give the events that this chunk completes.

        Raises `CallFailure` for a line or an event beyond `line_cap`.
        """
        if self._last_was_cr or b"\r" in chunk:
            chunk = self._end_lines_with_lf(chunk)
        if self._is_at_start:
            chunk = self._remove_bom(chunk)
        if not chunk:
            return []

        # The last piece is the beginning of a line, and empty where the chunk ends with its line.
        lines = chunk.split(b"\n")
        beginning = lines.pop()
        if lines and self._open_line:
            self._open_line += lines[0]
            lines[0] = bytes(self._open_line)
            self._open_line.clear()
        if beginning:
            self._open_line += beginning
            if len(self._open_line) > self.line_cap:
                raise self._too_large("a line")
        if self.by_line:
            return [(b"", line) for line in lines if line.strip()]

        events: list[SseEvent] = []
        data = self._data
        for line in lines:
            if line[:5] == b"data:" or line == b"data":
                data.append(line[5:].removeprefix(b" "))
            elif not line:
                # A blank line ends an event; one without data is none.
                if data:
                    events.append((self._name, b"\n".join(data)))
                    data.clear()
                self._name = b""
            elif line[:6] == b"event:" or line == b"event":
                self._name = line[6:].removeprefix(b" ")
        if events:
            self._data_size = 0
            self._n_sized = 0
        if len(data) > 1:
            self._check_size()
        return events

    def _end_lines_with_lf(self, chunk: bytes) -> bytes:
        """The chunk with LF for CR and CRLF.

        A CR at its end is a line's end at once, or a server that sends CR alone would lag one event
        behind. Where the next chunk begins with the LF of the same line end, that is dropped.
        """
        if self._last_was_cr and chunk:
            self._last_was_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._last_was_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _remove_bom(self, chunk: bytes) -> bytes:
        """The start of the stream without its byte order mark; empty while that may still come."""
        chunk = bytes(self._open_line) + chunk
        self._open_line.clear()
        if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
            self._open_line += chunk
            return b""
        self._is_at_start = False
        return chunk.removeprefix(_BOM)

    def _check_size(self) -> None:
        """Raise where the event under way has grown too large.

        Each of its lines is counted once and with its newline, however many chunks bring them.
        """
        for line in self._data[self._n_sized :]:
            self._data_size += len(line) + 1
        self._n_sized = len(self._data)
        if self._data_size > self.line_cap:
            raise self._too_large("an event")

    def _too_large(self, part: str) -> CallFailure:
        message = f"{part} of the stream exceeds {self.line_cap} bytes"
        return CallFailure("error", "response_too_large", message)


class Reader(Protocol):
    """Turns the payload of one reply into reports to a sink.

    It knows a wire format and which model was asked, and nothing of HTTP.
    """

    by_line: ClassVar[bool]
    """Whether the payload is lines of JSON, streamed or not, rather than events or one body."""
    model: str
    """The model that was asked: an error that names it is told from others."""

    @property
    def sink(self) -> Sink:
        """Where the reply is reported, and its beginning and end."""

    def event(self, at_ns: int, name: bytes, data: bytes) -> bool:
        """Take a server-sent event, or with `by_line` a line, which came at `at_ns`.

        Returns whether the stream said with it that it is over. Raises `CallFailure` for an error
        in the stream, and for one that is not of this protocol.
        """

    def body(self, at_ns: int, data: bytes) -> None:
        """Take a reply that came whole. Raises `CallFailure` where it is no answer."""

    def close(self) -> None:
        """Take note that the stream ended. Raises `CallFailure` if that was before its end."""


class HttpReply:
    """One HTTP reply: framed, decompressed and capped, its payload handed to a reader.

    `feed` it what comes over the connection.
    """

    status: int
    headers: dict[str, str]
    """Those with a use, by their usual names."""
    has_head: bool
    is_error: bool
    """Whether the status has decided the call: what comes then are words about it."""
    is_answered: bool
    """Whether the reader has all it wants."""
    is_complete: bool
    """Whether the framing, or the connection, has ended the reply."""
    keeps_alive: bool
    behind: bool
    """Whether it has more to read of what it was fed: feed it nothing but `b""` until it has."""
    n_payload: int
    """How many bytes of payload have come, decompressed."""

    def __init__(self, reader: Reader) -> None:
        self.status = 0
        self.headers = {}
        self.has_head = False
        self.is_error = False
        self.is_answered = False
        self.is_complete = False
        self.keeps_alive = False
        self.behind = False
        self.n_payload = 0
        self.sink = reader.sink
        self._reader = reader
        self._n_received = 0
        self._n_framing = 0
        # When the last byte of the payload came; 0 before any has.
        self._last_ns = 0
        self._is_stream = False
        self._encoding = ""
        # What has come of a body, or of a payload of which it is not known yet whether it is one.
        self._body = bytearray()
        # The decoder of a payload that is a stream, from the moment that this is known.
        self._decoder: SseDecoder | None = None
        # What the parser found in the bytes it was fed last.
        self._chunks: list[bytes] = []
        # The list's own method: it is called for every chunk, and there is mostly a chunk a token.
        self.on_body = self._chunks.append
        self.parser = HttpResponseParser(self)
        self.parser.set_dangerous_leniencies(**_LENIENCIES)

    def feed(self, at_ns: int, data: bytes) -> None:
        """Take the bytes that arrived at `at_ns`.

        Raises `CallFailure` where the reply is no answer. What came before a fault counts: a whole
        answer is one, whatever stands behind it.
        """
        # The payload has a cap of its own; these are for what is spent around it.
        self._n_received += len(data)
        self._n_framing += len(data)
        if self._n_framing > FRAMING_CAP_BYTES:
            message = f"the reply has more than {FRAMING_CAP_BYTES} bytes of headers or trailers"
            raise CallFailure("error", "invalid_response", message)
        if self._n_received > REPLY_CAP_BYTES:
            raise CallFailure("error", "response_too_large", _TOO_LARGE)

        fault: BaseException | None = None
        try:
            if data:
                self.parser.feed_data(data)
        except HttpParserError as error:
            self.keeps_alive = False
            # What a callback raised comes wrapped. A ValueError is about the reply, anything else
            # about this machine.
            fault = error.__context__ or error
            if not isinstance(fault, HttpParserError | ValueError):
                raise fault from None

        if self.has_head:
            if 300 <= self.status < 400:
                raise self._redirect_failure()
            payload = b"".join(self._chunks)
            if payload:
                self._chunks.clear()
                self._n_framing = 0
            # Once the reader has all it wants, only the end of the framing is looked for.
            if not self.is_answered:
                if payload or self.behind:
                    self._last_ns = at_ns
                    self._read(at_ns, payload)
                elif not self._last_ns:
                    self._last_ns = at_ns
                if self.is_complete and not self.behind and not self.is_answered:
                    self._end_payload()
        if fault is not None and not self.is_complete:
            raise CallFailure("error", "invalid_response", f"the reply is not HTTP: {fault}")

    def connection_ended(self) -> None:
        """Take note of the connection's end: that of a payload whose length nothing else tells."""
        coding = self.headers.get("Transfer-Encoding", "").rpartition(",")[2].strip().lower()
        if "Content-Length" not in self.headers and coding != "chunked":
            self.is_complete = True

    def failure(self, reason: object = "") -> CallFailure:
        """The failure of a reply that ended before its framing said so.

        An error status decides the call with or without the end of its body.
        """
        if not self.is_error:
            message = f"the reply broke off: {reason}"
            return CallFailure("error", "stream_interrupted", message)
        body = bytes(self._body[:ERROR_BODY_CAP_BYTES])
        return classify_error_reply(self.status, self.headers, body, self._reader.model)

    # The parser calls these.

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise ValueError("a second reply to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        if 0 in value:
            raise ValueError("there is a NUL in a header")
        header = _HEADERS_BY_WIRE_NAME.get(name.lower())
        # A header after the head is a trailer, which counts for nothing.
        if header is None or self.has_head:
            return
        # The first of a name counts, but the last of the codings is that of the framing.
        if header not in self.headers or header == "Transfer-Encoding":
            self.headers[header] = value.decode("utf-8", "replace")

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if status == 101:
            raise ValueError("the server switched to another protocol, which nobody asked for")
        self.keeps_alive = self.parser.should_keep_alive()
        if 100 <= status < 200:
            return
        self.status = status
        self.has_head = True
        self.is_error = status >= 400
        self._n_framing = 0
        content_type = self.headers.get("Content-Type", "").partition(";")[0]
        self._is_stream = content_type.strip().lower() == "text/event-stream"
        self._encoding = self.headers.get("Content-Encoding", "").strip().lower()
        self._inflate = None
        if self._encoding in _WINDOW_BITS:
            self._inflate = zlib.decompressobj(_WINDOW_BITS[self._encoding])

    def on_message_complete(self) -> None:
        if self.has_head:
            self.is_complete = True
        else:
            # That was an interim reply.
            self.headers.clear()

    def _read(self, at_ns: int, chunk: bytes) -> None:
        """Take a piece of the payload, as it was sent; with `behind`, go on with those before."""
        try:
            if self._encoding not in ("", "identity"):
                chunk = self._decompress(chunk)
            self.n_payload += len(chunk)
            if self.n_payload > REPLY_CAP_BYTES:
                raise CallFailure("error", "response_too_large", _TOO_LARGE)
        except CallFailure:
            self.behind = False
            if self.is_error:
                # What cannot be read of an error's words is left out.
                return
            raise
        if self.is_error:
            self._body += chunk
            if len(self._body) >= ERROR_BODY_CAP_BYTES:
                raise self.failure()
            return
        decoder = self._decoder
        if decoder is None:
            decoder = self._find_decoder(chunk)
            if decoder is None:
                return
            # What was held back while nothing was known is the beginning of the stream.
            chunk = bytes(self._body)
        for name, data in decoder.feed(chunk):
            if self._reader.event(at_ns, name, data):
                self.sink.end(at_ns)
                self.is_answered = True
                self.behind = False
                return

    def _find_decoder(self, chunk: bytes) -> SseDecoder | None:
        """The decoder of this payload; None where it is a body, or that cannot be told yet.

        The chunk is added to `_body`.
        """
        self._body += chunk
        if self._reader.by_line:
            self._decoder = SseDecoder(REPLY_CAP_BYTES, by_line=True)
            return self._decoder
        while self._body.startswith(_BLANK_OPENINGS):
            # Keep-alive, of any length: it is no part of a body, and hides whether this is one.
            self._body = self._body.removeprefix(_BOM).lstrip(_BLANKS)
        if _BOM.startswith(self._body):
            return None
        # Some servers stream under another content type, some send a page as a stream: its first
        # word tells.
        opens_like_body = self._body.startswith(_BODY_OPENINGS) or not self._is_stream
        if opens_like_body and not self._body.startswith(_EVENT_OPENINGS):
            return None
        self._decoder = SseDecoder()
        return self._decoder

    def _end_payload(self) -> None:
        """Hand over what is left: the payload has ended, by its framing or with the connection."""
        if self.is_error:
            raise self.failure()
        self.sink.end(self._last_ns)
        if self._decoder is None and (self._body or not self._is_stream):
            self._reader.body(self._last_ns, bytes(self._body))
            return
        if self._decoder is not None:
            for name, data in self._decoder.feed(STREAM_END):
                if self._reader.event(self._last_ns, name, data):
                    return
        self._reader.close()

    def _redirect_failure(self) -> CallFailure:
        message = (
            f"the server answered {self.status} with a redirect; set the final address instead"
        )
        return CallFailure("error", "redirect_refused", message, http_status=self.status)

    def _decompress(self, chunk: bytes) -> bytes:
        """One slice of a payload that was compressed unasked.

        A few kilobytes of a bomb must not become megabytes in one go: where there is more, the
        reply is `behind`. Raises `CallFailure` for an unknown encoding and for damaged data.
        """
        inflate = self._inflate
        self.behind = False
        if inflate is None:
            message = f"the server used a content encoding that was not asked for: {self._encoding}"
            raise CallFailure("error", "invalid_response", message)
        if inflate.eof:
            # Whatever stands behind the end of the compressed data is no part of it.
            return b""
        try:
            block = inflate.decompress(inflate.unconsumed_tail + chunk, SLICE_BYTES)
        except zlib.error as fault:
            message = f"the compressed reply cannot be read: {fault}"
            raise CallFailure("error", "invalid_response", message) from fault
        has_more = len(block) == SLICE_BYTES or bool(inflate.unconsumed_tail)
        self.behind = has_more and not inflate.eof
        return block
