"""One connection to a server: a request goes out, the bytes of its reply are stamped as they come.

They are read soon after, when the loop has looked at its sockets again (`ReadQueue`).
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, cast

from clawgauge.errors import CallFailure
from clawgauge.providers.http.reply import SLICE_BYTES, HttpReply, Reader

# How long reading, and the judging it leads to, may keep the loop from its sockets in one turn.
_SLICE_NS = 400_000
_ANSWERS_PER_TURN = 8
# How long the end of a reply is waited for whose answer is whole.
DRAIN_S = 0.2
# How long the words of a refusal are waited for: its status has said what matters.
ERROR_BODY_S = 1.5
# A server that floods is not read faster than it is understood.
_UNREAD_BYTES = 1 << 20


Tap: TypeAlias = Callable[[int, bytes], None]
"""Is given a piece of a reply, and when it came."""


@dataclass(slots=True)
class ReadQueue:
    """A queue of work in order of arrival, done between the loop's looks at its sockets."""

    _waiting: deque[Callable[[], bool]] = field(default_factory=deque)
    _is_scheduled: bool = False

    def put(self, loop: asyncio.AbstractEventLoop, read: Callable[[], bool]) -> None:
        """Have `read` called soon.

        It returns whether it completed an answer, which somebody will now judge.
        """
        self._waiting.append(read)
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._work, loop)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        until_ns = time.perf_counter_ns() + _SLICE_NS
        waiting = self._waiting
        n_answers = 0
        while waiting:
            read = waiting.popleft()
            n_answers += read()
            if n_answers == _ANSWERS_PER_TURN or time.perf_counter_ns() >= until_ns:
                break
        self._is_scheduled = bool(waiting)
        if waiting:
            loop.call_soon(self._work, loop)


class _ConnectionEnd(NamedTuple):
    """When a connection was lost, and the error it was lost by; None for a close in good order."""

    at_ns: int
    error: Exception | None


class HttpConnection(asyncio.Protocol):
    """One connection, which serves one call at a time. Whoever sent the call is woken once."""

    server: str
    """The server's name for itself in its last reply."""
    was_dropped: bool
    """Whether the server closed the connection in good order, and had not begun to answer."""
    closed: asyncio.Future[None]
    """Done when the loop has closed the connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        read_queue: ReadQueue,
        plain_socket: socket.socket | None,
    ) -> None:
        """`plain_socket` is the connection's own where there is no TLS, else None."""
        self.server = ""
        self.was_dropped = False
        self.closed = loop.create_future()
        self._loop = loop
        self._read_queue = read_queue
        # The loop's transport may send at the end of its turn; a socket without TLS takes the
        # request this instant.
        self._socket = plain_socket
        self._transport: asyncio.Transport | None = None
        # The call under way, None where there is none; and its reply, which stays when it is over.
        self._done: asyncio.Future[None] | None = None
        self._reply: HttpReply | None = None
        # Sees every byte of the reply once it has been read; None where nobody wants them.
        self._tap: Tap | None = None
        # Ends a call whose reply has said what matters, but has not ended.
        self._end_timer: asyncio.TimerHandle | None = None
        self._error_until_s = 0.0
        # What has come and is not read. While this holds anything, the read queue has been told.
        self._arrived: deque[tuple[int, bytes]] = deque()
        self._n_unread = 0
        self._is_paused = False
        self._spoke_unasked = False
        self._end: _ConnectionEnd | None = None

    @property
    def is_reusable(self) -> bool:
        """Whether the next call may go over it: the last one is over, all of it sent and read."""
        transport = self._transport
        reply = self._reply
        if transport is None or transport.is_closing() or self._done is not None or reply is None:
            return False
        # A server may answer before it has read the whole of a long prompt; the rest of that is
        # still on its way.
        is_all_sent = not transport.get_write_buffer_size()
        return reply.is_complete and reply.keeps_alive and is_all_sent

    def unasked(self) -> bytes | None:
        """What has come that nobody asked for.

        Empty for the end of the connection, None where all is quiet.
        """
        if self._spoke_unasked or self._arrived:
            return b"bytes"
        if self._transport is None or self._transport.is_closing():
            return b""
        if self._socket is None:
            # Under TLS only the loop can tell.
            return None
        try:
            return self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def send(
        self, request: bytes, reader: Reader, error_until_s: float, tap: Tap | None = None
    ) -> asyncio.Future[None]:
        """Send `request` and start the clock. Raises `OSError` where the connection takes none.

        The future is done when `reader` has been fed the reply. The words of a refusal are waited
        for until `error_until_s`, by the loop's clock. `tap` is given the bytes of the reply as
        they came, each piece after `reader` has seen what it means.
        """
        if self._transport is None:
            raise ConnectionResetError("the connection was closed")
        self._reply = HttpReply(reader)
        self._tap = tap
        self._end_timer = None
        self._error_until_s = error_until_s
        done = self._loop.create_future()
        n_sent = 0
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

    # The loop calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Stamp what came, and no more: other sockets are waiting for their stamps."""
        at_ns = time.perf_counter_ns()
        if not self._arrived:
            self._read_queue.put(self._loop, self._read_arrived)
        if len(data) <= SLICE_BYTES:
            self._arrived.append((at_ns, data))
        else:
            for start in range(0, len(data), SLICE_BYTES):
                self._arrived.append((at_ns, data[start : start + SLICE_BYTES]))
        self._n_unread += len(data)
        if self._n_unread > _UNREAD_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end = _ConnectionEnd(time.perf_counter_ns(), exc)
        self._transport = None
        if not self.closed.done():
            self.closed.set_result(None)
        if self._done is not None and not self._arrived:
            self._end_call(self._end)

    # The read queue calls this, and what it calls reads.

    def _read_arrived(self) -> bool:
        """Read a slice of what has come. Returns whether that completed a call."""
        had_call = self._done is not None
        arrived = self._arrived
        reply = self._reply
        n_left = SLICE_BYTES
        while arrived and n_left > 0:
            at_ns, data = arrived.popleft()
            self._n_unread -= len(data)
            n_left -= len(data)
            if self._done is None or reply is None:
                # Nobody asked for this: a connection that speaks out of turn cannot be trusted
                # with the next call.
                self._spoke_unasked = True
                self.abort()
                arrived.clear()
            elif self._done.done():
                # Whoever sent the call has given it up.
                arrived.clear()
            else:
                self._read(reply, at_ns, data)
                if self._done is not None and reply.behind:
                    # The rest of this slice is read in another turn of the loop.
                    arrived.appendleft((at_ns, b""))
                    n_left = 0
        if arrived:
            self._read_queue.put(self._loop, self._read_arrived)
        else:
            self._n_unread = 0
            if self._is_paused and self._transport is not None:
                self._is_paused = False
                self._transport.resume_reading()
            if self._end is not None:
                self._end_call(self._end)
        return had_call and self._done is None

    def _read(self, reply: HttpReply, at_ns: int, data: bytes) -> None:
        """Feed the reply what came at `at_ns`, and end the call where that decides it."""
        try:
            reply.feed(at_ns, data)
            if self._tap is not None and data:
                self._tap(at_ns, data)
        except CallFailure as failure:
            self._fail(reply, at_ns, failure)
        except Exception as fault:
            # Nobody foresaw it: the runner, who awaits the call, makes a record of it.
            self.abort()
            self._conclude(fault)
        else:
            if reply.is_complete and not reply.behind:
                self._conclude(None)
            elif reply.is_answered or (reply.is_error and not reply.behind):
                self._await_end(reply)

    def _await_end(self, reply: HttpReply) -> None:
        """Wait a little for the end of a reply that has said what matters.

        After an answer the connection can be used again if the end comes soon, and is lost
        otherwise.
        """
        if self._end_timer is not None:
            return
        until_s = self._loop.time() + DRAIN_S
        if not reply.is_answered:
            until_s = min(self._loop.time() + ERROR_BODY_S, self._error_until_s)
        self._end_timer = self._loop.call_at(until_s, self._give_up, reply)

    def _give_up(self, reply: HttpReply) -> None:
        self._fail(reply, time.perf_counter_ns(), reply.failure("its end did not come"))

    def _fail(self, reply: HttpReply, at_ns: int, failure: CallFailure) -> None:
        """End a call whose reply broke off, or went on with something that is no reply.

        An answer that was whole before stays one, and a refusal a refusal.
        """
        if not reply.is_complete:
            self.abort()
        if reply.is_answered:
            self._conclude(None)
            return
        reply.sink.end(at_ns)
        self._conclude(reply.failure() if reply.is_error else failure)

    def _end_call(self, end: _ConnectionEnd) -> None:
        """End the call under way: all that came over a connection that is gone has been read."""
        reply = self._reply
        if self._done is None or reply is None:
            return
        reply.connection_ended()
        if not reply.has_head:
            reply.sink.end(end.at_ns)
            self.was_dropped = end.error is None
            self._conclude(end.error or ConnectionResetError("Server disconnected"))
        elif end.error is None and reply.is_complete:
            self._read(reply, end.at_ns, b"")
        else:
            reason = str(end.error or "the connection was closed before its end")
            self._fail(reply, end.at_ns, reply.failure(reason))

    def _conclude(self, failure: Exception | None) -> None:
        """The call is decided: wake whoever sent it."""
        done = self._done
        self._done = None
        if self._end_timer is not None:
            self._end_timer.cancel()
        if done is None or self._reply is None:
            return
        # The parser holds on to the reply.
        del self._reply.parser
        self.server = self._reply.headers.get("Server", "")
        if done.done():
            return
        if failure is None:
            done.set_result(None)
        else:
            done.set_exception(failure)
