"""The search for what a target can carry: lengths are calibrated, loads are tried, and about the best tried again."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from time import perf_counter_ns
from typing import Protocol, TypeAlias

import msgspec

from clawgauge.capacity.load import (
    BRIEF_TOKENS,
    Crowd,
    Go,
    Heard,
    Held,
    Late,
    Left,
    Machine,
    Over,
    poisson_arrivals,
)
from clawgauge.capacity.prompts import Made, Ruler, make_prompt, read_ruler
from clawgauge.errors import TargetError
from clawgauge.plan import Plan
from clawgauge.records import Result, StepSummary, Target
from clawgauge.runner.clock import ClientClock
from clawgauge.runner.context import RunContext
from clawgauge.runner.target import TargetRun
from clawgauge.stats import load as figures
from clawgauge.stats.load import Sample, Window
from clawgauge.stats.quantiles import percentile

_SHORT_CHARS, _LONGER_CHARS = 600, 2_400
_STEP_S, _STEP_CYCLES = 60.0, 12.0
_WARM_SHARE, _WARM_CYCLES = (
    0.25,
    2.0,
)  # before a rate is steady: of the time it is held, and calls in a row at least
# Where a server counts less of what was sent it may have cut the rest off, or count unevenly: a longer text tells.
_COUNTED_SHARE, _LONGER_SHARE, _STILL = 0.996, 1.1, 1.005
_TRIES, _WARM_CALLS, _SWAP_ROUNDS = 3, 3, 5
_CLOSE_LEVELS, _CLOSE_RATES = 1.04, 1.08
# Statuses that say nothing of a prompt's length; how long after the time a step that ends with it is still told.
_NOT_NOW, _GRACE_S = frozenset({408, 409, 425, 429}), 1.0
# How late this program may be (p95 of its loop), in milliseconds and by the first token; how much of a core it may use.
_LATE_MS, _LATE_SHARE, _BUSY_SHARE = 2.0, 0.05, 0.9

Told: TypeAlias = Callable[
    [Target, int, StepSummary | str], None
]  # hears of every step, and what one should know
Done: TypeAlias = Mapping[
    tuple[str, int, float], StepSummary
]  # earlier stretches' steps: target, length, load


class Hands(Protocol):
    """Those who make the calls: a `Machine`, or several. `mark` tells how late each was since the last time."""

    origin_ns: int

    def enter(self, group: asyncio.TaskGroup, heard: Heard, left: Left) -> None: ...
    def go(self, go: Go) -> None: ...
    async def get_ready(self) -> None: ...
    async def ask_briefly(self, name: str, n_chars: int, key: str) -> Result: ...
    async def mark(self) -> Mapping[str, Late]: ...


async def measure_capacity(
    told: Told,
    done: Done,
    context: RunContext,
    runs: Mapping[Target, TargetRun],
    clock: ClientClock,
) -> None:
    """Load targets that are ready: what `runner.run` does for a capacity run in the place of asking cells."""
    machines = {
        target: Machine(context, run, clock, perf_counter_ns()) for target, run in runs.items()
    }
    try:
        await search(
            [TargetLoad(told, done, context.plan, context.event, *one) for one in machines.items()]
        )
    finally:
        await asyncio.gather(*(machine.records.flush() for machine in machines.values()))


async def search(loads: Sequence[TargetLoad]) -> None:
    """Load one target within its time, or change between several."""
    first = loads[0]
    try:
        async with asyncio.timeout(sum(load.max_time_s for load in loads) + _GRACE_S):
            await (_change_models(loads) if len(loads) > 1 else first.measure())
    except TimeoutError:
        first.tell(
            "--max-time is over, and what was under way is given up: what was measured stands"
        )
    except (Over, TargetError) as unfit:
        if isinstance(unfit, TargetError) and first.is_alone:
            raise
        first.tell(str(unfit))


class TargetLoad:
    """One target under load."""

    def __init__(
        self,
        told: Told,
        done: Done,
        plan: Plan,
        event: Callable[..., None],
        target: Target,
        hands: Hands,
    ) -> None:
        if (options := plan.capacity) is None:
            raise TypeError("the plan is not one of a capacity run")
        self.target, self.hands, self._event = target, hands, event
        self._options, self._told, self._done, self._ruler = options, told, done, Ruler()
        # The time is that of all targets; steps of two stretches of a run must not share cells.
        self.is_alone, self.max_time_s = (
            len(plan.targets) == 1,
            options.max_time_s / len(plan.targets),
        )
        self._ends_ns = self._until_ns = hands.origin_ns + round(self.max_time_s * 1e9)
        self._suffix, self._step = f"+{plan.work.stretch}" if plan.work.stretch else "", ""
        self._tokens, self._repeats, self._call_ms, self._most_counted = 0, False, 0.0, 0
        self._salt, self._serial = secrets.token_hex(16), count()

    def tell(self, what: StepSummary | str) -> None:
        self._told(self.target, self._tokens, what)

    async def measure(self) -> None:
        """Calibrate, look at every length of prompt, then try those that arrive whole under load."""
        await self.hands.get_ready()
        await self._calibrate()
        whole = [tokens for tokens in self._options.contexts if await self._arrives_whole(tokens)]
        crowd: Crowd | None = None
        for place, self._tokens in enumerate(whole):
            if crowd is not None and not isinstance(self.hands, Machine):
                await crowd.leave()  # on other machines nobody ends with a task group of this one
            # What one length leaves of its share of the time, the others have.
            now_ns = perf_counter_ns()
            self._until_ns = now_ns + (self._ends_ns - now_ns) // (len(whole) - place)
            crowd = Crowd(
                self.hands.go, Go(tokens=self._tokens, ruler=self._ruler), self.hands.origin_ns
            )
            try:
                async with asyncio.TaskGroup() as group:
                    self.hands.enter(group, crowd.heard, crowd.left)
                    await (
                        self._try_rates(crowd) if self._options.rates else self._try_levels(crowd)
                    )
            except* Over as over:
                self.tell(str(over.exceptions[0]))

    async def ask_briefly(self, name: str, n_chars: int = 0) -> tuple[Result, Made]:
        key = f"{self._salt} {next(self._serial)}"
        return await self.hands.ask_briefly(f"{name}{self._suffix}", n_chars, key), make_prompt(
            n_chars, key
        )

    async def _calibrate(self) -> None:
        """How the server counts, from two short prompts; and whether it repeats the codes of a prompt."""
        seen = []
        for n_chars in (_SHORT_CHARS, _LONGER_CHARS):
            result, made = await self.ask_briefly("calibration", n_chars)
            if not figures.has_answer(result):
                fault = (
                    TargetError if result.failure_type == "model_not_found" else Over
                )  # that is no wrong request
                raise fault(
                    f"{self.target.label} cannot be loaded: {result.error or result.failure_type}"
                )
            seen.append((len(made.text), result.input_tokens))
            self._repeats = _codes_in(result, made) == (True, True)
        self._ruler, self._most_counted = read_ruler(*seen), seen[-1][1] or 0
        if not self._ruler.counted:
            self.tell("the server does not count tokens: four characters are taken for one")

    async def _arrives_whole(self, tokens: int) -> bool:
        """Whether prompts of this length are read from their beginning to their end, as far as can be told."""
        ruler, by, n_lost = self._ruler, None, 0
        for number in range(_TRIES):
            result, made = await self.ask_briefly(f"{tokens}/look", ruler.chars(tokens))
            failed = None if figures.has_answer(result) else result.error or result.failure_type
            if failed and not number and not _is_refusal(result):
                continue
            counted, codes = result.input_tokens, _codes_in(result, made)
            expected = (
                ruler.tokens(len(made.text)) if ruler.counted and counted is not None else None
            )
            # A window may have cut even the text that was calibrated by: its count is as suspect as a small one.
            if expected and counted and (counted <= expected - 1 or counted == self._most_counted):
                # A count that does not grow with a longer text has come to the end of the window.
                more, _ = await self.ask_briefly(
                    f"{tokens}/look", round(_LONGER_SHARE * len(made.text))
                )
                most = counted * (_STILL if counted < _COUNTED_SHARE * expected else 1)
                by = (
                    "count" if more.input_tokens is not None and more.input_tokens <= most else None
                )
            # The end is there and the beginning is not, every time, where a short prompt had both.
            n_lost += (is_lost := self._repeats and codes == (False, True) and not failed)
            if by or not is_lost:
                break
        seen, more_tokens = figures.sample_of(result), self._options.output_tokens - BRIEF_TOKENS
        self._call_ms = max(
            self._call_ms,
            0.0 if failed else seen.e2e_ms + (seen.tpot_ms or 0.0) * max(0, more_tokens),
        )
        # A model may forget what the server has counted.
        by = by or ("marker" if n_lost == _TRIES and expected is None else None)
        is_read = (
            n_lost < _TRIES if expected is not None else self._repeats and codes == (True, True)
        )
        refused = failed if _is_refusal(result) else None
        truncated = True if by else False if is_read and not failed else None
        facts = {"truncated": truncated, "truncated_by": by, "refused": refused}
        self._event(
            "capacity_context", self.target, context_tokens=tokens, counted_tokens=counted, **facts
        )
        if by:
            saw = f"counted {counted}" if by == "count" else "did not see how they begin"
            self.tell(f"SILENTLY TRUNCATED: of prompts of {tokens} tokens the server {saw}")
        elif failed:
            how = (
                "are refused" if refused else "had no answer, so nobody can tell what they come to"
            )
            self.tell(f"prompts of {tokens} tokens {how}: {failed}")
        return not by and not failed

    async def _try_levels(self, crowd: Crowd) -> None:
        """1, 2, 4 … until more clients bring no more, or with an SLO until that is broken; then about both places."""
        slo, most, steps = (
            self._options.slo.limits,
            self._options.max_concurrency,
            dict[int, StepSummary](),
        )

        async def attempt(level: float) -> StepSummary:
            last, level = next(reversed(steps.values()), None), int(level)
            if level not in steps:
                # Fewer than before, and those after a step in which we were late, begin anew, evenly spread.
                apart_ms = None
                if last is not None and (level < last.level or not last.trusted):
                    alone_ms = next(iter(steps.values())).e2e_ms.mean or 0.0
                    apart_ms = max(
                        alone_ms / level, 1000 / max(step.requests_per_s for step in steps.values())
                    )
                steps[level] = await self._closed_step(crowd, level, apart_ms)
                if not steps[level].trusted:
                    # This program may be late for once: a second look does no harm.
                    steps[level] = await self._closed_step(crowd, level, apart_ms, again="b")
            return steps[level]

        async def is_kept(level: float) -> bool:
            return figures.keeps_slo(await attempt(level))

        async def is_short(level: float) -> bool:
            return (await attempt(level)).requests_per_s * figures.GAIN < best

        level, best = 1, 0.0
        while (kept := await is_kept(level)) and level < most:
            rate = steps[level].requests_per_s
            if not slo and rate <= figures.GAIN * best:
                break
            level, best = min(2 * level, most), max(best, rate)
        # From the top down: a crowd that stays saturated keeps its starts as evenly spread as they were.
        if slo and not kept:
            await _bisect(
                max((one for one in steps if one < level), default=0), level, is_kept, _CLOSE_LEVELS
            )
        if (knee := figures.find_knee(steps.values())) is not None:
            best, below = knee.requests_per_s, [one for one in steps if one < knee.concurrency]
            await _bisect(max(below, default=0), knee.concurrency, is_short, _CLOSE_LEVELS)
        # Who is stopped, or has no time or money left, waits for nobody: the group ends what is under way.
        await crowd.leave()

    async def _try_rates(self, crowd: Crowd) -> None:
        """Every rate in turn until the SLO is broken; then between the last that kept it and the first that did not."""

        async def is_kept(rate: float) -> bool:
            return figures.keeps_slo(await self._open_step(crowd, rate))

        kept = 0.0
        for rate in self._options.rates:
            if not await is_kept(rate) and self._options.slo.limits:
                await _bisect(kept or rate, rate, is_kept, _CLOSE_RATES)
                return
            kept = rate

    async def _closed_step(
        self, crowd: Crowd, level: int, apart_ms: float | None, again: str = ""
    ) -> StepSummary:
        if (known := self._begin(level, f"c{level}{again}")) is not None:
            crowd.recent_ms.append(known.e2e_ms.mean or 0.0)
            return known
        limit_s, least = (
            max(_STEP_S, _STEP_CYCLES * crowd.cycle_ms / 1000),
            max(figures.MIN_CALLS, level),
        )

        def enough(seen: list[Sample], seconds: float) -> bool:
            # However noisy, it ends; but not before the least that tells anything.
            in_time = seconds < limit_s or len(seen) < least
            return not in_time or figures.is_enough(seen, level, seconds, self._options.slo)

        held = await crowd.hold(
            self._step, level, self._until_ns, self.hands.mark, enough, apart_ms
        )
        if held is None or len(held.samples) < least:
            raise Over(
                f"the time ended before {level} at once were steady: what was measured stands"
            )
        return await self._conclude(held, concurrency=level)

    async def _open_step(self, crowd: Crowd, rate: float) -> StepSummary:
        if (known := self._begin(rate, f"r{rate:g}")) is not None:
            return known
        seconds, calls_s = self._options.duration_s, _WARM_CYCLES * self._call_ms / 1000
        window_s = (warm_s := max(seconds * _WARM_SHARE, calls_s), warm_s + seconds)
        if perf_counter_ns() + window_s[1] * 1e9 > self._until_ns:
            raise Over(f"--max-time leaves no room for {rate:g} a second: what was measured stands")
        arrivals = poisson_arrivals(
            rate, window_s[1] + max(seconds, calls_s), f"{self._salt} {rate}"
        )
        held = await crowd.play(
            self._step, arrivals, window_s, self._options.max_concurrency, self.hands.mark
        )
        step = await self._conclude(held, rate=rate)
        self._call_ms = max(self._call_ms, 0.0 if step.growing else step.e2e_ms.mean or 0.0)
        return step

    def _begin(self, level: float, name: str) -> StepSummary | None:
        """Calls are from now on of this step; it is told where an earlier stretch has it already."""
        self._step = f"{self._tokens}/{name}{self._suffix}"
        return self._done.get((self.target.label, self._tokens, level))

    async def _conclude(
        self, held: Held, *, concurrency: int | None = None, rate: float | None = None
    ) -> StepSummary:
        lates = await self.hands.mark()
        samples = held.samples if rate is None else [one.since_due() for one in held.samples]
        firsts = sorted(one.ttft_ms for one in samples if one.ttft_ms is not None)
        most_ms, untrusted = max(_LATE_MS, _LATE_SHARE * (percentile(firsts, 0.5) or 0.0)), None
        for who, (n_ours, cpu_share, lag_ms) in lates.items():
            if n_ours:
                untrusted = f"{who} could not make {n_ours} of the calls"
            elif cpu_share > _BUSY_SHARE:
                untrusted = f"{who} used {cpu_share:.0%} of a core"
            elif lag_ms > most_ms:
                untrusted = f"{who} was late by {lag_ms:.0f} ms"
        from_ms, to_ms = (
            (at_ns - self.hands.origin_ns) / 1e6 for at_ns in (held.from_ns, held.to_ns)
        )
        window = Window(
            step=self._step, context_tokens=self._tokens, concurrency=concurrency, rate=rate, from_ms=from_ms,
            to_ms=to_ms, pauses=self._options.shape == "agent", n_dropped=held.n_dropped, untrusted=untrusted,
        )  # fmt: skip
        self._event("capacity_step", self.target, **msgspec.structs.asdict(window))
        step = figures.measure_step(samples, window, self._options.slo)
        self.tell(step)
        return step


async def _bisect(
    low: float, high: float, is_low: Callable[[float], Awaitable[bool]], close: float
) -> None:
    """Try what lies between, until the two are next to each other or as good as."""
    while high > close * low:
        middle = (low + high) // 2 if isinstance(high, int) else round((low + high) / 2, 3)
        if not low < middle < high:
            return
        low, high = (middle, high) if await is_low(middle) else (low, middle)


async def _change_models(loads: Sequence[TargetLoad]) -> None:
    """Each model from cold, then warm, then all in turn: what it costs that another one was asked before."""
    first, *others = loads
    # Whoever gets ready has the others unloaded.
    await first.hands.get_ready()
    for load in [*others, first]:
        await load.hands.get_ready()
        for kind in ("cold", *["warm"] * _WARM_CALLS):
            await load.ask_briefly(f"swap/{kind}")
    for load in [*others, first] * _SWAP_ROUNDS:
        await load.ask_briefly("swap/change")


def _codes_in(result: Result, made: Made) -> tuple[bool, bool]:
    """Whether an answer has the first code of its prompt, and the second."""
    said = f"{result.raw_output} {result.reasoning_text or ''}"
    return made.first in said, made.last in said


def _is_refusal(result: Result) -> bool:
    """Whether the server will not have such a prompt; what may pass says nothing of its length."""
    status = (result.attempts[-1].http_status if result.attempts else None) or 0
    return result.failure_type == "context_length_exceeded" or (
        400 <= status < 500 and status not in _NOT_NOW
    )
