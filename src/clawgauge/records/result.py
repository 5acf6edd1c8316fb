"""One line of results.jsonl, and one line of events.jsonl."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from clawgauge.errors import Status
from clawgauge.records.agent import (
    AgentCall,
    AgentProgramFacts,
    AgentTurn,
    HarnessParts,
    MadeVerdict,
)
from clawgauge.records.run import PromptKey, Target

STATUSES: tuple[Status, ...] = ("ok", "skipped_unavailable", "auth_error", "rate_limited", "error")

# Far more than any call reads; a million calls that claim as much still add up to what 64 bits
# hold.
MAX_TOKENS = 10**10
TOOLS_DROPPED = "tools_dropped:"
"""How the warning begins that a model was sent tools and did not see them."""
# With one of these a call ends before anything of it could be sent to a server.
NOTHING_SENT = frozenset(
    {
        "api_key_missing",
        "cli_missing",
        "cli_not_executable",
        "client_limit",
        "invalid_prompt",
        "runtime_missing",
    }
)
TOO_FEW_TOKENS: Final = "too_few_tokens"
"""In `Result.tools_unseen`: the server counted too few tokens to have shown the tools."""
NO_TEMPLATE: Final = "no_template"
"""In `Result.tools_unseen`: the model's chat template has no place for tools."""
TOOLS_REFUSED = "tools_refused"
"""The failure type of a call whose server says that the model takes no tools."""
CHECK_FAILED = "check_failed"
"""Why an answer has no verdict, as `Result.not_judged` says it: the check itself broke."""
TPS_RULE = 2
"""How `output_tps` is worked out today.

Rule 1, without a mark in the record, counted the tokens of the first piece but not their time.
Rates of two rules are never set side by side.
"""
LEAST_LATER_TOKENS = 1 - 1e-6
"""With fewer tokens after the first piece there is no rate.

Dividing by next to nothing tells nothing.
"""
SERVER_PARTS: Final = ("load", "queue", "prefill", "decode", "wire")


def as_count(value: Any, below: int = 2**53) -> int | None:
    """A number that somebody else reports, or None.

    It counts where it is whole, not negative, and the same to every reader of JSON.
    """
    return value if type(value) is int and 0 <= value < below else None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try at a cell. The last one is the one the record's own timings describe."""

    status: Status
    failure_type: str | None
    e2e_ms: int
    waited_ms: int = 0
    retry_after_s: float | None = None
    http_status: int | None = None
    error: str | None = None


def was_sent(failure_types: Iterable[str | None]) -> bool:
    """Whether one of the attempts that ended so got as far as a request.

    Only a cell of which something was sent tells of its server. None stands for an answer.
    """
    return any(failure_type not in NOTHING_SENT for failure_type in failure_types)


class TimingsUs(msgspec.Struct, frozen=True, kw_only=True):
    """The final attempt in microseconds. `connect` is null when a connection was reused.

    `lag` is the most that this program's own event loop was seen to be late while the call was
    under way: how late its stamps may be. Hold-ups under 5 ms may go unseen. Null where nothing was
    sent or nobody watched.
    """

    e2e: int
    ttft: int | None = None
    ttfa: int | None = None
    connect: int | None = None
    lag: int | None = None


class ToolInvocation(msgspec.Struct, frozen=True, kw_only=True):
    """One detected tool call.

    `channel` is `native`, `text:<format>` or `mention`; `valid` is false for a malformed call.
    `turn` counts the model's turns of a task from 1; null where there was one turn.
    """

    name: str
    arguments: Any = None
    channel: str = "mention"
    valid: bool = True
    turn: int | None = None


class TranscriptTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a task.

    What the model said, what it called, and what the simulated machine answered to each call.
    """

    text: str = ""
    calls: list[ToolInvocation] = []
    answers: list[str] = []
    output_tokens: int | None = None
    e2e_ms: int | None = None


class Load(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call's place in a capacity run.

    It was due at `due_us` since its stretch began, and sent `queued_us` later. `gaps_us` are the
    times between the pieces of its answer, `first_share` the share of it that came with the first.
    `visit` says which visit of its number of clients it was made in, counted from 1; null where
    there were none.
    """

    client: int
    due_us: int
    queued_us: int
    gaps_us: list[int] = []
    first_share: float | None = None
    visit: int | None = None


class CellRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What every view of a result line reads, in these types.

    A line that does not fit them is no record to anyone. Of all other fields a view takes what fits
    its own types; what does not is unknown to it.
    """

    record_type: Literal["result"] = "result"
    provider: str
    model: str
    thinking_level: str | None = None
    prompt_id: str
    availability_status: Status
    success: bool
    failure_type: str | None = None
    objective_pass: bool | None = None
    tool_use_success: bool = False
    suite: str = ""
    repeat: int = 0
    draw: int = 0


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One cell's outcome.

    The first block of fields is the schema document's, in its order; the second only adds.

    `tps_rule` is the rule that `output_tps` was worked out by (`TPS_RULE`); null is rule 1, or that
    there is none. `tools_unseen` is the sign that tools on offer never reached the model: the
    server counted too few tokens for them (`too_few_tokens`), or its chat template has no place for
    them (`no_template`); null where a native call was made. `not_judged` is `check_failed` where
    the check of an answer broke: there is no verdict, `error` says what went wrong, and `rescore`
    may judge it later. `draw` is the drawing of the prompt that was asked: 0 is the text as
    written, others have other values and stand in prompts.jsonl. `server_us` is where the time
    went, where a server tells: `SERVER_PARTS`, and of these `wire` is all it cannot see. `asked` is
    false for a cell that was recorded without having been sent: it tells nothing of the model or
    its server. Records of earlier versions do not have it; `was_asked` works it out for them.

    The fields from `agent` on are those of a model that was asked inside an agent program, and null
    or empty elsewhere. `e2e_ms` is then `model_ms` + `tools_ms` + `harness_ms`; `ttft_ms` is the
    model's, by the same clock as that of a bare model, and `ttft_user_ms` has the program's start
    in it. `tool_invocations` are the calls that reached the tools; `agent_calls` has each call on
    both sides of the program, and `calls_made` counts those of the model (written ones among
    them), `calls_run` those that reached the tools, `calls_lost` those that never did. `made` is
    the verdict on what the model said, as if its own calls had reached the tools. `recorder_late`
    says that a piece was passed on more than 5 ms after it had come.
    """

    record_type: Literal["result"] = "result"
    run_id: str
    provider: str
    model: str
    thinking_level: str | None
    prompt_id: str
    prompt_name: str
    availability_status: Status
    started_at_ms: int
    ended_at_ms: int
    e2e_ms: int
    ttft_ms: int | None
    success: bool
    failure_type: str | None
    objective_pass: bool | None
    violation: str | None
    input_tokens: int | None
    output_tokens: int | None
    raw_output: str
    parsed_output: dict[str, Any] | None
    tool_calls: list[str]
    tool_call_count: int
    tool_use_success: bool

    suite: str
    repeat: int
    stretch: int = 0
    expected_tools: list[str]
    ttfa_ms: int | None = None
    timings_us: TimingsUs
    output_tps: float | None = None
    total_ms: int
    attempts: list[Attempt]
    streamed: bool = False
    cold_start: bool | None = None
    finish_reason: str | None = None
    model_reported: str | None = None
    error: str | None = None
    raw_output_bytes: int = 0
    raw_output_truncated: bool = False
    text_repaired: bool = False
    parsed_output_dropped: bool = False
    reasoning_text: str | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    tool_invocations: list[ToolInvocation] = []
    tools_offered: bool = False
    tool_channel: str | None = None
    judged_by: str | None = None
    tokens_source: str | None = None
    cost_usd: float | None = None
    cost_source: str | None = None
    cli_overhead_ms: int | None = None
    prompt_prefix: str | None = None
    turns: int | None = None
    world_seed: int | None = None
    transcript: list[TranscriptTurn] | None = None
    transcript_cut: bool = False
    warnings: list[str] = []
    engine: str | None = None
    server_us: dict[str, int] | None = None
    queued_ms: int | None = None
    load: Load | None = None
    node: str | None = None
    asked: bool | None = None
    tps_rule: int | None = None
    tools_unseen: str | None = None
    not_judged: str | None = None
    draw: int = 0
    agent: AgentProgramFacts | None = None
    model_ms: int | None = None
    tools_ms: int | None = None
    harness_ms: int | None = None
    harness_parts: HarnessParts | None = None
    ttft_user_ms: int | None = None
    agent_turns: list[AgentTurn] = []
    agent_calls: list[AgentCall] = []
    calls_made: int | None = None
    calls_run: int | None = None
    calls_lost: int | None = None
    calls_gained: int | None = None
    calls_altered: int | None = None
    added_messages: int | None = None
    recorder_late: bool | None = None
    made: MadeVerdict | None = None

    @property
    def was_asked(self) -> bool:
        """Whether anything was sent.

        An answer is proof of that, whatever else a record says. A record of an earlier version does
        not say it: there its attempts tell.
        """
        if self.availability_status == "ok":
            return True
        if self.asked is not None:
            return self.asked
        return was_sent(attempt.failure_type for attempt in self.attempts)

    @property
    def target(self) -> Target:
        return Target(self.provider, self.model, self.thinking_level)

    @property
    def prompt(self) -> PromptKey:
        return self.suite, self.prompt_id

    @property
    def text(self) -> tuple[str, str, int]:
        """Which text was asked: suite, prompt id, drawing."""
        return self.suite, self.prompt_id, self.draw


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened around the calls.

    A warm-up, a retry, a skip, an interruption, a stretch's start or end.
    """

    event: str
    at_ms: int
    target: str | None = None
    detail: dict[str, Any] = {}
