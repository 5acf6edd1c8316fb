"""One task, turn by turn: ask, let the simulated world answer the calls, ask again.

A call that is only written in the text is not made: the world hears what came as a call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, Turn
from clawgauge.records import TOOLS_DROPPED, ToolInvocation, TranscriptTurn
from clawgauge.runner.record import Asked, dropped_warning, to_ms
from clawgauge.timeline import TOKEN_COUNTS


async def converse(
    call: Call,
    max_turns: int,
    ask: Callable[[Call], Awaitable[Asked]],
    execute: Callable[[list[ToolInvocation]], Awaitable[list[str]]],
) -> Asked:
    """Take turns until the model answers without a call, its turns are spent, or a turn fails for good.

    `execute` answers the calls of one turn; a `CallFailure` from it ends the task as one from `ask` does. The calls of
    the last turn are made too, although nobody reads their answers: what they do to the world counts.
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
    return _join(asked, failure, transcript, dropped_warning(call.tools, asked[0].completion.input_tokens))


def _join(
    asked: Sequence[Asked], failure: CallFailure | None, transcript: list[TranscriptTurn], warning: str | None
) -> Asked:
    """The turns as one: first-token times are of the first, the text is of the last, tokens and time are sums."""
    turns = [turn.completion for turn in asked]
    last = turns[-1]
    warnings = [words for turn in turns for words in turn.warnings]
    if warning and not any(words.startswith(TOOLS_DROPPED) for words in warnings):
        warnings.append(warning)
    costs = [turn.cost_usd for turn in turns if turn.cost_usd is not None]
    lags = [turn.lag_ns for turn in asked if turn.lag_ns is not None]
    sums: dict[str, int | None] = {}
    for name in TOKEN_COUNTS:
        # The sum where every turn told its count; a turn that failed may have told none.
        counts = [getattr(turn, name) for turn in turns]
        told = counts[:-1] if failure is not None and counts[-1] is None else counts
        sums[name] = sum(told) if told and None not in told else None
    whole = msgspec.structs.replace(
        turns[0],
        text=last.text,
        reasoning_text="\n\n".join(turn.reasoning_text for turn in turns if turn.reasoning_text),
        native_calls=[made for turn in transcript for made in turn.calls],
        e2e_ns=sum(turn.e2e_ns for turn in asked),
        finish_reason=last.finish_reason,
        refusal=last.refusal,
        cost_usd=sum(costs) if costs else None,
        cli_overhead_ms=None,
        warnings=list(dict.fromkeys(warnings)),
        transcript=transcript,
        **sums,
    )
    return msgspec.structs.replace(
        asked[-1],
        completion=whole,
        failure=failure,
        e2e_ns=whole.e2e_ns,
        started_at_ms=asked[0].started_at_ms,
        attempts=[attempt for turn in asked for attempt in turn.attempts],
        lag_ns=max(lags, default=None),
    )
