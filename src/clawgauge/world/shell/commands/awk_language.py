"""The part of awk people write on one line, read into functions.

Owns: rules, print, printf, if, for-in, next, exit, assignments and expressions. Refuses: user functions, while,
getline, and redirects inside a program, by saying that they are not supported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from clawgauge.world.shell.call import UsageFault
from clawgauge.world.shell.commands import awk_expressions as does
from clawgauge.world.shell.commands.awk_expressions import Operand
from clawgauge.world.shell.commands.awk_values import Record, is_true, to_text
from clawgauge.world.shell.commands.formatting import format_values, unescape

Statement = Callable[[Record], None]
_MAX_DEPTH = 40
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\#[^\n]*|\\\n)|(?P<number>\d+(?:\.\d+)?|\.\d+)|(?P<text>"(?:[^"\\\n]|\\.)*+")"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<operator>\+\+|--|[-+*/%<>=!]=|&&|\|\||!~|[-+*/%<>=!~?:$(){}\[\];,\n])"""
)
_REGEX = re.compile(r"/((?:[^/\\\n]|\\.)*+)/")
_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=")
_COMPARISONS = ("~", "!~", "in", "<", "<=", ">", ">=", "==", "!=")
_BEFORE_DIVISION = (")", "]", "++", "--")
_UNSUPPORTED = ("while", "do", "function", "getline", "delete", "return", "sub", "gsub", "split", "system")


class Next(Exception):
    """`next`: this line is done."""


class Exit(Exception):
    """`exit`: so is the program."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What to do at BEGIN, at END, or on each line that fits; no pattern fits every line."""

    moment: str
    pattern: Operand | None
    action: Statement


def parse_program(text: str) -> list[Rule]:
    """The rules of a program; raises `UsageFault`."""
    return _Parser(text).read_program()


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        kind, before = tokens[-1] if tokens else ("operator", "(")
        # After an operand a slash divides; anywhere else it opens a pattern.
        divides = kind in ("number", "text") or before in _BEFORE_DIVISION or (kind == "name" and before != "print")
        regex = None if divides else _REGEX.match(text, at)
        found = regex or _TOKEN.match(text, at)
        if found is None:
            raise UsageFault(f"syntax error near '{text[at : at + 20]}'")
        if regex is not None:
            tokens.append(("regex", regex[1].replace("\\/", "/")))
        elif found.lastgroup not in (None, "space"):
            tokens.append((str(found.lastgroup), found[0]))
        at = found.end()
    return [*tokens, ("end", "")]


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0
        # In `print a > "f"` the sign is a redirect; inside parentheses it compares even there.
        self._compares_greater = True

    # --- tokens ------------------------------------------------------------------------------------------------------

    def _peek(self) -> str:
        """The operator or name that comes next; nothing where it is a value."""
        kind, text = self._tokens[self._at]
        return text if kind in ("operator", "name") else ""

    def _is_at_end(self) -> bool:
        return self._tokens[self._at][0] == "end"

    def _take(self, *wanted: str) -> str:
        found = self._peek()
        if found not in wanted:
            return ""
        self._at += 1
        return found

    def _expect(self, wanted: str) -> None:
        if not self._take(wanted):
            raise self._unexpected()

    def _unexpected(self) -> UsageFault:
        text = self._tokens[self._at][1]
        return UsageFault(f"syntax error near '{text[:20]}'" if text.strip() else "syntax error at the end of a line")

    def _skip(self, *ends: str) -> None:
        while self._take(*ends):
            pass

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise UsageFault("nested too deeply")
        yield
        self._depth -= 1

    @contextmanager
    def _comparing_greater(self, compares: bool) -> Iterator[None]:
        before, self._compares_greater = self._compares_greater, compares
        yield
        self._compares_greater = before

    # --- statements --------------------------------------------------------------------------------------------------

    def read_program(self) -> list[Rule]:
        rules = []
        self._skip(";", "\n")
        while not self._is_at_end():
            moment = self._take("BEGIN", "END") or "line"
            pattern = None if moment != "line" or self._peek() == "{" else self._expression()
            rules.append(Rule(moment, pattern, self._block() if self._peek() == "{" else _print_line))
            self._skip(";", "\n")
        return rules

    def _block(self) -> Statement:
        self._expect("{")
        statements: list[Statement] = []
        self._skip(";", "\n")
        while not self._take("}"):
            if self._is_at_end():
                raise UsageFault("syntax error: missing '}'")
            statements.append(self._statement())
            self._skip(";", "\n")

        def run(record: Record) -> None:
            for statement in statements:
                record.fuel.spend(16)
                statement(record)

        return run

    def _statement(self) -> Statement:
        with self._deeper():
            match self._peek():
                case "{":
                    return self._block()
                case "if":
                    return self._read_if()
                case "for":
                    return self._read_for()
                case "print" | "printf":
                    return self._read_print()
                case "next" | "exit" as word:
                    self._at += 1
                    return _stop_line if word == "next" else _stop_program
            expression = self._expression()
            return lambda record: _discard(expression.get(record))

    def _read_if(self) -> Statement:
        self._expect("if")
        self._expect("(")
        condition = self._expression()
        self._expect(")")
        self._skip("\n")
        then = self._statement()
        behind = self._at
        self._skip(";", "\n")
        otherwise: Statement = _do_nothing
        if self._take("else"):
            self._skip("\n")
            otherwise = self._statement()
        else:
            self._at = behind
        return lambda record: then(record) if is_true(condition.get(record)) else otherwise(record)

    def _read_for(self) -> Statement:
        self._expect("for")
        self._expect("(")
        variable = self._name()
        if not self._take("in"):
            raise UsageFault("only 'for (key in array)' is supported here")
        array = self._name()
        self._expect(")")
        self._skip("\n")
        body = self._statement()

        def run(record: Record) -> None:
            for key in list(record.arrays.get(array, {})):
                record.fuel.spend(16)
                record.variables[variable] = key
                body(record)

        return run

    def _name(self) -> str:
        kind, text = self._tokens[self._at]
        if kind != "name":
            raise self._unexpected()
        self._at += 1
        return text

    def _read_print(self) -> Statement:
        word = self._take("print", "printf")
        with self._comparing_greater(False):
            values = [] if self._ends_statement() else self._list()
        if not self._ends_statement():
            raise UsageFault("redirects and pipes inside a program are not supported here")
        if word == "printf":
            return lambda record: record.print(format_values([to_text(value.get(record)) for value in values]))
        if not values:
            return _print_line

        def run(record: Record) -> None:
            joiner = to_text(record.variables.get("OFS", " "))
            record.print(joiner.join(to_text(value.get(record)) for value in values) + "\n")

        return run

    def _ends_statement(self) -> bool:
        return self._is_at_end() or self._peek() in (";", "}", "\n")

    def _list(self) -> list[Operand]:
        values = [self._expression()]
        while self._take(","):
            values.append(self._expression())
        return values

    # --- expressions, loosest first ----------------------------------------------------------------------------------

    def _expression(self) -> Operand:
        with self._deeper():
            left = self._or()
            operator = self._take(*_ASSIGNMENTS)
            if operator:
                return does.assigned(left, operator, self._expression())
            if self._take("?"):
                yes = self._expression()
                self._expect(":")
                return does.chosen(left, yes, self._expression())
            return left

    def _or(self) -> Operand:
        left = self._and()
        while self._take("||"):
            left = does.either(left, self._and())
        return left

    def _and(self) -> Operand:
        left = self._comparison()
        while self._take("&&"):
            left = does.both(left, self._comparison())
        return left

    def _comparison(self) -> Operand:
        left = self._concatenation()
        operator = "" if self._peek() == ">" and not self._compares_greater else self._take(*_COMPARISONS)
        if operator in ("~", "!~"):
            return does.matching(left, self._pattern(), wanted=operator == "~")
        if operator == "in":
            array = self._name()
            return Operand(lambda record: float(to_text(left.get(record)) in record.arrays.get(array, {})))
        return does.compared(left, operator, self._concatenation()) if operator else left

    def _pattern(self) -> Operand:
        kind, text = self._tokens[self._at]
        if kind != "regex":
            return self._concatenation()
        self._at += 1
        return does.constant(text)

    def _concatenation(self) -> Operand:
        left = self._sum()
        while self._starts_operand():
            left = does.joined(left, self._sum())
        return left

    def _starts_operand(self) -> bool:
        kind, text = self._tokens[self._at]
        return kind in ("number", "text") or (kind == "name" and text != "in") or text in ("$", "(")

    def _sum(self) -> Operand:
        left = self._product()
        while operator := self._take("+", "-"):
            left = does.arithmetic(left, operator, self._product())
        return left

    def _product(self) -> Operand:
        left = self._unary()
        while operator := self._take("*", "/", "%"):
            left = does.arithmetic(left, operator, self._unary())
        return left

    def _unary(self) -> Operand:
        with self._deeper():
            if self._take("!"):
                return does.negated(self._unary())
            if self._take("-"):
                return does.arithmetic(does.constant(0.0), "-", self._unary())
            operand = self._primary()
            operator = self._take("++", "--")
            return does.counted(operand, operator) if operator else operand

    def _primary(self) -> Operand:
        kind, text = self._tokens[self._at]
        self._at += kind != "end"
        match kind:
            case "number":
                return does.constant(float(text[:30]))
            case "text":
                return does.constant(unescape(text[1:-1]))
            case "regex":
                return does.matching(Operand(lambda record: record.line), does.constant(text), wanted=True)
            case "name":
                return self._named(text)
        if text == "(":
            with self._comparing_greater(True):
                inner = self._expression()
            self._expect(")")
            return Operand(inner.get)
        if text == "$":
            with self._deeper():
                return does.field_of(self._primary())
        self._at -= kind != "end"
        raise self._unexpected()

    def _named(self, name: str) -> Operand:
        if name in _UNSUPPORTED:
            raise UsageFault(f"'{name}' is not supported here")
        if self._take("["):
            keys = self._list()
            self._expect("]")
            return does.element_of(name, keys)
        given: list[Operand] = []
        has_list = self._peek() == "(" and does.called(name, []) is not None
        if has_list:
            self._expect("(")
            given = [] if self._peek() == ")" else self._list()
            self._expect(")")
        return does.called(name, given) or does.variable(name)


def _print_line(record: Record) -> None:
    record.print(record.line + "\n")


def _stop_line(record: Record) -> None:
    raise Next


def _stop_program(record: Record) -> None:
    raise Exit


def _do_nothing(record: Record) -> None:
    pass


def _discard(value: object) -> None:
    """An expression as a statement: only what it does on the way counts."""
