"""Which of the calls seen in an answer count, and what they amount to.

Owns: the rule of channels. A prompt that offers tools is judged on the calls made with them, natively; a prompt that
offers none is judged on the calls written in the text. What is no JSON object is a malformed call, and so is one that
names an argument twice: which of the two was meant cannot be known. Refuses: finding calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clawgauge.records import ToolInvocation

NATIVE = "native"
TEXT_PREFIX = "text:"
MALFORMED = "malformed"
MENTION = "mention"
NONE = "none"


def tool_calls_of(invocations: Iterable[ToolInvocation]) -> list[str]:
    """The names of the valid calls: lower case, first-seen order, no repeats."""
    return list(dict.fromkeys(call.name.lower() for call in invocations if call.valid))


def counted_calls(invocations: Iterable[ToolInvocation], *, tools_offered: bool) -> list[ToolInvocation]:
    """The calls on the channel the prompt is judged on."""
    return [call for call in invocations if (call.channel == NATIVE) == tools_offered]


def tool_use_success(expected: Sequence[str], invocations: Iterable[ToolInvocation], *, tools_offered: bool) -> bool:
    """Whether an expected tool was validly called on the channel that counts; false where none is expected."""
    if not expected:
        return False
    called = set(tool_calls_of(counted_calls(invocations, tools_offered=tools_offered)))
    return any(name.lower() in called for name in expected)


def tool_channel_of(invocations: Sequence[ToolInvocation]) -> str:
    """How an answer's calls came, the best way first: `native`, `text:<format>`, `malformed`, `mention`, `none`.

    The format is that of the first valid call written as text.
    """
    valid = [call.channel for call in invocations if call.valid]
    if NATIVE in valid:
        return NATIVE
    written = next((channel for channel in valid if channel.startswith(TEXT_PREFIX)), None)
    if written is not None:
        return written
    if len(valid) < len(invocations):
        return MALFORMED
    return MENTION if valid else NONE
