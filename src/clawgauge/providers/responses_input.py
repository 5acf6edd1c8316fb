"""A call as the input, tools and tool choice of the Responses protocol.

The conversation is sent whole each time: nothing is stored on the server, so there is nothing to refer back to.
"""

from __future__ import annotations

from typing import Any

from clawgauge.providers.base import Call
from clawgauge.providers.past_calls import past_turns


def responses_input(call: Call) -> str | list[dict[str, Any]]:
    """The prompt alone, or the prompt and the items of a task's turns since then."""
    if not call.history:
        return call.prompt
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": call.prompt}]
    for turn, calls in past_turns(call):
        if turn.text:
            said = [{"type": "output_text", "text": turn.text, "annotations": []}]
            items.append({"type": "message", "role": "assistant", "status": "completed", "content": said})
        items += [
            {"type": "function_call", "call_id": made.id, "name": made.name, "arguments": made.arguments}
            for made in calls
        ]
        items += [{"type": "function_call_output", "call_id": made.id, "output": made.answer} for made in calls]
    return items


def flat_tools(call: Call) -> list[Any]:
    """The offered tools. A chat definition nests a function under `function`; here its fields stand beside `type`.

    `strict` is off unless a definition asks for it, as in chat: OpenAI's default here makes every argument required.
    """
    flat = [_flat(tool) for tool in call.tools]
    return [{"strict": False, **tool} if isinstance(tool, dict) else tool for tool in flat]


def flat_tool_choice(call: Call) -> Any:
    """`auto`, `none` and `required` are the same words in both protocols; a named function is flat here."""
    return _flat(call.tool_choice)


def _flat(tool: Any) -> Any:
    if isinstance(tool, dict) and isinstance(tool.get("function"), dict):
        return {"type": "function", **tool["function"]}
    return tool
