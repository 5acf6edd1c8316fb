"""One connection to a server: a request goes out, its reply's bytes are stamped as they come and read soon after."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import cast

from httptools import HttpParserError, HttpResponseParser

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Sink
from clawgauge.providers.http.reply import REPLY_CAP_BYTES, SLICE_BYTES, Intake, Reader, too_large

# How long reading, and the judging it leads to, may keep the loop from its sockets in one turn.
_SLICE_NS = 400_000
_ANSWERS_PER_TURN = 8
DRAIN_S = 0.2
# How long the words of a refusal are waited for: its status has said what matters.
WORDS_S = 1.5
# Headers with the interim replies before them, or trailers, or what else is no part of a payload. The parser joins a
# long header piece by piece, which takes its square: much more would hold the loop up.
FRAMING_CAP_BYTES = 1 << 16
# A server that floods is not read faster than it is understood.
_UNREAD_BYTES = 1 << 20
# What servers get wrong and every client forgives.
_LENIENT = ("lenient_headers", "lenient_optional_cr_before_lf", "lenient_spaces_after_chunk_size")
LENIENCIES = dict.fromkeys(_LENIENT, True)
# The headers anything here asks for. No other is kept, however many a server sends.
_KEPT_HEADERS = {
    name.lower().encode(): name
    for name in (
        *("Content-Encoding", "Content-Length", "Content-Type", "Retry-After", "retry-after-ms", "Server"),
        "Transfer-Encoding",
    )
}


class ReadingDesk:
    """A queue of work in order of arrival, done between the loop's looks at its sockets."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], bool]] = deque()
        self._called = False

    def put(self, loop: asyncio.AbstractEventLoop, read: Callable[[], bool]) -> None:
        """Have `read` called soon. It returns True when it completed an answer, which somebody will now judge."""
        self._waiting.append(read)
        if not self._called:
            self._called = True
            loop.call_soon(self._work, loop)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        until_ns = time.perf_counter_ns() + _SLICE_NS
        waiting, n_answers = self._waiting, 0
        while waiting:
            n_answers += waiting.popleft()()
            if n_answers == _ANSWERS_PER_TURN or time.perf_counter_ns() >= until_ns:
                break
        self._called = bool(waiting)
        if waiting:
            loop.call_soon(self._work, loop)


class Wire(asyncio.Protocol):
    """One connection, one call at a time. Whoever asked is woken once, when all is said.

    It listens to the parser too, which tells it where a head ends, what is payload, and where that ends.
    """

    _status = 0
    _has_head = _is_complete = _keeps_alive = False

    def __init__(
        self, loop: asyncio.AbstractEventLoop, desk: ReadingDesk, plain_socket: socket.socket | None = None
    ) -> None:
        self.closed: asyncio.Future[None] = loop.create_future()
        self.server = ""
        # Whether the server closed the connection in good order, and had not begun to answer.
        self.was_dropped = False
        self._loop = loop
        self._desk = desk
        # The loop's transport may send at the end of its turn; a socket without TLS takes the request this instant.
        self._socket = plain_socket
        self._transport: asyncio.Transport | None = None
        # The headers with a use, by their usual names, and the pieces of payload found so far.
        self._headers: dict[str, str] = {}
        self._payload: list[bytes] = []
        # The list's own method: there is a call for every chunk, and mostly a chunk for every token.
        self.on_body = self._payload.append
        self._parser = HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(**LENIENCIES)
        # The call under way: None where there is none. `_answered` is set once the reader has all it wants.
        self._done: asyncio.Future[None] | None = None
        self._intake: Intake | None = None
        self._answered = False
        self._waiting: asyncio.TimerHandle | None = None
        self._n_received = self._n_framing = 0
        # While this holds anything, the desk has been told.
        self._arrived: deque[tuple[int, bytes]] = deque()
        self._n_unread = 0
        self._paused = False
        self._out_of_turn = False
        self._lost: tuple[int, Exception | None] | None = None

    @property
    def is_reusable(self) -> bool:
        """Whether the next call may go over this connection: this one is over, all of it sent and all of it read."""
        if self._transport is None or self._transport.is_closing() or self._done is not None:
            return False
        # A server may answer before it has read the whole of a long prompt; the rest of that is still on its way.
        return self._is_complete and self._keeps_alive and not self._transport.get_write_buffer_size()

    def unasked(self) -> bytes | None:
        """What has come that nobody asked for, empty for the end of the connection; None where all is quiet."""
        if self._out_of_turn or self._arrived:
            return b"bytes"
        if self._transport is None or self._transport.is_closing():
            return b""
        if self._socket is None:  # only the loop can tell
            return None
        try:
            return self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def ask(self, request: bytes, sink: Sink, reader: Reader, words_until_s: float) -> asyncio.Future[None]:
        """Send `request` and start the clock. Raises `OSError` where the connection takes none of it.

        The words of a refusal are waited for until the loop's `words_until_s` at most.
        """
        if self._transport is None:
            raise ConnectionResetError("the connection was closed")
        self._sink, self._reader, self._words_until_s = sink, reader, words_until_s
        self._intake, self._waiting, self._answered = None, None, False
        self._n_received = self._n_framing = self._status = 0
        self._has_head = self._is_complete = self._keeps_alive = False
        self._headers = {}
        self._payload.clear()
        done, n_sent = self._loop.create_future(), 0
        sent_ns = time.perf_counter_ns()
        if self._socket is not None:
            try:
                n_sent = self._socket.send(request)
            except BlockingIOError:
                n_sent = 0
        if n_sent < len(request):
            self._transport.write(request[n_sent:])
        sink.start(sent_ns)
        self._done = done
        return done

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        at_ns = time.perf_counter_ns()
        if not self._arrived:
            self._desk.put(self._loop, self._read_arrived)
        if len(data) <= SLICE_BYTES:
            self._arrived.append((at_ns, data))
        else:
            self._arrived.extend((at_ns, data[n : n + SLICE_BYTES]) for n in range(0, len(data), SLICE_BYTES))
        self._n_unread += len(data)
        if self._n_unread > _UNREAD_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _read_arrived(self) -> bool:
        """Read a slice of what has come. Returns whether that completed a call."""
        done, arrived = self._done, self._arrived
        n_left = SLICE_BYTES
        while arrived and n_left > 0:
            at_ns, data = arrived.popleft()
            self._n_unread -= len(data)
            n_left -= len(data)
            if self._done is None:
                # Nobody asked for this: a connection that speaks out of turn cannot be trusted with the next call.
                self._out_of_turn = True
                self.abort()
                arrived.clear()
            elif self._done.done():
                arrived.clear()
            else:
                self._read(at_ns, data)
                if self._done is not None and self._intake is not None and self._intake.behind:
                    arrived.appendleft((at_ns, b""))
                    n_left = 0
        if arrived:
            self._desk.put(self._loop, self._read_arrived)
        else:
            self._n_unread = 0
            if self._paused and self._transport is not None:
                self._paused = False
                self._transport.resume_reading()
            if self._lost is not None:
                self._end(*self._lost)
        return done is not None and self._done is None

    def _read(self, at_ns: int, data: bytes) -> None:
        """What came before a fault still counts: a whole answer is one, whatever stands behind it."""
        try:
            # The payload has a cap of its own; these are for what is spent around it.
            self._n_received += len(data)
            self._n_framing += len(data)
            if self._n_framing > FRAMING_CAP_BYTES:
                words = f"the reply has more than {FRAMING_CAP_BYTES} bytes of headers or trailers"
                raise CallFailure("error", "invalid_response", words)
            if self._n_received > REPLY_CAP_BYTES:
                raise too_large()
            fault: BaseException | None = None
            try:
                if data:
                    self._parser.feed_data(data)
            except HttpParserError as error:
                self._keeps_alive = False
                # What a callback raised comes wrapped: a ValueError is about the reply, all else about this machine.
                fault = error.__context__ or error
                if not isinstance(fault, HttpParserError | ValueError):
                    raise fault from None
            self._take_payload(at_ns)
            if fault is not None and not self._is_complete:
                raise CallFailure("error", "invalid_response", f"the reply is not HTTP: {fault}")
        except CallFailure as failure:
            self._fail(at_ns, failure)
        except Exception as fault:  # nobody foresaw it: the runner, who awaits it, makes a record of it
            self.abort()
            self._conclude(fault)

    def on_message_begin(self) -> None:
        if self._is_complete:
            raise ValueError("a second reply to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        if 0 in value:
            raise ValueError("there is a NUL in a header")
        known = _KEPT_HEADERS.get(name.lower())
        # The first of a name counts, but the last of the codings is that of the framing. No trailer is a header.
        if known is not None and not self._has_head and (known not in self._headers or known == "Transfer-Encoding"):
            self._headers[known] = value.decode("utf-8", "replace")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._status == 101:
            raise ValueError("the server switched to another protocol, which nobody asked for")
        self._has_head = not 100 <= self._status < 200
        self._keeps_alive = self._parser.should_keep_alive()

    def on_message_complete(self) -> None:
        if self._has_head:
            self._is_complete = True
        else:
            self._headers.clear()

    def _take_payload(self, at_ns: int) -> None:
        """Hand on what has come; past the stream's own end, only look for the end of the framing."""
        intake = self._intake
        if intake is None:
            if not self._has_head:
                return
            self._n_framing = 0
            self.server = self._headers.get("Server", "")
            intake = self._intake = Intake(self._sink, self._reader, at_ns, self._status, self._headers)
        chunk = b"".join(self._payload)
        if chunk:
            self._payload.clear()
            self._n_framing = 0
        if not self._answered:
            if (chunk or intake.behind) and intake.feed(at_ns, chunk):
                self._answered = True
            elif intake.behind:
                return
            elif self._is_complete:
                intake.finish()
        if self._is_complete:
            self._conclude(None)
        elif self._waiting is None and (self._answered or intake.is_error):
            # After an answer the connection can be used again if the rest comes soon; a server that dawdles loses it.
            now_s = self._loop.time()
            until_s = now_s + DRAIN_S if self._answered else min(now_s + WORDS_S, self._words_until_s)
            self._waiting = self._loop.call_at(until_s, self._stop_waiting, intake)

    def _stop_waiting(self, intake: Intake) -> None:
        """The reply is known for what it is, and its end does not come."""
        self._fail(time.perf_counter_ns(), intake.failure("its end did not come"))

    def _fail(self, at_ns: int, failure: CallFailure) -> None:
        """What came last is no reply; an answer that was whole before stays one, and a refusal a refusal."""
        if not self._is_complete:
            self.abort()
        if self._answered:
            self._conclude(None)
            return
        if self._intake is not None and self._intake.is_error:
            failure = self._intake.failure(str(failure))
        self._sink.end(at_ns)
        self._conclude(failure)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = (time.perf_counter_ns(), exc)
        self._transport = None
        if not self.closed.done():
            self.closed.set_result(None)
        if not self._arrived:
            self._end(*self._lost)

    def _end(self, at_ns: int, exc: Exception | None) -> None:
        """All that came over a connection that is gone has been read."""
        del self._parser  # which holds on to this object
        if self._done is None:
            return
        if self._intake is None:
            self._sink.end(at_ns)
            self.was_dropped = exc is None
            self._conclude(exc or ConnectionResetError("Server disconnected"))
            return
        # The end of the connection is that of a payload whose length nothing else tells.
        coding = self._headers.get("Transfer-Encoding", "").rpartition(",")[2].strip().lower()
        self._is_complete = self._is_complete or ("Content-Length" not in self._headers and coding != "chunked")
        if exc is None and self._is_complete:
            self._read(at_ns, b"")
        else:
            words = str(exc or "the connection was closed before its end")
            self._fail(at_ns, self._intake.failure(words))

    def _conclude(self, failure: Exception | None) -> None:
        """The call is decided: wake whoever asked."""
        done, self._done = self._done, None
        if self._waiting is not None:
            self._waiting.cancel()
        if done is None or done.done():
            return
        if failure is None:
            done.set_result(None)
        else:
            done.set_exception(failure)
