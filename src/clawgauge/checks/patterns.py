"""Patterns a suite author writes, matched in linear time.

Owns: compiling with RE2, once per pattern, and saying in plain words what RE2 refuses. Refuses: the standard library's
engine, whose matching time a pattern such as `(a+)+b` can blow up.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import re2

from clawgauge.checks.well_formed import well_formed

# What RE2 calls the piece it stumbled over, and what the author knows it as.
_CONSTRUCTS = {
    "(?=": "lookahead",
    "(?!": "negative lookahead",
    "(?<=": "lookbehind",
    "(?<!": "negative lookbehind",
    "(?>": "an atomic group",
    "(?(": "a conditional group",
    "(?#": "a comment group",
    "(?P=": "a named back-reference",
    "(?P>": "recursion",
    "(?R": "recursion",
    "(?x": "the verbose flag",
    "*+": "a possessive quantifier",
    "++": "a possessive quantifier",
    "?+": "a possessive quantifier",
    r"\k": "a named back-reference",
    r"\g": "a back-reference",
    r"\Z": "an end anchor, needless where the whole answer must match",
    r"\G": "an anchor at the last match",
    r"\K": "a reset of the match",
    r"\R": "a class of line breaks",
    r"\h": "a class of blanks",
    r"\u": r"an escape, written \x{…} here",
}
_BACK_REFERENCE = re.compile(r"\\[1-9]")
_STUMBLED_OVER = re.compile(r"[^:]+: (?P<piece>.*)", re.DOTALL)


class PatternRefused(ValueError):
    """A pattern RE2 does not take. The message says what of it, to follow on "the pattern"."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """The compiled pattern; raises `PatternRefused`."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise PatternRefused(_explain(pattern, error)) from None
    except UnicodeEncodeError:
        raise PatternRefused("holds a lone surrogate, which no text can") from None


def matches_fully(pattern: str, text: str) -> bool:
    """Whether the whole of `text` matches."""
    return compile_pattern(pattern).fullmatch(well_formed(text)) is not None


def _explain(pattern: str, error: re2.error) -> str:
    said = error.args[0] if error.args else b""
    words = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    stumbled_over = _STUMBLED_OVER.fullmatch(words)
    piece = stumbled_over["piece"] if stumbled_over else ""
    if piece == "(?P":
        piece = next((longer for longer in ("(?P=", "(?P>") if longer in pattern), piece)
    construct = "a back-reference" if _BACK_REFERENCE.fullmatch(piece) else _CONSTRUCTS.get(piece)
    if construct:
        return f"uses '{piece}' ({construct}), which RE2 does not have"
    return f"cannot be read by RE2 ({words or 'no reason given'})"
