"""A call as the messages of chat completions: system, prompt, and the turns of a task since then."""

from __future__ import annotations

from typing import Any

from clawgauge.providers.base import Call, Turn
from clawgauge.providers.past_calls import PastCall, past_turns


def chat_messages(call: Call) -> list[dict[str, Any]]:
    """What the model is to read, in order."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": call.system}] if call.system else []
    messages.append({"role": "user", "content": call.prompt})
    for turn, calls in past_turns(call) if call.history else ():
        messages.append(_assistant_message(turn, calls))
        messages += [{"role": "tool", "tool_call_id": made.id, "content": made.answer} for made in calls]
    return messages


def _assistant_message(turn: Turn, calls: list[PastCall]) -> dict[str, Any]:
    # Empty text rather than null: some chat templates add to it without looking.
    message: dict[str, Any] = {"role": "assistant", "content": turn.text}
    if turn.reasoning:
        # Servers that show reasoning may refuse to go on after a call without it; the others are never sent any.
        message["reasoning_content"] = turn.reasoning
    message["tool_calls"] = [
        {"id": made.id, "type": "function", "function": {"name": made.name, "arguments": made.arguments}}
        for made in calls
    ]
    return message
