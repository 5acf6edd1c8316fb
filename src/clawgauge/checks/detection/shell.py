"""Words that name commands, a line of shell taken apart, and whether words in prose are a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from clawgauge.records import ToolInvocation

_LEXICON = Path(__file__).parents[1] / "command_lexicon.json"
_MAX_WORD_CHARS, _MAX_NAME_CHARS = 1024, 128
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:-]*")
_RUNNABLE_PATH = re.compile(r"(?:\./.*|(?:.*/)?s?bin)/([^/]+)|\./([^/]+)")
NOT_NEW_LINE = re.compile(r"[^\n]")
_NUMBER = re.compile(
    r"[0-9][0-9._:+-]*(?:[eE][+-]?[0-9]+)?|0[xX][0-9A-Fa-f]+"
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


class Vocabulary(NamedTuple):
    lexicon: Lexicon
    expected: frozenset[str]

    @classmethod
    def for_prompt(cls, expected: Iterable[str] = ()) -> Vocabulary:
        return cls(load_lexicon(), frozenset(name.strip().lower() for name in expected))

    def is_expected(self, word: str) -> bool:
        """Whether `word` is expected as written: a capital at its start makes it a word of prose."""
        return not word[:1].isupper() and word.lower() in self.expected

    def is_known(self, word: str) -> bool:
        """Whether `word`, as written, is a command: lower case, unless the prompt expects it."""
        return (
            word in self.lexicon.unambiguous
            or word in self.lexicon.ambiguous
            or self.is_expected(word)
        )

    def is_grammar(self, word: str) -> bool:
        """Whether `word` only holds a sentence together ("the", "is") and is no command that is known."""
        lowered = word.lower()
        return lowered in self.lexicon.function_words and not self.is_known(lowered)

    def is_shouted(self, word: str) -> bool:
        return word.isupper() and word.lower() not in self.expected


def read_name(word: str) -> str | None:
    """The command `word` names, as written: a name, or the last part of a path into `bin/`, `sbin/` or `./`."""
    return _read_short_name(word) if len(word) <= _MAX_WORD_CHARS else None


# Words come again and again in a text, and each is looked at by several steps.
@lru_cache(maxsize=4096)
def _read_short_name(word: str) -> str | None:
    path = _RUNNABLE_PATH.fullmatch(word) if "/" in word else None
    word = (path[1] or path[2] if path else word).rstrip(".")
    is_name = len(word) <= _MAX_NAME_CHARS and not word.endswith(":") and _NAME.fullmatch(word)
    return word if is_name else None


def is_number(word: str) -> bool:
    return word[:1].isdigit() and _NUMBER.fullmatch(word) is not None


# A lone pipe separates only with a space beside it (`local|premium` is one word); an ampersand next to an angle
# bracket is part of a redirect. A quote that never closes is an apostrophe, an ordinary character.
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
    at: int
    text: str


class Segment(msgspec.Struct, gc=False):
    words: list[Word] = []
    piped: bool = False


class Command(msgspec.Struct, frozen=True, gc=False):
    """One command: its name as written but for a path cut off, its arguments, and its word whole."""

    at: int
    name: str
    arguments: str
    written: str


class Call(msgspec.Struct, frozen=True, gc=False):
    at: int
    invocation: ToolInvocation


class Find(msgspec.Struct, frozen=True, gc=False):
    """A span a step of the detection used, with the calls in it; it may hold none."""

    start: int
    end: int
    calls: list[Call] = []


def mention(command: Command, offset: int = 0, channel: str = "mention") -> Call:
    name, arguments = command.name.lower(), command.arguments or None
    return Call(
        offset + command.at, ToolInvocation(name=name, arguments=arguments, channel=channel)
    )


def split_segments(text: str, start: int = 0) -> list[Segment]:
    """The commands of `text`, none of them empty. `start` is added to every place."""
    segments = [Segment()]
    if _SYNTAX.search(text) is None:
        segments[0].words = [
            Word(start + match.start(), match[0]) for match in _PLAIN_WORD.finditer(text)
        ]
        return segments if segments[0].words else []
    word_at = -1
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "piece":
            word_at = token.start() if word_at < 0 else word_at
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


def read_commands(segments: Iterable[Segment], vocabulary: Vocabulary) -> list[Command]:
    """Every command of a command line, in order; of a segment the one it runs, behind any wrapper that is expected."""
    commands = []
    for words in (segment.words for segment in segments):
        for place in _command_places(words, vocabulary):
            name = read_name(words[place].text)
            if (
                name is None
                or is_number(name)
                or (name in _NEVER_A_COMMAND and not vocabulary.is_expected(name))
            ):
                continue
            arguments = " ".join([argument.text for argument in words[place + 1 :]])
            commands.append(Command(words[place].at, name, arguments, words[place].text))
    return commands


def _command_places(words: list[Word], vocabulary: Vocabulary) -> list[int]:
    wrappers = vocabulary.lexicon.wrappers
    expected_wrappers: dict[str, int] = {}
    last_wrapper, index = -1, _skip_assignments(words, 0)
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
    elif last_wrapper >= 0 and not places:
        places.append(
            last_wrapper
        )  # `sudo -l` and `env` alone run nothing else: they are the command
    return places


def first_word(segments: list[Segment]) -> tuple[Word | None, str | None]:
    words = segments[0].words if segments else []
    index = _skip_assignments(words, 0)
    return (words[index], read_name(words[index].text)) if index < len(words) else (None, None)


def _skip_assignments(words: list[Word], index: int) -> int:
    while index < len(words) and "=" in words[index].text and _ASSIGNMENT.match(words[index].text):
        index += 1
    return index


def _skip_wrapper_options(
    words: list[Word], index: int, wrapper: str, with_value: list[str]
) -> int:
    while index < len(words):
        word = words[index].text
        if word == "--":
            index += 1
            break
        if not word.startswith("-") or word == "-":
            break
        # Its value is the word after it in `-u bob` and `-Hu bob`, not in `-ubob` and not in `--user=bob`.
        taking = (place for place, letter in enumerate(word, start=1) if f"-{letter}" in with_value)
        index += 2 if not word.startswith("--") and next(taking, 0) == len(word) else 1
    if wrapper == "timeout" and index < len(words) and _DURATION.fullmatch(words[index].text):
        index += 1
    return min(index, len(words))


# A word that shows a command line beside a name that is known, and one that does so beside any.
_BESIDE_KNOWN, _ALONE = 1, 2
_TRAILING_PUNCTUATION = ".,;:!?)]}\"'”’"
_SIGN = re.compile(r"[-$=+/.<>~]")
_OPTION = re.compile(r"--?[A-Za-z0-9?]")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]|[({][^\s])")
_KEY_VALUE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*=(?!=|>)")
_PLACEHOLDER = re.compile(r"<[^<>]+>")
_REDIRECT = re.compile(r"(?:[0-9]|&)?>{1,2}(?:&?[0-9]|\||[^>=]|$)|[0-9]?<{1,3}(?:[^<=]|$)")
_FILE = re.compile(
    r"[A-Za-z0-9_+*?-]+(?:\.[A-Za-z0-9_+*?-]+)*\.[A-Za-z*][A-Za-z0-9]{0,9}|\.[A-Za-z][A-Za-z0-9_.-]+"
)
_ROOTED_PATH = re.compile(r"/(?!/)|\.{1,2}/|~(?:[/A-Za-z]|$)")
_INITIALS = re.compile(r"[A-Za-z](?:\.[A-Za-z])+")
_LETTER = re.compile(r"[A-Za-z]")


def is_command_like(segments: list[Segment], vocabulary: Vocabulary) -> bool:
    first, name = first_word(segments)
    if first is None or name is None or is_number(name) or vocabulary.is_grammar(name):
        return False
    is_known, lexicon = vocabulary.is_known(name), vocabulary.lexicon
    if (
        name[0].isupper()
        and name[1:].islower()
        and name.isalpha()
        and not vocabulary.is_known(name.lower())
    ):
        return False  # a word that starts a sentence ("Use -h to …")
    rest = [word.text for segment in segments for word in segment.words if word.at > first.at]
    if any(weight >= (_BESIDE_KNOWN if is_known else _ALONE) for weight in _weigh(rest)):
        return True
    # One side of a pipe is a known command; `"local | premium"` is a choice.
    sides = (side for left, right in pairwise(segments) if left.piped for side in (left, right))
    if any(starts_known(side, vocabulary) for side in sides):
        return True
    if rest and rest[0].rstrip(_TRAILING_PUNCTUATION).lower() in lexicon.function_words:
        return False
    # With arguments these can hardly be prose.
    is_certain = vocabulary.is_expected(name) and name not in lexicon.ambiguous
    return name in lexicon.unambiguous or "_" in name or is_certain


def starts_known(segment: Segment, vocabulary: Vocabulary) -> bool:
    return vocabulary.is_known(first_word([segment])[1] or "")


def has_shell_syntax(segments: list[Segment]) -> bool:
    first, _ = first_word(segments)
    rest = [
        word.text for segment in segments for word in segment.words if first and word.at > first.at
    ]
    return first is not None and (any(segment.piped for segment in segments) or any(_weigh(rest)))


def _weigh(words: list[str]) -> Iterator[int]:
    """What each word says about the line it stands in: nothing (0), or how much."""
    for index, word in enumerate(words):
        if word == "/":
            # The root directory as the last argument, or before an option; between words it is "or".
            alone = index + 1 < len(words) and not words[index + 1].startswith("-")
            yield 0 if alone else _BESIDE_KNOWN
            continue
        if _SIGN.search(word) is None:
            yield 0
            continue
        is_quoted = len(word) >= 2 and word[0] in "\"'" and word[-1] == word[0]
        inside = word[1:-1] if is_quoted else word
        bare = inside.rstrip(_TRAILING_PUNCTUATION)
        path = bare or inside
        if _KEY_VALUE.match(word):
            yield _ALONE
        elif any(map(str.isspace, inside)):
            yield 0  # a quoted phrase is someone's words, not syntax
        elif _OPTION.match(inside) or _VARIABLE.search(inside) or inside.startswith("+%"):
            yield _ALONE
        else:
            is_redirect = _REDIRECT.match(inside) and not _PLACEHOLDER.fullmatch(inside)
            is_path = _ROOTED_PATH.match(path) or (
                "/" in path and "." in path and _LETTER.search(path)
            )
            is_file = _FILE.fullmatch(bare) and not _INITIALS.fullmatch(bare)
            yield _BESIDE_KNOWN if is_redirect or is_path or is_file else 0
