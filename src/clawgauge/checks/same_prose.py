"""Whether two texts say the same in other words, as far as that can be told without a model."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Collection
from typing import NamedTuple

from clawgauge.checks.agreement_words import LEXICON, PATTERNS
from clawgauge.checks.text_rules import as_written

WORD = re.compile(r"\w+(?:[.:/@-]\w+)*")
_INSIDE_A_SENTENCE = re.compile(rf"(?<=[\w,;)] ){WORD.pattern}")
_SHORT_NOT = re.compile(r"(?i)n['’]t\b")
_FIGURE_OR_NAME = re.compile(r"[\d./@:]")
_MIN_SHARED = 0.5
_MAX_COMPARED_WORDS = 500
# Each a group of words that exclude one another, with a group in the pattern for each.
_OPPOSITES = [
    re.compile("|".join(f"({word})" for word in row.split())) for row in LEXICON["opposites"]
]


class _Facts(NamedTuple):
    """What must be the same in both texts, to the sign."""

    words: set[str]
    figures: set[str]
    signs: list[str]
    n_denials: int


def says_the_same(text: str, other: str, telling: Collection[str]) -> bool:
    """Whether most words are the same, and all that matter.

    Those are figures, names of files, addresses, signs and the words in `telling`, which the user
    gave. Nothing more may be denied or turned around, and nobody else named. Other words one for
    one, or all in another order, make another text.
    """
    text = _SHORT_NOT.sub(" not", as_written(text))
    other = _SHORT_NOT.sub(" not", as_written(other))
    words = WORD.findall(text.casefold())
    other_words = WORD.findall(other.casefold())
    if _facts_of(text, words, telling) != _facts_of(other, other_words, telling):
        return False
    if words == other_words:
        return bool(words) or text == other
    shared = {*words} & {*other_words}
    if len(shared) < _MIN_SHARED * len({*words, *other_words}):
        return False
    if not shared.issuperset(_names_in(f"{text}\n{other}")):
        return False
    plain = PATTERNS["light"].sub(" ", text.casefold())
    other_plain = PATTERNS["light"].sub(" ", other.casefold())
    if _differ_in_origin(plain, other_plain):
        return False
    if _is_opposite({*words} - shared, {*other_words} - shared):
        return False
    return not _is_reworded(WORD.findall(plain), WORD.findall(other_plain), shared)


def _facts_of(text: str, words: list[str], telling: Collection[str]) -> _Facts:
    return _Facts(
        words={word for word in words if word in telling or _FIGURE_OR_NAME.search(word)},
        figures=set(PATTERNS["exact"].findall(text)),
        signs=sorted(sign for sign in text if unicodedata.category(sign) in ("Sc", "So")),
        n_denials=len(PATTERNS["denial"].findall(text)),
    )


def _names_in(text: str) -> set[str]:
    """The words with a capital inside a sentence, folded."""
    names = set()
    for word in _INSIDE_A_SENTENCE.findall(text):
        if word[0].isupper() and len(word) > 1:
            names.add(word.casefold())
    return names


def _differ_in_origin(text: str, other: str) -> bool:
    """Whether both texts say where something comes from, and say it differently."""
    origins = set(PATTERNS["origin"].findall(text))
    other_origins = set(PATTERNS["origin"].findall(other))
    return bool(origins) and bool(other_origins) and origins != other_origins


def _is_reworded(words: list[str], other_words: list[str], shared: Collection[str]) -> bool:
    """Whether one text has other words in the place of single ones, or all words in another
    order."""
    if words != other_words and sorted(words) == sorted(other_words):
        return True
    matcher = difflib.SequenceMatcher(
        None, words[:_MAX_COMPARED_WORDS], other_words[:_MAX_COMPARED_WORDS], autojunk=False
    )
    sizes = set()
    for step, start, end, other_start, other_end in matcher.get_opcodes():
        if step != "replace":
            continue
        replaced = words[start:end]
        replacing = other_words[other_start:other_end]
        if not any(word in shared for word in (*replaced, *replacing)):
            sizes.add((len(replaced), len(replacing)))
    return sizes == {(1, 1)}


def _is_opposite(words: Collection[str], other_words: Collection[str]) -> bool:
    """Whether words that one text has alone turn around what the other says.

    As on and off, two and three, lock and unlock do.
    """
    stems = {PATTERNS["turned"].sub("", word) for word in words}
    other_stems = {PATTERNS["turned"].sub("", word) for word in other_words}
    if not stems.isdisjoint(other_stems):
        return True
    for row in _OPPOSITES:
        meanings = _meanings(row, words)
        other_meanings = _meanings(row, other_words)
        if meanings and other_meanings and meanings != other_meanings:
            return True
    return False


def _meanings(row: re.Pattern[str], words: Collection[str]) -> set[int | None]:
    """Which of a row of opposites these words are, by their place in it."""
    matches = [row.fullmatch(word) for word in words]
    return {match.lastindex for match in matches if match is not None}
