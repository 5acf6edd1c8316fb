"""Reading a world's specification, each key with its kind.

Owns: the wording of every refusal, which names the key, what was found and what would be accepted. Refuses: defaults
that depend on other keys; those belong to the noun that is read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from clawgauge.errors import SuiteError

_SIZE = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,3})?)(?P<unit>[KMGT]?)B?")
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "true or false"),
    ((int, float), "a number"),
    (str, "text"),
    (list, "a list"),
    (Mapping, "an object"),
    (type(None), "null"),
)


def refusal(key: str, wanted: str, value: Any) -> SuiteError:
    """What to raise where `value` of `key` is not what is wanted."""
    kind = next((words for kinds, words in _KINDS if isinstance(value, kinds)), type(value).__name__)
    shown = repr(value) if isinstance(value, str | int | float) and len(str(value)) <= 60 else kind
    return SuiteError(f"key '{key}' must be {wanted}, not {shown}")


class Fields:
    """The keys of one object in a specification; `place` is where it stands, for refusals."""

    def __init__(self, value: Any, place: str, known: Collection[str]) -> None:
        if not isinstance(value, Mapping):
            raise refusal(place, "an object", value)
        self._values = value
        self._place = place
        for key in value:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f"; did you mean '{near[0]}'?" if near else f"; the keys here are {', '.join(known)}"
                raise SuiteError(f"key '{self.at(str(key))}' is not known{hint}")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def at(self, key: str) -> str:
        """The full name of a key of this object."""
        return f"{self._place}.{key}" if self._place else key

    def raw(self, key: str) -> Any:
        return self._values.get(key)

    def text(self, key: str, default: str | None = None) -> str:
        """Text; required where there is no default."""
        value = self._values.get(key, default)
        if value is None:
            raise SuiteError(f"key '{self.at(key)}' is missing; it must be text")
        if not isinstance(value, str):
            raise refusal(self.at(key), "text", value)
        return value

    def word(self, key: str, default: str | None = None) -> str:
        """Text that is not blank."""
        value = self.text(key, default)
        if not value.strip():
            raise SuiteError(f"key '{self.at(key)}' is blank; it must be text that is not")
        return value

    def path(self, key: str) -> str:
        value = self.text(key)
        if not value.startswith("/") or "\0" in value:
            raise refusal(self.at(key), "an absolute path", value)
        return value

    def _fitting(self, key: str, default: Any, wanted: str, fits: Callable[[Any], bool]) -> Any:
        value = self._values.get(key, default)
        if not fits(value):
            raise refusal(self.at(key), wanted, value)
        return value

    def number(self, key: str, default: float, *, most: float = 1e9) -> float:
        wanted = f"a number from 0 to {most:g}"
        found: float = self._fitting(
            key, default, wanted, lambda value: type(value) in (int, float) and 0 <= value <= most
        )
        return found

    def whole(self, key: str, default: int, *, least: int = 0, most: int = 2**53) -> int:
        wanted = f"a whole number from {least} to {most}"
        return int(self._fitting(key, default, wanted, lambda value: type(value) is int and least <= value <= most))

    def flag(self, key: str) -> bool:
        return bool(self._fitting(key, False, "true or false", lambda value: type(value) is bool))

    def choice(self, key: str, choices: Collection[str], default: str) -> str:
        return str(self._fitting(key, default, f"one of {', '.join(choices)}", lambda value: value in choices))

    def size(self, key: str, default: int = 0) -> int:
        """A number of bytes, or text such as `"18G"`."""
        value = self._values.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
            return value
        found = _SIZE.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise refusal(self.at(key), 'a number of bytes or text such as "18G"', value)
        return int(float(found["number"]) * _UNITS[found["unit"]])

    def texts(self, key: str) -> list[str]:
        value: list[str] = self._fitting(key, [], "a list of texts", lambda value: isinstance(value, list))
        for index, item in enumerate(value):
            if not isinstance(item, str) or not item.strip():
                raise refusal(f"{self.at(key)}[{index}]", "text that is not blank", item)
        return value

    def text_or_texts(self, key: str) -> list[str]:
        """One text, or a list of them."""
        value = self._values.get(key, [])
        return [self.word(key)] if isinstance(value, str) else self.texts(key)

    def objects(self, key: str, known: Collection[str]) -> Iterator[Fields]:
        """The objects of a list, in order."""
        value = self._fitting(key, [], "a list of objects", lambda value: isinstance(value, list))
        for index, item in enumerate(value):
            yield Fields(item, f"{self.at(key)}[{index}]", known)

    def entries(self, key: str) -> Iterator[tuple[str, str, Any]]:
        """The entries of an object whose keys are names: name, full key, value."""
        value = self._fitting(key, {}, "an object", lambda value: isinstance(value, Mapping))
        for name, item in value.items():
            yield str(name), self.at(f'{key}."{name}"'), item
