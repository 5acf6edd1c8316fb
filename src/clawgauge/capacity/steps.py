"""Measures single steps: one load, with prompts of one length, held until it tells enough."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter_ns

from msgspec.structs import asdict

from clawgauge.capacity.dispatcher import Dispatcher, SteadyWindow, poisson_arrivals
from clawgauge.capacity.generator import Lateness, LoadEnded
from clawgauge.capacity.scope import SearchScope, VisitKey
from clawgauge.records import StepSummary
from clawgauge.stats.load import (
    MIN_CALLS,
    Sample,
    Window,
    is_enough,
    is_enough_again,
    measure_step,
)
from clawgauge.stats.quantiles import percentile
from clawgauge.stats.visits import N_ROUNDS

# How long a step of clients goes on however noisy it is: in seconds, and in calls in a row.
_MAX_STEP_S = 60.0
_MAX_STEP_CYCLES = 12.0
# How long a rate is held before it is taken as steady: by the time it is measured, and in calls in
# a row.
_WARM_UP_SHARE = 0.25
_WARM_UP_CYCLES = 2.0
# How late a machine that makes calls may be (p95 of its loop), in milliseconds or by the usual
# first token; and how much of a core it may use.
_MAX_LATE_MS = 2.0
_MAX_LATE_SHARE = 0.05
_MAX_CPU_SHARE = 0.9


class CallTime:
    """How long a call takes at the longest, as far as was seen where no line was growing."""

    def __init__(self) -> None:
        self.longest_ms = 0.0

    def note(self, call_ms: float) -> None:
        self.longest_ms = max(self.longest_ms, call_ms)


class StepRunner:
    """Measures the steps of one prompt length. Times are by `perf_counter_ns`."""

    def __init__(
        self,
        scope: SearchScope,
        dispatcher: Dispatcher,
        prompt_tokens: int,
        deadline_ns: int,
        call_time: CallTime,
        salt: str,
    ) -> None:
        self._scope = scope
        self._options = scope.options
        self._dispatcher = dispatcher
        self._prompt_tokens = prompt_tokens
        self._deadline_ns = deadline_ns
        self._call_time = call_time
        self._salt = salt
        self.n_measured = 0
        """How many visits there are, those of earlier stretches included."""

    async def measure_clients(
        self,
        n_clients: int,
        restart_spacing_ms: float | None,
        *,
        visit: int = 1,
        is_second_try: bool = False,
    ) -> StepSummary:
        """Measure so many clients that ask in turn; `restart_spacing_ms` as in `hold_clients`.

        A `visit` after the first is a short one. Returns what an earlier stretch measured, where
        it did. Raises `LoadEnded` where the time is over first.
        """
        finished = self._find_finished(n_clients, visit)
        if finished is not None:
            self._dispatcher.note_cycle(finished.e2e_ms.mean or 0.0)
            return finished
        max_step_s = max(_MAX_STEP_S, _MAX_STEP_CYCLES * self._dispatcher.cycle_ms / 1000)
        min_calls = max(MIN_CALLS, n_clients)

        def tells_enough(samples: list[Sample], seconds: float) -> bool:
            if visit > 1:
                return is_enough_again(len(samples), n_clients, seconds)
            # However noisy, it ends; but not before the least that tells anything.
            if seconds >= max_step_s and len(samples) >= min_calls:
                return True
            return is_enough(samples, n_clients, seconds, self._options.slo)

        load = f"c{n_clients}"
        if visit > 1:
            load += f"v{visit}"
        if is_second_try:
            load += "b"
        name = self._name_of(load)
        at_once = f"{n_clients} at once"
        self._scope.observer.step_begun(self._prompt_tokens, at_once)
        window = await self._dispatcher.hold_clients(
            name,
            n_clients,
            self._deadline_ns,
            self._scope.generator.read_lateness,
            tells_enough,
            restart_spacing_ms,
            visit=visit,
        )
        if window is None or len(window.samples) < min_calls:
            where = f" in round {visit} of {N_ROUNDS}" if visit > 1 else ""
            raise LoadEnded(f"the time ended{where} before {at_once} were steady")
        return await self._conclude(
            name, window, window.samples, concurrency=n_clients, visit=visit
        )

    async def measure_rate(self, rate: float) -> StepSummary:
        """Measure so many arrivals a second.

        Returns the step that an earlier stretch measured, where there is one. Raises `LoadEnded`
        where there is no time for it.
        """
        finished = self._find_finished(rate, 1)
        if finished is not None:
            return finished
        duration_s = self._options.duration_s
        calls_s = _WARM_UP_CYCLES * self._call_time.longest_ms / 1000
        warm_up_s = max(duration_s * _WARM_UP_SHARE, calls_s)
        ends_s = warm_up_s + duration_s
        if perf_counter_ns() + ends_s * 1e9 > self._deadline_ns:
            raise LoadEnded(f"--max-time leaves no room for {rate:g} a second")
        # What is due after the window keeps the load up until the last of its calls has ended.
        arrivals_s = poisson_arrivals(
            rate, ends_s + max(duration_s, calls_s), f"{self._salt} {rate}"
        )
        name = self._name_of(f"r{rate:g}")
        self._scope.observer.step_begun(self._prompt_tokens, f"{rate:g} a second")
        window = await self._dispatcher.play_arrivals(
            name,
            arrivals_s,
            (warm_up_s, ends_s),
            self._options.max_concurrency,
            self._scope.generator.read_lateness,
        )
        samples = [sample.since_due() for sample in window.samples]
        step = await self._conclude(name, window, samples, rate=rate)
        if not step.growing:
            self._call_time.note(step.e2e_ms.mean or 0.0)
        return step

    def _name_of(self, load: str) -> str:
        return self._scope.name_of(f"{self._prompt_tokens}/{load}")

    def _find_finished(self, load: float, visit: int) -> StepSummary | None:
        key = VisitKey(self._scope.target.label, self._prompt_tokens, load, visit)
        finished = self._scope.finished_steps.get(key)
        if finished is not None:
            self.n_measured += 1
        return finished

    async def _conclude(
        self,
        name: str,
        steady: SteadyWindow,
        samples: list[Sample],
        *,
        concurrency: int | None = None,
        rate: float | None = None,
        visit: int = 1,
    ) -> StepSummary:
        """Record a step's window, and report what was measured in it."""
        lateness_by_machine = await self._scope.generator.read_lateness()
        origin_ns = self._scope.generator.origin_ns
        window = Window(
            step=name,
            context_tokens=self._prompt_tokens,
            concurrency=concurrency,
            rate=rate,
            visit=visit,
            from_ms=(steady.from_ns - origin_ns) / 1e6,
            to_ms=(steady.to_ns - origin_ns) / 1e6,
            pauses=self._options.shape == "agent",
            n_dropped=steady.n_dropped,
            untrusted=_find_fault(lateness_by_machine, samples),
        )
        self._scope.record_event("capacity_step", self._scope.target, **asdict(window))
        step = measure_step(samples, window, self._options.slo)
        self.n_measured += 1
        self._scope.observer.step_measured(self._prompt_tokens, step)
        return step


def _find_fault(lateness_by_machine: Mapping[str, Lateness], samples: list[Sample]) -> str | None:
    """Why these calls cannot be trusted, by the last machine that was late; None where none was."""
    first_tokens_ms = []
    for sample in samples:
        if sample.ttft_ms is not None:
            first_tokens_ms.append(sample.ttft_ms)
    first_tokens_ms.sort()
    usual_first_token_ms = percentile(first_tokens_ms, 0.5) or 0.0
    max_late_ms = max(_MAX_LATE_MS, _MAX_LATE_SHARE * usual_first_token_ms)
    fault = None
    for machine, lateness in lateness_by_machine.items():
        if lateness.n_not_made:
            fault = f"{machine} could not make {lateness.n_not_made} of the calls"
        elif lateness.cpu_share > _MAX_CPU_SHARE:
            fault = f"{machine} used {lateness.cpu_share:.0%} of a core"
        elif lateness.loop_p95_ms > max_late_ms:
            fault = f"{machine} was late by {lateness.loop_p95_ms:.0f} ms"
    return fault
