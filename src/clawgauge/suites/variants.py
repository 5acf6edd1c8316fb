"""One prompt in several forms: `{city}` in its text and in what it expects, and a value for it in each variant.

Owns: the filling of fields and the ids of the forms. The first form keeps the prompt's id, `P3`; the others are `P3#2`,
`P3#3`. In an expectation, a text that is nothing but one field takes the value as it is: a number stays a number.
Refuses: a field that a variant gives no value to, and a value that no field takes; either is a slip that would change
what is asked. Braces in a prompt without variants mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from clawgauge.suites.place import Place, describe_kind

FILLED_KEYS = ("prompt", "system", "validator")
NUMBER_MARK = "#"
_TEXTS = ("prompt", "system")
# `\p{Greek}` and `\x{FF}` belong to patterns.
_FIELD = re.compile(r"(?<!\\[pPx])\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a prompt as the suite might have written it, and the id it is a variant of, if any."""

    entry: Any
    variant_of: str | None = None


def unfold(entry: object, place: Place) -> Iterator[Form]:
    """The forms of one entry of a suite: itself, where it has no variants."""
    variants = entry.get("variants") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or variants is None:
        yield Form(entry)
        return
    own_id = entry.get("id")
    if isinstance(own_id, str) and NUMBER_MARK in own_id:
        raise place.at("id").refusal(
            f"{own_id!r} holds a '{NUMBER_MARK}', which numbers the forms of a prompt with variants; take it out"
        )
    place = place.at("variants")
    if not isinstance(variants, list) or not variants:
        found = "empty" if isinstance(variants, list) else f"must be a list, not {describe_kind(variants)}"
        raise place.refusal(f'{found}; give one object of values for each form, such as {{"city": "Paris"}}')
    bare = {key: value for key, value in entry.items() if key != "variants"}
    for number, values in enumerate(variants, start=1):
        form = _Filling(_read_values(values, place.at(number - 1)), place.at(number - 1)).fill_entry(bare)
        if number > 1 and isinstance(own_id, str):
            form["id"] = f"{own_id}{NUMBER_MARK}{number}"
        yield Form(form, own_id if isinstance(own_id, str) else None)


def _read_values(values: object, place: Place) -> Mapping[str, Any]:
    if not isinstance(values, dict) or not values:
        found = "empty" if isinstance(values, dict) else f"must be an object, not {describe_kind(values)}"
        raise place.refusal(f'{found}; give a value for each field, such as {{"city": "Paris"}}')
    for name, value in values.items():
        if not _NAME.fullmatch(name):
            raise place.at(name).refusal("is no name for a field; use letters, digits and underscores")
        if value is None:
            raise place.at(name).refusal("has no value; give one")
    return values


@dataclass(slots=True)
class _Filling:
    """The values of one variant on their way into a prompt."""

    values: Mapping[str, Any]
    place: Place
    used: set[str] = field(default_factory=set)

    def fill_entry(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        filled = {key: self._fill_key(key, value) for key, value in entry.items()}
        unused = [name for name in self.values if name not in self.used]
        if unused:
            raise self.place.at(unused[0]).refusal(
                f"fills nothing; write {{{unused[0]}}} in {', '.join(FILLED_KEYS[:-1])} or {FILLED_KEYS[-1]}"
            )
        return filled

    def _fill_key(self, key: str, value: Any) -> Any:
        if key not in FILLED_KEYS:
            return value
        return self._fill_text(value) if key in _TEXTS and isinstance(value, str) else self._fill(value)

    def _fill(self, value: Any) -> Any:
        if isinstance(value, str):
            whole = _FIELD.fullmatch(value)
            return self._value_of(whole[1]) if whole else self._fill_text(value)
        if isinstance(value, list):
            return [self._fill(item) for item in value]
        if isinstance(value, dict):
            return {key: self._fill(item) for key, item in value.items()}
        return value

    def _fill_text(self, text: str) -> str:
        return _FIELD.sub(lambda match: self._text_of(match[1]), text)

    def _value_of(self, name: str) -> Any:
        if name not in self.values:
            raise self.place.refusal(f"has no value for the field {{{name}}}; give one")
        self.used.add(name)
        return self.values[name]

    def _text_of(self, name: str) -> str:
        value = self._value_of(name)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.place.at(name).refusal(
                f"stands in a text and must be text or a number, not {describe_kind(value)}"
            )
        return str(value)
