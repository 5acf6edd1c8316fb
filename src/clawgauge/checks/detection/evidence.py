"""Whether words that stand in prose are a command line."""

from __future__ import annotations

import re
from itertools import pairwise

from clawgauge.checks.detection.shell import Segment, Vocabulary, Word, first_word, is_number

# How much a word says about the line it stands in: nothing; that it is a command line if its first
# word is a known command; that it is one whatever its first word is.
_NOTHING = 0
_BESIDE_KNOWN = 1
_ALONE = 2
_TRAILING_PUNCTUATION = ".,;:!?)]}\"'”’"
_SIGN = re.compile(r"[-$=+/.<>~]")
_OPTION = re.compile(r"--?[A-Za-z0-9?]")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]|[({][^\s])")
_KEY_VALUE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*=(?!=|>)")
_PLACEHOLDER = re.compile(r"<[^<>]+>")
_REDIRECT = re.compile(r"(?:[0-9]|&)?>{1,2}(?:&?[0-9]|\||[^>=]|$)|[0-9]?<{1,3}(?:[^<=]|$)")
_FILE = re.compile(
    r"[A-Za-z0-9_+*?-]+(?:\.[A-Za-z0-9_+*?-]+)*\.[A-Za-z*][A-Za-z0-9]{0,9}"
    r"|\.[A-Za-z][A-Za-z0-9_.-]+"
)
_ROOTED_PATH = re.compile(r"/(?!/)|\.{1,2}/|~(?:[/A-Za-z]|$)")
_INITIALS = re.compile(r"[A-Za-z](?:\.[A-Za-z])+")
_LETTER = re.compile(r"[A-Za-z]")


def is_command_like(segments: list[Segment], vocabulary: Vocabulary) -> bool:
    """Whether these words read as a command line rather than as prose."""
    first, name = first_word(segments)
    if first is None or name is None or is_number(name) or vocabulary.is_grammar(name):
        return False
    if _starts_sentence(name, vocabulary):
        return False
    words = _words_behind(first, segments)
    least = _BESIDE_KNOWN if vocabulary.is_known(name) else _ALONE
    if _has_evidence(words, least) or _is_piped_command(segments, vocabulary):
        return True
    if words and _bare_word(words[0]) in vocabulary.lexicon.function_words:
        return False
    # With arguments these can hardly be prose.
    if name in vocabulary.lexicon.unambiguous or "_" in name:
        return True
    return vocabulary.is_expected(name) and name not in vocabulary.lexicon.ambiguous


def starts_known(segment: Segment, vocabulary: Vocabulary) -> bool:
    """Whether the first word of a segment is a known command."""
    _, name = first_word([segment])
    return vocabulary.is_known(name or "")


def has_shell_syntax(segments: list[Segment]) -> bool:
    """Whether there is a pipe, an option, a path or the like behind the first word."""
    first, _ = first_word(segments)
    if first is None:
        return False
    if any(segment.piped for segment in segments):
        return True
    return _has_evidence(_words_behind(first, segments), _BESIDE_KNOWN)


def _starts_sentence(name: str, vocabulary: Vocabulary) -> bool:
    """Whether `name` is written as the first word of a sentence is ("Use -h to …")."""
    is_capitalized = name[0].isupper() and name[1:].islower() and name.isalpha()
    return is_capitalized and not vocabulary.is_known(name.lower())


def _words_behind(first: Word, segments: list[Segment]) -> list[str]:
    texts = []
    for segment in segments:
        for word in segment.words:
            if word.start > first.start:
                texts.append(word.text)
    return texts


def _bare_word(word: str) -> str:
    return word.rstrip(_TRAILING_PUNCTUATION).lower()


def _is_piped_command(segments: list[Segment], vocabulary: Vocabulary) -> bool:
    """Whether a side of a pipe is a known command; `"local | premium"` is a choice."""
    for left, right in pairwise(segments):
        if left.piped and (starts_known(left, vocabulary) or starts_known(right, vocabulary)):
            return True
    return False


def _has_evidence(words: list[str], least: int) -> bool:
    """Whether any of the words says as much as `least`."""
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else None
        if _evidence_of(word, following) >= least:
            return True
    return False


def _evidence_of(word: str, following: str | None) -> int:
    if word == "/":
        # The root directory as the last argument, or before an option; between words it is "or".
        is_between_words = following is not None and not following.startswith("-")
        return _NOTHING if is_between_words else _BESIDE_KNOWN
    if _SIGN.search(word) is None:
        return _NOTHING
    if _KEY_VALUE.match(word):
        return _ALONE
    inside = _without_quotes(word)
    if any(map(str.isspace, inside)):
        return _NOTHING  # a quoted phrase is someone's words, not syntax
    if _OPTION.match(inside) or _VARIABLE.search(inside) or inside.startswith("+%"):
        return _ALONE
    if _is_redirect(inside) or _is_path(inside) or _is_file(inside):
        return _BESIDE_KNOWN
    return _NOTHING


def _without_quotes(word: str) -> str:
    is_quoted = len(word) >= 2 and word[0] in "\"'" and word[-1] == word[0]
    return word[1:-1] if is_quoted else word


def _is_redirect(word: str) -> bool:
    return _REDIRECT.match(word) is not None and _PLACEHOLDER.fullmatch(word) is None


def _is_path(word: str) -> bool:
    path = word.rstrip(_TRAILING_PUNCTUATION) or word
    if _ROOTED_PATH.match(path):
        return True
    return "/" in path and "." in path and _LETTER.search(path) is not None


def _is_file(word: str) -> bool:
    name = word.rstrip(_TRAILING_PUNCTUATION)
    return _FILE.fullmatch(name) is not None and _INITIALS.fullmatch(name) is None
