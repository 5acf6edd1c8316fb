"""The search for what one target can carry: lengths are probed, then loads are tried."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from time import perf_counter_ns
from typing import TypeVar

from clawgauge.capacity.dispatcher import Dispatcher
from clawgauge.capacity.generator import LoadCommand, LoadEnded
from clawgauge.capacity.probes import Calibration, Prober
from clawgauge.capacity.rounds import VisitRounds
from clawgauge.capacity.scope import SearchScope, word_end
from clawgauge.capacity.steps import CallTime, StepRunner
from clawgauge.records import StepSummary
from clawgauge.stats.load import GAIN, find_knee, keeps_slo
from clawgauge.words import format_duration

# Two loads are as good as next to each other within this factor.
_CLOSE_LEVELS = 1.04
_CLOSE_RATES = 1.08

_Load = TypeVar("_Load", int, float)


class TargetSearch:
    """The search of one target."""

    def __init__(self, scope: SearchScope) -> None:
        self.scope = scope
        self._salt = secrets.token_hex(16)
        self.prober = Prober(scope, self._salt)
        self._call_time = CallTime()
        origin_ns = scope.generator.origin_ns
        self._deadline_ns = origin_ns + round(scope.max_time_s * 1e9)
        self._runners: list[StepRunner] = []

    @property
    def n_measured(self) -> int:
        """How many visits of loads there are."""
        return sum(runner.n_measured for runner in self._runners)

    async def measure(self) -> None:
        """Calibrate, probe every length of prompt, then load with those that arrive whole.

        Raises `TargetError` where there is no such model, `LoadEnded` where it does not answer.
        """
        observer = self.scope.observer
        observer.notice(f"{self.scope.target.label}: getting ready")
        await self.scope.generator.get_ready()
        observer.notice("calibrating by two short calls: how does the server count tokens?")
        began_ns = perf_counter_ns()
        calibration = await self.prober.calibrate()
        took = format_duration((perf_counter_ns() - began_ns) / 1e6)
        observer.notice(f"calibration took {took}")
        lengths = await self._find_whole_lengths(calibration)
        dispatcher: Dispatcher | None = None
        for index, prompt_tokens in enumerate(lengths):
            if dispatcher is not None and not self.scope.generator.ends_with_task_group:
                await dispatcher.stop_clients()
            # What one length leaves of its share of the time, the others have.
            now_ns = perf_counter_ns()
            n_left = len(lengths) - index
            deadline_ns = now_ns + (self._deadline_ns - now_ns) // n_left
            dispatcher = self._make_dispatcher(prompt_tokens, calibration)
            await self._load(dispatcher, prompt_tokens, deadline_ns)

    async def _find_whole_lengths(self, calibration: Calibration) -> list[int]:
        lengths = []
        for tokens in self.scope.options.contexts:
            length = f"prompts of {tokens} tokens"
            self.scope.observer.notice(f"asking whether {length} are read whole")
            check = await self.prober.check_length(tokens, calibration)
            self._call_time.note(check.call_ms)
            if check.arrives_whole:
                lengths.append(tokens)
        return lengths

    def _make_dispatcher(self, prompt_tokens: int, calibration: Calibration) -> Dispatcher:
        generator = self.scope.generator
        template = LoadCommand(prompt_tokens=prompt_tokens, scale=calibration.scale)
        return Dispatcher(generator.apply, template, generator.origin_ns)

    async def _load(self, dispatcher: Dispatcher, prompt_tokens: int, deadline_ns: int) -> None:
        """Try the loads of one length until the limit is found, or the time or money is over."""
        runner = StepRunner(
            self.scope, dispatcher, prompt_tokens, deadline_ns, self._call_time, self._salt
        )
        self._runners.append(runner)
        try:
            async with asyncio.TaskGroup() as group:
                self.scope.generator.attach(group, dispatcher)
                if self.scope.options.rates:
                    await try_rates(self.scope, runner)
                else:
                    search = LevelSearch(self.scope, runner)
                    await search.run()
                    rounds = VisitRounds(
                        self.scope, prompt_tokens, deadline_ns, search.steps, search.visit
                    )
                    await rounds.run()
                    # Who is stopped, or has no time or money left, waits for nobody: the group
                    # ends what is under way.
                    await dispatcher.stop_clients()
        except* LoadEnded as ended:
            reason = str(ended.exceptions[0])
            self.scope.observer.notice(word_end(reason, runner.n_measured))


async def try_rates(scope: SearchScope, runner: StepRunner) -> None:
    """Try every rate in turn until the SLO is broken.

    Then those between the last that kept it and the first that did not.
    """

    async def is_kept(rate: float) -> bool:
        return keeps_slo(await runner.measure_rate(rate))

    last_kept = 0.0
    for rate in scope.options.rates:
        if not await is_kept(rate) and scope.options.slo.limits:
            await _bisect(last_kept or rate, rate, _middle_rate, is_kept, _CLOSE_RATES)
            return
        last_kept = rate


def _middle_rate(low: float, high: float) -> float:
    return round((low + high) / 2, 3)


class LevelSearch:
    """The search for a number of clients, and the steps that it has measured.

    1, 2, 4 … of them are tried until more bring no more, or with an SLO until that is broken; then
    numbers about both places.
    """

    def __init__(self, scope: SearchScope, runner: StepRunner) -> None:
        self._has_slo = bool(scope.options.slo.limits)
        self._max_level = scope.options.max_concurrency
        self._runner = runner
        self.steps: dict[int, StepSummary] = {}
        """What the search has measured, by the number of clients."""
        self._last_step: StepSummary | None = None

    async def run(self) -> None:
        level, is_kept = await self._double()
        # From the top down: a load that stays saturated keeps its starts as evenly spread as they
        # were.
        if self._has_slo and not is_kept:
            await self._bisect_from_below(level, self._keeps_slo)
        knee = find_knee(self.steps.values())
        if knee is None:
            return
        best = knee.requests_per_s

        async def is_short_of_best(level: int) -> bool:
            step = await self._measure(level)
            return step.requests_per_s * GAIN < best

        await self._bisect_from_below(knee.concurrency, is_short_of_best)

    async def _double(self) -> tuple[int, bool]:
        """Double the clients until that brings no more, or the SLO is broken.

        Returns the last number of them, and whether it kept the SLO.
        """
        level = 1
        best = 0.0
        while True:
            is_kept = await self._keeps_slo(level)
            if not is_kept or level >= self._max_level:
                return level, is_kept
            requests_per_s = self.steps[level].requests_per_s
            if not self._has_slo and requests_per_s <= GAIN * best:
                return level, is_kept
            best = max(best, requests_per_s)
            level = min(2 * level, self._max_level)

    async def _bisect_from_below(self, high: int, is_low: Callable[[int], Awaitable[bool]]) -> None:
        """Try numbers between `high` and the next lower one that was measured.

        `is_low` tells whether the search goes on above a number.
        """
        lower_levels = [level for level in self.steps if level < high]
        low = max(lower_levels, default=0)
        await _bisect(low, high, _middle_level, is_low, _CLOSE_LEVELS)

    async def _keeps_slo(self, level: int) -> bool:
        return keeps_slo(await self._measure(level))

    async def _measure(self, level: int) -> StepSummary:
        if level not in self.steps:
            self.steps[level] = await self.visit(level, 1)
        return self.steps[level]

    async def visit(self, level: int, visit: int) -> StepSummary:
        """Measure so many clients at the visit of this number; twice where the first time cannot
        be trusted."""
        spacing_ms = self._choose_restart_spacing_ms(level)
        step = await self._runner.measure_clients(level, spacing_ms, visit=visit)
        if not step.trusted:
            # This program may be late for once: a second try does no harm.
            step = await self._runner.measure_clients(
                level, spacing_ms, visit=visit, is_second_try=True
            )
        self._last_step = step
        return step

    def _choose_restart_spacing_ms(self, level: int) -> float | None:
        """How far apart the clients start anew; None where they go on.

        Fewer than before, and those after a step in which this program was late, begin anew.
        """
        last_step = self._last_step
        if last_step is None or (level >= last_step.level and last_step.trusted):
            return None
        steps = list(self.steps.values())
        alone_ms = steps[0].e2e_ms.mean or 0.0
        best = max(step.requests_per_s for step in steps)
        return max(alone_ms / level, 1000 / best)


def _middle_level(low: int, high: int) -> int:
    return (low + high) // 2


async def _bisect(
    low: _Load,
    high: _Load,
    middle_of: Callable[[_Load, _Load], _Load],
    is_low: Callable[[_Load], Awaitable[bool]],
    close: float,
) -> None:
    """Try what lies between two loads, until they are next to each other or as good as."""
    while high > close * low:
        middle = middle_of(low, high)
        if not low < middle < high:
            return
        if await is_low(middle):
            low = middle
        else:
            high = middle
