"""A task turn by turn: the model calls tools, the simulated machine answers, until it is done."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.outcomes import CallOutcome
from clawgauge.providers.base import Call, Turn
from clawgauge.records import ToolInvocation, TranscriptTurn
from clawgauge.runner.record import join_turns


async def converse(
    call: Call,
    max_turns: int,
    ask: Callable[[Call], Awaitable[CallOutcome]],
    execute: Callable[[list[ToolInvocation]], Awaitable[list[str]]],
) -> CallOutcome:
    """Take the turns of a task and join them.

    A task ends when the model answers without a call, when its turns are spent, or when a turn
    fails for good. `execute` answers the calls of one turn; a `CallFailure` from it ends the task
    as one from `ask` does. The calls of the last turn are executed too, although nobody reads
    their answers: what they do to the simulated machine counts. A call that is only written in
    the text is not executed.
    """
    turns: list[CallOutcome] = []
    history: list[Turn] = []
    transcript: list[TranscriptTurn] = []
    failure = None
    # A choice such as `required` is for the first turn: kept up, it would not let the model answer.
    tool_choice = call.tool_choice
    while failure is None and len(turns) < max_turns:
        next_call = dataclasses.replace(call, history=tuple(history), tool_choice=tool_choice)
        tool_choice = None
        turn = await ask(next_call)
        turns.append(turn)
        if turn.failure is not None:
            failure = turn.failure
            break
        calls = []
        for invocation in turn.reply.native_calls:
            calls.append(msgspec.structs.replace(invocation, turn=len(turns)))
        answers: list[str] = []
        if calls:
            try:
                answers = await execute(calls)
            except CallFailure as fault:
                failure = fault
        record = TranscriptTurn(
            text=turn.reply.text,
            calls=calls,
            answers=answers,
            output_tokens=turn.reply.output_tokens,
            e2e_ms=round(turn.e2e_ns / 1e6),
        )
        transcript.append(record)
        if not calls:
            break
        past = Turn(
            text=turn.reply.text,
            calls=tuple(calls),
            answers=tuple(answers),
            reasoning=turn.reply.reasoning_text,
            replay=turn.reply.replay,
        )
        history.append(past)
    return join_turns(turns, failure, transcript)
