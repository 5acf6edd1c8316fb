"""What the record of a cell tells of the agent program that its model was asked inside."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from clawgauge.checks.answer import NATIVE
from clawgauge.outcomes import AgentLedger
from clawgauge.records import Prompt, Result, ToolInvocation
from clawgauge.records.agent import AgentCall, HarnessParts, MadeVerdict
from clawgauge.runner.judging import CheckFailed, JudgeAnswer


def with_agent(result: Result, ledger: AgentLedger, made: MadeVerdict | None) -> Result:
    """The record with what was seen on both sides of the program.

    Model, tools and harness add up to `e2e_ms`: the harness has what rounding leaves.
    """
    spans = ledger.spans
    model_ms = round(spans.model_ns / 1e6)
    tools_ms = round(spans.tools_ns / 1e6)
    harness_ms = max(0, result.e2e_ms - model_ms - tools_ms)
    start_ms = min(harness_ms, round(spans.start_ns / 1e6))
    end_ms = min(harness_ms - start_ms, round(spans.end_ns / 1e6))
    ttft_user_ms = None
    if ledger.ttft_user_ns is not None:
        ttft_user_ms = round(ledger.ttft_user_ns / 1e6)
    return replace(
        result,
        agent=ledger.facts,
        model_ms=model_ms,
        tools_ms=tools_ms,
        harness_ms=harness_ms,
        harness_parts=HarnessParts(
            start=start_ms, between=harness_ms - start_ms - end_ms, end=end_ms
        ),
        cli_overhead_ms=harness_ms,
        ttft_user_ms=ttft_user_ms,
        agent_turns=ledger.turns,
        agent_calls=ledger.calls,
        calls_made=sum(call.made_name is not None for call in ledger.calls),
        calls_run=sum(call.run_name is not None for call in ledger.calls),
        calls_lost=_count(ledger.calls, "lost", "withheld"),
        calls_gained=_count(ledger.calls, "gained"),
        calls_altered=_count(ledger.calls, "altered"),
        added_messages=ledger.added_messages,
        recorder_late=ledger.recorder_late,
        made=made,
    )


def _count(calls: Sequence[AgentCall], *fates: str) -> int:
    return sum(call.fate in fates for call in calls)


def judge_made_calls(
    judge: JudgeAnswer, prompt: Prompt, text: str, calls: Sequence[AgentCall]
) -> MadeVerdict | None:
    """The verdict on what the model said, its calls taken as made; None where its check breaks."""
    try:
        judgement = judge(prompt, text, made_invocations(calls, is_task=prompt.world is not None))
    except CheckFailed:
        return None
    return MadeVerdict(
        objective_pass=judgement.objective_pass,
        violation=judgement.violation,
        tool_calls=judgement.tool_calls,
        tool_call_count=judgement.tool_call_count,
        tool_use_success=judgement.tool_use_success,
    )


def made_invocations(calls: Sequence[AgentCall], *, is_task: bool) -> list[ToolInvocation]:
    """The native calls that the model made, as if it had been asked without the program."""
    made = []
    for call in calls:
        if call.made_channel != NATIVE:
            continue
        made.append(
            ToolInvocation(
                name=(call.made_name or "").lower(),
                arguments=call.made_arguments,
                channel=NATIVE,
                valid=bool(call.made_valid) and bool(call.made_name),
                turn=call.turn if is_task else None,
            )
        )
    return made
