"""Prompts of so many tokens, by the server's own count, with a code at either end that the answer is to repeat."""

from __future__ import annotations

import hashlib
import random
from functools import lru_cache
from typing import NamedTuple

_EVERYDAY = (
    "the of and to in that is was for on with as it by at from this be are or which have not had but were all their "
    "there been more when who will no out so what up about into than them can only other new some time these two may"
)
_OPENING = "[{code} request id] The first code is {code}.\n"
_ENDING = (
    "\nThe second code is {code}. Begin your answer with the first code and the second code of this text, "
    "then go on with a long story about the sea until you are stopped."
)


class Ruler(NamedTuple):
    """How a server counts: so many tokens around any text, so many characters to a token; else a fair guess."""

    chars_per_token: float = 4.0
    around: float = 0.0
    counted: bool = False

    def chars(self, tokens: float) -> int:
        return max(0, round((tokens - self.around) * self.chars_per_token))

    def tokens(self, chars: int) -> float:
        return self.around + chars / self.chars_per_token


def read_ruler(short: tuple[int, int | None], long: tuple[int, int | None]) -> Ruler:
    """From (characters, tokens counted) of two texts. A count that does not grow with the text is none of it."""
    per_token = (long[0] - short[0]) / max(1, (long[1] or 0) - (short[1] or 0))
    if not short[1] or not long[1] or not 1 <= per_token <= 16:
        return Ruler()
    return Ruler(per_token, short[1] - short[0] / per_token, counted=True)


class Made(NamedTuple):
    """A prompt's text, and the codes at its beginning and its end."""

    text: str
    first: str
    last: str


def make_prompt(n_chars: int, key: str, shared_chars: int = 0) -> Made:
    """A text of so many characters, or as few as its instructions take. Texts of one key begin alike.

    Those of two differ from their first word on, but for what all of them are to share."""
    digest = hashlib.blake2b(key.encode(), digest_size=8).hexdigest()
    first, last = f"K{digest[:8]}", f"Z{digest[8:]}"
    opening, ending = _OPENING.format(code=first), _ENDING.format(code=last)
    room = max(0, n_chars - len(opening) - len(ending))
    shared = _filler(shared_chars)[: min(shared_chars, room)]
    return Made(f"{shared}{opening}{_filler(room)[: room - len(shared)]}{ending}", first, last)


@lru_cache(maxsize=16)
def _filler(at_least: int) -> str:
    """Everyday words in lines, in an order drawn once."""
    draw, words = random.Random(0), _EVERYDAY.split()
    return "\n".join(" ".join(draw.choices(words, k=14)) for _ in range(at_least // 40 + 1))
