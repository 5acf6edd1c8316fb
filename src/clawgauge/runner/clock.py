"""Time as the runner sees it, so that a test can make waiting free. Durations never come from the wall clock."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock for durations, a wall clock for labels, and a way to wait."""

    def perf_ns(self) -> int: ...

    def wall_ms(self) -> int: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own clocks."""

    def perf_ns(self) -> int:
        return time.perf_counter_ns()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
