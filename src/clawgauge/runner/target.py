"""One target's cells: who is in flight, who is retried, when the target has shown that it cannot answer.

The broad `except`s of the package stand here, at the boundary of a call and of its judgement: whatever a provider
throws, and whatever a check makes of an answer nobody foresaw, becomes a record.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import msgspec

from clawgauge.checks import judge_answer
from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure
from clawgauge.journal.folder import RunFolder
from clawgauge.plan import Plan
from clawgauge.providers.base import Call, Provider, Turn
from clawgauge.records import Attempt, Event, Prompt, Result, Target, ToolInvocation, TranscriptTurn
from clawgauge.runner.agenda import Agenda, Cell, CostBudget, SpendingKey
from clawgauge.runner.attempts import TARGET_ENDING, Spending, own_fault, retry_wait_s
from clawgauge.runner.clock import ClientClock, Clock, suspended_ns
from clawgauge.runner.judging import ASIDE_CHARS, Judge, JudgingFault, NotInTime, is_long
from clawgauge.runner.record import Asked, JudgeAnswer, Source, answered_result, bounded_error, join_turns, to_ms
from clawgauge.suites.load import DEFAULT_MAX_TURNS
from clawgauge.timeline import TOKEN_COUNTS, Completion, Timeline

WARM_UP_PROMPT = "Reply with OK."
WARM_UP_MAX_TOKENS = 8
_HELD_CHARS = 4_096
_ID_CHARS = 12
_MONEY_SPENT = CallFailure("error", "budget_spent", "the task was ended between two turns: --max-cost is spent")
_WARM_UP: SpendingKey = ("", "warm_up", 0)
T = TypeVar("T")
_KILLED = "Error: killed: the call took longer than it may"


class Observer(AbstractContextManager["Observer"]):
    """Hears of everything and does nothing: a base for the console's live table and for tests.

    `retrying`: an attempt failed in a way that may pass. `recorded`: a result is on disk. `target_skipped`: the rest of
    a target's cells are not asked. `stopped`: asking ended by a rule, with the event that is recorded of it.
    """

    def __exit__(self, *exc_info: object) -> None: ...
    def target_started(self, target: Target, n_cells: int) -> None: ...
    def call_started(self, target: Target, prompt: Prompt) -> None: ...
    def retrying(self, target: Target, prompt: Prompt, failure: CallFailure, wait_s: float) -> None: ...
    def recorded(self, target: Target, result: Result) -> None: ...
    def target_skipped(self, target: Target, failure: CallFailure, n_cells: int) -> None: ...
    def stopped(self, target: Target, event: str, detail: Mapping[str, Any]) -> None: ...
    def target_finished(self, target: Target) -> None: ...


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
        plan, self._run, self._settings = context.plan, context, context.plan.settings
        self._target, self._provider, self._agenda, self._client = target, provider, agenda, client
        price, cost = plan.prices.get(target), context.cost
        self._source = Source(context.folder.run_id, plan.work.stretch, target, plan.redact, price)
        self._spending = None if cost is None or target in plan.free else Spending(cost, price)
        self._ended_by: CallFailure | None = None
        self._n_errors_in_a_row = 0
        self._answered_before = False
        # Whether the next call finds the model unloaded; None where nobody can tell.
        self._cold, self._warm = True if provider.local else None, False if provider.local else None
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
        model, unload_others = self._target.model, self._settings.unload_others
        try:
            loaded = await self._provider.before_target(model, unload_others=unload_others)
        except Exception as fault:  # the task boundary: what no provider should throw is ours, and costs its target
            self._end_target(_as_failure(fault), self._agenda.n_open)
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
            await self._spending.budget.changed.wait()
        if self._ended_by is not None:
            now_ms = self._run.clock.wall_ns() // 1_000_000
            unasked = Asked(Completion(), self._ended_by, 0, now_ms, now_ms, [], cold_start=self._warm)
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
        # A Ctrl-C here loses nothing: a line that was handed over is written even if nobody waits for it.
        await self._run.folder.append(result)
        self._run.observer.recorded(self._target, result)
        return True

    async def _answer(self, cell: Cell) -> Result:
        """Ask one prompt, or take all the turns of a task, and judge what came of it."""
        run, settings, spec = self._run, self._settings, cell.prompt.world
        prompt, prefix = cell.prompt, None
        if settings.unique_prefix:
            # The same for every attempt at a cell, another for every cell, repeat and run. The part that differs comes
            # first: nothing before it can be shared.
            digest = hashlib.blake2b(repr(tuple(cell.key(self._target))).encode(), key=run.salt).hexdigest()
            prefix, first = f"[{digest[:_ID_CHARS]} request id]", "system" if prompt.system else "prompt"
            prompt = msgspec.structs.replace(prompt, **{first: f"{prefix}\n{getattr(prompt, first)}"})
        call = self._call(prompt)
        began_ns = run.clock.perf_ns()
        cold, self._cold = self._cold, self._warm
        max_turns = cell.prompt.max_turns or DEFAULT_MAX_TURNS
        if spec is None:
            asked = await self._ask_turn(cell, call)
        elif self._provider.runs_tasks:
            asked = await self._ask_turn(cell, dataclasses.replace(call, world=spec, max_turns=max_turns))
        else:
            asked = await converse(call, max_turns, partial(self._ask_turn, cell), partial(self._play, spec, []))
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
            return await self._do_aside(partial(_judged, self._source, cell, asked, run.judge.judge))
        if len(completion.text) > _HELD_CHARS and settings.concurrency > 1:
            # It takes milliseconds in which the loop could stamp nobody's bytes.
            return await asyncio.to_thread(_judged, self._source, cell, asked, judge_answer)
        judging_ns = self._client.now_ns()
        result = _judged(self._source, cell, asked, judge_answer)
        self._client.held_since(judging_ns)
        return result

    async def _do_aside(self, work: Callable[[], T]) -> T:
        """Work that waits for the judging process. One at a time: more would take all the threads there are."""
        async with self._aside:
            try:
                return await asyncio.to_thread(work)
            except asyncio.CancelledError:
                # The thread lives until its work is done, and the loop until its threads are.
                self._run.judge.give_up()
                raise

    async def _play(
        self, spec: Mapping[str, Any], made: list[ToolInvocation], calls: list[ToolInvocation]
    ) -> list[str]:
        """What the simulated world answers to the calls of one turn, `made` being all that it has answered before."""
        answers: list[str] = []
        for call in calls:
            try:
                answers += await self._do_aside(partial(self._run.judge.play, spec, [*made, call], 1))
            except NotInTime:
                answers.append(_KILLED)
                continue
            except JudgingFault as fault:  # a bug in the world must not lose the turns before it
                raise CallFailure("error", "exception", f"the simulated world: {fault}") from fault
            made.append(call)
        return answers

    async def _ask_turn(self, cell: Cell, call: Call) -> Asked:
        """Ask until there is an answer, or until asking again cannot help or may not be done."""
        run, now_ms = self._run, self._run.clock.wall_ns() // 1_000_000
        attempts: list[Attempt] = []
        asked = Asked(Completion(), _MONEY_SPENT, 0, now_ms, now_ms, [])
        key = (cell.prompt.suite, cell.prompt.id, cell.repeat)
        while (tried := await self._attempt(key, call)) is not None:
            asked, failure, wait_s = tried, tried.failure, None
            if failure is None:
                attempts.append(Attempt(status="ok", failure_type=None, e2e_ms=to_ms(tried.e2e_ns)))
                self._answered_before = True
                break
            if self._spending is None or self._spending.budget.calls_left != 0:
                n, jitter = len(attempts) + 1, run.rng.random()
                wait_s = retry_wait_s(self._settings, failure, n, jitter, answered_before=self._answered_before)
            attempts.append(
                Attempt(
                    status=failure.status,  # type: ignore[arg-type]  # statuses come from the table in `errors`
                    failure_type=failure.failure_type,
                    e2e_ms=to_ms(tried.e2e_ns),
                    waited_ms=round((wait_s or 0.0) * 1000),
                    retry_after_s=failure.retry_after_s,
                    http_status=failure.http_status,
                    error=bounded_error(self._source.redact, failure.message) if failure.message else None,
                )
            )
            if wait_s is None:
                break
            run.observer.retrying(self._target, cell.prompt, failure, wait_s)
            where = {"suite": cell.prompt.suite, "prompt_id": cell.prompt.id, "repeat": cell.repeat}
            why = {"failure_type": failure.failure_type, "wait_s": round(wait_s, 3)}
            run.event("retry", self._target, **where, **why)
            await run.clock.sleep(wait_s)
        return msgspec.structs.replace(asked, attempts=attempts)

    async def _attempt(self, key: SpendingKey, call: Call) -> Asked | None:
        """One attempt, whatever came of it; None where the money for it is spent."""
        if self._spending is not None and not await self._spending.admit(key, call):
            return None
        clock, client, timeline = self._run.clock, self._client, Timeline()
        started_ms, began_ns, watched_ns = clock.wall_ns() // 1_000_000, clock.perf_ns(), client.now_ns()
        slept_ns = suspended_ns()
        failure: CallFailure | None = None
        try:
            if "\0" in call.prompt or "\0" in (call.system or ""):
                raise CallFailure("error", "invalid_prompt", "the prompt contains a NUL character")
            async with asyncio.timeout(call.timeout_s) as deadline:
                await self._provider.attempt(call, timeline)
        except Exception as fault:  # the task boundary: a bug of ours or of a plug-in's must not lose the row
            failure = _as_failure(fault)
            # A timeout that is not our deadline's came out of somebody's code, as any other exception might.
            if isinstance(fault, TimeoutError):
                if deadline.expired():
                    failure = CallFailure("error", "timeout", f"no complete answer within {call.timeout_s:g} s")
            elif not isinstance(fault, CallFailure):
                failure = client_limit(fault) or failure
        now_ns = clock.perf_ns()
        if failure is not None:
            # How far into an attempt a hold-up of ours can have made it fail.
            waited_ns = round(call.timeout_s * 1e9) if failure.failure_type == "timeout" else 0
            held_ns = client.largest_since(watched_ns + waited_ns)
            failure = own_fault(failure, held_ns=held_ns, slept_ns=suspended_ns() - slept_ns) or failure
        # Putting megabytes together, and reading the arguments of calls, would hold the loop.
        is_light = timeline.n_chars <= ASIDE_CHARS
        completion = timeline.fold(now_ns) if is_light else await asyncio.to_thread(timeline.fold, now_ns)
        e2e_ns = completion.e2e_ns if completion.started else now_ns - began_ns
        if failure is not None and failure.failure_type in ("api_key_missing", "invalid_prompt"):
            e2e_ns = 0
        if self._spending is not None:
            self._spending.settle(key, call, completion, failure)
        lag_ns = client.largest_since(watched_ns)
        return Asked(completion, failure, e2e_ns, started_ms, started_ms + to_ms(e2e_ns), [], lag_ns)

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
        asked = await self._attempt(_WARM_UP, call)
        if asked is None:
            return
        cold, self._cold = self._cold, self._warm
        failure, ttft_ns = asked.failure, asked.completion.ttft_ns
        if failure is not None and failure.failure_type in TARGET_ENDING:
            self._end_target(failure)
        self._run.event(
            "warm_up",
            self._target,
            e2e_ms=to_ms(asked.e2e_ns),
            ttft_ms=None if ttft_ns is None else to_ms(ttft_ns),
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


async def converse(
    call: Call,
    max_turns: int,
    ask: Callable[[Call], Awaitable[Asked]],
    execute: Callable[[list[ToolInvocation]], Awaitable[list[str]]],
) -> Asked:
    """Take the turns of a task until the model answers without a call, its turns are spent, or a turn fails for good.

    `execute` answers the calls of one turn; a `CallFailure` from it ends the task as one from `ask` does. The calls of
    the last turn are made too, although nobody reads their answers: what they do to the world counts. A call that is
    only written in the text is not made.
    """
    asked: list[Asked] = []
    history: list[Turn] = []
    transcript: list[TranscriptTurn] = []
    failure = None
    while failure is None and len(asked) < max_turns:
        # A choice such as `required` is for the first turn: upheld, it would not let the model answer at all.
        choice = None if asked else call.tool_choice
        turn = await ask(dataclasses.replace(call, history=tuple(history), tool_choice=choice))
        asked.append(turn)
        if (failure := turn.failure) is not None:
            break
        calls = [msgspec.structs.replace(made, turn=len(asked)) for made in turn.completion.native_calls]
        try:
            answers = await execute(calls) if calls else []
        except CallFailure as fault:
            failure, answers = fault, []
        said, e2e_ms = turn.completion, to_ms(turn.e2e_ns)
        told = TranscriptTurn(
            text=said.text, calls=calls, answers=answers, output_tokens=said.output_tokens, e2e_ms=e2e_ms
        )
        transcript.append(told)
        if not calls:
            break
        if failure is None:
            history.append(Turn(said.text, tuple(calls), tuple(answers), said.reasoning_text))
    return join_turns(asked, failure, transcript, call.tools)


def _as_failure(fault: Exception) -> CallFailure:
    if isinstance(fault, CallFailure):
        return fault
    what = str(fault) if isinstance(fault, JudgingFault) else f"{type(fault).__name__}: {fault}"
    return CallFailure("error", "exception", what)


def _judged(source: Source, cell: Cell, asked: Asked, judge: JudgeAnswer) -> Result:
    try:
        return answered_result(source, cell, asked, judge)
    except Exception as fault:  # a bug in a check must not lose the row, nor the run
        counts = {name: getattr(asked.completion, name) for name in TOKEN_COUNTS}
        kept, failure = Completion(text=asked.completion.text, **counts), _as_failure(fault)
        return answered_result(source, cell, msgspec.structs.replace(asked, completion=kept, failure=failure))
