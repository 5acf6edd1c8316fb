"""What is handed to an agent is bounded and masked, whatever is in the files it comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clawgauge.words import cut_text

MAX_ANSWER_BYTES = 64 * 1024
"""An answer in JSON is no larger."""
_MAX_ITEMS = 100
_MAX_DEPTH = 12
_CUT = "…"


def bound_value(value: Any, mask: Callable[[str], str], max_chars: int, depth: int = 0) -> Any:
    """JSON with its texts masked and cut to `max_chars`, and with no list that goes on for ever.

    Texts are masked before they are cut: a piece of a key is a piece of a key.
    """
    if isinstance(value, str):
        return cut_text(mask(value), max_chars)
    if depth >= _MAX_DEPTH and isinstance(value, dict | list | tuple):
        return _CUT
    if isinstance(value, dict):
        bounded = {}
        for key, inner in list(value.items())[:_MAX_ITEMS]:
            name = cut_text(mask(str(key)), max_chars)
            bounded[name] = bound_value(inner, mask, max_chars, depth + 1)
        return bounded
    if isinstance(value, list | tuple):
        items = [bound_value(item, mask, max_chars, depth + 1) for item in value[:_MAX_ITEMS]]
        if len(value) > _MAX_ITEMS:
            items.append(f"{_CUT} and {len(value) - _MAX_ITEMS} more")
        return items
    return value
