"""JavaScript in tokens, as far as rules about our own scripts need it: no comments, templates with what is in them."""

from __future__ import annotations

import re
from typing import NamedTuple


class Token(NamedTuple):
    kind: str  # name, number, string, regex or sign
    text: str


_SKIPPED = re.compile(r"\s+|//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_NUMBER = re.compile(r"\d[\w.]*|\.\d+")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
_REGEX = re.compile(r"/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_SIGN = re.compile(r"===|!==|=>|\?\.|\?\?=?|\*\*|&&|\|\||\.\.\.|[-+*/<>=!]=|\+\+|--|>>|<<|.")
# After one of these a slash begins a regular expression; after anything else it divides.
_BEFORE_VALUE = "( , = : [ ! & | ? { } ; + - * % < > ~ ^ => && || ?? return typeof case"


def tokenize(script: str) -> list[Token]:
    """The tokens of a script. What stands inside `${}` of a template is among them."""
    tokens: list[Token] = []
    _read(script, 0, tokens, inside_template=False)
    return tokens


def _read(script: str, at: int, tokens: list[Token], *, inside_template: bool) -> int:
    """Reads on from `at`; inside a template, to the brace that closes. Returns where it stopped."""
    depth = 0
    while at < len(script):
        skipped = _SKIPPED.match(script, at)
        if skipped:
            at = skipped.end()
            continue
        if script[at] == "`":
            at = _read_template(script, at + 1, tokens)
            continue
        if script[at] == "}" and depth == 0 and inside_template:
            return at + 1
        token = _next_token(script, at, tokens)
        if token.text == "{":
            depth += 1
        elif token.text == "}":
            depth -= 1
        tokens.append(token)
        at += len(token.text)
    return at


def _read_template(script: str, at: int, tokens: list[Token]) -> int:
    tokens.append(Token("string", "`"))
    while script[at] != "`":
        if script[at] == "\\":
            at += 2
        elif script.startswith("${", at):
            at = _read(script, at + 2, tokens, inside_template=True)
        else:
            at += 1
    return at + 1


def _next_token(script: str, at: int, tokens: list[Token]) -> Token:
    kinds = [("name", _NAME), ("number", _NUMBER), ("string", _STRING)]
    if not tokens or tokens[-1].text in _BEFORE_VALUE.split():
        kinds.append(("regex", _REGEX))
    for kind, pattern in kinds:
        match = pattern.match(script, at)
        if match:
            return Token(kind, match[0])
    sign = _SIGN.match(script, at)
    assert sign is not None
    return Token("sign", sign[0])
