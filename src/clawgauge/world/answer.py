"""What a tool of the simulated world says back.

Owns: the answer a model is shown and its bound. Refuses: knowing which tool spoke.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_ANSWER_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The text a model is shown after a call, and whether the call failed."""

    text: str
    is_error: bool = False


def bounded_answer(text: str, *, is_error: bool = False) -> ToolAnswer:
    """An answer of at most 16 KB: of a longer one the head and the tail are kept, and the cut is said."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= MAX_ANSWER_BYTES:
        return ToolAnswer(encoded.decode(), is_error)
    notice = f"\n[… {len(encoded)} bytes in all; the middle is left out …]\n"
    half = (MAX_ANSWER_BYTES - len(notice.encode())) // 2
    head = encoded[:half].decode("utf-8", "ignore")
    tail = encoded[-half:].decode("utf-8", "ignore")
    return ToolAnswer(f"{head}{notice}{tail}", is_error)
