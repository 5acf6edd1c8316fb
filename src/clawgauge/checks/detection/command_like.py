"""Whether words that stand in prose are a command line.

Owns: the evidence. Shell syntax after the first word is evidence; a first word that can hardly be anything but a
command is, too. A redirect, a path or a file name convinces only beside a known command, since prose has those as
well. Refuses: reading the command; that is `command_line`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import pairwise

from clawgauge.checks.detection.command_line import Segment, first_word
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.vocabulary import Vocabulary, is_number, read_name

_TRAILING_PUNCTUATION = ".,;:!?)]}\"'”’"
_SIGN = lazy_pattern(r"[-$=+/.<>~]")
_OPTION = lazy_pattern(r"--?[A-Za-z0-9?]")
_VARIABLE = lazy_pattern(r"\$(?:[A-Za-z_]|[({][^\s])")
_KEY_VALUE = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_.-]*=(?!=|>)")
_PLACEHOLDER = lazy_pattern(r"<[^<>]+>")
_REDIRECT = lazy_pattern(r"(?:[0-9]|&)?>{1,2}(?:&?[0-9]|\||[^>=]|$)|[0-9]?<{1,3}(?:[^<=]|$)")
_FILE_NAME = lazy_pattern(
    r"[A-Za-z0-9_+*?-]+(?:\.[A-Za-z0-9_+*?-]+)*\.[A-Za-z*][A-Za-z0-9]{0,9}|\.[A-Za-z][A-Za-z0-9_.-]+"
)
_ROOTED_PATH = lazy_pattern(r"/(?!/)|\.{1,2}/|~(?:[/A-Za-z]|$)")
_INITIALS = lazy_pattern(r"[A-Za-z](?:\.[A-Za-z])+")
_LETTER = lazy_pattern(r"[A-Za-z]")


class Evidence(Enum):
    """What a word says about the line it stands in."""

    NONE = 0
    BESIDE_KNOWN = 1
    ALONE = 2


def is_command_like(segments: list[Segment], vocabulary: Vocabulary) -> bool:
    """Whether a command line found in prose, or in a block of unknown kind, is one."""
    first = first_word(segments)
    name = read_name(first.text) if first else None
    if first is None or name is None or is_number(name) or vocabulary.is_prose(name):
        return False
    known = vocabulary.is_known(name)
    rest = [word.text for segment in segments for word in segment.words if word.at > first.at]
    if any(_convinces(evidence, known) for evidence in _weigh_all(rest)) or _pipes(segments, vocabulary):
        return True
    is_sentence = bool(rest) and rest[0].rstrip(_TRAILING_PUNCTUATION).lower() in vocabulary.lexicon.function_words
    return not is_sentence and vocabulary.is_certain(name)


def has_shell_syntax(segments: list[Segment]) -> bool:
    """Whether anything after the first word is shell syntax, given that the first word is known."""
    first = first_word(segments)
    if first is None:
        return False
    rest = [word.text for segment in segments for word in segment.words if word.at > first.at]
    return any(segment.piped for segment in segments) or any(
        evidence is not Evidence.NONE for evidence in _weigh_all(rest)
    )


def _convinces(evidence: Evidence, known: bool) -> bool:
    return evidence is Evidence.ALONE or (known and evidence is Evidence.BESIDE_KNOWN)


def _pipes(segments: list[Segment], vocabulary: Vocabulary) -> bool:
    """Whether one side of a pipe is a known command; `"local | premium"` is a choice."""
    for left, right in pairwise(segments):
        if left.piped:
            heads = (first_word([side]) for side in (left, right))
            if any(head is not None and vocabulary.is_known(read_name(head.text) or "") for head in heads):
                return True
    return False


def _weigh_all(words: list[str]) -> Iterator[Evidence]:
    for index, word in enumerate(words):
        if word == "/":
            # The root directory as the last argument, or before an option; between words it is "or".
            alone = index + 1 < len(words) and not words[index + 1].startswith("-")
            yield Evidence.NONE if alone else Evidence.BESIDE_KNOWN
        else:
            yield _weigh(word)


def _weigh(word: str) -> Evidence:
    if _SIGN.search(word) is None:
        return Evidence.NONE
    if _KEY_VALUE.match(word):
        return Evidence.ALONE
    word = _unquoted(word)
    if _OPTION.match(word) or _VARIABLE.search(word) or word.startswith("+%"):
        return Evidence.ALONE
    if _is_path(word) or _is_redirect(word) or _is_file_name(word):
        return Evidence.BESIDE_KNOWN
    return Evidence.NONE


def _unquoted(word: str) -> str:
    """A word out of its quotes. A quoted phrase is someone's words, not syntax, and weighs nothing."""
    if len(word) >= 2 and word[0] in "\"'" and word[-1] == word[0]:
        word = word[1:-1]
    return "" if any(map(str.isspace, word)) else word


def _is_path(word: str) -> bool:
    word = word.rstrip(_TRAILING_PUNCTUATION) or word
    if _ROOTED_PATH.match(word):
        return True
    return "/" in word and "." in word and _LETTER.search(word) is not None


def _is_redirect(word: str) -> bool:
    return _REDIRECT.match(word) is not None and _PLACEHOLDER.fullmatch(word) is None


def _is_file_name(word: str) -> bool:
    word = word.rstrip(_TRAILING_PUNCTUATION)
    return _FILE_NAME.fullmatch(word) is not None and _INITIALS.fullmatch(word) is None
