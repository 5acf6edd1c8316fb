"""Prompts and results for tests of what is asked next."""

from __future__ import annotations

from typing import Any

from clawgauge.records import Attempt, Prompt, Result, Target, TimingsUs

TARGET = Target("fake", "model")


def tool_prompt(prompt_id: str, *, suite: str = "s", offers: bool = False, **fields: Any) -> Prompt:
    """A prompt that expects a tool; with `offers`, one that offers it natively."""
    if offers:
        fields.setdefault("tools", [{"type": "function", "function": {"name": "free"}}])
    fields.setdefault("validator", {"type": "tool_invocation", "expected_tools": ["free"]})
    return Prompt(
        id=prompt_id, name=prompt_id, prompt="?", suite=suite, expected_tools=["free"], **fields
    )


def plain_prompt(prompt_id: str, *, suite: str = "s") -> Prompt:
    return Prompt(id=prompt_id, name=prompt_id, prompt="?", suite=suite, validator={"type": "noop"})


def result_of(
    prompt: Prompt, *, passed: bool = True, status: Any = "ok", asked: bool = True
) -> Result:
    """What came back, as far as a rule that ends the asking looks at it."""
    attempt = Attempt(status=status, failure_type=None, e2e_ms=1)
    return Result(
        run_id="r", provider="fake", model="model", thinking_level=None, prompt_id=prompt.id, prompt_name=prompt.name,
        availability_status=status, started_at_ms=0, ended_at_ms=0, e2e_ms=1, ttft_ms=None, success=status == "ok",
        failure_type=None, objective_pass=None, violation=None, input_tokens=None, output_tokens=None, raw_output="",
        parsed_output=None, tool_calls=[], tool_call_count=0, tool_use_success=passed and status == "ok",
        suite=prompt.suite, repeat=0, expected_tools=prompt.expected_tools, timings_us=TimingsUs(e2e=1), total_ms=1,
        attempts=[attempt] if asked else [],
    )  # fmt: skip
