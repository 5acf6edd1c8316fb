"""The few fields of a result line that a summary needs.

Owns: a slim, typed view of results.jsonl, decoded straight from bytes; whatever it does not name is skipped without
being built. Refuses: the answer's text. Fields stand in the order they have on disk, because the decoder finds the next
key fastest where it expects it. Every addition to the schema document has a default, so older folders decode too.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from clawgauge.records import Status

# Whatever a damaged line claims, the figure has to fit the 64-bit columns it is kept in.
Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]


class InvocationRow(msgspec.Struct, frozen=True, gc=False):
    """How one tool call came."""

    channel: str = "mention"
    valid: bool = True


class SummaryRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One cell, as far as its group's figures depend on it."""

    provider: str
    model: str
    thinking_level: str | None = None
    prompt_id: str
    availability_status: Status
    started_at_ms: Whole | None = None
    ended_at_ms: Whole | None = None
    e2e_ms: Whole | None = None
    ttft_ms: Whole | None = None
    success: bool = False
    failure_type: str | None = None
    objective_pass: bool | None = None
    input_tokens: Whole | None = None
    output_tokens: Whole | None = None
    tool_use_success: bool = False

    suite: str = ""
    stretch: int = 0
    expected_tools: tuple[str, ...] = ()
    ttfa_ms: Whole | None = None
    output_tps: float | None = None
    cold_start: bool | None = None
    finish_reason: str | None = None
    model_reported: str | None = None
    error: str | None = None
    tool_invocations: tuple[InvocationRow, ...] = ()
    tools_offered: bool = False
    cost_usd: float | None = None
    turns: Whole | None = None
    warnings: tuple[str, ...] = ()
