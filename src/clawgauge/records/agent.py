"""What a record tells of a model that was asked inside an agent program, such as OpenClaw.

Two ledgers are kept of such a cell: what the model said on the wire, and which calls reached the
tools. Everything between the two is the program's doing.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

CallFate: TypeAlias = Literal["run", "altered", "lost", "gained", "withheld"]
"""What became of a call inside the program.

`run`: it reached the tools as the model made it. `altered`: it reached them with other arguments.
`lost`: the model made it, and it never reached them. `gained`: it reached them, and the model had
not made it as a call. `withheld`: clawgauge stopped it, because it names a tool of the program's
own.
"""
EndedBy: TypeAlias = Literal["itself", "turns", "failure", "timeout", "withheld"]
"""Why the program ended: by itself, or because clawgauge ended it after `max_turns` requests, at
the first failure, at the deadline, or before a call of a tool of the program's own."""


class AgentProgramFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The program, and what it put around the prompt.

    `wire` is the wire format it spoke. `prompt_chars` and `prompt_sha256` are of its first request
    without the tools' results: its prompt itself is not kept, because it may tell of the host.
    `tools_left` are tools of its own that it offered beside ours and that cannot do harm.
    `settings_digest` is the same for the same settings of ours. `exit_code` is null where
    clawgauge ended it.
    """

    program: str
    version: str | None
    is_tested_version: bool
    wire: str
    prompt_chars: int | None = None
    prompt_sha256: str | None = None
    tools_left: list[str] = []
    settings_digest: str | None = None
    exit_code: int | None = None
    ended_by: EndedBy = "itself"


class HarnessParts(msgspec.Struct, frozen=True, kw_only=True):
    """Where the program's own time went, in milliseconds.

    From its start to its first request, between a reply and the next request less the tools' time,
    and from the last byte of the last reply to its exit.
    """

    start: int
    between: int
    end: int


class AgentTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the program to the model. Times are milliseconds since the program started.

    `ended` is `whole` for a complete reply, else the failure type, or `client_left` where the
    program did not wait for the reply's end. `kind` is `extra` for a request beyond the task, which
    was not passed on.
    """

    at_ms: int
    sent_ms: int | None = None
    first_byte_ms: int | None = None
    first_token_ms: int | None = None
    end_ms: int | None = None
    status: int | None = None
    ended: str = "whole"
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    calls: int = 0
    kind: Literal["turn", "extra"] = "turn"


class AgentCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call on both sides of the program, and what became of it.

    `made_…` is what the model said, null for a `gained` call; `made_channel` is `native` or
    `text:FORMAT`. `run_…` is what reached the tools, null for one that did not.
    """

    turn: int
    fate: CallFate
    made_name: str | None = None
    made_arguments: Any = None
    made_channel: str | None = None
    made_valid: bool | None = None
    run_name: str | None = None
    run_arguments: Any = None


class MadeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on what the model said, as if every call of its own had reached the tools."""

    objective_pass: bool | None
    violation: str | None
    tool_calls: list[str]
    tool_call_count: int
    tool_use_success: bool
