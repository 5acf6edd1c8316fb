"""Further visits of the numbers of clients around the answer, in rounds.

A server has moods that last longer than a visit, so that the calls of one visit are good or bad
together. How far its moods go is seen only between visits: each round visits the same numbers of
clients in another order.
"""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from time import perf_counter_ns

from msgspec.structs import asdict

from clawgauge.capacity.scope import SearchScope, VisitKey
from clawgauge.records import StepSummary
from clawgauge.stats.load import LoadRound, find_knee, keeps_slo
from clawgauge.stats.visits import N_ROUNDS
from clawgauge.words import format_duration

# From what share of the answer, to how many times what lies above it, numbers are visited again.
_LOWEST_SHARE = 0.5
_HIGHEST_FACTOR = 2.0
# What is tried beyond the highest number where that keeps the limits in a later round.
_NEXT_FACTOR = 1.5

MeasureVisit = Callable[[int, int], Awaitable[StepSummary]]
"""Measures so many clients at the visit of this number."""


def find_levels_around(steps: Sequence[StepSummary], *, has_slo: bool) -> list[int]:
    """The numbers of clients around the answer, of those that the search has tried."""
    levels = sorted(step.concurrency for step in steps if step.concurrency)
    if not levels:
        return []
    answer = _find_answer(steps, has_slo=has_slo)
    if answer is None:
        answer = levels[-1]
    lowest = _LOWEST_SHARE * answer
    highest = _HIGHEST_FACTOR * max(1, answer)
    around = [level for level in levels if lowest <= level <= highest]
    return around or levels[:1]


def _find_answer(steps: Sequence[StepSummary], *, has_slo: bool) -> int | None:
    if not has_slo:
        knee = find_knee(steps)
        return None if knee is None else knee.concurrency
    most = 0
    for step in sorted(steps, key=lambda step: step.level):
        if step.trusted and not keeps_slo(step):
            break
        most = step.concurrency or 0
    return most


def draw_order(levels: Iterable[int], key: str) -> list[int]:
    """These numbers of clients in random order, the same for the same key."""
    order = sorted(levels)
    random.Random(key).shuffle(order)
    return order


class VisitRounds:
    """The rounds of one length of prompt.

    With limits the numbers of clients follow what is found: where the lowest of them breaks the
    limits, or the highest keeps them, the next round has one more on that side.
    """

    def __init__(
        self,
        scope: SearchScope,
        prompt_tokens: int,
        deadline_ns: int,
        first_visits: Mapping[int, StepSummary],
        measure: MeasureVisit,
    ) -> None:
        """`first_visits` are the steps of the search by their number of clients."""
        self._scope = scope
        self._prompt_tokens = prompt_tokens
        self._deadline_ns = deadline_ns
        self._measure = measure
        self._has_slo = bool(scope.options.slo.limits)
        self._visits: dict[int, list[StepSummary]] = {}
        for level, step in first_visits.items():
            self._visits[level] = [step]
        steps = list(first_visits.values())
        self._levels = find_levels_around(steps, has_slo=self._has_slo)

    async def run(self) -> None:
        """Visit all of them in every round.

        Raises `LoadEnded` where the time or the money ends before.
        """
        if not self._levels:
            return
        for visit in range(2, N_ROUNDS + 1):
            await self._make_round(visit)
            if self._has_slo:
                self._extend_levels()

    async def _make_round(self, visit: int) -> None:
        scope = self._scope
        key = f"{scope.options.order_seed} {scope.target.label} {self._prompt_tokens} {visit}"
        order = draw_order(self._levels, key)
        if not all(self._is_finished(level, visit) for level in order):
            load_round = LoadRound(
                context_tokens=self._prompt_tokens, visit=visit, concurrency=order
            )
            scope.record_event("capacity_round", scope.target, **asdict(load_round))
            left = format_duration((self._deadline_ns - perf_counter_ns()) / 1e6)
            numbers = ", ".join(str(level) for level in order)
            scope.observer.notice(
                f"round {visit} of {N_ROUNDS}, in random order: {numbers} at once; "
                f"{left} left at most"
            )
        for level in order:
            step = await self._measure(level, visit)
            self._visits.setdefault(level, []).append(step)

    def _is_finished(self, level: int, visit: int) -> bool:
        """Whether an earlier stretch made this visit."""
        key = VisitKey(self._scope.target.label, self._prompt_tokens, level, visit)
        return key in self._scope.finished_steps

    def _extend_levels(self) -> None:
        lowest = self._levels[0]
        highest = self._levels[-1]
        if not all(keeps_slo(step) for step in self._trusted_visits(lowest)):
            lower = [level for level in self._visits if level < lowest]
            if lower:
                self._levels.insert(0, max(lower))
            elif lowest > 1:
                self._levels.insert(0, lowest // 2)
        if any(keeps_slo(step) for step in self._trusted_visits(highest)):
            higher = [level for level in self._visits if level > highest]
            most = self._scope.options.max_concurrency
            if higher:
                self._levels.append(min(higher))
            elif highest < most:
                self._levels.append(min(most, math.ceil(_NEXT_FACTOR * highest)))

    def _trusted_visits(self, level: int) -> list[StepSummary]:
        return [step for step in self._visits[level] if step.trusted]
