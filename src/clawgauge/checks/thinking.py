"""Where an answer's inline thinking ends and the answer begins.

Owns: the reading of `<think>` tags. A closed pair is thinking, so is an opened one that never closes, and so is
everything before a `</think>` that nothing opened (templates often open the tag in the prompt). Refuses: reasoning that
comes in a channel of its own; that never reaches the text.
"""

from __future__ import annotations

import re

_TAG = re.compile(r"<(/?)think>", re.IGNORECASE)
_VISIBLE = re.compile(r"\S")


def _answer_spans(text: str) -> list[tuple[int, int]]:
    """The stretches of `text` that are answer, in order."""
    if "<" not in text:
        return [(0, len(text))]
    spans: list[tuple[int, int]] = []
    start = 0
    inside = False
    for tag in _TAG.finditer(text):
        closes = bool(tag[1])
        if closes:
            if not inside:
                spans.clear()
            inside = False
            start = tag.end()
        elif not inside:
            spans.append((start, tag.start()))
            inside = True
    if not inside:
        spans.append((start, len(text)))
    return spans


def answer_pieces(text: str) -> list[str]:
    """The answer as the pieces its thinking cuts it into."""
    return [text[start:end] for start, end in _answer_spans(text)]


def split_thinking(text: str) -> str:
    """The answer alone: `text` with its thinking removed."""
    return "".join(answer_pieces(text))


def answer_start(text: str) -> int | None:
    """The offset in `text` of the answer's first visible character, or None where there is only thinking or space."""
    for start, end in _answer_spans(text):
        visible = _VISIBLE.search(text, start, end)
        if visible:
            return visible.start()
    return None
