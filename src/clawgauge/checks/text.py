"""Texts compared as they are written, and what must and must not stand in one."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

from clawgauge.characters import well_formed
from clawgauge.checks.answer import quoted
from clawgauge.checks.spec import PatternRefused, compile_pattern, refuse
from clawgauge.errors import SuiteError

PATTERN_MARK = "re:"
RULE_KEYS = ("contains_all", "contains_none")
_PLAIN_QUOTES = str.maketrans("‘’‚‛′“”„‟″", "'" * 5 + '"' * 5)


def is_pattern(wanted: Any) -> bool:
    return isinstance(wanted, str) and wanted.startswith(PATTERN_MARK)


def as_written(text: str) -> str:
    """`text` but for what two keyboards differ in: NFC, straight quotation marks, no white space at the ends."""
    text = well_formed(text).strip()
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_PLAIN_QUOTES)


def is_text_rule(wanted: Any) -> bool:
    """Whether a value allowed by a suite is no value but a rule for a text."""
    return isinstance(wanted, Mapping) and bool(wanted) and all(key in RULE_KEYS for key in wanted)


def check_pattern(value: str, place: str) -> None:
    """Refuse a text marked as a pattern that RE2 does not take."""
    try:
        compile_pattern(value.removeprefix(PATTERN_MARK))
    except PatternRefused as error:
        raise SuiteError(f"key '{place}' {error}; write the pattern another way") from None


def check_text_rule(rule: Mapping[str, Any], place: str = "") -> None:
    """Refuse a rule that no text can be judged by; `place` is where it stands."""
    prefix = f"{place}." if place else ""
    if not any(rule.get(key) for key in RULE_KEYS):
        raise SuiteError(f"key '{prefix}contains_all' is missing or empty; give some texts there or in 'contains_none'")
    for key in RULE_KEYS:
        items = rule.get(key, [])
        if not isinstance(items, list):
            raise refuse(f"{prefix}{key}", "a list of texts", items)
        for index, item in enumerate(items):
            here = f"{prefix}{key}[{index}]"
            if not isinstance(item, str) or not item.strip():
                raise refuse(here, f"text that is not blank, or a pattern such as '{PATTERN_MARK}(?i)disks?'", item)
            if is_pattern(item):
                check_pattern(item, here)


def find_rule_fault(rule: Mapping[str, Any], text: str) -> str | None:
    """What is wrong with `text`, to follow on its name, or None. A plain text is looked for in any case and spacing."""
    text = as_written(text)
    folded = _folded(text)
    for wanted in rule.get("contains_all", []):
        if not _holds(text, folded, wanted):
            return f"lacks {quoted(wanted)}"
    for unwanted in rule.get("contains_none", []):
        if _holds(text, folded, unwanted):
            return f"holds {quoted(unwanted)}"
    return None


def _holds(text: str, folded: str, wanted: str) -> bool:
    if is_pattern(wanted):
        return compile_pattern(wanted.removeprefix(PATTERN_MARK)).search(text) is not None
    return _folded(as_written(wanted)) in folded


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
