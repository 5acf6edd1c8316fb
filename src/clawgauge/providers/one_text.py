"""A call for a program that takes nothing but a text: the conversation is written out."""

from __future__ import annotations

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call

_AS_TEXT = (
    "Below is a conversation so far, and what its tools answered. Go on with it: write the "
    "assistant's next message, and nothing else.\n\n"
)


def as_one_text(call: Call) -> str:
    """The prompt, with the messages before it written out: the CLI takes nothing but a text."""
    if not call.messages:
        return call.prompt
    parts = [str(message) for message in call.messages]
    if call.prompt:
        parts.append(f"[user]\n{call.prompt}")
    return _AS_TEXT + "\n\n".join(parts)


def refuse_unsendable(call: Call) -> None:
    """Raise `CallFailure` for text that no process can be given: a NUL, half a surrogate pair."""
    texts = {
        "prompt": as_one_text(call),
        "system prompt": call.system or "",
        "model name": call.model,
    }
    for what, text in texts.items():
        if "\0" in text:
            message = f"the {what} contains a NUL character, which cannot be sent"
            raise CallFailure("error", "invalid_prompt", message)
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as fault:
            where = f"at character {fault.start}"
            message = f"the {what} is not valid Unicode {where}, and cannot be sent"
            raise CallFailure("error", "invalid_prompt", message) from fault
