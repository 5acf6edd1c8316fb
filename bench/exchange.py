"""One calibrated reply on its way out: what is due is sent, and stamped just before it is.

Owns: the pace of a reply, streamed or whole, and the stamps of its row. Refuses: sockets (an `Outlet` is given) and
what the bytes say (`wire` made them).
"""

from __future__ import annotations

import time
from typing import Protocol

from bench.deadlines import DeadlineQueue
from bench.truth import CLIENT_GONE, TruthLog, TruthRow
from bench.wire import Reply

BATCH_BYTES = 256 * 1024


class Outlet(Protocol):
    """Where the bytes go."""

    def write(self, data: bytes) -> bool:
        """Send now. Returns False when not all of it went: `Exchange.go_on` is to be called when it has."""

    def finished(self) -> None:
        """The reply is out."""


class Exchange:
    """One reply on its schedule. Everything it sends is stamped just before it is handed to the kernel."""

    def __init__(
        self, outlet: Outlet, deadlines: DeadlineQueue, log: TruthLog, reply: Reply, row: TruthRow
    ) -> None:
        self._outlet = outlet
        self._deadlines = deadlines
        self._log = log
        self._reply = reply
        self._row = row
        self._next = 0
        self._gone = False

    def begin(self) -> None:
        reply, row = self._reply, self._row
        if not row.stream:
            due_ns = row.recv_ns + (
                reply.offsets_ns[-1] if reply.offsets_ns else reply.schedule.first_ns
            )
            self._deadlines.add(due_ns, lambda now_ns: self._send_whole(now_ns - due_ns))
            return
        if reply.schedule.first_ns:
            row.head_ns = time.perf_counter_ns()
            if not self._send(reply.opening):
                return
        self._wait()

    def go_on(self) -> None:
        """The socket takes bytes again."""
        self._row.written_ns = time.perf_counter_ns()
        if self._next > len(self._reply.tokens):
            self._finish()
        else:
            self._wait()

    def abandon(self) -> None:
        """The client went away."""
        self._gone = True
        self._row.end = CLIENT_GONE
        self._row.last_ns = time.perf_counter_ns()
        self._log.add(self._row)

    def _wait(self) -> None:
        offsets = self._reply.offsets_ns
        offset = offsets[self._next] if self._next < len(offsets) else self._reply.schedule.first_ns
        due_ns = self._row.recv_ns + offset
        now_ns = time.perf_counter_ns()
        if due_ns <= now_ns:
            self._advance(now_ns)
        else:
            self._deadlines.add(due_ns, self._advance)

    def _advance(self, now_ns: int) -> None:
        """Send all that is due."""
        if self._gone:
            return
        reply, row, k = self._reply, self._row, self._next
        tokens, offsets = reply.tokens, reply.offsets_ns
        parts: list[bytes] = [] if row.head_ns else [reply.opening]
        n_bytes = 0
        while k < len(tokens) and offsets[k] <= now_ns - row.recv_ns and n_bytes < BATCH_BYTES:
            parts.append(tokens[k])
            n_bytes += len(tokens[k])
            k += 1
        at_end = k >= len(tokens)
        if at_end:
            parts.append(reply.closing)
        data = b"".join(parts)
        self._stamp(k)
        self._next = k + at_end
        if not self._send(data):
            return
        if at_end:
            row.written_ns = time.perf_counter_ns()
            self._finish()
        else:
            # Never straight on: of two replies that are behind, the one that is further behind goes first.
            self._deadlines.add(row.recv_ns + offsets[k], self._advance)

    def _stamp(self, k: int) -> None:
        """Note what the tokens before `k` begin and end, and how late they are, right before they are sent."""
        row, schedule, offsets = self._row, self._reply.schedule, self._reply.offsets_ns
        at_ns = time.perf_counter_ns()
        if self._next < len(offsets):
            row.late_ns = max(row.late_ns, at_ns - row.recv_ns - offsets[self._next])
        row.tokens = k
        row.head_ns = row.head_ns or at_ns
        if schedule.n_reasoning and k and not row.reason_ns:
            row.reason_ns = at_ns
        if k > schedule.n_reasoning and not row.first_ns:
            row.first_ns = at_ns
        if k >= schedule.n_tokens:
            row.last_ns = at_ns

    def _send_whole(self, late_ns: int) -> None:
        if self._gone:
            return
        row = self._row
        row.late_ns, row.tokens = late_ns, self._reply.schedule.n_tokens
        row.head_ns = row.first_ns = row.last_ns = time.perf_counter_ns()
        self._next = len(self._reply.tokens) + 1
        if self._send(self._reply.whole):
            row.written_ns = time.perf_counter_ns()
            self._finish()

    def _send(self, data: bytes) -> bool:
        self._row.bytes += len(data)
        return self._outlet.write(data)

    def _finish(self) -> None:
        self._log.add(self._row)
        self._outlet.finished()
