"""Several prompts made of one (`variants`): the same text with other values in its fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from clawgauge.checks import spec as shape
from clawgauge.errors import SuiteError
from clawgauge.suites.document import Place

FILLED_KEYS = ("prompt", "system", "validator", "messages")
_TEXT_KEYS = ("prompt", "system")
# `\p{Greek}` and `\x{FF}` belong to patterns.
_FIELD = re.compile(r"(?<!\\[pPx])\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER_SIGN = "#"


def _values(value: Any, place: str) -> None:
    """A shape: a value for each field of one form."""
    if not value or not isinstance(value, dict):
        actual = "empty" if value == {} else shape.kind_of(value)
        wanted = 'an object with a value for each field, such as {"city": "Paris"}'
        raise SuiteError(f"key '{place}' is {actual}; give {wanted}")
    for name, item in value.items():
        if not _FIELD_NAME.fullmatch(name):
            reason = "is no name for a field; use letters, digits and underscores"
            raise shape.fault(place, name, reason)
        if item is None:
            raise shape.fault(place, name, "has no value; give one")


_VARIANTS = shape.ListOf(_values, "objects, one for each form")


def unfold(entry: object, place: Place) -> Iterator[tuple[Any, str | None]]:
    """The forms of one entry of a suite, each with the id it is a variant of.

    The entry itself and None, where it has no variants.
    """
    if not isinstance(entry, dict) or entry.get("variants") is None:
        yield entry, None
        return
    entry_id = entry.get("id")
    if isinstance(entry_id, str) and _NUMBER_SIGN in entry_id:
        reason = "holds a '#', which numbers the forms of a prompt with variants; take it out"
        raise place.at("id").refusal(f"{entry_id!r} {reason}")
    variants = entry["variants"]
    place.at("variants").check(_VARIANTS, variants)
    template = {key: value for key, value in entry.items() if key != "variants"}
    for number, values in enumerate(variants, start=1):
        form = _Filling(values, place.at("variants", number - 1)).fill_entry(template)
        if number > 1 and isinstance(entry_id, str):
            form["id"] = f"{entry_id}{_NUMBER_SIGN}{number}"
        yield form, entry_id if isinstance(entry_id, str) else None


class _Filling:
    """Puts the values of one form into the fields of a prompt."""

    def __init__(self, values: Mapping[str, Any], place: Place) -> None:
        self._values = values
        self._place = place
        self._used: set[str] = set()

    def fill_entry(self, template: Mapping[str, Any]) -> dict[str, Any]:
        """Raises `SuiteError` for a field without a value and for a value without a field."""
        form = {}
        for key, value in template.items():
            if key in _TEXT_KEYS and isinstance(value, str):
                form[key] = self._fill_text(value)
            elif key in FILLED_KEYS:
                form[key] = self._fill(value)
            else:
                form[key] = value
        for name in self._values:
            if name not in self._used:
                keys = f"{', '.join(FILLED_KEYS[:-1])} or {FILLED_KEYS[-1]}"
                reason = f"fills nothing; write {{{name}}} in {keys}"
                raise self._place.at(name).refusal(reason)
        return form

    def _fill(self, value: Any) -> Any:
        if isinstance(value, str):
            # A text that is a field and nothing else becomes its value, of whatever kind.
            field = _FIELD.fullmatch(value)
            return self._value_of(field[1]) if field else self._fill_text(value)
        if isinstance(value, list):
            return [self._fill(item) for item in value]
        if isinstance(value, dict):
            return {key: self._fill(item) for key, item in value.items()}
        return value

    def _fill_text(self, text: str) -> str:
        return _FIELD.sub(self._text_of, text)

    def _text_of(self, field: re.Match[str]) -> str:
        value = self._value_of(field[1])
        if not isinstance(value, str) and not shape.is_number(value):
            wanted = "stands in a text and must be text or a number"
            reason = f"{wanted}, not {shape.kind_of(value)}"
            raise self._place.at(field[1]).refusal(reason)
        return str(value)

    def _value_of(self, name: str) -> Any:
        if name not in self._values:
            raise self._place.refusal(f"has no value for the field {{{name}}}; give one")
        self._used.add(name)
        return self._values[name]
