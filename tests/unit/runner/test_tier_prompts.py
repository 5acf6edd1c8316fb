"""Which prompts the tier rests on."""

from __future__ import annotations

from clawgauge.run_data.schedule import tier_prompts

from .prompts import plain_prompt, tool_prompt


def ids(*prompts: object) -> list[str]:
    return [f"{p.suite}/{p.id}" for p in tier_prompts(prompts)]  # type: ignore[arg-type]  # prompts of this test


def test_prompts_that_offer_tools_are_preferred() -> None:
    """Where one prompt of the plan offers tools, text prompts do not count; else they do."""
    text, native = tool_prompt("T"), tool_prompt("N", offers=True)
    assert ids(text, native, plain_prompt("P")) == ["s/N"]
    assert ids(text, plain_prompt("P")) == ["s/T"]


def test_restraint_and_tasks_never_count() -> None:
    """A prompt that wants no call, one that wants a question, and a task stand beside the tier."""
    apart = [
        tool_prompt("R", offers=True, validator={"type": "tool_call", "no_call": True}),
        tool_prompt("A", offers=True, validator={"type": "tool_call", "ask": True}),
        tool_prompt("W", offers=True, validator={"type": "world_state", "expect": []}, world={}),
    ]
    assert ids(*apart, tool_prompt("N", offers=True)) == ["s/N"]
    assert ids(*apart) == []
