"""One connection to a server: a request goes out, its reply's bytes are stamped as they come and read soon after."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from clawgauge.errors import CallFailure
from clawgauge.providers.http.reply import SLICE_BYTES, HttpReply, Reader

# How long reading, and the judging it leads to, may keep the loop from its sockets in one turn.
_SLICE_NS = 400_000
_ANSWERS_PER_TURN, DRAIN_S = 8, 0.2
# How long the words of a refusal are waited for: its status has said what matters.
WORDS_S = 1.5
# A server that floods is not read faster than it is understood.
_UNREAD_BYTES = 1 << 20


@dataclass(slots=True)
class ReadingDesk:
    """A queue of work in order of arrival, done between the loop's looks at its sockets."""

    _waiting: deque[Callable[[], bool]] = field(default_factory=deque)
    _called: bool = False

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
    """One connection, one call at a time. Whoever asked is woken once, when all is said."""

    server = ""
    # Whether the server closed the connection in good order, and had not begun to answer.
    was_dropped = False
    _transport: asyncio.Transport | None = None
    # The call under way, None where there is none, and its reply, which stays when it is over.
    _done: asyncio.Future[None] | None = None
    _reply: HttpReply | None = None
    _waiting: asyncio.TimerHandle | None = None
    _n_unread = 0
    _paused = _out_of_turn = False
    _lost: tuple[int, Exception | None] | None = None

    def __init__(self, loop: asyncio.AbstractEventLoop, desk: ReadingDesk, plain_socket: socket.socket | None) -> None:
        self.closed: asyncio.Future[None] = loop.create_future()
        # The loop's transport may send at the end of its turn; a socket without TLS takes the request this instant.
        self._loop, self._desk, self._socket = loop, desk, plain_socket
        # While this holds anything, the desk has been told.
        self._arrived: deque[tuple[int, bytes]] = deque()

    @property
    def is_reusable(self) -> bool:
        """Whether the next call may go over this connection: this one is over, all of it sent and all of it read."""
        transport, reply = self._transport, self._reply
        if transport is None or transport.is_closing() or self._done is not None or reply is None:
            return False
        # A server may answer before it has read the whole of a long prompt; the rest of that is still on its way.
        return reply.is_complete and reply.keeps_alive and not transport.get_write_buffer_size()

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

    def ask(self, request: bytes, reader: Reader, words_until_s: float) -> asyncio.Future[None]:
        """Send `request` and start the clock. Raises `OSError` where the connection takes none of it."""
        if self._transport is None:
            raise ConnectionResetError("the connection was closed")
        self._reply, self._waiting, self._words_until_s = HttpReply(reader), None, words_until_s
        done, n_sent = self._loop.create_future(), 0
        sent_ns = time.perf_counter_ns()
        if self._socket is not None:
            with suppress(BlockingIOError):
                n_sent = self._socket.send(request)
        if n_sent < len(request):
            self._transport.write(request[n_sent:])
        reader.sink.start(sent_ns)
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
        done, arrived, reply = self._done, self._arrived, self._reply
        n_left = SLICE_BYTES
        while arrived and n_left > 0:
            at_ns, data = arrived.popleft()
            self._n_unread -= len(data)
            n_left -= len(data)
            if self._done is None or reply is None:
                # Nobody asked for this: a connection that speaks out of turn cannot be trusted with the next call.
                self._out_of_turn = True
                self.abort()
                arrived.clear()
            elif self._done.done():
                arrived.clear()
            else:
                self._read(reply, at_ns, data)
                if self._done is not None and reply.behind:
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

    def _read(self, reply: HttpReply, at_ns: int, data: bytes) -> None:
        try:
            reply.feed(at_ns, data)
        except CallFailure as failure:
            self._fail(reply, at_ns, failure)
        except Exception as fault:  # nobody foresaw it: the runner, who awaits it, makes a record of it
            self.abort()
            self._conclude(fault)
        else:
            if reply.is_complete and not reply.behind:
                self._conclude(None)
            elif self._waiting is None and (reply.is_answered or (reply.is_error and not reply.behind)):
                # After an answer the connection can be used again if the rest comes soon, and is lost otherwise.
                now_s = self._loop.time()
                until_s = now_s + DRAIN_S if reply.is_answered else min(now_s + WORDS_S, self._words_until_s)
                self._waiting = self._loop.call_at(until_s, self._fail, reply, None, "its end did not come")

    def _fail(self, reply: HttpReply, at_ns: int | None, why: CallFailure | str) -> None:
        """What came last is no reply; an answer that was whole before stays one, and a refusal a refusal."""
        if not reply.is_complete:
            self.abort()
        if reply.is_answered:
            self._conclude(None)
            return
        reply.sink.end(time.perf_counter_ns() if at_ns is None else at_ns)
        self._conclude(reply.failure(why) if isinstance(why, str) or reply.is_error else why)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = (time.perf_counter_ns(), exc)
        self._transport = None
        if not self.closed.done():
            self.closed.set_result(None)
        if self._done is not None and not self._arrived:
            self._end(*self._lost)

    def _end(self, at_ns: int, exc: Exception | None) -> None:
        """All that came over a connection that is gone has been read."""
        reply = self._reply
        if self._done is None or reply is None:
            return
        reply.connection_ended()
        if not reply.has_head:
            reply.sink.end(at_ns)
            self.was_dropped = exc is None
            self._conclude(exc or ConnectionResetError("Server disconnected"))
        elif exc is None and reply.is_complete:
            self._read(reply, at_ns, b"")
        else:
            self._fail(reply, at_ns, str(exc or "the connection was closed before its end"))

    def _conclude(self, failure: Exception | None) -> None:
        """The call is decided: wake whoever asked."""
        done, self._done = self._done, None
        if self._waiting is not None:
            self._waiting.cancel()
        if done is not None and self._reply is not None:
            del self._reply.parser  # which holds on to the reply
            self.server = self._reply.headers.get("Server", "")
            if not done.done():
                done.set_result(None) if failure is None else done.set_exception(failure)
