"""Time as the runner sees it, and how far it can be trusted: how late our own event loop was."""

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
_MAX_PEAKS = 4_096
_RESOLUTION_READS = 256
# Two clocks of which only the first goes on while the machine sleeps: Linux's, then macOS's.
_COUNTING: int | None
_PAUSING: int | None
if hasattr(time, "CLOCK_BOOTTIME"):
    _COUNTING = time.CLOCK_BOOTTIME
    _PAUSING = time.CLOCK_MONOTONIC
else:
    _COUNTING = getattr(time, "CLOCK_MONOTONIC", None)
    _PAUSING = getattr(time, "CLOCK_UPTIME_RAW", None)


def suspended_ns() -> int:
    """How long this machine has slept since it was started; it only grows.

    0 where the system does not say.
    """
    if _COUNTING is None or _PAUSING is None:
        return 0
    return time.clock_gettime_ns(_COUNTING) - time.clock_gettime_ns(_PAUSING)


class Clock:
    """A monotonic clock for durations, a wall clock for labels, and a way to wait."""

    perf_ns = staticmethod(time.perf_counter_ns)
    wall_ns = staticmethod(time.time_ns)
    sleep = staticmethod(asyncio.sleep)


class ClientClock:
    """Watches how late the running event loop is, and what this program costs.

    A context manager: it watches the loop it is entered in. `cores` and `load_1m` describe the
    machine before it was entered, and are reported with the rest.
    """

    def __init__(
        self,
        *,
        cores: int | None = None,
        load_1m: float | None = None,
        now_ns: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self.now_ns = now_ns
        self._cores = cores
        self._load_1m = load_1m
        self._resolution_ns = _measure_resolution_ns()
        self._entered_s = 0.0
        self._entered_cpu_s = 0.0
        self._wall_s = 0.0
        self._cpu_s = 0.0
        # How often a tick was late by so much at most, in buckets that widen: memory does not grow
        # with the number of ticks.
        self._n_ticks_by_lateness: Counter[int] = Counter()
        self._max_late_ns = 0
        # Hold-ups that no later one exceeds, and when each was seen: of those since a moment the
        # first is the largest.
        self._peaks_ns: list[int] = []
        self._stamps_ns: list[int] = []
        self._due_ns: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._tick(asyncio.get_running_loop())
        self._entered_s = time.perf_counter()
        self._entered_cpu_s = time.process_time()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._wall_s = time.perf_counter() - self._entered_s
        self._cpu_s = time.process_time() - self._entered_cpu_s
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._due_ns = None

    def largest_since(self, began_ns: int) -> int:
        """The most the loop was late between `began_ns` and now, in nanoseconds."""
        largest_ns = 0
        if self._due_ns is not None:
            largest_ns = max(0, self.now_ns() - self._due_ns)
        first = bisect_left(self._stamps_ns, began_ns)
        if first < len(self._peaks_ns):
            largest_ns = max(largest_ns, self._peaks_ns[first])
        return largest_ns

    def held_since(self, began_ns: int) -> None:
        """Note that the loop was held from `began_ns` until now, by whatever it was."""
        now_ns = self.now_ns()
        held_ns = now_ns - began_ns
        while self._peaks_ns and self._peaks_ns[-1] <= held_ns:
            self._peaks_ns.pop()
            self._stamps_ns.pop()
        self._stamps_ns.append(now_ns)
        self._peaks_ns.append(held_ns)
        if len(self._peaks_ns) > _MAX_PEAKS:
            self._halve_peaks()

    def _halve_peaks(self) -> None:
        # Of two neighbours the larger value takes the later stamp: a window may see too much,
        # never too little.
        stamps_ns = []
        for first in range(0, len(self._stamps_ns), 2):
            stamps_ns.append(max(self._stamps_ns[first : first + 2]))
        self._stamps_ns = stamps_ns
        self._peaks_ns = self._peaks_ns[::2]

    def late_counts(self) -> Counter[int]:
        """How many ticks there were so far, by how late they were at most."""
        return Counter(self._n_ticks_by_lateness)

    def percentile_ns(self, share: float, since: Counter[int] | None = None) -> int:
        """The smallest bound that at least `share` of the ticks were not later than.

        With `since`, what `late_counts` returned earlier, only the ticks from then on count.
        """
        counts = self._n_ticks_by_lateness
        if since:
            counts = counts - since
        n_ticks = counts.total()
        n_within = 0
        for bound_ns, count in sorted(counts.items()):
            n_within += count
            if n_within >= share * n_ticks:
                return min(bound_ns, self._max_late_ns)
        return self._max_late_ns

    def describe(self) -> dict[str, Any]:
        """The figures, for events.jsonl: lateness in milliseconds, null where there was no tick."""
        n_ticks = self._n_ticks_by_lateness.total()
        percentiles_ns = {
            "p50": self.percentile_ns(0.5),
            "p99": self.percentile_ns(0.99),
            "max": self._max_late_ns,
        }
        loop_lag_ms: dict[str, float | None] = {"n": n_ticks}
        for name, late_ns in percentiles_ns.items():
            loop_lag_ms[name] = round(late_ns / 1e6, 3) if n_ticks else None
        return {
            "resolution_ns": self._resolution_ns,
            "loop_lag_ms": loop_lag_ms,
            "client_cpu_s": round(self._cpu_s, 3),
            "wall_s": round(self._wall_s, 3),
            "cores": self._cores,
            "load_1m": self._load_1m,
        }

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._due_ns is not None:
            now_ns = self.now_ns()
            # A loop that counts in whole milliseconds may fire a little early: that is not late.
            late_ns = max(0, now_ns - self._due_ns)
            self._max_late_ns = max(self._max_late_ns, late_ns)
            self._n_ticks_by_lateness[_bucket_bound(late_ns)] += 1
            self.held_since(now_ns - late_ns)
        self._due_ns = self.now_ns() + _TICK_NS
        self._timer = loop.call_later(TICK_S, self._tick, loop)


def _bucket_bound(late_ns: int) -> int:
    """The largest lateness that is counted together with this one."""
    shift = max(0, late_ns.bit_length() - _SUB_BITS - 1)
    return (((late_ns >> shift) + 1) << shift) - 1


def _measure_resolution_ns() -> int:
    """The smallest step that the clock is seen to take, the time of reading it included."""
    reads_ns = [perf_counter_ns() for _ in range(_RESOLUTION_READS)]
    steps_ns = []
    for earlier_ns, later_ns in pairwise(reads_ns):
        if later_ns > earlier_ns:
            steps_ns.append(later_ns - earlier_ns)
    return min(steps_ns, default=0)
