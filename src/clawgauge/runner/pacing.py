"""How many calls to a target are under way at once, found out while it is asked.

The first few go one at a time and tell how long the first token takes. Then there are more, as long
as that stays so; a wait that the server asks for holds up every call to it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from statistics import median

from clawgauge.records import Result
from clawgauge.runner.clock import Clock

# So many calls go one at a time, and are what later ones are held against.
_CALLS_ALONE = 4
# By what factor the median first token may grow until there are too many calls, and by how many
# milliseconds: short times differ by more than a fifth for no reason.
_SLOWER_FACTOR = 1.2
_SLOWER_MS = 25.0
_LEAST_CALLS_LOOKED_AT = 4
# After a refusal at a number that had been kept before, so much of it is kept.
_KEPT_AFTER_REFUSAL = 0.75
# After a refusal one call more is tried once so many times the calls at once have been answered.
_PATIENCE = 4


class Pace:
    """The calls of one target: at most `most` at once, fewer where more would not go faster.

    Where it `is_fixed`, there are as many at once as there may be.
    """

    def __init__(self, most: int, clock: Clock, *, is_fixed: bool) -> None:
        self.most = most
        self.limit = most if is_fixed or most == 1 else 1
        self.n_under_way = 0
        self.most_seen = 0
        self._is_fixed = is_fixed or most == 1
        self._clock = clock
        self._alone_ms: list[float] = []
        self._recent_ms: deque[float] = deque(maxlen=max(_LEAST_CALLS_LOOKED_AT, most))
        self._n_since_change = 0
        # So many at once were answered well, or are taken to be after a refusal.
        self._good_limit = 1
        self._was_refused = False
        self._resumes_at_s = 0.0
        self._changed = asyncio.Event()

    async def start_call(self) -> None:
        """Wait until another call may be made."""
        while True:
            if self.n_under_way >= self.limit:
                await self._changed.wait()
                continue
            pause_s = self.pause_left_s()
            if pause_s <= 0:
                break
            await self._clock.sleep(pause_s)
        self.n_under_way += 1
        self.most_seen = max(self.most_seen, self.n_under_way)

    def end_call(self, result: Result | None) -> None:
        """A call has ended; `result` is None where there was none to make."""
        self.n_under_way -= 1
        if result is not None and not self._is_fixed:
            self._learn(result)
        self._notify()

    def pause_left_s(self) -> float:
        """How long no call may be made, because the server asked for that."""
        if self._is_fixed:
            return 0.0
        return self._resumes_at_s - self._clock.perf_ns() / 1e9

    async def wait_out(self, wait_s: float) -> None:
        """The server has refused a call that was started: it gives its place back, and has one
        again when this returns."""
        if self._is_fixed:
            await self._clock.sleep(wait_s)
            return
        self._slow_down(wait_s)
        self.n_under_way -= 1
        self._notify()
        try:
            await self._clock.sleep(max(wait_s, self.pause_left_s()))
            await self.start_call()
        except asyncio.CancelledError:
            self.n_under_way += 1
            raise

    def _slow_down(self, wait_s: float) -> None:
        """Fewer calls at once after a refusal, and none before the wait is over.

        Calls that were on their way together are refused together: that is one refusal.
        """
        is_first = self.pause_left_s() <= 0
        self._resumes_at_s = max(self._resumes_at_s, self._clock.perf_ns() / 1e9 + wait_s)
        if not is_first:
            return
        self._was_refused = True
        if self._good_limit >= self.limit:
            self._good_limit = max(1, int(self.limit * _KEPT_AFTER_REFUSAL))
        else:
            self._good_limit = max(self._good_limit, self.limit // 2)
        self._change_limit(self._good_limit)

    def _learn(self, result: Result) -> None:
        if not result.success:
            return
        first_token_ms = result.ttft_ms if result.ttft_ms is not None else result.e2e_ms
        if len(self._alone_ms) < _CALLS_ALONE:
            self._alone_ms.append(first_token_ms)
            if len(self._alone_ms) == _CALLS_ALONE:
                self._change_limit(self.most)
            return
        self._recent_ms.append(first_token_ms)
        self._n_since_change += 1
        n_enough = max(_LEAST_CALLS_LOOKED_AT, self.limit)
        if self._n_since_change < n_enough:
            return
        self._good_limit = max(self._good_limit, self.limit)
        alone_ms = median(self._alone_ms)
        is_slower = median(self._recent_ms) > max(_SLOWER_FACTOR * alone_ms, alone_ms + _SLOWER_MS)
        if is_slower:
            self._change_limit(max(1, self.limit // 2))
        elif not self._was_refused:
            self._change_limit(min(self.most, self.limit * 2))
        elif self._n_since_change >= _PATIENCE * n_enough:
            self._change_limit(min(self.most, self.limit + 1))

    def _change_limit(self, limit: int) -> None:
        self.limit = limit
        self._n_since_change = 0
        self._recent_ms.clear()
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
