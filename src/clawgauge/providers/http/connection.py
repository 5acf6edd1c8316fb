"""One connection to a server: a request goes out, its reply's bytes are stamped as they come and read soon after."""

from __future__ import annotations

import asyncio
import io
import math
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

import aiohttp
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpProcessingError, HttpResponseParser, RawResponseMessage
from aiohttp.streams import StreamReader

from clawgauge.errors import CallFailure
from clawgauge.providers.http.reply import REPLY_CAP_BYTES, SLICE_BYTES, Clock, Intake, Reader, too_large

# Never reached: what a read brings is taken out at once, and the loop reads a fraction of this.
_PARSER_BUFFER_BYTES = 1 << 26
# How long reading, and the judging it leads to, may keep the loop from its sockets in one turn.
_SLICE_NS = 400_000
_ANSWERS_PER_TURN = 8
DRAIN_S = 0.2
# How long the words of a refusal are waited for: its status has said what matters.
WORDS_S = 1.5
# A head that takes more than this is not read a second time.
_HEAD_BYTES = 1 << 16
# Headers, and interim replies before them.
_PREAMBLE_BYTES = 1 << 20
# A server that floods is not read faster than it is understood.
_UNREAD_BYTES = 1 << 20


class ReplyHead(NamedTuple):
    """The head of a reply, and the payload that fills as more is parsed."""

    message: RawResponseMessage
    payload: StreamReader
    upgraded: bool

    @property
    def is_interim(self) -> bool:
        """Whether the reply itself is yet to come."""
        return 100 <= self.message.code < 200 and not self.upgraded


def new_parser(loop: asyncio.AbstractEventLoop) -> HttpResponseParser:
    """A parser for the replies of one connection. Decompressing is left to whoever counts the bytes."""
    return HttpResponseParser(
        _UNPAUSED,
        loop,
        _PARSER_BUFFER_BYTES,
        payload_exception=aiohttp.ClientPayloadError,
        read_until_eof=True,
        auto_decompress=False,
    )


def salvage_reply(loop: asyncio.AbstractEventLoop, data: bytes) -> ReplyHead | None:
    """The reply at the beginning of `data`, which goes wrong further on; None where it goes wrong in the head.

    A parser gives out nothing of what it is fed together with the fault. So it is fed line by line up to the end of the
    head, which is the end of a line; a payload that was given out keeps what is parsed before the fault.
    """
    parser = new_parser(loop)
    lines = io.BytesIO(data)
    reply = None
    try:
        while reply is None and (line := lines.readline()):
            messages, upgraded, _ = parser.feed_data(line)
            heads = (ReplyHead(message, payload, upgraded) for message, payload in messages)
            reply = next((head for head in heads if not head.is_interim), None)
        parser.feed_data(lines.read())
    except HttpProcessingError:
        pass  # the fault, again
    return reply


class _Unpaused:
    """What aiohttp's parser asks of its protocol. Nothing waits in its buffers here, so there is nothing to pause."""

    _reading_paused = False

    def pause_reading(self) -> None:
        return

    def resume_reading(self, resume_parser: bool = True) -> None:
        return


_UNPAUSED = cast(BaseProtocol, _Unpaused())


class ReadingDesk:
    """A queue of work in order of arrival, done between the loop's looks at its sockets."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], bool]] = deque()
        self._called = False

    def put(self, read: Callable[[], bool]) -> None:
        """Have `read` called soon. It returns True when it completed an answer, which somebody will now judge."""
        self._waiting.append(read)
        if not self._called:
            self._called = True
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        until_ns = time.perf_counter_ns() + _SLICE_NS
        waiting, n_answers = self._waiting, 0
        while waiting:
            n_answers += waiting.popleft()()
            if n_answers == _ANSWERS_PER_TURN or time.perf_counter_ns() >= until_ns:
                break
        self._called = bool(waiting)
        if waiting:
            self._loop.call_soon(self._work)


class Wire(asyncio.Protocol):
    """One connection, one call at a time. Whoever asked is woken once, when all is said."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, desk: ReadingDesk, plain_socket: socket.socket | None = None
    ) -> None:
        self.closed: asyncio.Future[None] = loop.create_future()
        self.server = ""
        self._loop = loop
        self._desk = desk
        # The loop's transport may send at the end of its turn; a socket without TLS takes the request this instant.
        self._socket = plain_socket
        self._transport: asyncio.Transport | None = None
        self._asked: _Asked | None = None
        self._keep = False
        # While this holds anything, the desk has been told.
        self._arrived: deque[tuple[int, bytes]] = deque()
        self._n_unread = 0
        self._paused = False
        self._out_of_turn = False
        self._lost: tuple[int, Exception | None] | None = None

    @property
    def is_reusable(self) -> bool:
        """Whether the next call may go over this connection: this one is over, all of it sent and all of it read."""
        if self._transport is None or self._transport.is_closing():
            return False
        # A server may answer before it has read the whole of a long prompt; the rest of that is still on its way.
        return self._keep and self._asked is None and not self._transport.get_write_buffer_size()

    def is_silent(self) -> bool:
        """Whether nothing has come that nobody asked for: the end of the connection, above all."""
        is_open = self._transport is not None and not self._transport.is_closing()
        return is_open and not self._arrived and self._peek() is None

    def speaks_first(self) -> bool:
        """Whether bytes have come before anything was asked. They are nobody's answer."""
        return bool(self._out_of_turn or self._arrived or self._peek())

    def _peek(self) -> bytes | None:
        """What the socket holds unread, empty for its end; None for nothing, or where only the loop can tell."""
        if self._socket is None:
            return None
        try:
            return self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def ask(self, request: bytes, sink: Clock, reader: Reader, words_until_s: float = math.inf) -> asyncio.Future[None]:
        """Send `request` and start the clock. Raises `OSError` where the connection takes none of it.

        The words of a refusal are waited for until the loop's `words_until_s` at most.
        """
        if self._transport is None:
            raise ConnectionResetError("the connection was closed")
        asked = _Asked(self._loop, sink, reader, words_until_s)
        sent_ns = time.perf_counter_ns()
        n_sent = self._send_now(request)
        if n_sent < len(request):
            self._transport.write(request[n_sent:])
        sink.start(sent_ns)
        self._keep = False
        self._asked = asked
        return asked.done

    def _send_now(self, request: bytes) -> int:
        if self._socket is None:
            return 0
        try:
            return self._socket.send(request)
        except BlockingIOError:
            return 0

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        self._keep = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        at_ns = time.perf_counter_ns()
        if not self._arrived:
            self._desk.put(self._read_arrived)
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
        asked, arrived = self._asked, self._arrived
        n_left = SLICE_BYTES
        while arrived and n_left > 0:
            at_ns, data = arrived.popleft()
            self._n_unread -= len(data)
            n_left -= len(data)
            if asked is None or self._asked is not asked:
                # Nobody asked for this: a connection that speaks out of turn cannot be trusted with the next call.
                self._out_of_turn = True
                self.abort()
                arrived.clear()
            elif asked.done.done():
                arrived.clear()
            else:
                self._guard(asked, partial(self._read, asked, at_ns, data))
                if self._asked is asked and asked.intake is not None and asked.intake.behind:
                    arrived.appendleft((at_ns, b""))
                    n_left = 0
        if arrived:
            self._desk.put(self._read_arrived)
        else:
            self._n_unread = 0
            if self._paused and self._transport is not None:
                self._paused = False
                self._transport.resume_reading()
            if self._lost is not None:
                self._end(*self._lost)
        return asked is not None and self._asked is None

    def _guard(self, asked: _Asked, step: Callable[[], None]) -> None:
        """Take one step; a fault in it that nobody foresaw goes to whoever asked, and not to the loop."""
        try:
            step()
        except Exception as fault:  # the runner, who awaits it, makes a record of it
            self.abort()
            self._conclude(asked, fault)

    def _read(self, asked: _Asked, at_ns: int, data: bytes) -> None:
        asked.n_received += len(data)
        try:
            # The payload has a cap of its own; this one is for what is spent on everything around it.
            cap = _PREAMBLE_BYTES if asked.payload is None else REPLY_CAP_BYTES
            if asked.n_received > cap:
                raise too_large(cap)
            if data:
                messages, upgraded, _ = asked.parser.feed_data(data)
                for message, payload in messages:
                    self._take_head(asked, at_ns, ReplyHead(message, payload, upgraded))
                if asked.payload is None and len(asked.head) <= _HEAD_BYTES:
                    asked.head += data
            self._take_payload(asked, at_ns)
        except CallFailure as failure:
            self._fail(asked, at_ns, failure)
        except (HttpProcessingError, aiohttp.ClientPayloadError) as fault:
            self._take_garbled(asked, at_ns, data, fault)

    def _take_head(self, asked: _Asked, at_ns: int, head: ReplyHead) -> None:
        if asked.payload is not None:
            # A second reply to one request.
            self._keep = False
        elif not head.is_interim:
            message = head.message
            self._keep = not (message.should_close or head.upgraded)
            self.server = message.headers.get("Server", "")
            asked.payload = head.payload
            asked.intake = Intake(asked.sink, asked.reader, at_ns, message.code, message.headers)

    def _take_payload(self, asked: _Asked, at_ns: int) -> None:
        """Hand on what has come; past the stream's own end, only look for the end of the framing."""
        payload, intake = asked.payload, asked.intake
        if payload is None or intake is None:
            return
        chunk = payload.read_nowait()
        at_end = payload.is_eof()
        if not asked.answered:
            if (chunk or intake.behind) and intake.feed(at_ns, chunk):
                asked.answered = True
            elif intake.behind:
                return
            elif at_end:
                intake.finish()
        if at_end:
            self._conclude(asked, None)
        elif asked.waiting is None and asked.answered:
            # The connection can be used again if the rest comes soon; a server that dawdles loses it.
            asked.waiting = self._loop.call_later(DRAIN_S, self._stop_waiting, asked, intake)
        elif asked.waiting is None and intake.is_error:
            until_s = min(self._loop.time() + WORDS_S, asked.words_until_s)
            asked.waiting = self._loop.call_at(until_s, self._stop_waiting, asked, intake)

    def _stop_waiting(self, asked: _Asked, intake: Intake) -> None:
        """The reply is known for what it is, and its end does not come."""
        self.abort()
        if asked.answered:
            self._conclude(asked, None)
        else:
            self._fail(asked, time.perf_counter_ns(), intake.broken_off("its end did not come"))

    def _take_garbled(self, asked: _Asked, at_ns: int, data: bytes, fault: Exception) -> None:
        """What came is not HTTP, or not all of it. What came before that still counts: a whole answer is one."""
        failure = CallFailure("error", "invalid_response", f"the reply is not HTTP: {_words_of(fault)}")
        try:
            if asked.payload is None:
                self._take_salvaged(asked, at_ns, data)
            self._take_payload(asked, at_ns)
        except CallFailure as found:
            failure = found
        except aiohttp.ClientPayloadError:
            pass  # the parser keeps what it had read to itself
        self.abort()
        if not asked.done.done():
            self._fail(asked, at_ns, failure)

    def _take_salvaged(self, asked: _Asked, at_ns: int, data: bytes) -> None:
        reply = salvage_reply(self._loop, bytes(asked.head + data)) if len(asked.head) <= _HEAD_BYTES else None
        if reply is not None:
            self._take_head(asked, at_ns, reply)

    def _fail(self, asked: _Asked, at_ns: int, failure: CallFailure) -> None:
        """What came last is no reply; an answer that was whole before stays one, and a refusal a refusal."""
        if asked.payload is None or not asked.payload.is_eof():
            self.abort()
        if asked.answered:
            self._conclude(asked, None)
            return
        if asked.intake is not None and asked.intake.is_error:
            failure = asked.intake.broken_off(str(failure))
        asked.sink.end(at_ns)
        self._conclude(asked, failure)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = (time.perf_counter_ns(), exc)
        self._transport = None
        if not self.closed.done():
            self.closed.set_result(None)
        if not self._arrived:
            self._end(*self._lost)

    def _end(self, at_ns: int, exc: Exception | None) -> None:
        """All that came over a connection that is gone has been read."""
        asked = self._asked
        if asked is None:
            return
        if asked.answered:
            self._conclude(asked, None)
        elif asked.intake is None:
            asked.sink.end(at_ns)
            self._conclude(asked, exc or aiohttp.ServerDisconnectedError())
        else:
            self._guard(asked, partial(self._end_with_connection, asked, asked.intake, at_ns, exc))

    def _end_with_connection(self, asked: _Asked, intake: Intake, at_ns: int, exc: Exception | None) -> None:
        """The connection ended in the middle of a reply, which is the end of one without any other framing."""
        try:
            asked.parser.feed_eof()
            if exc is not None:
                raise intake.broken_off(str(exc))
            self._take_payload(asked, at_ns)
        except (HttpProcessingError, aiohttp.ClientPayloadError) as fault:
            self._fail(asked, at_ns, intake.broken_off(_words_of(fault)))
        except CallFailure as failure:
            self._fail(asked, at_ns, failure)

    def _conclude(self, asked: _Asked, failure: Exception | None) -> None:
        """The call is decided: wake whoever asked."""
        self._asked = None
        if asked.waiting is not None:
            asked.waiting.cancel()
        if asked.done.done():
            return
        if failure is None:
            asked.done.set_result(None)
        else:
            asked.done.set_exception(failure)


class _Asked:
    """The call under way on a connection. `answered` is set once the reader has all it wants.

    `head` is what came before the head was whole, in reads of its own; mostly nothing.
    """

    __slots__ = (
        "answered",
        "done",
        "head",
        "intake",
        "n_received",
        "parser",
        "payload",
        "reader",
        "sink",
        "waiting",
        "words_until_s",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, sink: Clock, reader: Reader, words_until_s: float) -> None:
        self.sink = sink
        self.reader = reader
        self.words_until_s = words_until_s
        self.done: asyncio.Future[None] = loop.create_future()
        self.parser = new_parser(loop)
        self.head = bytearray()
        self.n_received = 0
        self.payload: StreamReader | None = None
        self.intake: Intake | None = None
        self.answered = False
        self.waiting: asyncio.TimerHandle | None = None


def _words_of(fault: Exception) -> str:
    return " ".join(str(getattr(fault, "message", fault)).split())
