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

_GROUPS = {
    "(?=": "lookahead",
    "(?!": "negative lookahead",
    "(?<=": "lookbehind",
    "(?<!": "negative lookbehind",
    "(?>": "an atomic group",
    "(?(": "a conditional group",
    "(?#": "a comment group",
    "(?P=": "a named back-reference",
    "(?R": "recursion",
    "(?x": "the verbose flag",
}
_ESCAPES = {
    r"\Z": r"the end anchor \Z (the match is always of the whole answer; leave it out)",
    r"\G": r"the anchor \G",
    r"\K": r"the reset \K",
    r"\R": r"the line break class \R",
    r"\h": r"the class \h",
    r"\k": r"a named back-reference",
    r"\u": r"the escape \u (write \x{…})",
}
_BACK_REFERENCE = re.compile(r"\\[1-9]")
_REFUSED = re.compile(r"(?P<reason>[^:]+): (?P<what>.*)", re.DOTALL)


class PatternRefused(ValueError):
    """A pattern RE2 does not take; the message names the construct."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """The compiled pattern; raises `PatternRefused`."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise PatternRefused(_construct(pattern, error)) from None
    except UnicodeEncodeError:
        raise PatternRefused("a lone surrogate, which no text can hold") from None


def matches_fully(pattern: str, text: str) -> bool:
    """Whether the whole of `text` matches."""
    return compile_pattern(pattern).fullmatch(well_formed(text)) is not None


def _construct(pattern: str, error: re2.error) -> str:
    said = error.args[0] if error.args else b""
    words = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    refused = _REFUSED.fullmatch(words)
    what = refused["what"] if refused else ""
    if what == "(?P" and "(?P=" in pattern:
        what = "(?P="
    if what in _GROUPS:
        return f"{_GROUPS[what]} {what}"
    if _BACK_REFERENCE.fullmatch(what):
        return f"the back-reference {what}"
    if what in _ESCAPES:
        return _ESCAPES[what]
    return words or "a syntax it does not know"
