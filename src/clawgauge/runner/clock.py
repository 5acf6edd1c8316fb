"""Time as the runner sees it, and how far it can be trusted: how late this program's own event loop was."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from time import perf_counter_ns
from typing import Any, Self

# Two hundred ticks a second cost half a percent of one core.
TICK_S = 0.005
_TICK_NS = round(TICK_S * 1e9)
# Sixteen buckets to every doubling: a percentile read from them is right within 1/16 of itself.
_SUB_BITS = 4
_MAX_PEAKS, _RESOLUTION_READS = 4_096, 256
# Two clocks of which only the first goes on while the machine sleeps: Linux's, then macOS's.
_COUNTING = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
_PAUSING = getattr(time, "CLOCK_MONOTONIC" if hasattr(time, "CLOCK_BOOTTIME") else "CLOCK_UPTIME_RAW", None)


def suspended_ns() -> int:
    """How long this machine has slept since it was started; it only grows. 0 where the system does not say."""
    if _COUNTING is None or _PAUSING is None:
        return 0
    return time.clock_gettime_ns(_COUNTING) - time.clock_gettime_ns(_PAUSING)


class Clock:
    """A monotonic clock for durations, a wall clock for labels, and a way to wait: the machine's own."""

    perf_ns = staticmethod(time.perf_counter_ns)
    wall_ns = staticmethod(time.time_ns)
    sleep = staticmethod(asyncio.sleep)


class ClientClock:
    """Watches the running loop, and what this program costs. `cores` and `load_1m` are from before it was entered."""

    def __init__(
        self, *, cores: int | None = None, load_1m: float | None = None, now_ns: Callable[[], int] = perf_counter_ns
    ) -> None:
        self.now_ns = now_ns
        self._machine = {"cores": cores, "load_1m": load_1m}
        # The smallest step the clock is seen to take, the time of reading it included.
        reads = [perf_counter_ns() for _ in range(_RESOLUTION_READS)]
        self._resolution_ns = min((later - sooner for sooner, later in pairwise(reads) if later > sooner), default=0)
        self._began_s = self._wall_s = self._began_cpu_s = self._cpu_s = 0.0
        # How often a tick was late by so much at most, in buckets that widen: memory does not grow with their number.
        self._late: Counter[int] = Counter()
        self._max_late_ns = 0
        # Hold-ups that no later one exceeds, and when each was seen: of those since a moment the first is the largest.
        self._peaks_ns: list[int] = []
        self._stamps_ns: list[int] = []
        self._due_ns: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._tick(asyncio.get_running_loop())
        self._began_s, self._began_cpu_s = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._wall_s = time.perf_counter() - self._began_s
        self._cpu_s = time.process_time() - self._began_cpu_s
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._due_ns = None

    def largest_since(self, began_ns: int) -> int:
        """The most the loop was late between `began_ns` and now, in nanoseconds."""
        pending_ns = 0 if self._due_ns is None else self.now_ns() - self._due_ns
        first = bisect_left(self._stamps_ns, began_ns)
        return max(0, pending_ns, self._peaks_ns[first] if first < len(self._peaks_ns) else 0)

    def held_since(self, began_ns: int) -> None:
        """The loop has been held from `began_ns` until now, by work of our own or by what made a tick late."""
        now_ns = self.now_ns()
        stamps_ns, peaks_ns, held_ns = self._stamps_ns, self._peaks_ns, now_ns - began_ns
        while peaks_ns and peaks_ns[-1] <= held_ns:
            peaks_ns.pop()
            stamps_ns.pop()
        stamps_ns.append(now_ns)
        peaks_ns.append(held_ns)
        if len(peaks_ns) > _MAX_PEAKS:
            # Of two neighbours the larger value takes the later stamp: a window may see too much, never too little.
            self._peaks_ns = peaks_ns[::2]
            self._stamps_ns = [max(stamps_ns[n : n + 2]) for n in range(0, len(stamps_ns), 2)]

    def late_counts(self) -> Counter[int]:
        """The ticks so far, by how late they were at most."""
        return Counter(self._late)

    def percentile_ns(self, share: float, since: Counter[int] | None = None) -> int:
        """The smallest bound that at least `share` of the ticks were not later than, of those `since` then."""
        late = self._late - since if since else self._late
        seen, n = 0, late.total()
        for most_ns, count in sorted(late.items()):
            seen += count
            if seen >= share * n:
                return min(most_ns, self._max_late_ns)
        return self._max_late_ns

    def describe(self) -> dict[str, Any]:
        """The figures, for events.jsonl: the lateness of the `n` ticks so far in milliseconds, null without a tick."""
        n = self._late.total()
        late_ns = {"p50": self.percentile_ns(0.5), "p99": self.percentile_ns(0.99), "max": self._max_late_ns}
        lag_ms = {"n": n, **{name: round(ns / 1e6, 3) if n else None for name, ns in late_ns.items()}}
        spent_s = {"client_cpu_s": round(self._cpu_s, 3), "wall_s": round(self._wall_s, 3)}
        return {"resolution_ns": self._resolution_ns, "loop_lag_ms": lag_ms, **spent_s, **self._machine}

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._due_ns is not None:
            # A loop that counts in whole milliseconds may fire a little early: that is not late.
            now_ns = self.now_ns()
            late_ns = max(0, now_ns - self._due_ns)
            self._max_late_ns = max(self._max_late_ns, late_ns)
            shift = max(0, late_ns.bit_length() - _SUB_BITS - 1)
            self._late[(((late_ns >> shift) + 1) << shift) - 1] += 1
            self.held_since(now_ns - late_ns)
        self._due_ns = self.now_ns() + _TICK_NS
        self._timer = loop.call_later(TICK_S, self._tick, loop)
