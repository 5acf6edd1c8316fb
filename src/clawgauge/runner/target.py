"""Asks one target all its cells: what is in flight, what is retried, when a target is given up.

The broad `except`s of the package stand here, at the boundary of a call, and in `judging`, at that
of a check: whatever a provider throws, and whatever a check makes of an answer nobody foresaw,
becomes a record.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import msgspec

from clawgauge.checks import LONG_CHARS, judge_answer, takes_long
from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure
from clawgauge.outcomes import AttemptOutcome, CallOutcome, CellOutcome, Reply
from clawgauge.plan import FIND_CONCURRENCY
from clawgauge.providers.base import Call, Provider, make_call, make_plain_call
from clawgauge.records import (
    Attempt,
    Load,
    Prompt,
    Result,
    SentSettings,
    Target,
    ToolInvocation,
)
from clawgauge.runner.agenda import Agenda, Cell, SpendingKey
from clawgauge.runner.attempts import TARGET_ENDING, Spending, own_fault, retry_wait_s
from clawgauge.runner.clock import ClientClock, suspended_ns
from clawgauge.runner.context import RunContext
from clawgauge.runner.conversation import converse
from clawgauge.runner.decision import DecisionAgenda
from clawgauge.runner.judging import JudgingFault, NotInTime, guard_check
from clawgauge.runner.pacing import Pace
from clawgauge.runner.record import Source, bounded_error, make_result
from clawgauge.secrets import mask_strings, public_settings
from clawgauge.suites.prompt import DEFAULT_MAX_TURNS
from clawgauge.timeline import Timeline

WARM_UP_PROMPT = "Reply with OK."
WARM_UP_MAX_TOKENS = 8
_WARM_UP: SpendingKey = ("", "warm_up", 0, 0)
# A longer answer is judged in another thread, so that the loop can go on stamping bytes.
_MAX_CHARS_JUDGED_IN_LOOP = 4_096
_PREFIX_DIGITS = 12
# What is known so far is told after so many answers and so long, whichever is later.
_FIRST_ANSWER_CALLS = 20
_FIRST_ANSWER_NS = 180 * 10**9
_MAX_EVENT_ERROR_CHARS = 500
_MONEY_SPENT = CallFailure(
    "error", "budget_spent", "the task was ended between two turns: --max-cost is spent"
)
_KILLED = "Error: killed: the call took longer than it may"
# Failures that come before anything is sent, by ourselves.
_NEVER_SENT = frozenset({"api_key_missing", "invalid_prompt"})
T = TypeVar("T")


class TargetRun:
    """Asks one target its cells, `concurrency` at a time. Every cell ends as exactly one record."""

    def __init__(
        self,
        run: RunContext,
        target: Target,
        provider: Provider,
        agenda: Agenda | DecisionAgenda,
        client_clock: ClientClock,
    ) -> None:
        self._run = run
        self._settings = run.plan.settings
        self._target = target
        self._provider = provider
        self._agenda = agenda
        self._client_clock = client_clock
        self._calls_at_once = run.plan.calls_at_once(target)
        is_fixed = self._settings.concurrency != FIND_CONCURRENCY
        # Who is asked on, to find the best of several, has been found out already.
        pace = run.paces.setdefault(target, Pace(self._calls_at_once, run.clock, is_fixed=is_fixed))
        self._pace = pace
        price = run.plan.prices.get(target)
        self._source = Source(
            run_id=run.folder.run_id,
            stretch=run.plan.work.stretch,
            target=target,
            redact=run.plan.redact,
            price=price,
            counts_cached_input=provider.counts_cached_input,
        )
        self._spending: Spending | None = None
        if run.cost is not None and target not in run.plan.free:
            self._spending = Spending(run.cost, price, provider.most_output)
        # Why no further cell of the target is asked.
        self._ended_by: CallFailure | None = None
        self._sent: SentSettings | None = None
        self._n_errors_in_a_row = 0
        self._answered_before = False
        self._began_ns = run.clock.perf_ns()
        self._has_first_answer = False
        # Whether the next call finds the model unloaded; None where nobody can tell.
        self._is_next_cold: bool | None = True if provider.local else None
        self._judging_aside = asyncio.Lock()

    async def ask(self) -> None:
        """Get ready, then ask every cell of the agenda; all are recorded either way."""
        await self.get_ready()
        if self._ended_by is None:
            # The first call goes alone: a target that cannot answer is asked once, and one that
            # loads its model does not make the calls beside it wait.
            await self.ask_next()
        await self.finish()

    async def finish(self) -> None:
        """Ask what is left, several at once, and record by which rule it ended."""

        async def ask_until_done() -> None:
            is_more = True
            while is_more:
                is_more = await self.ask_next()

        async with asyncio.TaskGroup() as group:
            for _ in range(self._count_workers()):
                group.create_task(ask_until_done())
        self._run.report_stops(self._target, self._agenda)

    def _count_workers(self) -> int:
        """How many cells may be under way at once."""
        n_workers = self._calls_at_once
        if isinstance(self._agenda, DecisionAgenda):
            return n_workers
        return min(n_workers, self._agenda.n_open)

    @property
    def most_at_once(self) -> int:
        """How many calls were under way at once at most."""
        return self._pace.most_seen

    async def get_ready(self) -> None:
        """Have the provider get ready for the model, and warm it up where that is wanted."""
        try:
            loaded = await self._provider.before_target(
                self._target.model, unload_others=self._settings.unload_others
            )
        except Exception as fault:  # the task boundary: a bug of a provider costs its target
            self._end_target(_as_failure(fault))
            return
        if self._provider.local:
            self._is_next_cold = not loaded
        n_cells = self._agenda.n_open
        self._run.event("target_started", self._target, loaded=loaded, n_cells=n_cells)
        self._begin_watching_settings()
        if self._settings.warm_up and n_cells:
            await self._warm_up()

    def _begin_watching_settings(self) -> None:
        """Keep what the target is sent from now on.

        config.json has it as it was when the run was begun; a later part may send other settings.
        """
        self._sent = self._read_settings()
        if self._run.plan.work.stretch > 0 and self._sent is not None:
            self._report_settings(self._sent)

    def _read_settings(self) -> SentSettings | None:
        capacity = self._run.plan.capacity
        max_tokens = None if capacity is None else capacity.output_tokens
        try:
            call = make_plain_call(self._provider, self._target, self._settings, max_tokens)
            return self._provider.request_settings(call)
        except Exception:  # the task boundary: a bug of a provider must not lose the row
            return None

    def _watch_settings(self) -> None:
        """Record settings that the provider goes on with after a refusal."""
        sent = self._read_settings()
        if sent is not None and sent != self._sent:
            self._sent = sent
            self._report_settings(sent)

    def _report_settings(self, sent: SentSettings) -> None:
        body = mask_strings(public_settings(sent.body), self._source.redact)
        self._run.event("request_settings", self._target, path=sent.path, body=body)

    async def ask_next(self, only: Cell | None = None) -> bool:
        """Ask the next cell, or `only` that one. Returns whether there was one to ask."""
        await self._pace.start_call()
        result = None
        try:
            result = await self._ask_cell_of(only)
        finally:
            self._pace.end_call(result)
        return result is not None

    async def _ask_cell_of(self, only: Cell | None) -> Result | None:
        """Ask the next cell, or `only` that one; None where there was none to ask."""
        if not self._run.folder.wants_more:
            return None
        cell = await self._take_cell(only)
        if cell is None:
            return None
        if self._ended_by is not None:
            result = self._record_not_asked(cell, self._ended_by)
        else:
            self._run.write_down(cell)
            self._run.observer.call_started(self._target, cell.prompt)
            result = await self._answer(cell)
            self._watch_settings()
            self._count_errors(result)
        self._agenda.learn(result)
        self._run.in_flight.discard((self._target, cell.spending_key))
        # A Ctrl-C here loses nothing: a line that was handed over is written in any case.
        await self._run.folder.append(result)
        self._run.observer.recorded(self._target, result)
        if isinstance(self._agenda, DecisionAgenda):
            self._run.observer.calls_left(self._target, self._agenda.n_open)
            self._report_first_answer(self._agenda)
        return result

    def _report_first_answer(self, agenda: DecisionAgenda) -> None:
        """Tell what is known by now, once, where the asking has taken long and goes on."""
        if self._has_first_answer or agenda.is_asked_on:
            return
        if agenda.n_answers < _FIRST_ANSWER_CALLS or not agenda.n_open:
            return
        if self._run.clock.perf_ns() - self._began_ns < _FIRST_ANSWER_NS:
            return
        self._has_first_answer = True
        self._run.observer.answer_so_far(self._target, agenda.n_answers, agenda.states())

    async def _take_cell(self, only: Cell | None) -> Cell | None:
        """The next open cell, once there is money for it; None where none is open."""
        while True:
            cell = self._agenda.take(only)
            if cell is not None:
                return cell
            agenda = self._agenda
            if isinstance(agenda, DecisionAgenda) and agenda.is_waiting and agenda.n_open:
                await agenda.answered.wait()
                continue
            is_open = self._agenda.n_open and (only is None or self._agenda.holds(only))
            if self._spending is None or not is_open:
                return None
            await self._spending.budget.changed.wait()

    def _record_not_asked(self, cell: Cell, failure: CallFailure) -> Result:
        """The record of a cell that is not asked, because its target was given up."""
        outcome = CellOutcome(
            call=CallOutcome.not_sent(failure, self._run.now_ms()),
            cold_start=self._is_cold_later(),
        )
        return make_result(self._source, cell, outcome)

    def _count_errors(self, result: Result) -> None:
        """Give the target up after enough cells in a row without an answer."""
        if result.availability_status == "ok":
            self._n_errors_in_a_row = 0
            return
        self._n_errors_in_a_row += 1
        limit = self._settings.stop_after_errors
        if limit is not None and self._n_errors_in_a_row >= limit:
            message = f"{limit} in a row had no answer (--stop-after-errors {limit})"
            failure = CallFailure("skipped_unavailable", "stopped_after_errors", message)
            self._end_target(failure)

    async def _answer(self, cell: Cell) -> Result:
        """Ask one prompt, or take all the turns of a task, and judge what came of it."""
        clock = self._run.clock
        prompt = cell.prompt
        prefix = None
        if self._settings.unique_prefix:
            prefix = self._make_prefix(cell)
            prompt = _with_prefix(prompt, prefix)
        call = self._call(prompt)
        is_cold = self._take_cold()
        began_ns = clock.perf_ns()
        call_outcome = await self._ask_cell(cell, call)
        outcome = CellOutcome(
            call=call_outcome,
            total_ns=clock.perf_ns() - began_ns,
            streamed=call.stream and self._provider.streams,
            cold_start=is_cold,
            prompt_prefix=prefix,
        )
        failure = call_outcome.failure
        if failure is not None and failure.failure_type in TARGET_ENDING:
            self._end_target(failure)
        return await self._judge(cell, outcome)

    async def _ask_cell(self, cell: Cell, call: Call) -> CallOutcome:
        """One call; for a task, as many as it takes turns."""
        world = cell.prompt.world
        if world is None:
            return await self._ask_call(cell, call)
        max_turns = cell.prompt.max_turns or DEFAULT_MAX_TURNS
        if self._provider.runs_tasks:
            task = dataclasses.replace(call, world=world, max_turns=max_turns)
            return await self._ask_call(cell, task)
        ask = partial(self._ask_call, cell)
        execute = partial(self._execute, world, [])
        return await converse(call, max_turns, ask, execute)

    async def _judge(self, cell: Cell, outcome: CellOutcome) -> Result:
        """Judge an answer where it does not keep the loop from stamping bytes."""
        reply = outcome.call.reply
        if takes_long(cell.prompt, reply.text, reply.native_calls):
            judge = guard_check(self._run.judge.judge)
            return await self._do_aside(partial(make_result, self._source, cell, outcome, judge))
        judge = guard_check(judge_answer)
        if len(reply.text) > _MAX_CHARS_JUDGED_IN_LOOP and self._calls_at_once > 1:
            return await asyncio.to_thread(make_result, self._source, cell, outcome, judge)
        began_ns = self._client_clock.now_ns()
        result = make_result(self._source, cell, outcome, judge)
        self._client_clock.held_since(began_ns)
        return result

    def _make_prefix(self, cell: Cell) -> str:
        """The same for every attempt at a cell, another for every cell, repeat and run."""
        key = repr(tuple(cell.key(self._target))).encode()
        digest = hashlib.blake2b(key, key=self._run.salt).hexdigest()
        # The part that differs comes first: nothing before it can be shared by a cache.
        return f"[{digest[:_PREFIX_DIGITS]} request id]"

    async def ask_under_load(
        self, cell: Cell, client: int, due_ns: int, origin_ns: int, visit: int | None = None
    ) -> Result | None:
        """Ask a cell that was due at `due_ns`, once, and do not judge it.

        `visit` says which visit of a number of clients it belongs to.

        Returns None where the money does not allow the call now.
        """
        if self._spending is not None and not self._spending.budget.is_open():
            return None
        call = self._call(cell.prompt, cell.prompt.max_tokens)
        call_outcome = await self._ask_call(cell, call)
        self._run.in_flight.discard((self._target, cell.spending_key))
        reply = call_outcome.reply
        sent_ns = reply.start_ns or due_ns
        queued_us = max(0, sent_ns - due_ns) // 1000
        gaps_us = []
        for earlier_ns, later_ns in pairwise(reply.piece_times_ns):
            gaps_us.append((later_ns - earlier_ns) // 1000)
        load = Load(
            client=client,
            due_us=(due_ns - origin_ns) // 1000,
            queued_us=queued_us,
            gaps_us=gaps_us,
            first_share=None if reply.first_share is None else round(reply.first_share, 6),
            visit=visit,
        )
        outcome = CellOutcome(
            call=call_outcome,
            total_ns=queued_us * 1000 + call_outcome.e2e_ns,
            streamed=self._provider.streams,
            cold_start=self._take_cold(),
            load=load,
        )
        result = make_result(self._source, cell, outcome, judge=None)
        self._agenda.learn(result)
        return result

    def _take_cold(self) -> bool | None:
        """Whether this call finds the model unloaded; every later one finds it loaded."""
        is_cold = self._is_next_cold
        self._is_next_cold = self._is_cold_later()
        return is_cold

    def _is_cold_later(self) -> bool | None:
        return False if self._provider.local else None

    async def _do_aside(self, work: Callable[[], T]) -> T:
        """Do work that waits for the judging process, in a thread.

        One at a time: more would take all the threads there are.
        """
        async with self._judging_aside:
            try:
                return await asyncio.to_thread(work)
            except asyncio.CancelledError:
                # The thread lives until its work is done, and the loop until its threads are.
                self._run.judge.give_up()
                raise

    async def _execute(
        self,
        world: Mapping[str, Any],
        calls_before: list[ToolInvocation],
        calls: list[ToolInvocation],
    ) -> list[str]:
        """What the simulated machine answers to the calls of one turn.

        `calls_before` are all that it has answered in this task; these are added to it.
        """
        answers: list[str] = []
        for call in calls:
            play = partial(self._run.judge.play, world, [*calls_before, call], 1)
            try:
                answers += await self._do_aside(play)
            except NotInTime:
                answers.append(_KILLED)
                continue
            except JudgingFault as fault:  # must not lose the turns before it
                message = f"the simulated world: {fault}"
                raise CallFailure("error", "exception", message) from fault
            calls_before.append(call)
        return answers

    async def _ask_call(self, cell: Cell, call: Call) -> CallOutcome:
        """Ask until there is an answer, or until asking again cannot help or may not be done."""
        attempts: list[Attempt] = []
        last = None
        while True:
            attempt = await self._attempt(cell.spending_key, call)
            if attempt is None:
                break
            last = attempt
            wait_s = None
            if attempt.failure is None:
                self._answered_before = True
            else:
                wait_s = self._find_retry_wait_s(attempt.failure, n_attempts=len(attempts) + 1)
            attempts.append(self._describe_attempt(attempt, wait_s))
            if attempt.failure is None or wait_s is None:
                break
            self._report_retry(cell, attempt.failure, wait_s)
            if attempt.failure.status == "rate_limited":
                await self._pace.wait_out(wait_s)
            else:
                await self._run.clock.sleep(wait_s)
        if last is None:
            return CallOutcome.not_sent(_MONEY_SPENT, self._run.now_ms())
        return CallOutcome.of_attempt(last, attempts)

    def _find_retry_wait_s(self, failure: CallFailure, n_attempts: int) -> float | None:
        """How long to wait before the next attempt; None where there is to be none."""
        if self._spending is not None and self._spending.budget.calls_left == 0:
            return None
        jitter = self._run.rng.random()
        return retry_wait_s(
            self._settings, failure, n_attempts, jitter, answered_before=self._answered_before
        )

    def _describe_attempt(self, attempt: AttemptOutcome, wait_s: float | None) -> Attempt:
        e2e_ms = round(attempt.e2e_ns / 1e6)
        failure = attempt.failure
        if failure is None:
            return Attempt(status="ok", failure_type=None, e2e_ms=e2e_ms)
        error = None
        if failure.message:
            error = bounded_error(self._source.redact, failure.message)
        return Attempt(
            status=failure.status,
            failure_type=failure.failure_type,
            e2e_ms=e2e_ms,
            waited_ms=round((wait_s or 0.0) * 1000),
            retry_after_s=failure.retry_after_s,
            http_status=failure.http_status,
            error=error,
        )

    def _report_retry(self, cell: Cell, failure: CallFailure, wait_s: float) -> None:
        self._run.observer.retrying(self._target, cell.prompt, failure, wait_s)
        self._run.event(
            "retry",
            self._target,
            suite=cell.prompt.suite,
            prompt_id=cell.prompt.id,
            repeat=cell.repeat,
            failure_type=failure.failure_type,
            wait_s=round(wait_s, 3),
        )

    async def _attempt(self, key: SpendingKey, call: Call) -> AttemptOutcome | None:
        """One attempt, whatever came of it; None where the money for it is spent."""
        if self._spending is not None and not await self._spending.admit(key, call):
            return None
        if key != _WARM_UP:
            self._run.in_flight.add((self._target, key))
        clock = self._run.clock
        client_clock = self._client_clock
        timeline = Timeline()
        started_at_ms = self._run.now_ms()
        began_ns = clock.perf_ns()
        watched_since_ns = client_clock.now_ns()
        slept_before_ns = suspended_ns()
        failure = await self._send(call, timeline)
        now_ns = clock.perf_ns()
        if failure is not None:
            # How far into an attempt a hold-up of ours can have made it fail.
            waited_ns = 0
            if failure.failure_type == "timeout":
                waited_ns = round(call.timeout_s * 1e9)
            held_ns = client_clock.largest_since(watched_since_ns + waited_ns)
            slept_ns = suspended_ns() - slept_before_ns
            failure = own_fault(failure, held_ns=held_ns, slept_ns=slept_ns) or failure
        try:
            reply = await _fold(timeline, now_ns)
        except (
            Exception
        ) as fault:  # the task boundary: what a provider reported may not go together
            reply = Reply()
            failure = failure or _as_failure(fault)
        e2e_ns = reply.e2e_ns
        if not reply.started:
            is_sent = failure is None or failure.failure_type not in _NEVER_SENT
            e2e_ns = now_ns - began_ns if is_sent else 0
        if self._spending is not None:
            self._spending.settle(key, call, reply, failure)
        return AttemptOutcome(
            reply=reply,
            failure=failure,
            started_at_ms=started_at_ms,
            e2e_ns=e2e_ns,
            lag_ns=client_clock.largest_since(watched_since_ns),
        )

    async def _send(self, call: Call, timeline: Timeline) -> CallFailure | None:
        """Have the provider make the call within its deadline; why there is no answer, if so."""
        texts = [call.system or "", call.prompt]
        texts += [message.content for message in call.messages]
        if any("\0" in text for text in texts):
            message = "the prompt contains a NUL character"
            return CallFailure("error", "invalid_prompt", message)
        try:
            async with asyncio.timeout(call.timeout_s) as deadline:
                await self._provider.attempt(call, timeline)
        except CallFailure as failure:
            return failure
        except TimeoutError as fault:
            # One that is not our deadline's came out of somebody's code, as any other might.
            if not deadline.expired():
                return _as_failure(fault)
            message = f"no complete answer within {call.timeout_s:g} s"
            return CallFailure("error", "timeout", message)
        except Exception as fault:  # the task boundary: a bug must not lose the row
            return client_limit(fault) or _as_failure(fault)
        return None

    def _end_target(self, failure: CallFailure) -> None:
        """Ask nothing more of the target: its other cells are recorded as not asked."""
        if self._ended_by is not None:
            return
        self._ended_by = failure
        self._run.observer.target_skipped(self._target, failure, self._agenda.n_untaken)
        error = self._source.redact(failure.message)[:_MAX_EVENT_ERROR_CHARS]
        event = "target_given_up" if self._agenda.give_up() else "skip"
        self._run.event(event, self._target, failure_type=failure.failure_type, error=error)

    async def _warm_up(self) -> None:
        """One short call that loads the model. Recorded as an event, never as a result."""
        prompt = Prompt(
            id="warm_up", name="warm_up", prompt=WARM_UP_PROMPT, validator={"type": "noop"}
        )
        self._run.observer.call_started(self._target, prompt)
        attempt = await self._attempt(_WARM_UP, self._call(prompt, WARM_UP_MAX_TOKENS))
        if attempt is None:
            return
        is_cold = self._take_cold()
        failure = attempt.failure
        if failure is not None and failure.failure_type in TARGET_ENDING:
            self._end_target(failure)
        ttft_ns = attempt.reply.ttft_ns
        self._run.event(
            "warm_up",
            self._target,
            e2e_ms=round(attempt.e2e_ns / 1e6),
            ttft_ms=None if ttft_ns is None else round(ttft_ns / 1e6),
            cold_start=is_cold,
            failure_type=None if failure is None else failure.failure_type,
        )

    def _call(self, prompt: Prompt, max_tokens: int | None = None) -> Call:
        return make_call(self._provider, self._target, self._settings, prompt, max_tokens)


async def _fold(timeline: Timeline, now_ns: int) -> Reply:
    """The reply; of a long one in a thread, because putting it together would hold the loop."""
    if timeline.n_chars <= LONG_CHARS:
        return timeline.fold(now_ns)
    return await asyncio.to_thread(timeline.fold, now_ns)


def _with_prefix(prompt: Prompt, prefix: str) -> Prompt:
    """The prompt with a line before the first text that is sent."""
    if prompt.system:
        return msgspec.structs.replace(prompt, system=f"{prefix}\n{prompt.system}")
    if prompt.messages:
        first, *others = prompt.messages
        first = msgspec.structs.replace(first, content=f"{prefix}\n{first.content}")
        return msgspec.structs.replace(prompt, messages=[first, *others])
    return msgspec.structs.replace(prompt, prompt=f"{prefix}\n{prompt.prompt}")


def _as_failure(fault: Exception) -> CallFailure:
    if isinstance(fault, CallFailure):
        return fault
    return CallFailure("error", "exception", f"{type(fault).__name__}: {fault}")
