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
_MAY_END = "etc a.m p.m al inc ltd co corp dept est jr sr ph.d u.s u.k u.n e.u a.k.a min max avg hrs incl excl misc tel"
_BEFORE_NUMBERS = "no nos fig figs vol ch p pp eq art jan feb mar apr jun jul aug sep sept oct nov dec ver v"
_LABELS = "option plan answer choice grade class type section part group step drive appendix vitamin"

# Never the last word of a sentence: a name or an example follows. As written, for `ms` is a unit and `Ms` a title.
_ALWAYS_GOES_ON = frozenset(f"{_TITLES} {_INTRODUCTIONS}".split())
# Lower case. The first may end a sentence, and then a capital follows; the second are abbreviations before a figure
# only.
_GOES_ON_UNLESS_CAPITAL = frozenset(_MAY_END.split())
_GOES_ON_BEFORE_FIGURE = frozenset(_BEFORE_NUMBERS.split())
# What a lone capital labels, rather than a person it is the initial of: "Option B. Restart it."
_LABELLED = frozenset(_LABELS.split())

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
    first = following.lstrip(_OPENERS)[:1]
    if marks == "…" or marks.startswith(".."):
        return first.isupper()
    if first.islower() and any(char in _CLOSING_QUOTES for char in word[len(unquoted) :]):
        return False  # `"Really?" he asked`
    return marks != "." or _stop_ends_sentence(stem.lstrip(_OPENERS), first, previous)


def _stop_ends_sentence(stem: str, first: str, previous: str) -> bool:
    """Whether the single full stop after `stem` ends a sentence, given its neighbours."""
    known = stem.lower()
    if stem in _ALWAYS_GOES_ON:
        return False
    if known in _GOES_ON_UNLESS_CAPITAL:
        return first.isupper()
    if known in _GOES_ON_BEFORE_FIGURE and first.isdigit():
        return False
    if _INITIALS.fullmatch(stem) and first.isupper():
        follows_name = previous.isalpha() and previous[0].isupper() and previous.lower() not in _LABELLED
        return not (len(stem) > 1 or not previous or follows_name)
    return True
