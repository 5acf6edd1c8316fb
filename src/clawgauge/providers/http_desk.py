"""Where replies are read after their bytes were stamped: a little at a time, so that the loop gets back to its sockets.

When hundreds of streams speak in the same millisecond, reading each in the moment of its arrival would make the others'
stamps late by the sum of it. So arrivals are only stamped, and the reading waits here for its turn. A busy client then
reads late but still knows when.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

# How long reading, and the judging it leads to, may keep the loop from its sockets in one turn.
_SLICE_NS = 400_000
_ANSWERS_PER_TURN = 8


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
