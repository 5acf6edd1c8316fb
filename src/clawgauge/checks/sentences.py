"""How many sentences a text has.

Owns: telling a full stop that ends a sentence from one that does not: in abbreviations and titles, decimals,
addresses, file names, ellipses and list numbers. A line break ends a sentence where the next line opens something new
(a capital, a bullet, a number), a blank line always does, a wrapped line does not. Refuses: grammar; a fragment with
a letter or a digit in it counts as a sentence.
"""

from __future__ import annotations

import re

_TITLES = "Dr Mr Mrs Ms Mx Prof St Mt Rev Hon Gen Col Capt Lt Sgt Sen Rep Gov Pres Messrs dr mr mrs prof"
_INTRODUCTIONS = "e.g i.e eg ie vs cf viz approx E.g I.e Vs Cf Approx"
_CLIPPED = "etc al est min max avg hrs incl excl misc tel"
_PARTS_OF_NAMES = "inc ltd co corp dept jr sr ph.d u.s u.k u.n e.u u.s.a a.k.a"
_BEFORE_NUMBERS = "no nos fig figs vol ch p pp eq art jan feb mar apr jun jul aug sep sept oct nov dec ver v"
_LABELLED = "is was be option plan answer choice grade class type section part group step drive appendix vitamin"
_OPENING_WORDS = (
    "a after all also an and any as at because before both but by each for from have he hence here how however i if in "
    "it its my no not note now of on once only or our please see she so some that the their then there these they this "
    "those thus to use we what when where which while who why with yes you your"
)
_DAYS = "monday tuesday wednesday thursday friday saturday sunday today tomorrow"

# As written, for `ms` is a unit and `Ms` a title; a name or an example always follows these.
_ALWAYS_GOES_ON = frozenset(f"{_TITLES} {_INTRODUCTIONS}".split())
# The rest in lower case. After these a capital opens a sentence …
_ENDS_BEFORE_CAPITAL = frozenset(_CLIPPED.split())
# … after a time of day, too, unless it is a zone or a day …
_TIMES_OF_DAY = frozenset(("a.m", "p.m"))
_DAY_NAMES = frozenset(_DAYS.split())
# … and after these, which names go on from, only a word that commonly opens one.
_ENDS_BEFORE_OPENING_WORD = frozenset(_PARTS_OF_NAMES.split())
_COMMON_OPENINGS = frozenset(_OPENING_WORDS.split())
_GOES_ON_BEFORE_FIGURE = frozenset(_BEFORE_NUMBERS.split())
# A lone capital is an initial, unless it is a label: "Option B. Restart it."
_BEFORE_LABELS = frozenset(_LABELLED.split())

_LINE_BREAK = re.compile(r"\r\n?|[\u2028\u2029\x85\v\f]")
_CJK_END = re.compile(r"([。！？｡][」』”’）)\"']*)")
_LIST_MARKER = re.compile(r"(?:[-*+•‣▪◦–—·]|[0-9]{1,3}[.)]|[A-Za-z]\)|\([0-9A-Za-z]{1,3}\)|#{1,6}|>)(?=\s|$)")
_NEW_LINE_OPENER = re.compile(r"-(?!-)|[•‣▪◦]|[-=*_]{3,}$|[-+]?[.]?[0-9]")
_MARKS = ".!?…。！？｡"
_EMPHASIS = "*_~`"
_CLOSING_QUOTES = "\"'”’»)]}」』）"
_OPENERS = "\"'“”‘’«»([{¿¡" + _EMPHASIS
_INITIALS = re.compile(r"(?:[A-Za-z]\.)*[A-Z]")


def count_sentences(text: str) -> int:
    return sum(_count_in_block(block) for block in _blocks(_LINE_BREAK.sub("\n", text)))


def _blocks(text: str) -> list[list[str]]:
    """The words of each stretch of text that no line break splits."""
    blocks: list[list[str]] = []
    current: list[str] = []
    for line in text.split("\n"):
        line = line.strip()
        if current and (not line or _opens_something(line)):
            blocks.append(current)
            current = []
        current.extend(_CJK_END.sub(r"\1 ", line).split())
    if current:
        blocks.append(current)
    return blocks


def _opens_something(line: str) -> bool:
    if _LIST_MARKER.match(line) or _NEW_LINE_OPENER.match(line):
        return True
    first = line.lstrip(_OPENERS)[:1]
    return first.isupper() or first.isdigit()


def _count_in_block(words: list[str]) -> int:
    count = 0
    sentence: str | None = None  # the last word of the sentence under way
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if sentence is None and following and _LIST_MARKER.fullmatch(word):
            continue
        if sentence is None and not any(map(str.isalnum, word)):
            continue
        if _ends_sentence(word, following, sentence or ""):
            count += 1
            sentence = None
        else:
            sentence = word
    return count + (sentence is not None)


def _ends_sentence(word: str, following: str, previous: str) -> bool:
    unquoted = word.rstrip(_CLOSING_QUOTES + _EMPHASIS)
    stem = unquoted.rstrip(_MARKS)
    marks = unquoted[len(stem) :]
    if not marks or not following:
        return bool(marks)
    following = following.strip(_OPENERS + _CLOSING_QUOTES + _MARKS + ",;:")
    if marks == "…" or marks.startswith(".."):
        return following[:1].isupper()
    if following[:1].islower() and any(char in _CLOSING_QUOTES for char in word[len(unquoted) :]):
        return False  # `"Really?" he asked`
    return marks != "." or _stop_ends_sentence(stem.lstrip(_OPENERS), following, previous)


def _stop_ends_sentence(stem: str, following: str, previous: str) -> bool:
    """Whether the single full stop after `stem` ends a sentence, given the words around it."""
    known = stem.lower()
    capital = following[:1].isupper()
    if stem in _ALWAYS_GOES_ON:
        return False
    if known in _ENDS_BEFORE_CAPITAL:
        return capital
    if known in _TIMES_OF_DAY:
        is_zone = len(following) > 1 and following.isupper()
        return capital and not is_zone and following.lower() not in _DAY_NAMES
    if known in _ENDS_BEFORE_OPENING_WORD:
        return capital and following.lower() in _COMMON_OPENINGS
    if known in _GOES_ON_BEFORE_FIGURE and following[:1].isdigit():
        return known == "no" and not previous  # "No. 1% is safe" answers; "see no. 5" goes on
    if capital and _INITIALS.fullmatch(stem):
        return following.lower() in _COMMON_OPENINGS or previous.rstrip(":").lower() in _BEFORE_LABELS
    return True
