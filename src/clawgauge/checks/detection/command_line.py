"""A line of shell, taken apart.

Owns: splitting a command line into its commands outside quotes, skipping assignments and comments, and looking
through wrappers such as `sudo` and `timeout` to the command they run. Refuses: judging whether the text is a command
at all, and expanding anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.vocabulary import Vocabulary, is_number, read_name

# A lone pipe separates only with a space beside it (`local|premium` is one word); an ampersand next to an angle
# bracket is part of a redirect. A quote that never closes is an apostrophe, an ordinary character.
_TOKEN = lazy_pattern(
    r"(?P<space>(?:[^\S\n]|\\\n)+)"
    r"|(?P<separator>\n|&&|\|\||;|\|&?(?=\s|\Z)|(?:(?<=\s)|\A)\|&?|(?<![<>&])&(?![>&]))"
    r"|(?P<comment>(?:(?<=[\s;])|\A)\#[^\n]*)"
    r"""|(?P<piece>\\.|"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^']*+'|[^\s\\"'|&;]++|.)""",
    re.DOTALL,
)
_SYNTAX = lazy_pattern(r"[\n|&;#\\\"']")
_PLAIN_WORD = lazy_pattern(r"\S+")
_ASSIGNMENT = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_DURATION = lazy_pattern(r"[0-9.]+[smhd]?|[$].*")
# Words of the shell's own grammar: a command may follow some of them and never follows the others.
_BEFORE_A_COMMAND = frozenset(("if", "then", "elif", "else", "while", "until", "do", "!", "{"))
_NEVER_A_COMMAND = frozenset(("for", "case", "select", "function", "done", "fi", "esac", "in", "}"))


class Word(msgspec.Struct, frozen=True, gc=False):
    """One word with its place in the text it was read from."""

    at: int
    text: str


class Segment(msgspec.Struct, gc=False):
    """The words of one command, and whether its output is piped on."""

    words: list[Word] = []
    piped: bool = False


class Command(msgspec.Struct, frozen=True, gc=False):
    """One command: its name as written but for a path cut off, its arguments, and its word whole."""

    at: int
    name: str
    arguments: str
    written: str


def split_segments(text: str, start: int = 0) -> list[Segment]:
    """The commands of `text`, none of them empty. `start` is added to every place."""
    if _SYNTAX.search(text) is None:
        words = [Word(start + match.start(), match[0]) for match in _PLAIN_WORD.finditer(text)]
        return [Segment(words)] if words else []
    segments = [Segment()]
    word_at = -1
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "piece":
            if word_at < 0:
                word_at = token.start()
            continue
        if word_at >= 0:
            segments[-1].words.append(Word(start + word_at, text[word_at : token.start()]))
            word_at = -1
        if token.lastgroup == "separator" and segments[-1].words:
            segments[-1].piped = token[0] in ("|", "|&")
            segments.append(Segment())
    if word_at >= 0:
        segments[-1].words.append(Word(start + word_at, text[word_at:]))
    return [segment for segment in segments if segment.words]


def read_segment(segment: Segment, vocabulary: Vocabulary) -> list[Command]:
    """The command a segment runs, behind any wrapper that is itself expected; empty where its first word is no name."""
    words = segment.words
    wrappers = vocabulary.lexicon.wrappers
    expected_wrappers: dict[str, int] = {}
    last_wrapper: int | None = None
    index = _skip_assignments(words, 0)
    while index < len(words):
        word = words[index].text
        name = read_name(word)
        if word in _BEFORE_A_COMMAND:
            index += 1
        elif name is not None and wrappers.get(name) is not None:
            if vocabulary.is_expected(name):
                expected_wrappers.setdefault(name, index)
            last_wrapper = index
            index = _skip_wrapper_options(words, index + 1, name, wrappers[name] or [])
        else:
            break
        index = _skip_assignments(words, index)
    places = list(expected_wrappers.values())
    if index < len(words):
        places.append(index)
    elif last_wrapper is not None and not places:
        places.append(last_wrapper)  # `sudo -l` and `env` alone run nothing else: they are the command
    commands = (_command_at(words, place, vocabulary) for place in places)
    return [command for command in commands if command is not None]


def read_commands(segments: Iterable[Segment], vocabulary: Vocabulary) -> list[Command]:
    """Every command of a command line, in order."""
    return [command for segment in segments for command in read_segment(segment, vocabulary)]


def first_word(segments: list[Segment]) -> Word | None:
    """The first word of a command line that is not an assignment."""
    words = segments[0].words if segments else []
    index = _skip_assignments(words, 0)
    return words[index] if index < len(words) else None


def _command_at(words: list[Word], index: int, vocabulary: Vocabulary) -> Command | None:
    word = words[index]
    name = read_name(word.text)
    if name is None or is_number(name):
        return None
    if name in _NEVER_A_COMMAND and not vocabulary.is_expected(name):
        return None
    arguments = " ".join([argument.text for argument in words[index + 1 :]])
    return Command(word.at, name, arguments, word.text)


def _skip_assignments(words: list[Word], index: int) -> int:
    while index < len(words) and "=" in words[index].text and _ASSIGNMENT.match(words[index].text):
        index += 1
    return index


def _skip_wrapper_options(words: list[Word], index: int, wrapper: str, with_value: list[str]) -> int:
    while index < len(words):
        word = words[index].text
        if word == "--":
            index += 1
            break
        if not word.startswith("-") or word == "-":
            break
        index += 2 if _takes_next_word(word, with_value) else 1
    if wrapper == "timeout" and index < len(words) and _DURATION.fullmatch(words[index].text):
        index += 1
    return min(index, len(words))


def _takes_next_word(option: str, with_value: list[str]) -> bool:
    """Whether an option's value is the word after it: `-u bob` and `-Hu bob`, not `-ubob` and not `--user=bob`."""
    if option.startswith("--"):
        return False
    for place, letter in enumerate(option[1:], start=2):
        if f"-{letter}" in with_value:
            return place == len(option)
    return False
