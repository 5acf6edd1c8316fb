"""Thinking between marks other than `<think>`, as families with marks of their own write it.

Owns: the marks. A message that opens with one starts with thinking, which is no answer, so nothing in it is a call;
thinking that is never closed runs to the end. Refuses: `<think>`, which is gone before, and marks further on in the
text, where they may be a word about them.
"""

from __future__ import annotations

from clawgauge.checks.detection.lazy_pattern import lazy_pattern

_OPENING = lazy_pattern(
    r"\s*+(?P<mark><\|START_THINKING\|>|<\|open\|>think<\|sep\|>|<\|inner_prefix\|>|<seed:think>|\[THINK\])"
)
_CLOSING_OF = {
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|open|>think<|sep|>": "<|close|>think<|sep|>",
    "<|inner_prefix|>": "<|inner_suffix|>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
}


def end_of_thinking(text: str) -> int:
    """Where the answer begins; 0 for a text that does not open with thinking."""
    opening = _OPENING.match(text)
    if opening is None:
        return 0
    closing = _CLOSING_OF[opening["mark"]]
    place = text.find(closing, opening.end())
    return place + len(closing) if place >= 0 else len(text)
