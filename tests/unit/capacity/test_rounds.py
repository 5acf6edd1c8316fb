"""The rounds after the search: which numbers of clients are visited again, and in which order."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from clawgauge.capacity.generator import LoadEnded
from clawgauge.capacity.rounds import VisitRounds, draw_order, find_levels_around
from clawgauge.capacity.scope import SearchScope, VisitKey
from clawgauge.records import Slo, StepSummary, Target
from clawgauge.stats.load import measure_step
from support.load_visits import make_sample, make_window

LIMIT = Slo(ttft_ms=100.0)


def step_of(level: int, *, keeps: bool = True, visit: int = 1, late: bool = False) -> StepSummary:
    """A visit of a server with 8 slots."""
    cycle_ms = 1000 * level / min(level, 8)
    ttft_ms = 50.0 if keeps else 500.0
    samples = [make_sample(number % level, ttft_ms, cycle_ms) for number in range(60)]
    return measure_step(samples, make_window(level, visit, is_late=late), LIMIT)


class Rounds:
    """Rounds of a server that keeps the limits with `most` clients, by visit."""

    def __init__(self, tried: dict[int, bool], most: dict[int, int], **finished: Any) -> None:
        self.made: list[tuple[int, int]] = []
        self.events: list[dict[str, Any]] = []
        self.notices: list[str] = []
        self._most = most
        self.ends_after: int | None = None
        options = SimpleNamespace(slo=LIMIT, max_concurrency=64, order_seed=11)
        self.scope = SimpleNamespace(
            options=options,
            target=Target("box", "m"),
            finished_steps=finished.get("finished", {}),
            observer=SimpleNamespace(notice=self.notices.append),
            record_event=lambda name, target, **detail: self.events.append(detail),
        )
        self._first = {level: step_of(level, keeps=keeps) for level, keeps in tried.items()}

    async def measure(self, level: int, visit: int) -> StepSummary:
        finished = self.scope.finished_steps.get(VisitKey("box:m", 1000, level, visit))
        if finished is not None:
            return cast(StepSummary, finished)
        if self.ends_after is not None and len(self.made) >= self.ends_after:
            raise LoadEnded("the time ended")
        self.made.append((visit, level))
        return step_of(level, keeps=level <= self._most[visit], visit=visit)

    def run(self) -> list[list[int]]:
        """The numbers of clients of each round that was begun, in their order."""
        rounds = VisitRounds(cast(SearchScope, self.scope), 1000, 0, self._first, self.measure)
        asyncio.run(rounds.run())
        return [event["concurrency"] for event in self.events]


TRIED = {1: True, 2: True, 4: True, 8: True, 16: False, 12: False, 10: True, 11: True}
STEADY = dict.fromkeys(range(2, 6), 11)


def test_what_lies_between_half_and_twice_the_answer_is_visited_again() -> None:
    steps = [step_of(level, keeps=keeps) for level, keeps in TRIED.items()]
    assert find_levels_around(steps, has_slo=True) == [8, 10, 11, 12, 16]
    # Without limits the answer is where more clients bring no more.
    assert find_levels_around(steps, has_slo=False) == [4, 8, 10, 11, 12, 16]
    assert find_levels_around([step_of(1, keeps=False)], has_slo=True) == [1]
    assert find_levels_around([step_of(1), step_of(2)], has_slo=False) == [1, 2]
    assert find_levels_around([], has_slo=True) == []


def test_every_round_has_an_order_of_its_own_which_is_on_record() -> None:
    rounds = Rounds(TRIED, STEADY)
    orders = rounds.run()
    assert [sorted(order) for order in orders] == [[8, 10, 11, 12, 16]] * 4
    assert len({tuple(order) for order in orders}) > 1
    assert [event["visit"] for event in rounds.events] == [2, 3, 4, 5]
    assert rounds.made == [
        (visit, level) for visit, order in zip(range(2, 6), orders, strict=True) for level in order
    ]
    assert "round 2 of 5, in random order" in rounds.notices[0]
    assert Rounds(TRIED, STEADY).run() == orders
    assert draw_order([1, 2, 3, 4, 5], "a") == draw_order([5, 4, 3, 2, 1], "a")


def test_where_the_limits_move_the_next_round_moves_with_them() -> None:
    """In the second round only 3 keep them, in the others as many as there are."""
    orders = Rounds(TRIED, {2: 3, 3: 99, 4: 99, 5: 99}).run()
    assert [sorted(order) for order in orders] == [
        [8, 10, 11, 12, 16],
        [4, 8, 10, 11, 12, 16],
        [4, 8, 10, 11, 12, 16, 24],
        [4, 8, 10, 11, 12, 16, 24, 36],
    ]
    # A number that was never tried below the only one is half of it.
    low = Rounds({4: True}, {2: 1, 3: 1, 4: 1, 5: 1}).run()
    assert [sorted(order) for order in low] == [[4], [2, 4, 6], [1, 2, 4, 6], [1, 2, 4, 6]]


@pytest.mark.parametrize("n_made", range(0, 20, 3))
def test_a_run_that_was_ended_anywhere_goes_on_in_the_same_order(n_made: int) -> None:
    moods = {2: 3, 3: 99, 4: 9, 5: 11}
    whole = Rounds(TRIED, moods)
    whole.run()
    ended = Rounds(TRIED, moods)
    ended.ends_after = n_made
    with pytest.raises(LoadEnded):
        ended.run()
    finished = {}
    for visit, level in ended.made:
        key = VisitKey("box:m", 1000, level, visit)
        finished[key] = step_of(level, keeps=level <= moods[visit], visit=visit)
    again = Rounds(TRIED, moods, finished=finished)
    again.run()
    assert ended.made + again.made == whole.made
    # A round that is complete is not announced again.
    assert all(event in whole.events for event in again.events)
    assert len(again.events) <= 4


def test_the_search_that_was_late_everywhere_has_something_to_visit() -> None:
    steps = [step_of(1, late=True), step_of(2, late=True)]
    assert find_levels_around(steps, has_slo=True) == [1, 2]
