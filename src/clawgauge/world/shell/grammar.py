"""Tokens → a tree of commands.

Owns: lists, pipelines, redirects, groups, `for`, `while`, `until` and `if`. Refuses: functions, `case` and background
jobs, by name.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from clawgauge.world.shell.tokens import REDIRECTS, Operator, Piece, ShellSyntaxError, Token, Word, tokenize

_MAX_DEPTH = 12
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SEPARATORS = frozenset({";", "\n"})
_CLOSERS = frozenset({"do", "done", "then", "else", "elif", "fi", "}"})
_UNSUPPORTED = frozenset({"case", "function", "select", "[[", "coproc"})


@dataclass(frozen=True, slots=True)
class Redirect:
    """`source` is the descriptor that moves; `target` a file's name, `text` what is read instead of a file."""

    operator: str
    source: int | None
    target: Word


@dataclass(slots=True)
class Simple:
    words: list[Word] = field(default_factory=list)
    assignments: list[tuple[str, Word]] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class Group:
    """`( … )` in a scope of its own, or `{ …; }` in the one around it."""

    body: CommandList
    own_scope: bool
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class For:
    variable: str
    words: list[Word]
    body: CommandList
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class While:
    condition: CommandList
    body: CommandList
    until: bool
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class If:
    """Conditions with what follows each; the last condition is None for `else`."""

    branches: list[tuple[CommandList | None, CommandList]]
    redirects: list[Redirect] = field(default_factory=list)


Command = Simple | Group | For | While | If


@dataclass(slots=True)
class Pipeline:
    commands: list[Command]
    negated: bool = False


@dataclass(slots=True)
class CommandList:
    """Pipelines, each with the operator before it: `;`, `&&` or `||`."""

    steps: list[tuple[str, Pipeline]] = field(default_factory=list)


def parse(text: str) -> CommandList:
    """The tree of a command line; raises `ShellSyntaxError`."""
    parser = _Parser(tokenize(text))
    commands = parser.read_list(closers=())
    parser.expect_end()
    return commands


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    # --- looking ahead -----------------------------------------------------------------------------------------------

    def _peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _operator(self) -> str | None:
        token = self._peek()
        return token.text if isinstance(token, Operator) else None

    def _keyword(self) -> str | None:
        token = self._peek()
        return token.plain if isinstance(token, Word) else None

    def _unexpected(self) -> ShellSyntaxError:
        token = self._peek()
        if token is None:
            return ShellSyntaxError("syntax error: unexpected end of file")
        shown = token.text if isinstance(token, Operator) else "".join(piece.value for piece in token.pieces)
        shown = "newline" if shown == "\n" else shown[:60]
        return ShellSyntaxError(f"syntax error near unexpected token '{shown}'")

    def _take_keyword(self, wanted: str) -> None:
        if self._keyword() != wanted:
            raise self._unexpected()
        self._at += 1

    def _skip_newlines(self) -> None:
        while self._operator() == "\n":
            self._at += 1

    def expect_end(self) -> None:
        if self._peek() is not None:
            raise self._unexpected()

    # --- reading -----------------------------------------------------------------------------------------------------

    def read_list(self, closers: Collection[str]) -> CommandList:
        """Pipelines up to the end, a closing parenthesis or one of the keywords `closers`."""
        commands = CommandList()
        connector = ";"
        while True:
            while self._operator() in _SEPARATORS:
                self._at += 1
            if self._peek() is None or self._operator() == ")" or self._keyword() in closers:
                return commands
            commands.steps.append((connector, self._read_pipeline()))
            operator = self._operator()
            if operator in ("&&", "||"):
                self._at += 1
                self._skip_newlines()
                connector = operator
                if self._peek() is None:
                    raise self._unexpected()
            elif operator == "&":
                raise ShellSyntaxError("background jobs ('&') are not supported")
            elif operator in _SEPARATORS:
                connector = ";"
            elif operator is None or operator == ")":
                if self._peek() is None or operator == ")" or self._keyword() in closers:
                    return commands
                raise self._unexpected()
            else:
                raise self._unexpected()

    def _read_pipeline(self) -> Pipeline:
        negated = self._keyword() == "!"
        if negated:
            self._at += 1
        pipeline = Pipeline([self._read_command()], negated)
        while self._operator() == "|":
            self._at += 1
            self._skip_newlines()
            pipeline.commands.append(self._read_command())
        return pipeline

    def _read_command(self) -> Command:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ShellSyntaxError("commands are nested too deeply")
        try:
            command = self._read_compound()
            if command is None:
                return self._read_simple()
            while self._operator() in REDIRECTS:
                command.redirects.append(self._read_redirect())
            return command
        finally:
            self._depth -= 1

    def _read_compound(self) -> Group | For | While | If | None:
        keyword = self._keyword()
        if self._operator() == "(":
            self._at += 1
            body = self.read_list(closers=())
            if self._operator() != ")":
                raise self._unexpected()
            self._at += 1
            return Group(body, own_scope=True)
        if keyword == "{":
            self._at += 1
            body = self.read_list(closers=("}",))
            self._take_keyword("}")
            return Group(body, own_scope=False)
        if keyword == "for":
            return self._read_for()
        if keyword in ("while", "until"):
            self._at += 1
            condition = self.read_list(closers=("do",))
            return While(condition, self._read_body(), until=keyword == "until")
        if keyword == "if":
            return self._read_if()
        if keyword in _UNSUPPORTED:
            raise ShellSyntaxError(f"'{keyword}' is not supported")
        if keyword in _CLOSERS:
            raise self._unexpected()
        return None

    def _read_body(self) -> CommandList:
        self._take_keyword("do")
        body = self.read_list(closers=("done",))
        self._take_keyword("done")
        return body

    def _read_for(self) -> For:
        self._at += 1
        variable = self._keyword() or ""
        if not variable.isidentifier():
            raise self._unexpected()
        self._at += 1
        self._skip_newlines()
        self._take_keyword("in")
        words = []
        while isinstance(token := self._peek(), Word):
            words.append(token)
            self._at += 1
        while self._operator() in _SEPARATORS:
            self._at += 1
        return For(variable, words, self._read_body())

    def _read_if(self) -> If:
        branches: list[tuple[CommandList | None, CommandList]] = []
        while self._keyword() in ("if", "elif"):
            self._at += 1
            condition = self.read_list(closers=("then",))
            self._take_keyword("then")
            branches.append((condition, self.read_list(closers=("elif", "else", "fi"))))
        if self._keyword() == "else":
            self._at += 1
            branches.append((None, self.read_list(closers=("fi",))))
        self._take_keyword("fi")
        return If(branches)

    def _read_simple(self) -> Simple:
        command = Simple()
        while True:
            token = self._peek()
            if isinstance(token, Word):
                self._at += 1
                assignment = None if command.words else _split_assignment(token)
                if assignment is not None:
                    command.assignments.append(assignment)
                else:
                    command.words.append(token)
            elif self._operator() in REDIRECTS:
                command.redirects.append(self._read_redirect())
            else:
                break
        if self._operator() == "(":
            raise ShellSyntaxError("functions are not supported" if command.words else "syntax error: unexpected '('")
        if not (command.words or command.assignments or command.redirects):
            raise self._unexpected()
        return command

    def _read_redirect(self) -> Redirect:
        operator = self._tokens[self._at]
        if not isinstance(operator, Operator):
            raise self._unexpected()
        self._at += 1
        if operator.body is not None:
            return Redirect("<<", operator.source, operator.body)
        target = self._peek()
        if not isinstance(target, Word):
            raise self._unexpected()
        self._at += 1
        return Redirect(operator.text, operator.source, target)


def _split_assignment(word: Word) -> tuple[str, Word] | None:
    first = word.pieces[0] if word.pieces else None
    if first is None or first.kind != "text" or first.quoted or not _ASSIGNMENT.match(first.value):
        return None
    name, _, rest = first.value.partition("=")
    return name, Word((Piece("text", rest, quoted=True), *word.pieces[1:]))
