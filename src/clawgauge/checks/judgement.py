"""Everything a record says of one answer: `judge_answer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from msgspec.structs import replace

from clawgauge.checks.answer import Answer, Verdict, channel_of, tool_calls_of
from clawgauge.checks.validators import judge
from clawgauge.records import Prompt, ToolInvocation
from clawgauge.world.effects import ArgumentsBudget, encoded_size

# Goes up whenever a verdict on the same answer may change, so that old verdicts can be told apart
# and rescored.
VALIDATORS_VERSION = "clawgauge.checks/8"
MAX_PARSED_OUTPUT_BYTES = 65_536
MAX_INVOCATIONS = 1_000
# A fifth of a second for the worst text there is, and as much as a record keeps of any.
LONG_CHARS = 65_536

# What judges any answer, and is not loaded before it is needed. Whatever else a validator needs was
# loaded when its suite was checked, or is needed only in the process where tasks are judged.
_LATE_MODULES = (
    "clawgauge.checks.text",
    "clawgauge.checks.tool_call",
    "clawgauge.checks.speech",
    "clawgauge.checks.detection",
)


def load_judges() -> None:
    """Before the first call: the loop that judges an answer also stamps bytes."""
    for module in _LATE_MODULES:
        import_module(module)
    import_module("clawgauge.checks.detection.shell").load_lexicon()


def needs_shell(prompt: Prompt) -> bool:
    """Whether judging an answer runs commands on the simulated machine."""
    return prompt.world is not None or prompt.validator.get("type") == "effect"


def takes_long(prompt: Prompt, text: str, calls: Sequence[ToolInvocation]) -> bool:
    """Whether an answer may take long to judge.

    That is one that the simulated shell has to run, one that a library judges which only a process
    of its own can bound, and one of many characters.
    """
    may_run_calls = needs_shell(prompt) or "effect" in prompt.validator
    if calls and may_run_calls:
        return True
    if text and (prompt.validator["type"] == "effect" or _has_schema(prompt.validator)):
        return True
    return _is_larger(text, calls, LONG_CHARS)


def _has_schema(validator: Mapping[str, Any]) -> bool:
    """Whether the text is judged by a JSON Schema, perhaps beside other things."""
    parts = [validator]
    if validator["type"] == "all_of":
        parts = validator["validators"]
    elif validator["type"] in ("tool_call", "world_state") and "answer" in validator:
        parts = [validator["answer"]]
    return any(part["type"] == "json_schema" for part in parts)


def _is_larger(text: str, calls: Sequence[ToolInvocation], max_chars: int) -> bool:
    """Whether a text and the arguments of calls have more characters, as JSON, about.

    Given up as soon as they do not fit, however large they are.
    """
    room = max_chars - len(text)
    parts = [call.arguments for call in calls]
    while parts and room >= 0:
        part = parts.pop()
        room -= len(part) if isinstance(part, str) else 1
        if isinstance(part, dict):
            room -= sum(map(len, part))
            parts.extend(part.values())
        elif isinstance(part, list):
            parts.extend(part)
    return room < 0


class Judgement(Verdict, frozen=True, kw_only=True):
    """A verdict, and what is known of the calls."""

    parsed_output_dropped: bool
    tool_calls: list[str]
    tool_call_count: int
    tool_use_success: bool
    tool_invocations: list[ToolInvocation]
    tool_channel: str


def judge_answer(prompt: Prompt, text: str, native_calls: list[ToolInvocation]) -> Judgement:
    """Judge an answer from its whole text and the calls made natively. Never raises on any answer.

    What a hostile answer could swell is bounded: the number of invocations, their arguments, and
    `parsed_output`.
    """
    # Looking for calls in a text takes a while to load; see `load_judges`.
    from clawgauge.checks.detection import detect_tools

    expected_tools = [name.lower() for name in prompt.expected_tools]
    native = native_calls[:MAX_INVOCATIONS]
    detected = detect_tools(text, expected_tools, limit=MAX_INVOCATIONS - len(native))
    invocations: list[ToolInvocation] = [*native, *detected]
    answer = Answer(
        text=text,
        tool_invocations=invocations,
        expected_tools=expected_tools,
        tools_offered=bool(prompt.tools),
        tools=prompt.tools,
        world=prompt.world,
        max_turns=prompt.max_turns,
    )
    return _make_judgement(judge(prompt.validator, answer), prompt, invocations)


def unjudged(prompt: Prompt, native_calls: list[ToolInvocation]) -> Judgement:
    """No verdict: what is known of an answer without its check, the calls that were made
    natively."""
    return _make_judgement(Verdict(None), prompt, native_calls[:MAX_INVOCATIONS])


def not_judged(prompt: Prompt, native_calls: list[ToolInvocation], violation: str) -> Judgement:
    """The judgement of an answer nobody could judge.

    It is false, where the validator gives a verdict at all.
    """
    has_verdict = prompt.validator["type"] != "noop"
    verdict = Verdict(False, violation) if has_verdict else Verdict(None)
    return _make_judgement(verdict, prompt, native_calls[:MAX_INVOCATIONS])


def _make_judgement(
    verdict: Verdict, prompt: Prompt, invocations: list[ToolInvocation]
) -> Judgement:
    names = tool_calls_of(invocations, native=bool(prompt.tools))
    parsed_output = verdict.parsed_output
    size = encoded_size(parsed_output)
    is_dropped = size is None or size > MAX_PARSED_OUTPUT_BYTES
    return Judgement(
        objective_pass=verdict.objective_pass,
        violation=verdict.violation,
        parsed_output=None if is_dropped else parsed_output,
        parsed_output_dropped=is_dropped,
        tool_calls=names,
        tool_call_count=len(names),
        tool_use_success=any(name.lower() in names for name in prompt.expected_tools),
        tool_invocations=_without_large_arguments(invocations),
        tool_channel=channel_of(invocations),
    )


def _without_large_arguments(invocations: list[ToolInvocation]) -> list[ToolInvocation]:
    """The calls, without arguments too large to keep: those a simulated world does not act on."""
    budget = ArgumentsBudget()
    kept = []
    for call in invocations:
        if not budget.admit(call.arguments):
            call = replace(call, arguments=None)
        kept.append(call)
    return kept
