"""Whether one argument of a call is one of the values a prompt allows.

Owns: the comparison. Texts are equal when they differ in case, in white space at the ends or in the marks people set
differently (`St. Gallen`, `st gallen`) alone; numbers by value; lists and objects member by member, lists in order.
JSON's kinds are kept apart: `"3"` is not 3 and `true` is not 1. Refuses: knowing what the tool's schema asks for.
"""

from __future__ import annotations

from typing import Any

from clawgauge.checks.patterns import matches_fully

ANYTHING = "*"
PATTERN_MARK = "re:"

_DROPPED = str.maketrans("", "", " ,./-_*^")


def allows_anything(allowed: Any) -> bool:
    """Whether the allowed values, as the suite writes them, leave the value open."""
    return allowed == ANYTHING or (isinstance(allowed, list) and ANYTHING in allowed)


def is_pattern(allowed: Any) -> bool:
    return isinstance(allowed, str) and allowed.startswith(PATTERN_MARK)


def is_allowed(value: Any, allowed: list[Any]) -> bool:
    """Whether `value` is one of the listed values."""
    return any(_fits(value, wanted) for wanted in allowed)


def same_text(text: str, wanted: str) -> bool:
    """Whether two texts are the same but for case, outer white space and dropped marks."""
    text, wanted = text.strip().casefold(), wanted.strip().casefold()
    bare = wanted.translate(_DROPPED)
    # A text of nothing but marks ("/", "*") has only its marks to be known by.
    return text.translate(_DROPPED) == bare if bare else text == wanted


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(value, str) and isinstance(wanted, str):
        if is_pattern(wanted):
            return matches_fully(wanted.removeprefix(PATTERN_MARK), value.strip())
        return same_text(value, wanted)
    if _is_number(value) and _is_number(wanted):
        return bool(value == wanted)
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(_fits, value, wanted))
    if isinstance(value, dict) and isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(_fits(value[key], wanted[key]) for key in wanted)
    return type(value) is type(wanted) and bool(value == wanted)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
