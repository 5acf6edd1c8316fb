"""Calls things at the nanosecond they are due, or as near to it as the machine allows.

Owns: one queue of deadlines on an event loop. Event loops round their own timers to a millisecond; on Linux a timerfd
wakes the loop instead (tens of microseconds late on an idle machine, no spinning). Elsewhere the loop's timer is set a
little early and the rest is passed by turning the loop, so that sockets are served meanwhile.
"""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import itertools
import os
import sys
import time
from collections.abc import Callable
from typing import Protocol

NS_PER_S = 1_000_000_000
_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1
_SPIN_NS = 2_000_000


class Alarm(Protocol):
    """Wakes the loop once, at a time of `perf_counter_ns`."""

    def set(self, due_ns: int) -> None: ...

    def close(self) -> None: ...


class DeadlineQueue:
    """Actions with their due times. An action is given the time at which it was really called."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._heap: list[tuple[int, int, Callable[[int], None]]] = []
        self._numbers = itertools.count()
        self._armed_ns: int | None = None
        self._running = False
        self._alarm = make_alarm(loop, self._run_due)

    def add(self, due_ns: int, action: Callable[[int], None]) -> None:
        heapq.heappush(self._heap, (due_ns, next(self._numbers), action))
        if not self._running:
            self._arm()

    def close(self) -> None:
        self._heap.clear()
        self._alarm.close()

    def _run_due(self) -> None:
        self._armed_ns = None
        self._running = True
        try:
            while self._heap and self._heap[0][0] <= (now_ns := time.perf_counter_ns()):
                heapq.heappop(self._heap)[2](now_ns)
        finally:
            self._running = False
            self._arm()

    def _arm(self) -> None:
        if self._heap and (self._armed_ns is None or self._heap[0][0] < self._armed_ns):
            self._armed_ns = self._heap[0][0]
            self._alarm.set(self._armed_ns)


def make_alarm(loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> Alarm:
    """The most precise alarm this machine has."""
    return TimerFdAlarm(loop, ring) if sys.platform == "linux" else SpinningAlarm(loop, ring)


class _TimeSpec(ctypes.Structure):
    _fields_ = [("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long)]


class _ITimerSpec(ctypes.Structure):
    _fields_ = [("it_interval", _TimeSpec), ("it_value", _TimeSpec)]


class TimerFdAlarm:
    """A kernel timer behind a file descriptor. `perf_counter_ns` and the timer share CLOCK_MONOTONIC on Linux."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._settime = libc.timerfd_settime
        self._fd: int = libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._loop = loop
        self._ring = ring
        self._spec = _ITimerSpec()
        loop.add_reader(self._fd, self._expired)

    def set(self, due_ns: int) -> None:
        value = self._spec.it_value
        value.tv_sec, value.tv_nsec = divmod(max(due_ns, 1), NS_PER_S)
        self._settime(self._fd, _TFD_TIMER_ABSTIME, ctypes.byref(self._spec), None)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _expired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            # Set again between its expiry and this turn of the loop: it will ring for the new time.
            return
        self._ring()


class SpinningAlarm:
    """The loop's own timer, set early, and the rest of the time passed turn by turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._due_ns = 0
        self._waiting: asyncio.Handle | None = None

    def set(self, due_ns: int) -> None:
        self.close()
        self._due_ns = due_ns
        wait_s = (due_ns - _SPIN_NS - time.perf_counter_ns()) / NS_PER_S
        self._waiting = (
            self._loop.call_later(wait_s, self._spin)
            if wait_s > 0
            else self._loop.call_soon(self._spin)
        )

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _spin(self) -> None:
        if time.perf_counter_ns() < self._due_ns:
            self._waiting = self._loop.call_soon(self._spin)
        else:
            self._waiting = None
            self._ring()
