"""Counting sentences and bullet points, as a reader would."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

_WORD_LISTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
# What goes before and behind a full stop.
WORDS = {name: frozenset(words.split()) for name, words in _WORD_LISTS.items()}
_LINE_BREAK = re.compile(r"\r\n?|[\u2028\u2029\x85\v\f]")
_CJK_END = re.compile(r"([。！？｡][」』”’）)\"']*)")
_LIST_MARKER = re.compile(
    r"(?:[-*+•‣▪◦–—·]|[0-9]{1,3}[.)]|[A-Za-z]\)|\([0-9A-Za-z]{1,3}\)|#{1,6}|>)(?=\s|$)"
)
_NEW_LINE_OPENER = re.compile(r"-(?!-)|[•‣▪◦]|[-=*_]{3,}$|[-+]?[.]?[0-9]")
_MARKS = ".!?…。！？｡"
_EMPHASIS = "*_~`"
_CLOSING_QUOTES = "\"'”’»)]}」』）"
_OPENERS = "\"'“”‘’«»([{¿¡" + _EMPHASIS
_INITIALS = re.compile(r"(?:[A-Za-z]\.)*[A-Z]")
# A dash that opens a line, unless the line is only dashes (a rule), or the dash is the sign of a
# number.
_BULLET = re.compile(r"^[^\S\n]*+-(?!\.?[0-9])(?!-[- \t]*$)(?![ \t]+-[- \t]*$)", re.MULTILINE)


def count_words(text: str) -> int:
    return len(text.split())


def count_bullets(text: str) -> int:
    """The lines that start with `-`.

    `---` and `- - -` are rules, `-5` is a number, `-` alone is an empty bullet point.
    """
    return len(_BULLET.findall(text.replace("\r\n", "\n").replace("\r", "\n")))


def count_sentences(text: str) -> int:
    count = 0
    block: list[str] = []  # the words of a stretch of text that no line break splits
    for line in _LINE_BREAK.sub("\n", text).split("\n"):
        line = line.strip()
        if not line or _opens_block(line):
            count += _count_in_block(block)
            block = []
        block += _CJK_END.sub(r"\1 ", line).split()
    return count + _count_in_block(block)


def _opens_block(line: str) -> bool:
    """Whether a line starts something new: a list item, a number, or a sentence."""
    if _LIST_MARKER.match(line) or _NEW_LINE_OPENER.match(line):
        return True
    first = line.lstrip(_OPENERS)[:1]
    return first.isupper() or first.isdigit()


def _count_in_block(words: list[str]) -> int:
    count = 0
    last_word: str | None = None  # of the sentence under way
    for word, following in pairwise([*words, ""]):
        if last_word is None:
            is_marker = bool(following) and _LIST_MARKER.fullmatch(word) is not None
            if is_marker or not any(map(str.isalnum, word)):
                continue
        if _ends_sentence(word, following, last_word or ""):
            count += 1
            last_word = None
        else:
            last_word = word
    return count if last_word is None else count + 1


def _ends_sentence(word: str, following: str, previous: str) -> bool:
    unquoted = word.rstrip(_CLOSING_QUOTES + _EMPHASIS)
    stem = unquoted.rstrip(_MARKS)
    marks = unquoted[len(stem) :]
    if not marks or not following:
        return bool(marks)
    following = following.strip(_OPENERS + _CLOSING_QUOTES + _MARKS + ",;:")
    if marks == "…" or marks.startswith(".."):
        return following[:1].isupper()
    closes_quote = any(char in _CLOSING_QUOTES for char in word[len(unquoted) :])
    if closes_quote and following[:1].islower():
        return False  # `"Really?" he asked`
    return marks != "." or _full_stop_ends_sentence(stem.lstrip(_OPENERS), following, previous)


def _full_stop_ends_sentence(stem: str, following: str, previous: str) -> bool:
    """Whether the full stop behind `stem` ends a sentence, or belongs to an abbreviation."""
    word = stem.lower()
    next_word = following.lower()
    is_capital = following[:1].isupper()
    if stem in WORDS["goes_on"]:
        return False
    if word in WORDS["ends_before_capital"]:
        return is_capital
    if word in ("a.m", "p.m"):
        is_zone = len(following) > 1 and following.isupper()
        return is_capital and not is_zone and next_word not in WORDS["days"]
    if word in WORDS["ends_before_opening"]:
        return is_capital and next_word in WORDS["opens"]
    if word in WORDS["before_figure"] and following[:1].isdigit():
        # "No. 1% is safe" answers; "see no. 5" goes on.
        return word == "no" and not previous
    if is_capital and _INITIALS.fullmatch(stem):
        is_label = previous.rstrip(":").lower() in WORDS["before_label"]
        return next_word in WORDS["opens"] or is_label
    return True
