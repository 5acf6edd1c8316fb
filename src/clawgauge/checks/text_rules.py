"""Patterns, which are matched in linear time, and rules on what a text holds and lacks."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, TypeGuard

import msgspec
import re2

from clawgauge.characters import well_formed
from clawgauge.checks.answer import quoted
from clawgauge.checks.spec import KeyFault, ListOf, Spec, check, fields_of, refuse, some_text
from clawgauge.errors import SuiteError

_PATTERN_PREFIX = "re:"
_PLAIN_QUOTES = str.maketrans("‘’‚‛′“”„‟″", "'" * 5 + '"' * 5)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """The compiled pattern, of which `re2_pattern` knows that RE2 takes it."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def matches_fully(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).fullmatch(well_formed(text)) is not None


def re2_pattern(value: Any, place: str) -> None:
    """A shape: a pattern that RE2 can match."""
    if not isinstance(value, str):
        raise refuse(place, "an RE2 pattern, as text", value)
    try:
        compile_pattern(value)
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace") if error.args else "no reason given"
        reason = f"cannot be read by RE2, which has no lookaround and no back-references ({why})"
        raise SuiteError(f"key '{place}' {reason}; write the pattern another way") from None
    except UnicodeEncodeError:
        reason = "holds a lone surrogate, which no text can; take it out"
        raise SuiteError(f"key '{place}' {reason}") from None


def pattern_in(text: Any) -> str | None:
    """The RE2 pattern that a suite's text stands for, or None where it stands for itself."""
    if isinstance(text, str) and text.startswith(_PATTERN_PREFIX):
        return text.removeprefix(_PATTERN_PREFIX)
    return None


def text_or_texts(value: Any, place: str) -> None:
    """A shape: one text or pattern, or a list of them."""
    is_list = isinstance(value, list)
    for index, item in enumerate(value if is_list else [value]):
        item_place = f"{place}[{index}]" if is_list else place
        if not isinstance(item, str) or not item:
            raise refuse(item_place, "text that is not empty, or a list of texts", item)
        pattern = pattern_in(item)
        if pattern is not None:
            re2_pattern(pattern, item_place)


def text_or_pattern(value: Any, place: str) -> None:
    """A shape: a text that is not blank, or `re:` and a pattern."""
    check(some_text, value, place)
    pattern = pattern_in(value)
    if pattern is not None:
        re2_pattern(pattern, place)


def as_written(text: str) -> str:
    """`text` but for what two keyboards differ in.

    That is Unicode's form (NFC), curly quotation marks, and white space at the ends.
    """
    text = well_formed(text).strip()
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text).translate(_PLAIN_QUOTES)


_texts_or_patterns = ListOf(text_or_pattern, "texts or patterns", least=0)


class TextRule(Spec, frozen=True):
    """What a text must hold, and what it must not. A plain text is found in any case and
    spacing."""

    contains_all: Annotated[list[str], _texts_or_patterns] = []
    contains_none: Annotated[list[str], _texts_or_patterns] = []

    def find_contradiction(self) -> KeyFault | None:
        if not self.contains_all and not self.contains_none:
            reason = "is missing or empty; give some texts there or in 'contains_none'"
            return ("contains_all", reason)
        # What patterns match only a text can tell.
        unwanted = [text for text in self.contains_none if pattern_in(text) is None]
        for text in self.contains_all:
            if pattern_in(text) is not None:
                continue
            fault = find_rule_fault(text, contains_none=unwanted)
            if fault is not None:
                reason = f"{fault}, which 'contains_none' rules out; take one of them out"
                return ("contains_all", reason)
        return None

    def find_fault(self, text: str) -> str | None:
        """What is wrong with `text`, to follow on its name, or None."""
        return find_rule_fault(text, self.contains_all, self.contains_none)


TEXT_RULE_SHAPE = fields_of(TextRule)
_RULE_KEYS = ("contains_all", "contains_none")


def is_text_rule(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value that a suite allows is a rule on texts, and not an object to compare with."""
    if not isinstance(value, Mapping) or not value:
        return False
    return all(key in _RULE_KEYS for key in value)


def read_text_rule(value: Mapping[str, Any]) -> TextRule:
    """The rule that `is_text_rule` has seen."""
    return msgspec.convert(value, TextRule)


def find_rule_fault(
    text: str, contains_all: Sequence[str] = (), contains_none: Sequence[str] = ()
) -> str | None:
    """What is wrong with `text`, to follow on its name, or None."""
    text = as_written(text)
    folded_text = _fold(text)

    def holds(wanted: str) -> bool:
        pattern = pattern_in(wanted)
        if pattern is not None:
            return compile_pattern(pattern).search(text) is not None
        return _fold(as_written(wanted)) in folded_text

    for wanted in contains_all:
        if not holds(wanted):
            return f"lacks {quoted(wanted)}"
    for unwanted in contains_none:
        if holds(unwanted):
            return f"holds {quoted(unwanted)}"
    return None


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())
