"""Everything a record says about the quality of one answer, decided in one place.

Owns: putting detection, validators and bounds together into the fields of a successful call. Refuses: calls that
failed; they have no answer to judge.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clawgauge.checks.answer import Answer, Verdict
from clawgauge.checks.detection import detect_tools
from clawgauge.checks.tool_calls import counted_calls, tool_calls_of, tool_channel_of, tool_use_success
from clawgauge.checks.validators import judge
from clawgauge.records import Prompt, ToolInvocation
from clawgauge.world.arguments import ArgumentsBudget, encoded_size

MAX_PARSED_OUTPUT_BYTES = 65_536
MAX_INVOCATIONS = 1_000


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The judged fields of a record, under their names in the record."""

    objective_pass: bool | None
    violation: str | None
    parsed_output: dict[str, Any] | None
    parsed_output_dropped: bool
    tool_calls: list[str]
    tool_call_count: int
    tool_use_success: bool
    tool_invocations: list[ToolInvocation]
    tool_channel: str


def judge_answer(prompt: Prompt, text: str, native_calls: list[ToolInvocation]) -> Judgement:
    """Judge an answer that came back, from its whole text and the calls made natively. Never raises on any answer.

    `tool_invocations` holds the native calls first, then those in the text, also where they do not count. What a
    hostile answer could swell is bounded: the first 1,000 invocations are looked at; arguments of more than 64 KB
    encoded, or past 256 KB in all, become null, and so does a `parsed_output` of more than 64 KB, with its flag set.
    """
    expected = [name.lower() for name in prompt.expected_tools]
    offered = bool(prompt.tools)
    native = native_calls[:MAX_INVOCATIONS]
    invocations = [*native, *detect_tools(text, expected, limit=MAX_INVOCATIONS - len(native))]
    answer = Answer(text, invocations, expected, offered, prompt.tools, prompt.world, prompt.max_turns)
    return _judgement(judge(prompt.validator, answer), expected, invocations, tools_offered=offered)


def not_judged(prompt: Prompt, native_calls: list[ToolInvocation], violation: str) -> Judgement:
    """The judgement of an answer nobody could judge: false, where the validator gives a verdict at all.

    Its text is not searched for calls; what came as a call is known without judging, and kept.
    """
    expected = [name.lower() for name in prompt.expected_tools]
    verdict = Verdict(None) if prompt.validator["type"] == "noop" else Verdict(False, violation)
    return _judgement(verdict, expected, native_calls[:MAX_INVOCATIONS], tools_offered=bool(prompt.tools))


def _judgement(
    verdict: Verdict, expected: list[str], invocations: list[ToolInvocation], *, tools_offered: bool
) -> Judgement:
    names = tool_calls_of(counted_calls(invocations, tools_offered=tools_offered))
    size = encoded_size(verdict.parsed_output)
    dropped = size is None or size > MAX_PARSED_OUTPUT_BYTES
    return Judgement(
        objective_pass=verdict.objective_pass,
        violation=verdict.violation,
        parsed_output=None if dropped else verdict.parsed_output,
        parsed_output_dropped=dropped,
        tool_calls=names,
        tool_call_count=len(names),
        tool_use_success=tool_use_success(expected, invocations, tools_offered=tools_offered),
        tool_invocations=_bounded(invocations),
        tool_channel=tool_channel_of(invocations),
    )


def _bounded(invocations: list[ToolInvocation]) -> list[ToolInvocation]:
    """The invocations with arguments too large to keep left out: the same that a simulated world does not act on."""
    budget = ArgumentsBudget()
    return [
        call if budget.admit(call.arguments) else msgspec.structs.replace(call, arguments=None) for call in invocations
    ]
