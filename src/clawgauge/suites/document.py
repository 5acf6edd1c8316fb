"""Suite files as plain data, and where in them something stands, for a refusal to name."""

from __future__ import annotations

import difflib
import functools
import importlib
import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clawgauge.errors import SuiteError
from clawgauge.small_file import MAX_KEY_PARTS, UnfitFile, has_key_bomb, read_small_file

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


MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
MAX_INTEGER_DIGITS = 30
SUFFIXES = (".json", ".toml", ".yaml", ".yml")


class RepeatedKeyDict(dict[str, Any]):
    """An object in which `repeated_key` stands twice: made by a syntax, refused by the walk, which knows its place."""

    repeated_key: str = ""


def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its keys and values as written, remembering a key that was given twice."""
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    seen: set[str] = set()
    marked = RepeatedKeyDict(fields)
    for key, _ in pairs:
        if key in seen:
            marked.repeated_key = key
            break
        seen.add(key)
    return marked


def read_integer(digits: str, place: Place) -> int:
    """An integer as written; one too long to convert cheaply is refused here, one past 64 bits by the walk."""
    if len(digits) > MAX_INTEGER_DIGITS:
        raise place.refusal(f"an integer of {len(digits)} digits does not fit in 64 bits; use a smaller one")
    return int(digits)


def read_document(path: Path, shown: str) -> dict[str, Any] | list[Any]:
    """Read one suite file. `shown` is what refusals call it: the words the user gave."""
    place = Place(shown)
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        raise place.refusal(f"a suite file ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}; rename it")
    text = _read_text(path, place)
    try:
        document = parse(text, place)
    except RecursionError:
        raise place.refusal(f"nested deeper than {MAX_DEPTH} levels; flatten it") from None
    if not isinstance(document, dict | list):
        raise place.refusal(
            f"holds {describe_kind(document)}; a suite is a list of prompts, or an object with the key 'prompts'"
        )
    _refuse_unportable(document, place, depth=0)
    return document


def _read_text(path: Path, place: Place) -> str:
    too_large = f"larger than {MAX_FILE_BYTES // 1024**2} MiB; split it into several suites"
    try:
        content = read_small_file(path, MAX_FILE_BYTES, too_large)
    except UnfitFile as unfit:
        named = place if "\0" not in place.file else Place(repr(place.file))
        raise named.refusal(str(unfit)) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise place.refusal(f"not UTF-8 at byte {error.start}; save it as UTF-8") from None


def _parse_json(text: str, place: Place) -> object:
    # NaN and Infinity pass here as floats: the walk refuses them, and can name the key.
    read_int = functools.partial(read_integer, place=place)
    try:
        return json.loads(text, object_pairs_hook=build_object, parse_int=read_int)
    except json.JSONDecodeError as error:
        raise place.refusal(f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None


def _parse_toml(text: str, place: Place) -> object:
    if has_key_bomb(text):
        raise place.refusal(f"a key of more than {MAX_KEY_PARTS} dotted parts; flatten it")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise place.refusal(f"not TOML: {error}") from None
    except ValueError:
        # The one plain ValueError tomllib lets through is Python's own cap on converting digits.
        raise place.refusal("an integer does not fit in 64 bits; use a smaller one") from None


def _parse_yaml(text: str, place: Place) -> object:
    # PyYAML takes longer to import than most suites take to load: only those who write YAML pay for it.
    return importlib.import_module("clawgauge.suites.yaml_format").parse_yaml(text, place)


_PARSERS: dict[str, Callable[[str, Place], object]] = {
    ".json": _parse_json,
    ".toml": _parse_toml,
    ".yaml": _parse_yaml,
    ".yml": _parse_yaml,
}


def _refuse_unportable(value: Any, place: Place, depth: int) -> None:
    """Walk the document once; every refusal names the prompt and the key it came upon."""
    if depth > MAX_DEPTH:
        raise place.refusal(f"nested deeper than {MAX_DEPTH} levels; flatten it")
    if isinstance(value, dict):
        _refuse_unportable_object(value, place, depth)
    elif isinstance(value, list) and depth == 0:
        _refuse_unportable_prompts(value, place, depth)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _refuse_unportable(inner, place.at(index), depth + 1)
    elif (problem := _scalar_problem(value)) is not None:
        raise place.refusal(problem)


def _refuse_unportable_object(fields: dict[str, Any], place: Place, depth: int) -> None:
    if isinstance(fields, RepeatedKeyDict):
        raise place.at(fields.repeated_key).refusal("given twice in one object; keep one of them")
    for key, inner in fields.items():
        if (problem := _scalar_problem(key)) is not None:
            raise place.refusal(f"the key {key!r} {problem}")
        if depth == 0 and key == "prompts" and isinstance(inner, list):
            _refuse_unportable_prompts(inner, place, depth)
        else:
            _refuse_unportable(inner, place.at(key), depth + 1)


def _refuse_unportable_prompts(prompts: list[Any], place: Place, depth: int) -> None:
    for number, prompt in enumerate(prompts, start=1):
        prompt_id = prompt.get("id") if isinstance(prompt, dict) else None
        _refuse_unportable(prompt, place.at_prompt(number, prompt_id), depth + 1)


def _scalar_problem(value: object) -> str | None:
    match value:
        case None | bool():
            return None
        case str():
            if value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value):
                return None
            return "holds half of a surrogate pair, which is not text; write the whole character"
        case int():
            return None if -(2**63) <= value < 2**64 else "the integer does not fit in 64 bits; use a smaller one"
        case float():
            return None if math.isfinite(value) else "the number is not finite; write a finite one"
    return f"holds {describe_kind(value)}; put it in quotes to make it text"
