"""How many calls at once a run finds out to be good, and that it waits when a server asks it to."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

from clawgauge.runner.pacing import Pace


class StillClock:
    """A clock that goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept_s: list[float] = []

    def perf_ns(self) -> int:
        return round(self.now_s * 1e9)

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        wakes_at_s = self.now_s + seconds
        await asyncio.sleep(0)
        self.now_s = max(self.now_s, wakes_at_s)


def answer(first_token_ms: float = 100.0, *, success: bool = True):
    return SimpleNamespace(success=success, ttft_ms=first_token_ms, e2e_ms=first_token_ms)


def pace_of(most: int = 8, *, is_fixed: bool = False) -> Pace:
    return Pace(most, StillClock(), is_fixed=is_fixed)  # type: ignore[arg-type]


def ask(pace: Pace, n_calls: int, first_token_ms: float = 100.0) -> None:
    """So many calls, as many at once as there may be."""

    async def ask_all() -> None:
        for _ in range(n_calls):
            await pace.start_call()
            pace.end_call(answer(first_token_ms))  # type: ignore[arg-type]

    asyncio.run(ask_all())


def test_the_first_four_calls_go_alone_and_then_there_are_more() -> None:
    pace = pace_of()
    limits = []
    for _ in range(4):
        limits.append(pace.limit)
        ask(pace, 1)
    assert limits == [1, 1, 1, 1] and pace.limit == 8
    ask(pace, 40)
    assert pace.limit == 8


def test_slower_first_tokens_halve_the_calls() -> None:
    pace = pace_of()
    ask(pace, 12)
    assert pace.limit == 8
    ask(pace, 8, first_token_ms=130)
    assert pace.limit == 4


def test_short_times_that_differ_by_a_few_milliseconds_are_no_sign() -> None:
    pace = pace_of()
    ask(pace, 4, first_token_ms=10)
    ask(pace, 4, first_token_ms=18)
    assert pace.limit == 8


def refuse(pace: Pace, wait_s: float, n_calls: int = 1) -> None:
    """So many calls that are under way together are refused, and are made again after the wait."""

    async def ask_again() -> None:
        await pace.wait_out(wait_s)
        pace.end_call(None)

    async def ask_together() -> None:
        for _ in range(n_calls):
            await pace.start_call()
        await asyncio.gather(*(ask_again() for _ in range(n_calls)))

    asyncio.run(ask_together())


def test_no_call_goes_out_before_the_wait_that_a_server_asked_for_is_over() -> None:
    pace = pace_of()
    ask(pace, 8)
    assert pace.limit == 8
    began_s = pace._clock.now_s  # type: ignore[attr-defined]
    refuse(pace, 7.0)
    ask(pace, 1)
    assert pace._clock.now_s - began_s >= 7.0  # type: ignore[attr-defined]


def test_a_refusal_goes_back_to_what_was_good_and_to_less_where_that_is_refused() -> None:
    """Calls that are refused together are one refusal."""
    pace = pace_of()
    ask(pace, 8)
    refuse(pace, 1.0, n_calls=3)
    assert pace.limit == 4
    refuse(pace, 1.0)
    assert pace.limit == 3
    ask(pace, 15)
    assert pace.limit == 3
    ask(pace, 10)
    assert pace.limit == 4


def test_calls_that_were_refused_are_not_made_again_all_at_once() -> None:
    pace = pace_of()
    ask(pace, 8)

    async def refuse_eight() -> int:
        for _ in range(8):
            await pace.start_call()
        again = [asyncio.create_task(pace.wait_out(1.0)) for _ in range(8)]
        for _ in range(50):
            await asyncio.sleep(0)
        n_under_way = pace.n_under_way
        for task in again:
            task.cancel()
        await asyncio.gather(*again, return_exceptions=True)
        return n_under_way

    assert asyncio.run(refuse_eight()) == pace.limit == 4


def test_a_number_that_was_asked_for_stays() -> None:
    pace = pace_of(16, is_fixed=True)
    assert pace.limit == 16
    ask(pace, 40, first_token_ms=900)
    refuse(pace, 5.0)
    assert pace.limit == 16 and pace.pause_left_s() == 0.0


def test_one_at_a_time_is_one_at_a_time() -> None:
    pace = pace_of(1)
    ask(pace, 20)
    assert pace.limit == 1 and pace.most_seen == 1


def test_a_call_beyond_the_limit_waits_for_another_to_end() -> None:
    pace = pace_of(2, is_fixed=True)

    async def three_at_once() -> bool:
        await pace.start_call()
        await pace.start_call()
        third = asyncio.create_task(pace.start_call())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(third), 0.01)
        waited = not third.done()
        pace.end_call(None)
        await third
        return waited

    assert asyncio.run(three_at_once())
