"""The names of the channels a tool call can come by, as results.jsonl spells them.

Owns: which channels are calls and which a mere mention, and the one word for a whole answer. Refuses: finding calls;
the records say which there were.
"""

from __future__ import annotations

from clawgauge.summary.rows import SummaryRow

NATIVE = "native"
TEXT = "text"
MALFORMED = "malformed"
MENTION = "mention"
NONE = "none"
_TEXT_PREFIX = "text:"


def channel_kind(channel: str) -> str:
    """`text:<format>` is text whatever the format; a channel of another name is a mention at most."""
    if channel in (NATIVE, MALFORMED, NONE):
        return channel
    return TEXT if channel.startswith(TEXT) else MENTION


def text_format(channel: str) -> str:
    """The format a call written as text came in."""
    return channel.removeprefix(_TEXT_PREFIX)


def is_call(kind: str) -> bool:
    """Whether an answer whose calls came this way meant to act; a malformed call is a call."""
    return kind in (NATIVE, TEXT, MALFORMED)


def answer_channel(row: SummaryRow) -> str:
    """How an answer's calls came, the best first; worked out from its calls where the record does not say."""
    if row.tool_channel is not None:
        return channel_kind(row.tool_channel)
    kinds = {channel_kind(call.channel) if call.valid else MALFORMED for call in row.tool_invocations}
    return next((kind for kind in (NATIVE, TEXT, MALFORMED, MENTION) if kind in kinds), NONE)
