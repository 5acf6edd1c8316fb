"""Whether two lines of shell do the same, told without running them.

A line is read into its commands and their words, and what is known to make no difference is taken
off. What cannot be read is compared as it stands.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from clawgauge.characters import well_formed
from clawgauge.checks.agreement_words import LEXICON, PATTERNS

_TOKEN = re.compile(PATTERNS["token"].pattern.replace("QUOTED", PATTERNS["quoted"].pattern))
# What a shell takes as it is, in a pattern's brackets.
_ORDINARY = r"\w./:@%+=,-"
_UNORDINARY = re.compile(rf"[^{_ORDINARY}]")
_ORDINARY_TEXT = re.compile(rf"(?:\\.|[{_ORDINARY}])*", re.DOTALL)


class Operator(NamedTuple):
    """An operator of the shell, such as `|` or `>`; a line's end is `;`."""

    sign: str


Token: TypeAlias = str | Operator

_SEMICOLON = Operator(";")
_SILENCED = (Operator("2>"), "/dev/null")
_ERRORS_TOO = [Operator("2>&"), "1"]


def composed(text: str) -> str:
    return unicodedata.normalize("NFC", well_formed(text))


def resolve_path(path: str, cwd: str) -> str:
    """Where a path leads; the home of whoever works in /home/ana/clawd is /home/ana."""
    home = re.match(r"/(?:home|Users)/[^/]+|/root", cwd)
    path = composed(path).strip()
    if home is not None:
        path = re.sub(r"\A~(?=/|\Z)", lambda _: home[0], path)
    return posixpath.normpath(posixpath.join(cwd, path))


def only_looks(line: str) -> bool:
    """Whether a line of shell can do nothing but print what is in files."""
    if PATTERNS["plain_line"].fullmatch(line) is None:
        return False
    tokens = _read_line(line)
    if tokens is None:
        return False
    for index, words in enumerate(_split_commands(tokens)):
        is_operator = index % 2 == 1
        if is_operator and words != [Operator("|")]:
            return False
        if not is_operator and not _command_only_looks(words):
            return False
    return True


def _command_only_looks(words: list[Token]) -> bool:
    # Each program that only looks, and the words that would make it do more.
    active_words: dict[str, str] = LEXICON["looks"]
    if not words or words[0] not in active_words:
        return False
    pattern = active_words[str(words[0])]
    return not any(re.fullmatch(pattern, str(word)) for word in words[1:])


def commands_of(line: str, cwd: str) -> list[object]:
    """A line as the words of its commands in their order, to compare with another's.

    What makes no difference is gone: silencing, quotes around ordinary characters, the order of
    switches, how a path is written, a shell or a `cd` to where one is already.
    """
    tokens = _read_line(line.strip())
    if tokens is None:
        return [line.strip()]
    tokens = _without_silencing(tokens)
    inner = _line_in_a_shell(tokens)
    if inner is not None:
        return commands_of(inner, cwd)
    tokens = _without_idle_cd(tokens, cwd)
    if tokens[-1:] == [_SEMICOLON]:
        tokens = tokens[:-1]
    commands: list[object] = []
    for index, words in enumerate(_split_commands(tokens)):
        is_operator = index % 2 == 1
        commands.append(words if is_operator else _plain_command(words, cwd))
    return commands


def _read_line(line: str) -> list[Token] | None:
    """The words and operators of a line of shell; None if they cannot be told.

    Quotes are taken off where they change nothing: what they keep from the shell has a backslash
    before it.
    """
    if PATTERNS["nested"].search(line):
        return None
    tokens: list[Token] = []
    position = 0
    while position < len(line):
        match = _TOKEN.match(line, position)
        if match is None:
            return None
        position = match.end()
        if match["operator"]:
            sign = re.sub(r"\A1(?=>)|\s", "", match["operator"])
            tokens.append(Operator(sign or ";"))
        elif match["word"] and _names_command(tokens):
            # There, quotes make a keyword or an assignment a name.
            tokens.append(match["word"])
        elif match["word"]:
            tokens.append(PATTERNS["quoted"].sub(_unquote, match["word"]) or "''")
    return tokens


def _names_command(tokens_before: list[Token]) -> bool:
    """Whether the next word is the name of a command."""
    if not tokens_before:
        return True
    last = tokens_before[-1]
    return isinstance(last, Operator) and last.sign[-1] not in "<>"


def _unquote(match: re.Match[str]) -> str:
    text = match[0]
    if text[0] == '"' and re.search(r"[$\\!]", text):
        return text
    inner = text[1:] if text[0] == "\\" else text[1:-1]
    return _UNORDINARY.sub(r"\\\g<0>", inner)


def _split_commands(tokens: Iterable[Token]) -> list[list[Token]]:
    """The words of each command, and between two of them the operator, alone in a list."""
    commands: list[list[Token]] = [[]]
    for token in tokens:
        if isinstance(token, Operator):
            commands.append([token])
            commands.append([])
        else:
            commands[-1].append(token)
    return commands


def _without_silencing(tokens: list[Token]) -> list[Token]:
    """The tokens without `2>/dev/null`, and without `2>&1` at the end of a line."""
    silenced: set[int] = set()
    for index, pair in enumerate(pairwise(tokens)):
        if pair == _SILENCED:
            silenced.update((index, index + 1))
    left = [token for index, token in enumerate(tokens) if index not in silenced]
    if left[-2:] == _ERRORS_TOO and not any(_redirects(token) for token in left[:-2]):
        return left[:-2]
    return left


def _redirects(token: Token) -> bool:
    return isinstance(token, Operator) and ">" in token.sign


def _line_in_a_shell(tokens: list[Token]) -> str | None:
    """The line that `bash -c` runs, where the tokens are only that and it can be told."""
    if len(tokens) != 3:
        return None
    # An operator is never part of the pattern.
    start = " ".join(map(str, tokens[:2]))
    inner = tokens[2]
    if not PATTERNS["in_a_shell"].fullmatch(start) or not isinstance(inner, str):
        return None
    if not _ORDINARY_TEXT.fullmatch(inner):
        return None
    return re.sub(r"(?s)\\(.)", r"\1", inner)


def _without_idle_cd(tokens: list[Token], cwd: str) -> list[Token]:
    """The tokens without a `cd` to where one is already."""
    if len(tokens) < 3 or tokens[0] != "cd" or tokens[2] not in (Operator("&&"), _SEMICOLON):
        return tokens
    is_idle = resolve_path(str(tokens[1]), cwd) == resolve_path(".", cwd)
    return tokens[3:] if is_idle else tokens


class _PlainCommand(NamedTuple):
    """One command: two of the same name, switches and operands do the same."""

    name: str
    switches: frozenset[str]
    operands: tuple[str, ...]


def _plain_command(words: list[Token], cwd: str) -> _PlainCommand:
    """One command, its switches in no order, and paths as where they lead where they surely are."""
    name = re.sub(r"\A/(?:usr/)?bin/", "", "".join(str(word) for word in words[:1]))
    texts = [str(word) for word in words]
    if name in ("head", "tail"):
        texts = _plain_line_count(texts)
    switch_letters = LEXICON["switches"].get(name, "")
    switches: set[str] = set()
    operands: list[str] = []
    n_operands = 0
    has_options = False
    for written_word in texts[1:]:
        word = LEXICON["long"].get(f"{name} {written_word}", written_word)
        # What follows an option that is not known may be its value.
        may_be_value = has_options and operands[-1].startswith("-")
        if switch_letters and not may_be_value and re.fullmatch(f"-[{switch_letters}]+", word):
            switches.update(word)
        elif word.startswith("-"):
            operands.append(word)
            has_options = True
            if word == "--":
                switch_letters = ""
        else:
            n_operands += 1
            if _is_file(name, n_operands, has_options=has_options, is_first=not operands):
                word = _plain_path(word, cwd, keeps_slash=name not in LEXICON["looks"])
            operands.append(word)
    # Where one is already need not be named.
    if cwd and name in LEXICON["here"] and operands == [resolve_path(".", cwd)]:
        operands = []
    return _PlainCommand(name, frozenset(switches), tuple(operands))


def _plain_line_count(words: list[str]) -> list[str]:
    """The words of `head` and `tail`, where `-5`, `-n 5` and `--lines=5` are `-n5`."""
    options, *files = "\0".join(words).partition("\0--\0")
    options = re.sub(r"(?<=\0)-(?:n\0?|-lines[=\0])?(\d+)(?=\0|\Z)", r"-n\1", options)
    return "".join([options, *files]).split("\0")


def _is_file(name: str, n_operands: int, *, has_options: bool, is_first: bool) -> bool:
    """Whether the operand that is the `n_operands`-th of a program surely is a file."""
    if name in LEXICON["file_first"] and is_first:
        return True
    if name not in LEXICON["switches"]:
        return False
    # The first operand of grep is its pattern, unless an option has brought that.
    return name != "grep" or (n_operands > 1 and not has_options)


def _plain_path(word: str, cwd: str, *, keeps_slash: bool) -> str:
    """Where a word leads that is a path.

    `..` may follow a link, so that it is left, and a variable may be anything.
    """
    word = re.sub(r"\A\$HOME(?=/|\Z)", "~", word)
    is_unsure = re.match(r"[$\\\"']|~[^/]", word) is not None
    if is_unsure or ".." in word.split("/") or word.endswith("/."):
        return word
    path = resolve_path(word, cwd)
    if keeps_slash and word.endswith("/"):
        return f"{path}/"
    return path
