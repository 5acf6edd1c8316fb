"""Values and texts compared as they are written, and what must and must not stand in a text."""

from __future__ import annotations

import operator
import unicodedata
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from clawgauge.characters import well_formed
from clawgauge.checks.answer import quoted
from clawgauge.checks.spec import Fields, ListOf, at, check, compile_pattern, is_number, kind_of, re2_pattern, some_text
from clawgauge.errors import SuiteError

RULE_KEYS = ("contains_all", "contains_none")
_PLAIN_QUOTES = str.maketrans("‘’‚‛′“”„‟″", "'" * 5 + '"' * 5)


def pattern_in(wanted: Any) -> str | None:
    """The RE2 pattern that a suite's text stands for, or None where it stands for itself."""
    return wanted.removeprefix("re:") if isinstance(wanted, str) and wanted.startswith("re:") else None


def as_written(text: str) -> str:
    """`text` but for what two keyboards differ in: NFC, straight quotation marks, no white space at the ends."""
    text = well_formed(text).strip()
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_PLAIN_QUOTES)


def same_value(value: Any, wanted: Any, fits_text: Callable[[str, Any], bool] = operator.eq) -> bool:
    """Equality that keeps JSON's kinds apart: numbers by value, texts as `fits_text` has it, the rest kind by kind."""
    if isinstance(value, str):
        return fits_text(value, wanted)
    if is_number(value) and is_number(wanted):
        return bool(value == wanted)
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(
            same_value(*pair, fits_text) for pair in zip(value, wanted, strict=True)
        )
    if isinstance(value, dict) and isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(same_value(value[key], wanted[key], fits_text) for key in wanted)
    return type(value) is type(wanted) and bool(value == wanted)


def shown(value: Any) -> str:
    """A value for use in a detail."""
    if isinstance(value, str):
        return quoted(value)
    if not is_number(value):
        return kind_of(value)
    is_long = isinstance(value, int) and value.bit_length() > 64
    return f"a whole number of {value.bit_length()} bits" if is_long else str(value)


def is_text_rule(wanted: Any) -> bool:
    """Whether a value allowed by a suite is no value but a rule for a text."""
    return isinstance(wanted, Mapping) and bool(wanted) and all(key in RULE_KEYS for key in wanted)


def _text_or_pattern(value: Any, place: str) -> None:
    check(some_text, value, place)
    if (pattern := pattern_in(value)) is not None:
        re2_pattern(pattern, place)


def _refuse_empty(rule: Mapping[str, Any], place: str) -> None:
    if not any(rule.get(key) for key in RULE_KEYS):
        here = at(place, RULE_KEYS[0])
        raise SuiteError(f"key '{here}' is missing or empty; give some texts there or in 'contains_none'")


TEXT_RULE = Fields(
    {}, dict.fromkeys(RULE_KEYS, ListOf(_text_or_pattern, "texts or patterns", least=0)), also=_refuse_empty
)


def find_rule_fault(rule: Mapping[str, Any], text: str) -> str | None:
    """What is wrong with `text`, to follow on its name, or None. A plain text is looked for in any case and spacing."""
    text = as_written(text)
    folded = _folded(text)

    def holds(wanted: str) -> bool:
        if (pattern := pattern_in(wanted)) is not None:
            return compile_pattern(pattern).search(text) is not None
        return _folded(as_written(wanted)) in folded

    lacked = (f"lacks {quoted(wanted)}" for wanted in rule.get("contains_all", []) if not holds(wanted))
    held = (f"holds {quoted(unwanted)}" for unwanted in rule.get("contains_none", []) if holds(unwanted))
    return next(chain(lacked, held), None)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
