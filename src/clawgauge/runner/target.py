"""One target's cells: who is in flight, who is retried, when the target has shown that it cannot answer.

The broad `except`s of the package stand here, at the boundary of a call and of its judgement: whatever a provider
throws, and whatever a check makes of an answer nobody foresaw, becomes a record.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ParamSpec, TypeVar

import msgspec

from clawgauge.checks import judge_answer
from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure
from clawgauge.journal.folder import RunFolder
from clawgauge.plan import Plan
from clawgauge.providers.base import Call, Provider
from clawgauge.records import Attempt, Event, Prompt, Result, Target, ToolInvocation
from clawgauge.runner.agenda import Agenda, Cell, CostBudget, SpendingKey, prefixed
from clawgauge.runner.attempts import TARGET_ENDING, Spending, own_fault, retry_wait_s
from clawgauge.runner.clock import ClientClock, Clock, suspended_ns
from clawgauge.runner.conversation import converse
from clawgauge.runner.judging import ASIDE_CHARS, Judge, JudgingFault, NotInTime, is_long
from clawgauge.runner.record import Asked, JudgeAnswer, Source, answered_result, bounded_error, to_ms
from clawgauge.suites.load import DEFAULT_MAX_TURNS
from clawgauge.timeline import TOKEN_COUNTS, Completion, Timeline

WARM_UP_PROMPT = "Reply with OK."
WARM_UP_MAX_TOKENS = 8
_HELD_CHARS = 4_096
_MONEY_SPENT = CallFailure("error", "budget_spent", "the task was ended between two turns: --max-cost is spent")
_WARM_UP: SpendingKey = ("", "warm_up", 0)
_KILLED = "Error: killed: the call took longer than it may"


class Observer(AbstractContextManager["Observer"]):
    """Hears of everything and does nothing: a base for the console's live table and for tests."""

    def __exit__(self, *exc_info: object) -> None:
        """The run is over."""

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
    """What all targets of a run share beside its plan. `cost` is what the whole run may spend, where it is limited."""

    plan: Plan
    folder: RunFolder
    observer: Observer
    clock: Clock = field(default_factory=Clock)
    cost: CostBudget | None = None
    rng: random.Random = field(default_factory=random.Random)
    salt: bytes = field(default_factory=partial(secrets.token_bytes, 16))
    judge: Judge = field(default_factory=Judge)

    def event(self, name: str, target: Target | None, **detail: object) -> None:
        label = target.label if target else None
        self.folder.event(Event(event=name, at_ms=self.clock.wall_ns() // 1_000_000, target=label, detail=detail))

    def tell_outcomes(self, target: Target, agenda: Agenda) -> None:
        """Why cells of a target stay unasked."""
        for outcome in agenda.outcomes():
            self.event(outcome.event, target, **outcome.detail)
            self.observer.stopped(target, outcome.event, outcome.detail)


class TargetRun:
    """Asks one target its cells, `concurrency` at a time. Every cell ends as exactly one record."""

    def __init__(
        self, context: RunContext, target: Target, provider: Provider, agenda: Agenda, client: ClientClock
    ) -> None:
        plan = context.plan
        self._run = context
        self._settings = plan.settings
        self._target = target
        self._provider = provider
        self._agenda = agenda
        self._client = client
        price, cost = plan.prices.get(target), context.cost
        self._source = Source(context.folder.run_id, plan.work.stretch, target, plan.redact, price)
        self._spending = None if cost is None or target in plan.free else Spending(cost, price)
        self._ended_by: CallFailure | None = None
        self._n_errors_in_a_row = 0
        self._answered_before = False
        # Whether the next call finds the model unloaded; None where nobody can tell.
        self._cold = True if provider.local else None
        self._aside = asyncio.Lock()

    async def ask(self) -> None:
        """Get ready, then ask every cell of the agenda; all are recorded either way."""
        await self.get_ready()
        if self._ended_by is None:
            # The first call goes alone: a target that cannot answer is asked once, and one that loads its model does
            # not make the calls beside it wait.
            await self.ask_next()
        await self.finish()

    async def finish(self) -> None:
        """Ask what is left, and say what stays unasked."""

        async def work() -> None:
            while await self.ask_next():
                pass

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._settings.concurrency, self._agenda.n_open)):
                group.create_task(work())
        self._run.tell_outcomes(self._target, self._agenda)

    async def get_ready(self) -> None:
        """Get the provider ready, and warm up if asked."""
        try:
            try:
                loaded = await self._provider.before_target(
                    self._target.model, unload_others=self._settings.unload_others
                )
            except CallFailure:
                raise
            except Exception as fault:  # the task boundary: what no provider should throw is ours, and costs its target
                raise CallFailure("error", "exception", f"{type(fault).__name__}: {fault}") from fault
        except CallFailure as failure:
            self._end_target(failure, self._agenda.n_open)
            return
        self._cold = not loaded if self._provider.local else None
        self._run.event("target_started", self._target, loaded=loaded, n_cells=self._agenda.n_open)
        if self._settings.warm_up and self._agenda.n_open:
            await self._warm_up()

    async def ask_next(self, only: Cell | None = None) -> bool:
        """Whether there was a cell to ask; with `only`, whether that one was open."""
        while (cell := self._agenda.take(only)) is None:
            is_open = self._agenda.n_open and (only is None or self._agenda.holds(only))
            if self._spending is None or not is_open:
                return False
            await self._spending.change()
        if self._ended_by is not None:
            now_ms, cold = self._run.clock.wall_ns() // 1_000_000, False if self._provider.local else None
            unasked = Asked(Completion(), self._ended_by, 0, now_ms, now_ms, [], cold_start=cold)
            result = answered_result(self._source, cell, unasked)
        else:
            self._run.observer.call_started(self._target, cell.prompt)
            result = await self._answer(cell)
            # Enough cells in a row without an answer say that the next will not have one either.
            self._n_errors_in_a_row = 0 if result.availability_status == "ok" else self._n_errors_in_a_row + 1
            limit = self._settings.stop_after_errors
            if limit is not None and self._n_errors_in_a_row >= limit:
                words = f"not asked: {limit} in a row had failed (--stop-after-errors {limit})"
                self._end_target(CallFailure("skipped_unavailable", "stopped_after_errors", words))
        self._agenda.learn(result)
        if self._spending is not None:
            self._spending.wake()
        # A Ctrl-C here loses nothing: a line that was handed over is written even if nobody waits for it.
        await self._run.folder.append(result)
        self._run.observer.recorded(self._target, result)
        return True

    async def _answer(self, cell: Cell) -> Result:
        """Ask one prompt, or take all the turns of a task, and judge what came of it."""
        run, settings, spec = self._run, self._settings, cell.prompt.world
        prompt, prefix = cell.prompt, None
        if settings.unique_prefix:
            prompt, prefix = prefixed(prompt, run.salt, cell.key(self._target))
        call = self._call(prompt)
        began_ns = run.clock.perf_ns()
        cold, self._cold = self._cold, False if self._provider.local else None
        max_turns = cell.prompt.max_turns or DEFAULT_MAX_TURNS
        if spec is None:
            asked = await self._ask_turn(cell, call)
        elif self._provider.runs_tasks:
            asked = await self._ask_turn(cell, dataclasses.replace(call, world=spec, max_turns=max_turns))
        else:
            execute = partial(self._execute, spec, [])
            asked = await converse(call, max_turns, partial(self._ask_turn, cell), execute)
        asked = msgspec.structs.replace(
            asked,
            total_ns=run.clock.perf_ns() - began_ns,
            streamed=call.stream and self._provider.streams,
            cold_start=cold,
            prefix=prefix,
        )
        if asked.failure is not None and asked.failure.failure_type in TARGET_ENDING:
            self._end_target(asked.failure)
        completion = asked.completion
        if is_long(cell.prompt, completion.text, completion.native_calls):
            return await self._do_aside(_judged, self._source, cell, asked, run.judge.judge)
        if len(completion.text) > _HELD_CHARS and settings.concurrency > 1:
            # It takes milliseconds in which the loop could stamp nobody's bytes.
            return await asyncio.to_thread(_judged, self._source, cell, asked, judge_answer)
        judging_ns = self._client.now_ns()
        result = _judged(self._source, cell, asked, judge_answer)
        self._client.held_since(judging_ns)
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

    async def _ask_turn(self, cell: Cell, call: Call) -> Asked:
        """Ask until there is an answer, or until asking again cannot help or may not be done."""
        run, spending, key = self._run, self._spending, (cell.prompt.suite, cell.prompt.id, cell.repeat)
        attempts: list[Attempt] = []
        failure: CallFailure | None = _MONEY_SPENT
        completion, e2e_ns, lag_ns, started_ms = Completion(), 0, None, run.clock.wall_ns() // 1_000_000
        while spending is None or await spending.admit(key, call):
            started_ms, started_ns = run.clock.wall_ns() // 1_000_000, self._client.now_ns()
            completion, failure, e2e_ns = await self._attempt(call)
            if spending is not None:
                spending.settle(key, call, completion, failure)
            lag_ns = self._client.largest_since(started_ns)
            if failure is None:
                attempts.append(Attempt(status="ok", failure_type=None, e2e_ms=to_ms(e2e_ns)))
                break
            wait_s = None
            if not (spending and spending.is_over):
                wait_s = retry_wait_s(
                    self._settings, failure, len(attempts) + 1, run.rng.random(), answered_before=self._answered_before
                )
            attempts.append(
                Attempt(
                    status=failure.status,  # type: ignore[arg-type]  # statuses come from the table in `errors`
                    failure_type=failure.failure_type,
                    e2e_ms=to_ms(e2e_ns),
                    waited_ms=round((wait_s or 0.0) * 1000),
                    retry_after_s=failure.retry_after_s,
                    http_status=failure.http_status,
                    error=bounded_error(self._source.redact, failure.message) if failure.message else None,
                )
            )
            if wait_s is None:
                break
            run.observer.retrying(self._target, cell.prompt, failure, wait_s)
            place = {"suite": key[0], "prompt_id": key[1], "repeat": key[2]}
            waiting = {"failure_type": failure.failure_type, "wait_s": round(wait_s, 3)}
            run.event("retry", self._target, **place, **waiting)
            await run.clock.sleep(wait_s)
        self._answered_before = self._answered_before or failure is None
        return Asked(completion, failure, e2e_ns, started_ms, started_ms + to_ms(e2e_ns), attempts, lag_ns)

    async def _attempt(self, call: Call) -> tuple[Completion, CallFailure | None, int]:
        timeline = Timeline()
        began_ns, slept_ns, watched_ns = self._run.clock.perf_ns(), suspended_ns(), self._client.now_ns()
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
            # How far into an attempt a hold-up of ours can have made it fail.
            waited_ns = round(call.timeout_s * 1e9) if failure.failure_type == "timeout" else 0
            held_ns = self._client.largest_since(watched_ns + waited_ns)
            failure = own_fault(failure, held_ns=held_ns, slept_ns=suspended_ns() - slept_ns) or failure
        # Putting megabytes together, and reading the arguments of calls, would hold the loop.
        is_light = timeline.n_chars <= ASIDE_CHARS
        completion = timeline.fold(now_ns) if is_light else await asyncio.to_thread(timeline.fold, now_ns)
        e2e_ns = completion.e2e_ns if completion.started else now_ns - began_ns
        if failure is not None and failure.failure_type in ("api_key_missing", "invalid_prompt"):
            e2e_ns = 0
        return completion, failure, e2e_ns

    def _end_target(self, failure: CallFailure, n_cells: int = 0) -> None:
        if self._ended_by is None:
            self._ended_by = failure
            self._run.observer.target_skipped(self._target, failure, n_cells)
            words = self._source.redact(failure.message)
            self._run.event("skip", self._target, failure_type=failure.failure_type, error=words[:500])

    async def _warm_up(self) -> None:
        """One short call that loads the model. Recorded as an event, never as a result."""
        prompt = Prompt(id="warm_up", name="warm_up", prompt=WARM_UP_PROMPT, validator={"type": "noop"})
        self._run.observer.call_started(self._target, prompt)
        call = self._call(prompt, WARM_UP_MAX_TOKENS)
        if self._spending is not None and not await self._spending.admit(_WARM_UP, call):
            return
        cold, self._cold = self._cold, False if self._provider.local else None
        completion, failure, e2e_ns = await self._attempt(call)
        if self._spending is not None:
            self._spending.settle(_WARM_UP, call, completion, failure)
        if failure is not None and failure.failure_type in TARGET_ENDING:
            self._end_target(failure)
        self._run.event(
            "warm_up",
            self._target,
            e2e_ms=to_ms(e2e_ns),
            ttft_ms=None if completion.ttft_ns is None else to_ms(completion.ttft_ns),
            cold_start=cold,
            failure_type=failure.failure_type if failure else None,
        )

    def _call(self, prompt: Prompt, max_tokens: int | None = None) -> Call:
        settings, provider = self._settings, self._provider
        temperatures = (settings.temperature, prompt.temperature, 0.0 if provider.local else None)
        return Call(
            model=self._target.model,
            prompt=prompt.prompt,
            system=prompt.system,
            thinking_level=self._target.thinking_level,
            max_tokens=max_tokens or settings.max_tokens or provider.fit_reply(self._target.model, prompt.max_tokens),
            temperature=next((value for value in temperatures if value is not None), None),
            seed=settings.seed,
            stream=settings.stream,
            timeout_s=settings.timeout_s,
            tools=prompt.tools,
            tool_choice=prompt.tool_choice,
            response_format=prompt.response_format,
        )


def _judged(source: Source, cell: Cell, asked: Asked, judge: JudgeAnswer) -> Result:
    try:
        return answered_result(source, cell, asked, judge)
    except Exception as fault:  # a bug in a check must not lose the row, nor the run
        what = str(fault) if isinstance(fault, JudgingFault) else f"{type(fault).__name__}: {fault}"
        completion = asked.completion
        counts = {name: getattr(completion, name) for name in TOKEN_COUNTS}
        kept = Completion(text=completion.text, **counts)
        unforeseen = CallFailure("error", "exception", what)
        return answered_result(source, cell, msgspec.structs.replace(asked, completion=kept, failure=unforeseen))
