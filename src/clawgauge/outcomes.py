"""What one cell of a run goes through, from the wire to its record, as frozen records.

`Reply` is what a provider reported of one attempt. `AttemptOutcome` adds what the runner saw of
it: how it failed, when it was made, how late this program was. `CallOutcome` is a call with all
its attempts; the turns of a task are joined into one. `CellOutcome` adds the conditions the cell
was asked under, and is what a `Result` is assembled from.

Whoever knows more makes a new record of the next type; none is changed.
"""

from __future__ import annotations

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.records import Attempt, Load, ToolInvocation, TranscriptTurn
from clawgauge.records.agent import AgentCall, AgentProgramFacts, AgentTurn


class AgentSpans(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of an attempt inside an agent program went, in nanoseconds.

    Model, tools, and the three parts of what is the program's own add up to the whole.
    """

    model_ns: int
    tools_ns: int
    start_ns: int
    between_ns: int
    end_ns: int

    @property
    def harness_ns(self) -> int:
        return self.start_ns + self.between_ns + self.end_ns


class AgentLedger(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen on both sides of an agent program in one attempt.

    `first_sent_ns` and `first_token_ns` are of its first request to the model, on the
    `time.perf_counter_ns` clock; the time to the first token is between these.
    """

    facts: AgentProgramFacts
    spans: AgentSpans
    turns: list[AgentTurn]
    calls: list[AgentCall]
    first_sent_ns: int | None
    first_token_ns: int | None
    ttft_user_ns: int | None
    """How long a user waits for the first token, from the start of the program."""
    added_messages: int
    recorder_late: bool


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider reported of one attempt, complete or broken off.

    Durations are in nanoseconds and count from the moment the request was sent. `started` is
    false where nothing was sent; then all times are missing and `e2e_ns` is 0.
    """

    text: str = ""
    reasoning_text: str = ""
    native_calls: list[ToolInvocation] = []
    refusal: str = ""
    """The words of a refusal that came instead of an answer."""
    finish_reason: str | None = None
    transcript: list[TranscriptTurn] | None = None
    """The turns of a task, where the provider ran the whole task in one attempt."""
    replay: object = None
    """Provider state that must go back with the next request of the same task. Opaque."""

    started: bool = False
    start_ns: int = 0
    """When the request was sent, on the `time.perf_counter_ns` clock."""
    e2e_ns: int = 0
    ttft_ns: int | None = None
    ttfa_ns: int | None = None
    connect_ns: int | None = None
    piece_times_ns: list[int] = []
    """When each piece of the text arrived, on the clock of `start_ns`."""
    first_share: float | None = None
    """The share of all streamed characters that came with the very first piece."""
    server_ns: dict[str, int] | None = None

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    output_tps: float | None = None

    model_reported: str | None = None
    cost_usd: float | None = None
    cli_overhead_ms: int | None = None
    tools_unseen: str | None = None
    warnings: list[str] = []
    agent: AgentLedger | None = None
    """Where the model was asked inside an agent program: what was seen on both sides of it."""


class AttemptOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a call: the reply, and what the runner knows of how it went."""

    reply: Reply
    failure: CallFailure | None
    """Why there is no answer; None where there is one."""
    started_at_ms: int
    """When it was made, by the wall clock."""
    e2e_ns: int
    """How long it took. Of an attempt that never got to send, how long it took to fail."""
    lag_ns: int | None = None
    """How late this program's own event loop was at worst during the attempt."""

    @property
    def ended_at_ms(self) -> int:
        return self.started_at_ms + round(self.e2e_ns / 1e6)


class CallOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A call with all its attempts. Reply, failure and times are those of the last attempt.

    The turns of a task are joined into one (`runner.record.join_turns`): the first-token times
    are those of the first turn, the text is that of the last, tokens and durations are sums.
    """

    reply: Reply
    failure: CallFailure | None
    attempts: list[Attempt]
    started_at_ms: int
    ended_at_ms: int
    e2e_ns: int
    lag_ns: int | None = None
    transcript: list[TranscriptTurn] | None = None

    @classmethod
    def of_attempt(cls, last: AttemptOutcome, attempts: list[Attempt]) -> CallOutcome:
        """The outcome of a call whose last attempt was `last`; `attempts` are all of them."""
        return cls(
            reply=last.reply,
            failure=last.failure,
            attempts=attempts,
            started_at_ms=last.started_at_ms,
            ended_at_ms=last.ended_at_ms,
            e2e_ns=last.e2e_ns,
            lag_ns=last.lag_ns,
            transcript=last.reply.transcript,
        )

    @classmethod
    def not_sent(cls, failure: CallFailure, now_ms: int) -> CallOutcome:
        """The outcome of a call that was never sent, because of `failure`."""
        return cls(
            reply=Reply(),
            failure=failure,
            attempts=[],
            started_at_ms=now_ms,
            ended_at_ms=now_ms,
            e2e_ns=0,
        )


class CellOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one cell, and the conditions it was asked under."""

    call: CallOutcome
    total_ns: int = 0
    """What the user waited for it in all: attempts, the waits between them, tool calls."""
    streamed: bool = False
    cold_start: bool | None = None
    """Whether the model had to be loaded first; None where that cannot be known."""
    prompt_prefix: str | None = None
    """The line that was put before the prompt to make the request unique."""
    load: Load | None = None
    """The call's place in a capacity run."""
