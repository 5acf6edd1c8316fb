"""Where in a suite file something stands, and how a refusal names it.

Owns: the wording "file: prompt, key: what is wrong". Refuses: deciding what is wrong.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clawgauge.errors import SuiteError

_KIND_NAMES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "true or false"),
    ((int, float), "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "an object"),
    (type(None), "null"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """A file, a prompt in it, a key of that prompt; each as far as it is known."""

    file: str
    prompt: str = ""
    key: str = ""

    def at_prompt(self, number: int, prompt_id: object) -> Place:
        """The `number`th prompt, counted from 1, with its id where it has a usable one."""
        suffix = f" ({prompt_id!r})" if isinstance(prompt_id, str) and prompt_id.strip() else ""
        return Place(self.file, f"prompt {number}{suffix}", self.key)

    def at(self, key: str | int) -> Place:
        """One key, or one list entry, further in."""
        if isinstance(key, int):
            return Place(self.file, self.prompt, f"{self.key}[{key}]")
        return Place(self.file, self.prompt, f"{self.key}.{key}" if self.key else key)

    def refusal(self, message: str) -> SuiteError:
        """The error to raise for what is wrong here."""
        inside = ", ".join(part for part in (self.prompt, f"key {self.key!r}" if self.key else "") if part)
        return SuiteError(f"{self.file}: {inside}: {message}" if inside else f"{self.file}: {message}")


def describe_kind(value: object) -> str:
    """The kind of a value, in the words a suite's author would use."""
    for kind, name in _KIND_NAMES:
        if isinstance(value, kind):
            return name
    return f"a {type(value).__name__}"


def suggest(word: str, known: Iterable[str]) -> str:
    """'; did you mean …?' for the nearest known words, or nothing."""
    by_lower = {name.lower(): name for name in known}
    near = [by_lower[lower] for lower in difflib.get_close_matches(word.lower(), by_lower, n=3)]
    return f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""


def refuse_unknown_keys(fields: Mapping[str, object], known: tuple[str, ...], place: Place) -> None:
    """A misspelt key that is silently ignored would change what is measured, so it is refused."""
    for key in fields:
        if key not in known:
            hint = suggest(key, known) or "."
            raise place.at(key).refusal(f"unknown key{hint} The keys here are {', '.join(known)}")
