"""Reading a validator's specification: each key with its type, and an author's patterns, in linear time."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import re2

from clawgauge.characters import well_formed
from clawgauge.errors import SuiteError

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


def kind_of(value: Any) -> str:
    """A JSON value's kind, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    for kinds, words in (
        (str, "text"),
        (int, "a whole number"),
        (float, "a number with a fraction"),
        (list | tuple, "a list"),
        (Mapping, "an object"),
    ):
        if isinstance(value, kinds):
            return words
    return type(value).__name__


def require(spec: Mapping[str, Any], key: str, wanted: str, kind: Any = object) -> Any:
    """The value of `key`, which must be there and of this kind; true and false are no numbers."""
    if key not in spec:
        raise SuiteError(f"key '{key}' is missing; it must be {wanted}")
    value = spec[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
        raise refuse(key, wanted, value)
    return value


def refuse(key: str, wanted: str, value: Any) -> SuiteError:
    """What to raise where `value` is of the wrong kind."""
    return SuiteError(f"key '{key}' must be {wanted}, not {kind_of(value)}")


def require_text(spec: Mapping[str, Any], key: str) -> str:
    wanted = "text that is not blank"
    value: str = require(spec, key, wanted, str)
    if not value.strip():
        raise SuiteError(f"key '{key}' is blank; it must be {wanted}")
    return value


def require_limit(spec: Mapping[str, Any], key: str) -> int:
    wanted = "a whole number, 0 or more"
    value: int = require(spec, key, wanted, int)
    if value < 0:
        raise SuiteError(f"key '{key}' is {value}; it must be {wanted}")
    return value


def require_texts(spec: Mapping[str, Any], key: str, *, may_be_empty: bool = False) -> list[str]:
    wanted = "a list of texts" if may_be_empty else "a list of one or more texts"
    value: list[str] = require(spec, key, wanted, list)
    if not value and not may_be_empty:
        raise SuiteError(f"key '{key}' is empty; it must be {wanted}")
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise refuse(f"{key}[{index}]", "text", item)
        if not item.strip():
            raise SuiteError(f"key '{key}[{index}]' is blank; it must be text that is not blank")
    return value


def require_flag(spec: Mapping[str, Any], key: str) -> bool:
    return bool(require(spec, key, "true or false", bool))


def require_number(spec: Mapping[str, Any], key: str) -> float:
    wanted = "a number"
    value: int | float = require(spec, key, wanted, int | float)
    if not math.isfinite(value):
        raise SuiteError(f"key '{key}' is {value}; it must be {wanted} that is finite")
    return value


def require_pattern(spec: Mapping[str, Any], key: str) -> str:
    wanted = "an RE2 pattern, as text"
    value: str = require(spec, key, wanted, str)
    try:
        compile_pattern(value)
    except PatternRefused as error:
        raise SuiteError(f"key '{key}' {error}; write the pattern another way") from None
    return value


def refuse_misspelt(spec: Mapping[str, Any], keys: Collection[str]) -> None:
    """Refuse a key one slip away from one that means something; a key that resembles none is an author's own note."""
    for key in spec:
        if key in keys:
            continue
        for near in difflib.get_close_matches(str(key), keys, n=1, cutoff=0.8):
            if abs(len(near) - len(str(key))) <= 2:
                raise SuiteError(f"key '{key}' is not known here; did you mean '{near}'?")


def refuse_unknown(spec: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Refuse every key but these; the first of them names what they belong to."""
    refuse_misspelt(spec, keys)
    for key in spec:
        if key not in keys:
            raise SuiteError(f"key '{key}' does not go with '{keys[0]}', which takes {', '.join(keys)}")
