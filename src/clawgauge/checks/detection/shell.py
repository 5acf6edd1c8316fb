"""The words that name commands, and a line of shell taken apart into its commands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from clawgauge.records import ToolInvocation

_LEXICON_PATH = Path(__file__).parents[1] / "command_lexicon.json"
_MAX_WORD_CHARS = 1024
_MAX_NAME_CHARS = 128
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:-]*")
_RUNNABLE_PATH = re.compile(r"(?:\./.*|(?:.*/)?s?bin)/([^/]+)|\./([^/]+)")
_NUMBER = re.compile(
    r"[0-9][0-9._:+-]*(?:[eE][+-]?[0-9]+)?|0[xX][0-9A-Fa-f]+"
    r"|[0-9.]+(?:[kKMGTP]i?[bB]?|[bBsmhd]|[mun]s|[kMG]?[Hh]z|px|x)"
)
NOT_NEW_LINE = re.compile(r"[^\n]")


class Lexicon(msgspec.Struct, frozen=True, rename="upper"):
    """The word lists as they are on disk.

    `wrappers` has for each command that runs another one (`sudo`, `time`) its options that take a
    value; null where the words behind it are not to be read as a command.
    """

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
    return msgspec.json.decode(_LEXICON_PATH.read_bytes(), type=Lexicon)


class Vocabulary(NamedTuple):
    """The lexicon, and the tools that the prompt expects, in lower case."""

    lexicon: Lexicon
    expected: frozenset[str]

    @classmethod
    def for_prompt(cls, expected: Iterable[str] = ()) -> Vocabulary:
        return cls(load_lexicon(), frozenset(name.strip().lower() for name in expected))

    def is_expected(self, word: str) -> bool:
        """Whether `word` is expected as written: a capital at its start makes it prose."""
        return not word[:1].isupper() and word.lower() in self.expected

    def is_known(self, word: str) -> bool:
        """Whether `word`, as written, is a command: lower case, unless the prompt expects it."""
        return (
            word in self.lexicon.unambiguous
            or word in self.lexicon.ambiguous
            or self.is_expected(word)
        )

    def is_grammar(self, word: str) -> bool:
        """Whether `word` only holds a sentence together ("the", "is") and is no known command."""
        lowered = word.lower()
        return lowered in self.lexicon.function_words and not self.is_known(lowered)

    def is_shouted(self, word: str) -> bool:
        """Whether `word` is all capitals, as no command is that is not expected."""
        return word.isupper() and word.lower() not in self.expected


def read_name(word: str) -> str | None:
    """The command that `word` names, as written, or None.

    That is a name, or the last part of a path into `bin/`, `sbin/` or `./`.
    """
    if len(word) > _MAX_WORD_CHARS:
        return None
    return _read_short_name(word)


# Words come again and again in a text, and each is looked at by several steps.
@lru_cache(maxsize=4096)
def _read_short_name(word: str) -> str | None:
    path = _RUNNABLE_PATH.fullmatch(word) if "/" in word else None
    if path is not None:
        word = path[1] or path[2]
    name = word.rstrip(".")
    if len(name) > _MAX_NAME_CHARS or name.endswith(":") or _NAME.fullmatch(name) is None:
        return None
    return name


def is_number(word: str) -> bool:
    return word[:1].isdigit() and _NUMBER.fullmatch(word) is not None


# A lone pipe separates only with a space beside it (`local|premium` is one word); an ampersand next
# to an angle bracket is part of a redirect. A quote that never closes is an apostrophe, an ordinary
# character.
_TOKEN = re.compile(
    r"(?s)(?P<space>(?:[^\S\n]|\\\n)+)"
    r"|(?P<separator>\n|&&|\|\||;|\|&?(?=\s|\Z)|(?:(?<=\s)|\A)\|&?|(?<![<>&])&(?![>&]))"
    r"|(?P<comment>(?:(?<=[\s;])|\A)\#[^\n]*)"
    r"""|(?P<piece>\\.|"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^']*+'|[^\s\\"'|&;]++|.)"""
)
_SYNTAX = re.compile(r"[\n|&;#\\\"']")
_PLAIN_WORD = re.compile(r"\S+")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_DURATION = re.compile(r"[0-9.]+[smhd]?|[$].*")
# Words of the shell's own grammar: a command may follow some of them and never follows the others.
_BEFORE_A_COMMAND = frozenset(("if", "then", "elif", "else", "while", "until", "do", "!", "{"))
_NEVER_A_COMMAND = frozenset(("for", "case", "select", "function", "done", "fi", "esac", "in", "}"))


class Word(msgspec.Struct, frozen=True, gc=False):
    start: int
    text: str


class Segment(msgspec.Struct, gc=False):
    """The words between two separators of a command line; `piped` if the next reads its output."""

    words: list[Word] = []
    piped: bool = False


class Command(msgspec.Struct, frozen=True, gc=False):
    """One command: its name (without the path to it), its arguments, and its word as written."""

    start: int
    name: str
    arguments: str
    written: str


class Call(msgspec.Struct, frozen=True, gc=False):
    """A call that was found, and where in the text it starts."""

    start: int
    invocation: ToolInvocation


class Find(msgspec.Struct, frozen=True, gc=False):
    """A span that a step of the detection has used up, with the calls in it; it may hold none."""

    start: int
    end: int
    calls: list[Call] = []


def mention(command: Command, offset: int = 0, channel: str = "mention") -> Call:
    """A command as a call; `offset` is where the text begins that the command was read in."""
    invocation = ToolInvocation(
        name=command.name.lower(), arguments=command.arguments or None, channel=channel
    )
    return Call(offset + command.start, invocation)


def split_segments(text: str, start: int = 0) -> list[Segment]:
    """The segments of a command line, none of them empty. `start` is added to every position."""
    if _SYNTAX.search(text) is None:
        words = [Word(start + match.start(), match[0]) for match in _PLAIN_WORD.finditer(text)]
        return [Segment(words)] if words else []
    segments = [Segment()]
    word_start = -1  # no word is open
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "piece":
            if word_start < 0:
                word_start = token.start()
            continue
        if word_start >= 0:
            segments[-1].words.append(Word(start + word_start, text[word_start : token.start()]))
            word_start = -1
        if token.lastgroup == "separator" and segments[-1].words:
            segments[-1].piped = token[0] in ("|", "|&")
            segments.append(Segment())
    if word_start >= 0:
        segments[-1].words.append(Word(start + word_start, text[word_start:]))
    return [segment for segment in segments if segment.words]


def read_commands(segments: Iterable[Segment], vocabulary: Vocabulary) -> list[Command]:
    """Every command of a command line, in order.

    Of a segment that is the one it runs, behind any wrapper that is expected.
    """
    commands = []
    for segment in segments:
        words = segment.words
        for index in _command_indexes(words, vocabulary):
            name = read_name(words[index].text)
            if name is None or is_number(name):
                continue
            if name in _NEVER_A_COMMAND and not vocabulary.is_expected(name):
                continue
            arguments = " ".join([word.text for word in words[index + 1 :]])
            command = Command(
                start=words[index].start, name=name, arguments=arguments, written=words[index].text
            )
            commands.append(command)
    return commands


def _command_indexes(words: list[Word], vocabulary: Vocabulary) -> list[int]:
    """The words that are commands: each expected wrapper, once, and what the wrappers run."""
    wrappers = vocabulary.lexicon.wrappers
    expected_wrappers: dict[str, int] = {}
    last_wrapper = None
    index = _skip_assignments(words, 0)
    while index < len(words):
        word = words[index].text
        if word in _BEFORE_A_COMMAND:
            index = _skip_assignments(words, index + 1)
            continue
        name = read_name(word)
        options_with_value = wrappers.get(name) if name is not None else None
        if name is None or options_with_value is None:
            break
        if vocabulary.is_expected(name):
            expected_wrappers.setdefault(name, index)
        last_wrapper = index
        index = _skip_wrapper_options(words, index + 1, name, options_with_value)
        index = _skip_assignments(words, index)
    indexes = list(expected_wrappers.values())
    if index < len(words):
        indexes.append(index)
    elif last_wrapper is not None and not indexes:
        # `sudo -l` and `env` alone run nothing else: they are the command.
        indexes.append(last_wrapper)
    return indexes


def first_word(segments: list[Segment]) -> tuple[Word | None, str | None]:
    """The first word that is no assignment, and the command it names; None for what is missing."""
    words = segments[0].words if segments else []
    index = _skip_assignments(words, 0)
    if index == len(words):
        return None, None
    return words[index], read_name(words[index].text)


def _skip_assignments(words: list[Word], index: int) -> int:
    while index < len(words) and "=" in words[index].text and _ASSIGNMENT.match(words[index].text):
        index += 1
    return index


def _skip_wrapper_options(
    words: list[Word], index: int, wrapper: str, options_with_value: list[str]
) -> int:
    """The index of the first word from `index` that is no option of the wrapper, nor its value."""
    while index < len(words):
        word = words[index].text
        if word == "--":
            index += 1
            break
        if not word.startswith("-") or word == "-":
            break
        index += 2 if _takes_next_word(word, options_with_value) else 1
    if wrapper == "timeout" and index < len(words) and _DURATION.fullmatch(words[index].text):
        index += 1
    return min(index, len(words))


def _takes_next_word(option: str, options_with_value: list[str]) -> bool:
    """Whether an option's value is the word after it.

    So it is in `-u bob` and in `-Hu bob`; not in `-ubob`, nor in `--user=bob`.
    """
    if option.startswith("--"):
        return False
    for position, letter in enumerate(option, start=1):
        if f"-{letter}" in options_with_value:
            return position == len(option)
    return False
