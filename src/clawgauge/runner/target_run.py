"""One target's cells: who is in flight, who is retried, when the target has shown that it cannot answer.

The broad `except`s of the package stand here, at the boundary of a call and of its judgement: whatever a provider
throws, and whatever a check makes of an answer nobody foresaw, becomes a record.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from clawgauge.errors import CallFailure
from clawgauge.journal import RunFolder
from clawgauge.providers.base import Call, Provider
from clawgauge.records import Attempt, Event, Prompt, Result, RunOptions, Target
from clawgauge.runner.clock import Clock
from clawgauge.runner.observer import Observer
from clawgauge.runner.record import CellContext, Timing, answered_result, bounded_error, skipped_result, to_ms
from clawgauge.runner.retry import RetryPolicy, ends_target
from clawgauge.timeline import Completion, Timeline

WARM_UP_PROMPT = "Reply with OK."
WARM_UP_MAX_TOKENS = 8
_JUDGED_ASIDE_CHARS = 4_096


class Cell(NamedTuple):
    """One prompt, once."""

    prompt: Prompt
    repeat: int


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all targets of a run share."""

    run_id: str
    folder: RunFolder
    options: RunOptions
    observer: Observer
    clock: Clock
    redact: Callable[[str], str]
    stretch: int
    rng: random.Random


class TargetRun:
    """Asks one target its cells, `concurrency` at a time. Every cell ends as exactly one record."""

    def __init__(self, context: RunContext, target: Target, provider: Provider) -> None:
        self._run = context
        self._target = target
        self._provider = provider
        self._policy = RetryPolicy.of(context.options)
        self._ended_by: CallFailure | None = None
        self._answered_before = False
        self._cold_pending = provider.local

    async def ask(self, cells: list[Cell]) -> None:
        """Warm up if asked, then ask every cell."""
        if self._run.options.warm_up and cells:
            await self._warm_up()
        queue = iter(cells)
        # The first call goes alone: a target that cannot answer is asked once, and one that loads its model does not
        # make the calls beside it wait.
        await self._work(islice(queue, 1))
        workers = min(self._run.options.concurrency, len(cells) - 1)
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._work(queue))

    async def skip(self, cells: list[Cell], failure: CallFailure) -> None:
        """Record cells of a target that could not even be prepared."""
        self._end_target(failure, len(cells))
        for cell in cells:
            await self._record(self._skipped(cell, failure))

    async def _work(self, queue: Iterator[Cell]) -> None:
        for cell in queue:
            if self._ended_by is not None:
                await self._record(self._skipped(cell, self._ended_by))
                continue
            self._run.observer.call_started(self._target, cell.prompt)
            await self._record(await self._answer(cell))

    async def _record(self, result: Result) -> None:
        # A Ctrl-C here loses nothing: a line that was handed over is written even if nobody waits for it.
        await self._run.folder.append(result)
        self._run.observer.recorded(self._target, result)

    def _context(self, cell: Cell) -> CellContext:
        run = self._run
        return CellContext(run.run_id, self._target, cell.prompt, cell.repeat, run.stretch, run.redact)

    def _skipped(self, cell: Cell, failure: CallFailure) -> Result:
        cold = False if self._provider.local else None
        return skipped_result(self._context(cell), failure, self._run.clock.wall_ms(), cold)

    async def _answer(self, cell: Cell) -> Result:
        clock = self._run.clock
        context, call = self._context(cell), self._call(cell.prompt)
        attempts: list[Attempt] = []
        began_ns = clock.perf_ns()
        cold = self._take_cold()
        while True:
            started_ms = clock.wall_ms()
            completion, failure, e2e_ns = await self._attempt(call)
            wait_s = self._wait_s(failure, len(attempts) + 1)
            attempts.append(_attempt_record(context, failure, e2e_ns, wait_s))
            if failure is None or wait_s is None:
                break
            self._tell_retry(cell, failure, wait_s)
            await clock.sleep(wait_s)
        total_ns = clock.perf_ns() - began_ns
        ended_ms = started_ms + to_ms(e2e_ns)
        streamed = call.stream and self._provider.streams
        timing = Timing(started_ms, ended_ms, e2e_ns, total_ns, streamed=streamed, cold_start=cold)
        if failure is None:
            self._answered_before = True
        elif ends_target(failure):
            self._end_target(failure, None)
        if len(completion.text) > _JUDGED_ASIDE_CHARS and self._run.options.concurrency > 1:
            # Judging a long answer takes milliseconds in which the loop could stamp nobody's bytes.
            return await asyncio.to_thread(_judged, context, completion, failure, attempts, timing)
        return _judged(context, completion, failure, attempts, timing)

    async def _attempt(self, call: Call) -> tuple[Completion, CallFailure | None, int]:
        timeline = Timeline()
        began_ns = self._run.clock.perf_ns()
        failure: CallFailure | None = None
        try:
            if "\0" in call.prompt or "\0" in (call.system or ""):
                raise CallFailure("error", "invalid_prompt", "the prompt contains a NUL character")
            async with asyncio.timeout(call.timeout_s):
                await self._provider.attempt(call, timeline)
        except CallFailure as found:
            failure = found
        except TimeoutError:
            failure = CallFailure("error", "timeout", f"no complete answer within {call.timeout_s:g} s")
        except Exception as fault:  # the task boundary: a bug of ours or of a plug-in's must not lose the row
            failure = CallFailure("error", "exception", f"{type(fault).__name__}: {fault}")
        now_ns = self._run.clock.perf_ns()
        completion = timeline.fold(now_ns)
        e2e_ns = completion.e2e_ns if completion.started else now_ns - began_ns
        if failure is not None and failure.failure_type in ("api_key_missing", "invalid_prompt"):
            e2e_ns = 0
        return completion, failure, e2e_ns

    def _wait_s(self, failure: CallFailure | None, tries: int) -> float | None:
        if failure is None:
            return None
        jitter = self._run.rng.random()
        return self._policy.wait_s(failure, tries, jitter, answered_before=self._answered_before)

    def _tell_retry(self, cell: Cell, failure: CallFailure, wait_s: float) -> None:
        self._run.observer.retrying(self._target, cell.prompt, failure, wait_s)
        self._event(
            "retry",
            suite=cell.prompt.suite,
            prompt_id=cell.prompt.id,
            repeat=cell.repeat,
            failure_type=failure.failure_type,
            wait_s=round(wait_s, 3),
        )

    def _end_target(self, failure: CallFailure, n_cells: int | None) -> None:
        if self._ended_by is None:
            self._ended_by = failure
            self._run.observer.target_skipped(self._target, failure, n_cells or 0)
            words = self._run.redact(failure.message)
            self._event("skip", failure_type=failure.failure_type, error=words[:500])

    async def _warm_up(self) -> None:
        """One short call that loads the model. Recorded as an event, never as a result."""
        prompt = Prompt(id="warm_up", name="warm_up", prompt=WARM_UP_PROMPT, validator={"type": "noop"})
        self._run.observer.call_started(self._target, prompt)
        cold = self._take_cold()
        completion, failure, e2e_ns = await self._attempt(self._call(prompt, WARM_UP_MAX_TOKENS))
        if failure is not None and ends_target(failure):
            self._end_target(failure, None)
        self._event(
            "warm_up",
            e2e_ms=to_ms(e2e_ns),
            ttft_ms=None if completion.ttft_ns is None else to_ms(completion.ttft_ns),
            cold_start=cold,
            failure_type=failure.failure_type if failure else None,
        )

    def _take_cold(self) -> bool | None:
        if not self._provider.local:
            return None
        cold, self._cold_pending = self._cold_pending, False
        return cold

    def _call(self, prompt: Prompt, max_tokens: int | None = None) -> Call:
        options, provider = self._run.options, self._provider
        return Call(
            model=self._target.model,
            prompt=prompt.prompt,
            system=prompt.system,
            thinking_level=self._target.thinking_level,
            max_tokens=max_tokens or options.max_tokens or prompt.max_tokens or provider.default_max_tokens,
            temperature=_first(options.temperature, prompt.temperature, 0.0 if provider.local else None),
            seed=options.seed,
            stream=options.stream,
            timeout_s=options.timeout_s,
            tools=prompt.tools,
            tool_choice=prompt.tool_choice,
        )

    def _event(self, name: str, **detail: object) -> None:
        run = self._run
        run.folder.event(Event(event=name, at_ms=run.clock.wall_ms(), target=self._target.label, detail=detail))


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _judged(
    context: CellContext, completion: Completion, failure: CallFailure | None, attempts: list[Attempt], timing: Timing
) -> Result:
    try:
        return answered_result(context, completion, failure, attempts, timing)
    except Exception as fault:  # a bug in a check must not lose the row, nor the run
        unforeseen = CallFailure("error", "exception", f"{type(fault).__name__}: {fault}")
        return answered_result(context, Completion(text=completion.text), unforeseen, attempts, timing)


def _attempt_record(context: CellContext, failure: CallFailure | None, e2e_ns: int, wait_s: float | None) -> Attempt:
    if failure is None:
        return Attempt(status="ok", failure_type=None, e2e_ms=to_ms(e2e_ns))
    return Attempt(
        status=failure.status,  # type: ignore[arg-type]  # statuses come from the table in `errors`
        failure_type=failure.failure_type,
        e2e_ms=to_ms(e2e_ns),
        waited_ms=round((wait_s or 0.0) * 1000),
        retry_after_s=failure.retry_after_s,
        http_status=failure.http_status,
        error=bounded_error(context, failure.message),
    )
