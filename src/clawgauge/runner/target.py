"""One target's cells: who is in flight, who is retried, when the target has shown that it cannot answer.

The broad `except`s of the package stand here, at the boundary of a call, and in `judging`, at that of a check:
whatever a provider throws, and whatever a check makes of an answer nobody foresaw, becomes a record."""

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
from itertools import pairwise
from typing import Any, TypeVar

import msgspec

from clawgauge.checks import LONG_CHARS, judge_answer, takes_long
from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure
from clawgauge.journal.folder import RunFolder
from clawgauge.plan import Plan
from clawgauge.providers.base import Call, Provider, Turn, make_call
from clawgauge.records import Attempt, Event, Load, Prompt, Result, Target, ToolInvocation, TranscriptTurn
from clawgauge.runner.agenda import Agenda, Cell, CostBudget, SpendingKey
from clawgauge.runner.attempts import TARGET_ENDING, Spending, own_fault, retry_wait_s
from clawgauge.runner.clock import ClientClock, Clock, suspended_ns
from clawgauge.runner.judging import Judge, JudgingFault, NotInTime, guard_check
from clawgauge.runner.record import Source, answered_result, bounded_error, join_turns
from clawgauge.suites.load import DEFAULT_MAX_TURNS
from clawgauge.timeline import Completion, Timeline

WARM_UP_PROMPT, WARM_UP_MAX_TOKENS = "Reply with OK.", 8
_HELD_CHARS, _ID_CHARS = 4_096, 12
_MONEY_SPENT = CallFailure("error", "budget_spent", "the task was ended between two turns: --max-cost is spent")
_WARM_UP: SpendingKey = ("", "warm_up", 0)
T = TypeVar("T")
_KILLED = "Error: killed: the call took longer than it may"


class Observer(AbstractContextManager["Observer"]):
    """Hears of everything and does nothing: a base for the console's live table and for tests. `retrying`: an attempt
    failed in a way that may pass. `recorded`: a result is on disk. `target_skipped`: the other `n_cells` of a target
    are not asked. `stopped`: asking ended by a rule, with the event that is recorded of it. `calls_given_up`: the run
    ended with so many calls in flight, or answered and not on disk."""

    def __exit__(self, *exc_info: object) -> None: ...
    def target_started(self, target: Target, n_cells: int) -> None: ...
    def call_started(self, target: Target, prompt: Prompt) -> None: ...
    def retrying(self, target: Target, prompt: Prompt, failure: CallFailure, wait_s: float) -> None: ...
    def recorded(self, target: Target, result: Result) -> None: ...
    def target_skipped(self, target: Target, failure: CallFailure, n_cells: int) -> None: ...
    def stopped(self, target: Target, event: str, detail: Mapping[str, Any]) -> None: ...
    def target_finished(self, target: Target) -> None: ...
    def calls_given_up(self, n_calls: int) -> None: ...


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
    in_flight: set[tuple[Target, SpendingKey]] = field(default_factory=set)
    """The cells of which something was sent and whose result was not handed to the folder yet."""

    def event(self, name: str, target: Target | None, **detail: object) -> None:
        label = target.label if target else None
        self.folder.event(Event(event=name, at_ms=self.clock.wall_ns() // 1_000_000, target=label, detail=detail))

    def tell_outcomes(self, target: Target, agenda: Agenda) -> None:
        for outcome in agenda.outcomes():
            self.event(outcome.event, target, **outcome.detail)
            self.observer.stopped(target, outcome.event, outcome.detail)


class TargetRun:
    """Asks one target its cells, `concurrency` at a time. Every cell ends as exactly one record."""

    def __init__(self, run: RunContext, target: Target, provider: Provider, agenda: Agenda, clock: ClientClock) -> None:
        plan, self._run, self._settings = run.plan, run, run.plan.settings
        self._target, self._provider, self._agenda, self._client = target, provider, agenda, clock
        price, cost = plan.prices.get(target), run.cost
        self._source = Source(
            run_id=run.folder.run_id,
            stretch=plan.work.stretch,
            target=target,
            redact=plan.redact,
            price=price,
            counts_cached_input=provider.counts_cached_input,
        )
        self._spending = None if cost is None or target in plan.free else Spending(cost, price, provider.most_output)
        self._ended_by: CallFailure | None = None
        self._n_errors_in_a_row, self._answered_before = 0, False
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
        async def work() -> None:
            while await self.ask_next():
                pass

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._settings.concurrency, self._agenda.n_open)):
                group.create_task(work())
        self._run.tell_outcomes(self._target, self._agenda)

    async def get_ready(self) -> None:
        unload_others = self._settings.unload_others
        try:
            loaded = await self._provider.before_target(self._target.model, unload_others=unload_others)
        except Exception as fault:  # the task boundary: what no provider should throw is ours, and costs its target
            self._end_target(_as_failure(fault))
            return
        self._cold = not loaded if self._provider.local else None
        self._run.event("target_started", self._target, loaded=loaded, n_cells=self._agenda.n_open)
        if self._settings.warm_up and self._agenda.n_open:
            await self._warm_up()

    async def ask_next(self, only: Cell | None = None) -> bool:
        """Whether there was a cell to ask; with `only`, whether that one was open."""
        if not self._run.folder.wants_more:
            return False
        while (cell := self._agenda.take(only)) is None:
            is_open = self._agenda.n_open and (only is None or self._agenda.holds(only))
            if self._spending is None or not is_open:
                return False
            await self._spending.budget.changed.wait()
        if self._ended_by is not None:
            now_ms = self._run.clock.wall_ns() // 1_000_000
            unasked = Completion(failure=self._ended_by, cold_start=self._warm)
            unasked.started_at_ms = unasked.ended_at_ms = now_ms
            result = answered_result(self._source, cell, unasked)
        else:
            self._run.observer.call_started(self._target, cell.prompt)
            result = await self._answer(cell)
            # Enough cells in a row without an answer say that the next will not have one either.
            self._n_errors_in_a_row = 0 if result.availability_status == "ok" else self._n_errors_in_a_row + 1
            limit = self._settings.stop_after_errors
            if limit is not None and self._n_errors_in_a_row >= limit:
                words = f"{limit} in a row had no answer (--stop-after-errors {limit})"
                self._end_target(CallFailure("skipped_unavailable", "stopped_after_errors", words))
        self._agenda.learn(result)
        self._run.in_flight.discard((self._target, cell.spending_key))
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
            if prompt.messages and not prompt.system:
                opening, *others = prompt.messages
                opening = msgspec.structs.replace(opening, content=f"{prefix}\n{opening.content}")
                prompt = msgspec.structs.replace(prompt, messages=[opening, *others])
            else:
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
        asked.total_ns, asked.streamed = run.clock.perf_ns() - began_ns, call.stream and self._provider.streams
        asked.cold_start, asked.prefix = cold, prefix
        if asked.failure is not None and asked.failure.failure_type in TARGET_ENDING:
            self._end_target(asked.failure)
        if takes_long(cell.prompt, asked.text, asked.native_calls):
            return await self._do_aside(
                partial(answered_result, self._source, cell, asked, guard_check(run.judge.judge))
            )
        if len(asked.text) > _HELD_CHARS and settings.concurrency > 1:
            # It takes milliseconds in which the loop could stamp nobody's bytes.
            return await asyncio.to_thread(answered_result, self._source, cell, asked, guard_check(judge_answer))
        judging_ns = self._client.now_ns()
        result = answered_result(self._source, cell, asked, guard_check(judge_answer))
        self._client.held_since(judging_ns)
        return result

    async def ask_under_load(self, cell: Cell, client: int, due_ns: int, origin_ns: int) -> Result | None:
        """Ask a cell that was due then, once: its record, unjudged; None where the money does not let it go out now."""
        if self._spending is not None and not self._spending.budget.is_open():
            return None
        asked = await self._ask_turn(cell, self._call(cell.prompt, cell.prompt.max_tokens))
        self._run.in_flight.discard((self._target, cell.spending_key))
        asked.cold_start, self._cold, asked.streamed = self._cold, self._warm, self._provider.streams
        due_us, queued_us = (due_ns - origin_ns) // 1000, max(0, (asked.start_ns or due_ns) - due_ns) // 1000
        gaps_us = [(later - sooner) // 1000 for sooner, later in pairwise(asked.stamps_ns)]
        asked.load = Load(
            client=client,
            due_us=due_us,
            queued_us=queued_us,
            gaps_us=gaps_us,
            first_share=None if asked.first_share is None else round(asked.first_share, 6),
        )
        asked.total_ns = queued_us * 1000 + asked.e2e_ns
        result = answered_result(self._source, cell, asked, None)
        self._agenda.learn(result)
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

    async def _play(self, spec: Mapping[str, Any], made: list[ToolInvocation], new: list[ToolInvocation]) -> list[str]:
        """What the simulated world answers to the calls of one turn, `made` being all that it has answered before."""
        answers: list[str] = []
        for call in new:
            try:
                answers += await self._do_aside(partial(self._run.judge.play, spec, [*made, call], 1))
            except NotInTime:
                answers.append(_KILLED)
                continue
            except JudgingFault as fault:  # a bug in the world must not lose the turns before it
                raise CallFailure("error", "exception", f"the simulated world: {fault}") from fault
            made.append(call)
        return answers

    async def _ask_turn(self, cell: Cell, call: Call) -> Completion:
        """Ask until there is an answer, or until asking again cannot help or may not be done."""
        run, now_ms = self._run, self._run.clock.wall_ns() // 1_000_000
        attempts: list[Attempt] = []
        asked = Completion(started_at_ms=now_ms, ended_at_ms=now_ms, failure=_MONEY_SPENT)
        key = (cell.prompt.suite, cell.prompt.id, cell.repeat)
        while (tried := await self._attempt(key, call)) is not None:
            asked, failure, wait_s = tried, tried.failure, None
            if failure is None:
                attempts.append(Attempt(status="ok", failure_type=None, e2e_ms=round(tried.e2e_ns / 1e6)))
                self._answered_before = True
                break
            if self._spending is None or self._spending.budget.calls_left != 0:
                n, jitter = len(attempts) + 1, run.rng.random()
                wait_s = retry_wait_s(self._settings, failure, n, jitter, answered_before=self._answered_before)
            words = bounded_error(self._source.redact, failure.message) if failure.message else None
            # Statuses come from the table in `errors`.
            told: Any = {"status": failure.status, "retry_after_s": failure.retry_after_s, "error": words}
            told |= {"failure_type": failure.failure_type, "http_status": failure.http_status}
            took_ms, waited_ms = round(tried.e2e_ns / 1e6), round((wait_s or 0.0) * 1000)
            attempts.append(Attempt(e2e_ms=took_ms, waited_ms=waited_ms, **told))
            if wait_s is None:
                break
            run.observer.retrying(self._target, cell.prompt, failure, wait_s)
            where = {"suite": cell.prompt.suite, "prompt_id": cell.prompt.id, "repeat": cell.repeat}
            why = {"failure_type": failure.failure_type, "wait_s": round(wait_s, 3)}
            run.event("retry", self._target, **where, **why)
            await run.clock.sleep(wait_s)
        asked.attempts = attempts
        return asked

    async def _attempt(self, key: SpendingKey, call: Call) -> Completion | None:
        """One attempt, whatever came of it; None where the money for it is spent."""
        if self._spending is not None and not await self._spending.admit(key, call):
            return None
        if key != _WARM_UP:
            self._run.in_flight.add((self._target, key))
        clock, client, timeline = self._run.clock, self._client, Timeline()
        started_ms, began_ns, watched_ns = clock.wall_ns() // 1_000_000, clock.perf_ns(), client.now_ns()
        slept_ns = suspended_ns()
        failure = None
        try:
            texts = (call.system or "", call.prompt, *(message.content for message in call.messages))
            if any("\0" in text for text in texts):
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
        is_light = timeline.n_chars <= LONG_CHARS
        completion = timeline.fold(now_ns) if is_light else await asyncio.to_thread(timeline.fold, now_ns)
        if not completion.started:
            nothing_sent = failure is not None and failure.failure_type in ("api_key_missing", "invalid_prompt")
            completion.e2e_ns = 0 if nothing_sent else now_ns - began_ns
        if self._spending is not None:
            self._spending.settle(key, call, completion, failure)
        completion.failure, completion.lag_ns = failure, client.largest_since(watched_ns)
        completion.started_at_ms, completion.ended_at_ms = started_ms, started_ms + round(completion.e2e_ns / 1e6)
        return completion

    def _end_target(self, failure: CallFailure) -> None:
        if self._ended_by is None:
            self._ended_by = failure
            self._run.observer.target_skipped(self._target, failure, self._agenda.n_untaken)
            words = self._source.redact(failure.message)
            self._run.event("skip", self._target, failure_type=failure.failure_type, error=words[:500])

    async def _warm_up(self) -> None:
        """One short call that loads the model. Recorded as an event, never as a result."""
        prompt = Prompt(id="warm_up", name="warm_up", prompt=WARM_UP_PROMPT, validator={"type": "noop"})
        self._run.observer.call_started(self._target, prompt)
        asked = await self._attempt(_WARM_UP, self._call(prompt, WARM_UP_MAX_TOKENS))
        if asked is None:
            return
        cold, self._cold = self._cold, self._warm
        ttft_ms = None if asked.ttft_ns is None else round(asked.ttft_ns / 1e6)
        took = {"e2e_ms": round(asked.e2e_ns / 1e6), "ttft_ms": ttft_ms, "cold_start": cold}
        failure_type = asked.failure.failure_type if asked.failure else None
        if asked.failure is not None and failure_type in TARGET_ENDING:
            self._end_target(asked.failure)
        self._run.event("warm_up", self._target, **took, failure_type=failure_type)

    def _call(self, prompt: Prompt, max_tokens: int | None = None) -> Call:
        return make_call(self._provider, self._target, self._settings, prompt, max_tokens)


async def converse(
    call: Call,
    max_turns: int,
    ask: Callable[[Call], Awaitable[Completion]],
    execute: Callable[[list[ToolInvocation]], Awaitable[list[str]]],
) -> Completion:
    """Take the turns of a task until the model answers without a call, its turns are spent, or a turn fails for good.
    `execute` answers the calls of one turn; a `CallFailure` from it ends the task as one from `ask` does. The calls of
    the last turn are made too, although nobody reads their answers: what they do to the world counts. A call that is
    only written in the text is not made."""
    asked: list[Completion] = []
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
        calls = [msgspec.structs.replace(made, turn=len(asked)) for made in turn.native_calls]
        try:
            answers = await execute(calls) if calls else []
        except CallFailure as fault:
            failure, answers = fault, []
        took: Any = {"output_tokens": turn.output_tokens, "e2e_ms": round(turn.e2e_ns / 1e6)}
        transcript.append(TranscriptTurn(text=turn.text, calls=calls, answers=answers, **took))
        if not calls:
            break
        if failure is None:
            history.append(Turn(turn.text, tuple(calls), tuple(answers), turn.reasoning_text))
    return join_turns(asked, failure, transcript)


def _as_failure(fault: Exception) -> CallFailure:
    if isinstance(fault, CallFailure):
        return fault
    return CallFailure("error", "exception", f"{type(fault).__name__}: {fault}")
