"""Which words name commands, which only might, and which never do.

Owns: the word lists and the questions asked of them. Refuses: looking at anything but single words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from clawgauge.checks.detection.lazy_pattern import lazy_pattern

_LEXICON = Path(__file__).parents[1] / "command_lexicon.json"
_MAX_WORD_CHARS = 1024
_MAX_NAME_CHARS = 128
_NAME = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.+:-]*")
_RUNNABLE_PATH = lazy_pattern(r"(?:\./.*|(?:.*/)?s?bin)/([^/]+)|\./([^/]+)")
_NUMBER = lazy_pattern(
    r"[0-9][0-9._:+-]*(?:[eE][+-]?[0-9]+)?"
    r"|0[xX][0-9A-Fa-f]+"
    r"|[0-9.]+(?:[kKMGTP]i?[bB]?|[bBsmhd]|[mun]s|[kMG]?[Hh]z|px|x)"
)


class Lexicon(msgspec.Struct, frozen=True, rename="upper"):
    """The word lists as they are on disk. A wrapper's list holds its options that take a value; null: not peeled."""

    unambiguous: frozenset[str]
    ambiguous: frozenset[str]
    stop: frozenset[str]
    function_words: frozenset[str]
    shell_info: frozenset[str]
    exec_tools: frozenset[str]
    exec_args: list[str]
    wrappers: dict[str, list[str] | None]


@cache
def load_lexicon() -> Lexicon:
    return msgspec.json.decode(_LEXICON.read_bytes(), type=Lexicon)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The lexicon and the tools one prompt expects, lower case."""

    lexicon: Lexicon
    expected: frozenset[str]

    @classmethod
    def for_prompt(cls, expected: Iterable[str] = ()) -> Vocabulary:
        return cls(load_lexicon(), frozenset(name.strip().lower() for name in expected))

    def is_expected(self, word: str) -> bool:
        """Whether `word` is expected as written: a capital at its start makes it a word of prose."""
        return not word[:1].isupper() and word.lower() in self.expected

    def is_ambiguous(self, word: str) -> bool:
        return word in self.lexicon.ambiguous

    def is_known(self, word: str) -> bool:
        """Whether `word`, as written, is a command: lower case, unless the prompt expects it."""
        return word in self.lexicon.unambiguous or self.is_ambiguous(word) or self.is_expected(word)

    def is_certain(self, word: str) -> bool:
        """Whether `word` with arguments can hardly be prose."""
        if word in self.lexicon.unambiguous:
            return True
        return "_" in word or (self.is_expected(word) and not self.is_ambiguous(word))

    def is_grammar(self, word: str) -> bool:
        """Whether `word` only holds a sentence together ("the", "is") and is no command that is known."""
        lowered = word.lower()
        return lowered in self.lexicon.function_words and not self.is_known(lowered)

    def is_prose(self, word: str) -> bool:
        """The same, or a word that starts a sentence ("Use -h to …")."""
        starts_sentence = word[:1].isupper() and word[1:].islower() and word.isalpha()
        return self.is_grammar(word) or (starts_sentence and not self.is_known(word.lower()))

    def is_shouted(self, word: str) -> bool:
        """Whether `word` is in capitals, as constants and acronyms are, and no tool is expected by that name."""
        return word.isupper() and word.lower() not in self.expected


def read_name(word: str) -> str | None:
    """The command `word` names, as written: a name, or the last part of a path into `bin/`, `sbin/` or `./`."""
    return _read_short_name(word) if len(word) <= _MAX_WORD_CHARS else None


# Words come again and again in a text, and each is looked at by several steps.
@lru_cache(maxsize=4096)
def _read_short_name(word: str) -> str | None:
    path = _RUNNABLE_PATH.fullmatch(word) if "/" in word else None
    if path:
        word = path[1] or path[2]
    word = word.rstrip(".")
    if len(word) > _MAX_NAME_CHARS or word.endswith(":") or not _NAME.fullmatch(word):
        return None
    return word


def is_number(word: str) -> bool:
    """Whether `word` is a figure, with or without a unit, rather than a name."""
    return word[:1].isdigit() and _NUMBER.fullmatch(word) is not None
