"""A task turn by turn: when it ends, what each turn is asked, and what the turns amount to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from clawgauge.errors import CallFailure
from clawgauge.outcomes import CallOutcome, Reply
from clawgauge.providers.base import Call
from clawgauge.records import Attempt, ToolInvocation
from clawgauge.runner.conversation import converse

TOOL = {"type": "function", "function": {"name": "exec", "description": "Run a command. " * 40}}


def called(command: str) -> ToolInvocation:
    return ToolInvocation(name="exec", arguments={"command": command}, channel="native")


def turn(
    text: str = "", *calls: ToolInvocation, failure: CallFailure | None = None, **seen: Any
) -> CallOutcome:
    """One turn that took 100 ms, started one second after the last."""
    status = "ok" if failure is None else failure.status
    attempt = Attempt(status=status, failure_type=failure and failure.failure_type, e2e_ms=100)
    return CallOutcome(
        reply=Reply(text=text, native_calls=list(calls), started=True, **seen),
        failure=failure,
        attempts=[attempt],
        started_at_ms=1_000,
        ended_at_ms=1_100,
        e2e_ns=100_000_000,
        lag_ns=5,
    )


def play(
    *turns: CallOutcome,
    max_turns: int = 8,
    execute: Callable[[ToolInvocation], str] | None = None,
    **call: Any,
) -> tuple[CallOutcome, list[Call]]:
    """Converse with a model that takes these turns; also what it was asked each time."""
    script, asked = iter(turns), []

    async def ask(call: Call) -> CallOutcome:
        asked.append(call)
        return next(script)

    def echo(made: ToolInvocation) -> str:
        return f"did {made.arguments['command']}"

    async def answer(calls: list[ToolInvocation]) -> list[str]:
        return [(execute or echo)(made) for made in calls]

    given = Call(**{"model": "m", "prompt": "tidy up", "tools": [TOOL], **call})
    return asyncio.run(converse(given, max_turns, ask, answer)), asked


def test_a_world_that_breaks_ends_the_task() -> None:
    """A defect of the simulated world is a failure of the task, not a crash and not an answer."""

    def broken(_made: ToolInvocation) -> str:
        raise CallFailure("error", "exception", "the simulated world: KeyError")

    done, asked = play(turn("", called("a")), turn("never asked"), execute=broken)
    assert len(asked) == 1 and done.failure is not None and done.failure.failure_type == "exception"
    assert done.transcript is not None and done.transcript[0].calls


def test_times_are_the_first_turns_and_sums_are_sums() -> None:
    """First-token times describe the first turn; tokens, cost and duration are those of the whole task."""
    first = {
        "ttft_ns": 7,
        "ttfa_ns": 8,
        "connect_ns": 9,
        "input_tokens": 10,
        "output_tokens": 3,
        "cost_usd": 0.5,
    }
    last = {
        "ttft_ns": 1,
        "ttfa_ns": 1,
        "connect_ns": None,
        "input_tokens": 20,
        "output_tokens": 4,
        "cost_usd": 0.25,
    }
    done, _ = play(turn("", called("a"), **first), turn("ok", **last))
    reply = done.reply
    assert (reply.ttft_ns, reply.ttfa_ns, reply.connect_ns) == (7, 8, 9)
    assert (reply.input_tokens, reply.output_tokens, reply.cost_usd) == (30, 7, 0.75)
    assert done.e2e_ns == 200_000_000 and done.lag_ns == 5


def test_a_count_that_is_not_whole_is_not_given() -> None:
    """Where one turn tells no tokens the sum would be too small, so there is none."""
    done, _ = play(turn("", called("a"), input_tokens=10), turn("ok"))
    assert done.reply.input_tokens is None


def test_a_forced_call_is_forced_once() -> None:
    """`required` holds for the first turn; upheld, the model could never answer."""
    _, asked = play(turn("", called("a")), turn("ok"), tool_choice="required")
    assert [call.tool_choice for call in asked] == ["required", None]


def test_what_a_provider_wants_back_goes_back_with_its_turn() -> None:
    """Opaque to everybody else, and never that of another turn."""
    states = [object(), object()]
    first = turn("", called("a"), replay=states[0])
    second = turn("", called("b"), replay=states[1])
    _, asked = play(first, second, turn("ok"))
    assert [[past.replay for past in call.history] for call in asked] == [[], states[:1], states]
