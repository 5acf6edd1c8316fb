"""One target's cells: who is in flight, who is retried, when the target has shown that it cannot answer.

The broad `except`s of the package stand here, at the boundary of a call and of its judgement: whatever a provider
throws, and whatever a check makes of an answer nobody foresaw, becomes a record.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ParamSpec, TypeVar

from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure
from clawgauge.journal.folder import RunFolder
from clawgauge.prices import Price
from clawgauge.providers.base import Call, Provider
from clawgauge.records import Attempt, Event, Prompt, Result, RunOptions, Target, ToolInvocation
from clawgauge.runner.agenda import Agenda, make_prefix, prefixed
from clawgauge.runner.budgets import Cell, CostBudget, SpendingKey
from clawgauge.runner.clock import Clock, LagWatch
from clawgauge.runner.conversation import Asked, converse
from clawgauge.runner.judging import ASIDE_CHARS, Judge, JudgingFault, NotInTime, is_long
from clawgauge.runner.record import CellContext, Timing, answered_result, bounded_error, skipped_result, to_ms
from clawgauge.runner.record import Judge as JudgeAnswer
from clawgauge.runner.retry import RetryPolicy, ends_target, own_fault, suspended_ns
from clawgauge.runner.spending import Spending
from clawgauge.suites.tools import DEFAULT_MAX_TURNS
from clawgauge.timeline import Completion, Timeline

WARM_UP_PROMPT = "Reply with OK."
WARM_UP_MAX_TOKENS = 8
_HELD_CHARS = 4_096
_MONEY_SPENT = CallFailure("error", "budget_spent", "the task was ended between two turns: --max-cost is spent")
_WARM_UP: SpendingKey = ("", "warm_up", 0)
_KILLED = "Error: killed: the call took longer than it may"


class Observer:
    """Hears of everything and does nothing: a base for the console's live table and for tests."""

    def target_started(self, target: Target, n_cells: int) -> None:
        """A target's suite begins."""

    def call_started(self, target: Target, prompt: Prompt) -> None:
        """A call goes out."""

    def retrying(self, target: Target, prompt: Prompt, failure: CallFailure, wait_s: float) -> None:
        """An attempt failed in a way that may pass."""

    def recorded(self, target: Target, result: Result) -> None:
        """A result is on disk."""

    def target_skipped(self, target: Target, failure: CallFailure, n_cells: int) -> None:
        """The rest of a target's cells are not asked."""

    def stopped(self, target: Target, event: str, detail: Mapping[str, Any]) -> None:
        """Asking a target ended by a rule: `decided`, `undecided` or `budget_spent`, with the event's detail."""

    def target_finished(self, target: Target) -> None:
        """A target's suite is over."""


P = ParamSpec("P")
T = TypeVar("T")


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
    salt: bytes
    price_for: Callable[[Target], Price | None]
    budget: CostBudget | None = None
    judge: Judge = field(default_factory=Judge)


class TargetRun:
    """Asks one target its cells, `concurrency` at a time. Every cell ends as exactly one record."""

    def __init__(
        self, context: RunContext, target: Target, provider: Provider, agenda: Agenda, lag_watch: LagWatch
    ) -> None:
        self._run = context
        self._target = target
        self._provider = provider
        self._agenda = agenda
        self._lag_watch = lag_watch
        self._policy = RetryPolicy.of(context.options)
        self._ended_by: CallFailure | None = None
        self._answered_before = False
        self._cold_pending = provider.local
        self._price = context.price_for(target)
        self._spending = Spending(context.budget, target, self._price)
        self._aside = asyncio.Lock()

    async def ask(self) -> None:
        """Warm up if asked, then ask every cell of the agenda."""
        if self._run.options.warm_up and self._agenda.n_open:
            await self._warm_up()
        # The first call goes alone: a target that cannot answer is asked once, and one that loads its model does not
        # make the calls beside it wait.
        await self._ask_next()
        workers = min(self._run.options.concurrency, self._agenda.n_open)
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._work())

    async def prepare(self) -> bool | None:
        """Get the provider ready; whether it says that the model is loaded. Where it cannot, `CallFailure`."""
        try:
            loaded = await self._provider.before_target(
                self._target.model, unload_others=self._run.options.unload_others
            )
        except CallFailure:
            raise
        except Exception as fault:  # the task boundary: what no provider should throw is ours, and costs its target
            raise CallFailure("error", "exception", f"{type(fault).__name__}: {fault}") from fault
        self._cold_pending = self._provider.local and not loaded
        return loaded

    async def skip(self, failure: CallFailure) -> None:
        """Record the cells of a target that could not even be prepared."""
        self._end_target(failure, self._agenda.n_open)
        await self._work()

    async def _work(self) -> None:
        while await self._ask_next():
            pass

    async def _ask_next(self) -> bool:
        """Whether there was a cell to ask."""
        while (cell := self._agenda.take()) is None:
            if not self._agenda.waits:
                return False
            await self._spending.change()
        if self._ended_by is not None:
            await self._record(self._skipped(cell, self._ended_by))
        else:
            self._run.observer.call_started(self._target, cell.prompt)
            await self._record(await self._answer(cell))
        return True

    async def _record(self, result: Result) -> None:
        self._agenda.learn(result)
        self._spending.wake()
        # A Ctrl-C here loses nothing: a line that was handed over is written even if nobody waits for it.
        await self._run.folder.append(result)
        self._run.observer.recorded(self._target, result)

    def _context(self, cell: Cell, prefix: str | None = None) -> CellContext:
        run = self._run
        return CellContext(
            run.run_id, self._target, cell.prompt, cell.repeat, run.stretch, run.redact, prefix, self._price
        )

    def _skipped(self, cell: Cell, failure: CallFailure) -> Result:
        cold = False if self._provider.local else None
        return skipped_result(self._context(cell), failure, self._run.clock.wall_ms(), cold)

    async def _answer(self, cell: Cell) -> Result:
        clock = self._run.clock
        prefix = make_prefix(self._run.salt, cell.key(self._target)) if self._run.options.unique_prefix else None
        context = self._context(cell, prefix)
        call = self._call(cell.prompt if prefix is None else prefixed(cell.prompt, prefix))
        began_ns = clock.perf_ns()
        cold = self._take_cold()
        asked = await self._ask_cell(context, call)
        timing = Timing(
            asked.started_at_ms,
            asked.ended_at_ms,
            asked.e2e_ns,
            clock.perf_ns() - began_ns,
            streamed=call.stream and self._provider.streams,
            cold_start=cold,
            lag_ns=asked.lag_ns,
        )
        completion, failure, attempts = asked.completion, asked.failure, asked.attempts
        if failure is not None and ends_target(failure):
            self._end_target(failure, None)
        judge = self._run.judge.judge
        if is_long(cell.prompt, completion.text, completion.native_calls):
            return await self._do_aside(_judged, context, completion, failure, attempts, timing, judge)
        if len(completion.text) > _HELD_CHARS and self._run.options.concurrency > 1:
            # It takes milliseconds in which the loop could stamp nobody's bytes.
            return await asyncio.to_thread(_judged, context, completion, failure, attempts, timing, judge)
        judging_ns = self._lag_watch.now_ns()
        result = _judged(context, completion, failure, attempts, timing, judge)
        self._lag_watch.held_since(judging_ns)
        return result

    async def _do_aside(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Work that waits for the judging process. One at a time: more would take all the threads there are."""
        async with self._aside:
            try:
                return await asyncio.to_thread(work, *args, **kwargs)
            except asyncio.CancelledError:
                # The thread lives until its work is done, and the loop until its threads are.
                self._run.judge.give_up()
                raise

    async def _ask_cell(self, context: CellContext, call: Call) -> Asked:
        """One prompt, or all the turns of a task."""
        spec = context.prompt.world
        if spec is None:
            return await self._ask_turn(context, call)
        max_turns = context.prompt.max_turns or DEFAULT_MAX_TURNS
        if self._provider.runs_tasks:
            return await self._ask_turn(context, dataclasses.replace(call, world=spec, max_turns=max_turns))
        made: list[ToolInvocation] = []
        return await converse(call, max_turns, partial(self._ask_turn, context), partial(self._execute, spec, made))

    async def _execute(
        self, spec: Mapping[str, Any], made: list[ToolInvocation], calls: list[ToolInvocation]
    ) -> list[str]:
        """What the simulated world answers to the calls of one turn, `made` being all that it has answered before."""
        answers: list[str] = []
        for call in calls:
            try:
                answers += await self._do_aside(self._run.judge.play, spec, [*made, call], 1)
            except NotInTime:
                answers.append(_KILLED)
                continue
            except JudgingFault as fault:  # a bug in the world must not lose the turns before it
                raise CallFailure("error", "exception", f"the simulated world: {fault}") from fault
            made.append(call)
        return answers

    async def _ask_turn(self, context: CellContext, call: Call) -> Asked:
        """Ask until there is an answer, or until asking again cannot help or may not be done."""
        clock, spending = self._run.clock, self._spending
        key = (context.prompt.suite, context.prompt.id, context.repeat)
        attempts: list[Attempt] = []
        failure: CallFailure | None = _MONEY_SPENT
        completion, e2e_ns, lag_ns, started_ms = Completion(), 0, None, clock.wall_ms()
        while await spending.admit(key, call):
            started_ms, started_ns = clock.wall_ms(), self._lag_watch.now_ns()
            completion, failure, e2e_ns = await self._attempt(call)
            spending.settle(key, call, completion, failure)
            lag_ns = self._lag_watch.largest_since(started_ns)
            wait_s = None if spending.is_over else self._wait_s(failure, len(attempts) + 1)
            attempts.append(_attempt_record(context, failure, e2e_ns, wait_s))
            if failure is None or wait_s is None:
                break
            self._tell_retry(context, failure, wait_s)
            await clock.sleep(wait_s)
        self._answered_before = self._answered_before or failure is None
        return Asked(completion, failure, e2e_ns, started_ms, started_ms + to_ms(e2e_ns), attempts, lag_ns)

    async def _attempt(self, call: Call) -> tuple[Completion, CallFailure | None, int]:
        timeline = Timeline()
        began_ns, slept_ns, watched_ns = self._run.clock.perf_ns(), suspended_ns(), self._lag_watch.now_ns()
        failure: CallFailure | None = None
        try:
            if "\0" in call.prompt or "\0" in (call.system or ""):
                raise CallFailure("error", "invalid_prompt", "the prompt contains a NUL character")
            async with asyncio.timeout(call.timeout_s) as deadline:
                await self._provider.attempt(call, timeline)
        except CallFailure as found:
            failure = found
        except TimeoutError as fault:
            # One that is not our deadline's came out of somebody's code, as any other exception might.
            failure = CallFailure("error", "timeout", f"no complete answer within {call.timeout_s:g} s")
            if not deadline.expired():
                failure = CallFailure("error", "exception", f"TimeoutError: {fault}")
        except Exception as fault:  # the task boundary: a bug of ours or of a plug-in's must not lose the row
            unforeseen = CallFailure("error", "exception", f"{type(fault).__name__}: {fault}")
            failure = client_limit(fault) or unforeseen
        now_ns = self._run.clock.perf_ns()
        if failure is not None:
            held_ns = self._lag_watch.largest_since(watched_ns + _waited_ns(call, failure))
            failure = own_fault(failure, held_ns=held_ns, slept_ns=suspended_ns() - slept_ns) or failure
        # Putting megabytes together, and reading the arguments of calls, would hold the loop.
        is_light = timeline.n_chars <= ASIDE_CHARS
        completion = timeline.fold(now_ns) if is_light else await asyncio.to_thread(timeline.fold, now_ns)
        e2e_ns = completion.e2e_ns if completion.started else now_ns - began_ns
        if failure is not None and failure.failure_type in ("api_key_missing", "invalid_prompt"):
            e2e_ns = 0
        return completion, failure, e2e_ns

    def _wait_s(self, failure: CallFailure | None, tries: int) -> float | None:
        if failure is None:
            return None
        jitter = self._run.rng.random()
        return self._policy.wait_s(failure, tries, jitter, answered_before=self._answered_before)

    def _tell_retry(self, context: CellContext, failure: CallFailure, wait_s: float) -> None:
        prompt = context.prompt
        self._run.observer.retrying(self._target, prompt, failure, wait_s)
        self._event(
            "retry",
            suite=prompt.suite,
            prompt_id=prompt.id,
            repeat=context.repeat,
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
        call = self._call(prompt, WARM_UP_MAX_TOKENS)
        if not await self._spending.admit(_WARM_UP, call):
            return
        cold = self._take_cold()
        completion, failure, e2e_ns = await self._attempt(call)
        self._spending.settle(_WARM_UP, call, completion, failure)
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


def _waited_ns(call: Call, failure: CallFailure) -> int:
    """How far into an attempt a hold-up of ours can have made it fail."""
    return round(call.timeout_s * 1e9) if failure.failure_type == "timeout" else 0


def _judged(
    context: CellContext,
    completion: Completion,
    failure: CallFailure | None,
    attempts: list[Attempt],
    timing: Timing,
    judge: JudgeAnswer,
) -> Result:
    try:
        return answered_result(context, completion, failure, attempts, timing, judge)
    except Exception as fault:  # a bug in a check must not lose the row, nor the run
        what = str(fault) if isinstance(fault, JudgingFault) else f"{type(fault).__name__}: {fault}"
        unforeseen = CallFailure("error", "exception", what)
        kept = Completion(
            text=completion.text,
            input_tokens=completion.input_tokens,
            output_tokens=completion.output_tokens,
            cached_tokens=completion.cached_tokens,
            reasoning_tokens=completion.reasoning_tokens,
        )
        return answered_result(context, kept, unforeseen, attempts, timing)


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
