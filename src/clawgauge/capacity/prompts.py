"""Prompts of so many tokens by the server's own count, with a code at either end.

The model is asked to repeat both codes: an answer without the first tells that the server cut the
beginning of its prompt off.
"""

from __future__ import annotations

import hashlib
import random
from functools import lru_cache
from typing import NamedTuple

_EVERYDAY_ENGLISH = (
    "the of and to in that is was for on with as it by at from this be are or which have not had "
    "but were all their there been more when who will no out so what up about into than them can "
    "only other new some time these two may"
)
_WORDS_OF_LINE = 14
_LEAST_CHARS_OF_LINE = 40
_OPENING = "[{code} request id] The first code is {code}.\n"
_ENDING = (
    "\nThe second code is {code}. Begin your answer with the first code and the second code of "
    "this text, then go on with a long story about the sea until you are stopped."
)


class TokenScale(NamedTuple):
    """How a server counts tokens: so many around any text, and so many characters to each.

    The defaults are a fair guess, which `is_counted` tells from a measured scale.
    """

    chars_per_token: float = 4.0
    overhead_tokens: float = 0.0
    is_counted: bool = False

    def to_chars(self, n_tokens: float) -> int:
        return max(0, round((n_tokens - self.overhead_tokens) * self.chars_per_token))

    def to_tokens(self, n_chars: int) -> float:
        return self.overhead_tokens + n_chars / self.chars_per_token


class CountedText(NamedTuple):
    """The length of a text, and what a server counted; None where it does not count."""

    n_chars: int
    n_tokens: int | None


def fit_token_scale(short: CountedText, long: CountedText) -> TokenScale:
    """The scale that two counted texts lie on.

    A guess where there is no count, or where the count does not grow with the text.
    """
    n_more_chars = long.n_chars - short.n_chars
    n_more_tokens = (long.n_tokens or 0) - (short.n_tokens or 0)
    chars_per_token = n_more_chars / max(1, n_more_tokens)
    if not short.n_tokens or not long.n_tokens or not 1 <= chars_per_token <= 16:
        return TokenScale()
    overhead_tokens = short.n_tokens - short.n_chars / chars_per_token
    return TokenScale(chars_per_token, overhead_tokens, is_counted=True)


class LoadPrompt(NamedTuple):
    """The text of a prompt, and the codes at its beginning and its end."""

    text: str
    first_code: str
    last_code: str


def make_prompt(n_chars: int, key: str, shared_chars: int = 0) -> LoadPrompt:
    """A prompt of so many characters, or as few as its instructions take.

    Prompts of one key begin alike, so that a longer one continues a shorter one. Prompts of two
    keys differ from their first word on, but for the `shared_chars` that all of them begin with.
    """
    digest = hashlib.blake2b(key.encode(), digest_size=8).hexdigest()
    first_code = f"K{digest[:8]}"
    last_code = f"Z{digest[8:]}"
    opening = _OPENING.format(code=first_code)
    ending = _ENDING.format(code=last_code)
    n_filler_chars = max(0, n_chars - len(opening) - len(ending))
    shared = _make_filler(shared_chars)[: min(shared_chars, n_filler_chars)]
    filler = _make_filler(n_filler_chars)[: n_filler_chars - len(shared)]
    return LoadPrompt(f"{shared}{opening}{filler}{ending}", first_code, last_code)


@lru_cache(maxsize=16)
def _make_filler(least_chars: int) -> str:
    """Everyday words in lines, in an order that is the same every time."""
    draw = random.Random(0)
    words = _EVERYDAY_ENGLISH.split()
    n_lines = least_chars // _LEAST_CHARS_OF_LINE + 1
    lines = []
    for _ in range(n_lines):
        lines.append(" ".join(draw.choices(words, k=_WORDS_OF_LINE)))
    return "\n".join(lines)
