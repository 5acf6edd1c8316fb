"""A command line as tokens: words with their quoting remembered, and operators.

Owns: quotes, escapes, `$…`, back-ticks, comments, here-documents. Refuses: arithmetic and process substitution, by
name. Expands nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

OPERATORS = (
    "&>>",
    "<<<",
    "<<-",
    "&&",
    "||",
    ";;",
    ">>",
    "<<",
    "&>",
    ">&",
    "<&",
    ">|",
    "|",
    "&",
    ";",
    "(",
    ")",
    ">",
    "<",
)
REDIRECTS = frozenset({">", ">>", "<", "<<", "<<-", "<<<", "&>", "&>>", ">&", "<&", ">|"})
_BLANK = " \t\r"
_ENDS_WORD = frozenset(" \t\r\n|&;()<>")
_NAME_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_NAME_CHARS = _NAME_START | frozenset("0123456789")


class ShellSyntaxError(Exception):
    """A command line that cannot be read; the message follows on `sh: `."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a word: literal text, a `$parameter`, or the text of a `$(command)`."""

    kind: Literal["text", "parameter", "command"]
    value: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    pieces: tuple[Piece, ...]

    @property
    def plain(self) -> str | None:
        """The word where it is nothing but unquoted text: the only way to write a keyword."""
        if len(self.pieces) == 1 and self.pieces[0].kind == "text" and not self.pieces[0].quoted:
            return self.pieces[0].value
        return None


@dataclass(slots=True)
class Operator:
    """`|`, `&&`, `>` and the like. `source` is the file descriptor before a redirect, `body` a here-document."""

    text: str
    source: int | None = None
    body: Word | None = field(default=None)


Token = Word | Operator


class _Scanner:
    """One pass over a command line."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._tokens: list[Token] = []
        self._documents: list[tuple[Operator, str, bool]] = []

    def scan(self) -> list[Token]:
        while self._at < len(self._text):
            self._scan_token()
        if self._documents:
            raise ShellSyntaxError("a here-document is not closed")
        return self._tokens

    def _scan_token(self) -> None:
        text, at = self._text, self._at
        char = text[at]
        if char in _BLANK:
            self._at += 1
        elif text.startswith("\\\n", at):
            self._at += 2
        elif char == "\n":
            self._at += 1
            self._tokens.append(Operator("\n"))
            self._read_documents()
        elif char == "#":
            end = text.find("\n", at)
            self._at = len(text) if end < 0 else end
        elif text.startswith(("<(", ">("), at):
            raise ShellSyntaxError("process substitution '<(…)' is not supported")
        elif not self._scan_operator():
            self._scan_word()

    def _scan_operator(self) -> bool:
        source = None
        at = self._at
        if self._text[at] in "012" and self._text[at + 1 : at + 2] in ("<", ">"):
            source = int(self._text[at])
            at += 1
        found = next((operator for operator in OPERATORS if self._text.startswith(operator, at)), None)
        if found is None:
            return False
        self._at = at + len(found)
        operator = Operator(found, source)
        self._tokens.append(operator)
        if found in ("<<", "<<-"):
            self._announce_document(operator)
        return True

    def _announce_document(self, operator: Operator) -> None:
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        word = self._read_word()
        mark = "".join(piece.value for piece in word.pieces)
        if not mark:
            raise ShellSyntaxError("a here-document has no end mark")
        self._documents.append((operator, mark, any(piece.quoted for piece in word.pieces)))

    def _read_documents(self) -> None:
        for operator, mark, literal in self._documents:
            lines = []
            while True:
                if self._at >= len(self._text):
                    raise ShellSyntaxError(f"a here-document is not closed by '{mark[:60]}'")
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._at = end + 1
                line = line.lstrip("\t") if operator.text == "<<-" else line
                if line == mark:
                    break
                lines.append(line + "\n")
            body = "".join(lines)
            operator.body = Word((Piece("text", body, True),)) if literal else read_double_quoted(body)
        self._documents.clear()

    def _scan_word(self) -> None:
        self._tokens.append(self._read_word())

    def _read_word(self) -> Word:
        pieces: list[Piece] = []
        text = self._text
        while self._at < len(text) and text[self._at] not in _ENDS_WORD:
            char = text[self._at]
            if char == "'":
                end = text.find("'", self._at + 1)
                if end < 0:
                    raise ShellSyntaxError("syntax error: unterminated quoted string")
                pieces.append(Piece("text", text[self._at + 1 : end], True))
                self._at = end + 1
            elif char == '"':
                end = _closing_quote(text, self._at + 1)
                pieces.extend(read_double_quoted(text[self._at + 1 : end]).pieces)
                self._at = end + 1
            elif char == "\\":
                escaped = text[self._at + 1 : self._at + 2]
                if escaped != "\n":
                    pieces.append(Piece("text", escaped, True))
                self._at += 2
            elif char in "$`" and (found := _read_dollar(text, self._at, quoted=False)):
                piece, self._at = found
                pieces.append(piece)
            else:
                start = self._at
                self._at += 1
                while self._at < len(text) and text[self._at] not in _ENDS_WORD and text[self._at] not in "'\"\\$`":
                    self._at += 1
                pieces.append(Piece("text", text[start : self._at]))
        return Word(tuple(pieces))


def tokenize(text: str) -> list[Token]:
    """The tokens of a command line; raises `ShellSyntaxError`."""
    return _Scanner(text).scan()


def read_double_quoted(text: str) -> Word:
    """The inside of double quotes: text, parameters and commands, none of which will be split."""
    pieces: list[Piece] = []
    literal: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            literal.append("" if text[at + 1] == "\n" else text[at + 1])
            at += 2
        elif char in "$`" and (found := _read_dollar(text, at, quoted=True)):
            pieces.append(Piece("text", "".join(literal), True))
            literal.clear()
            piece, at = found
            pieces.append(piece)
        else:
            literal.append(char)
            at += 1
    # An empty piece is kept: it is what makes `""` a word.
    pieces.append(Piece("text", "".join(literal), True))
    return Word(tuple(pieces))


def _read_dollar(text: str, at: int, *, quoted: bool) -> tuple[Piece, int] | None:
    """The parameter or command that starts at `at`, and where it ends; None where `$` stands for itself."""
    if text[at] == "`":
        end = text.find("`", at + 1)
        if end < 0:
            raise ShellSyntaxError("syntax error: unterminated back-tick")
        return Piece("command", text[at + 1 : end], quoted), end + 1
    following = text[at + 1 : at + 2]
    if text.startswith("$((", at):
        raise ShellSyntaxError("arithmetic '$((…))' is not supported")
    if following == "(":
        end = _closing_parenthesis(text, at + 2)
        return Piece("command", text[at + 2 : end], quoted), end + 1
    if following == "{":
        end = text.find("}", at)
        if end < 0:
            raise ShellSyntaxError("syntax error: missing '}'")
        return Piece("parameter", text[at + 2 : end], quoted), end + 1
    if following and following in "?$#@*!0123456789":
        return Piece("parameter", following, quoted), at + 2
    if following not in _NAME_START:
        return None
    end = at + 1
    while end < len(text) and text[end] in _NAME_CHARS:
        end += 1
    return Piece("parameter", text[at + 1 : end], quoted), end


def _closing_quote(text: str, at: int) -> int:
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == '"':
            return at
        elif text.startswith("$(", at) and not text.startswith("$((", at):
            at = _closing_parenthesis(text, at + 2)
        at += 1
    raise ShellSyntaxError("syntax error: unterminated quoted string")


def _closing_parenthesis(text: str, at: int) -> int:
    """Where the parenthesis opened just before `at` closes; quotes inside are skipped."""
    depth = 1
    quote = ""
    while at < len(text):
        char = text[at]
        if char == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "()":
            depth += 1 if char == "(" else -1
            if depth == 0:
                return at
        at += 1
    raise ShellSyntaxError("syntax error: missing ')'")
