"""Suite files as plain data, and where in them something stands, for a refusal to name."""

from __future__ import annotations

import importlib
import json
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from clawgauge.checks.spec import Shape, at, check, kind_of
from clawgauge.errors import SuiteError
from clawgauge.json_limits import VALUE_LIMITS, Format, find_excess
from clawgauge.small_file import KEY_BOMB, MAX_KEY_PARTS, UnfitFile, read_small_file

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 64
MAX_INTEGER_DIGITS = 30
SUFFIXES = (".json", ".toml", ".yaml", ".yml")
_MIN_INTEGER = -(2**63)
_MAX_INTEGER = 2**64 - 1
_TOO_LARGE = f"larger than {MAX_FILE_BYTES // 1024**2} MiB; split it into several suites"
_TOO_MANY = f"holds more than {VALUE_LIMITS.values:,} values; split it into several suites"
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels; flatten it"
_REPEATED = object()  # the key, in an object, of a key that was given twice


class Place(NamedTuple):
    """A file, a prompt in it, a key of that prompt; each as far as it is known."""

    file: str
    prompt: str = ""
    key: str = ""

    def at_prompt(self, number: int, entry: object) -> Place:
        """With its id, where it has a usable one; `number` counts from 1."""
        prompt_id = entry.get("id") if isinstance(entry, dict) else None
        has_id = isinstance(prompt_id, str) and bool(prompt_id.strip())
        return self._replace(
            prompt=f"prompt {number} ({prompt_id!r})" if has_id else f"prompt {number}"
        )

    def at(self, *keys: str | int) -> Place:
        """As many keys, or list entries, further in."""
        path = self.key
        for key in keys:
            path = f"{path}[{key}]" if isinstance(key, int) else at(path, key)
        return self._replace(key=path)

    def refusal(self, message: str) -> SuiteError:
        parts = [self.file]
        inside = []
        if self.prompt:
            inside.append(self.prompt)
        if self.key:
            inside.append(f"key {self.key!r}")
        if inside:
            parts.append(", ".join(inside))
        return SuiteError(": ".join([*parts, message]))

    def check(self, shape: Shape, value: object) -> None:
        """Raise `SuiteError`, naming the file and the prompt too, where `value` is not of the
        shape."""
        try:
            check(shape, value, self.key)
        except SuiteError as error:
            reason = f"{self.prompt}, {error}" if self.prompt else str(error)
            raise SuiteError(f"{self.file}: {reason}") from None


def read_document(path: Path, name: str) -> dict[str, Any] | list[Any]:
    """Read one suite file. `name` is what refusals call it: the words the user gave."""
    place = Place(name)
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        suffixes = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise place.refusal(f"a suite file ends in {suffixes}; rename it")
    try:
        data = read_small_file(path, MAX_FILE_BYTES, _TOO_LARGE)
        document = parse(data.decode("utf-8-sig"), place)
    except UnfitFile as error:
        raise Place(repr(name) if "\0" in name else name).refusal(str(error)) from None
    except UnicodeDecodeError as error:
        raise place.refusal(f"not UTF-8 at byte {error.start}; save it as UTF-8") from None
    except RecursionError:
        raise place.refusal(_TOO_DEEP) from None
    if not isinstance(document, dict | list):
        wanted = "a suite is a list of prompts, or an object with the key 'prompts'"
        raise place.refusal(f"holds {kind_of(document)}; {wanted}")
    _refuse_unportable(document, place, depth=0)
    return document


def build_object(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    """An object from its keys and values as written.

    A key given twice is refused by the walk, which knows its place.
    """
    fields: dict[Any, Any] = dict(pairs)
    if len(fields) < len(pairs):
        ((fields[_REPEATED], _),) = Counter(key for key, _ in pairs).most_common(1)
    return fields


def read_integer(place: Place, digits: str) -> int:
    """An integer as written.

    One too long to convert cheaply is refused here, one past 64 bits by the walk.
    """
    if len(digits) > MAX_INTEGER_DIGITS:
        reason = f"an integer of {len(digits)} digits does not fit in 64 bits; use a smaller one"
        raise place.refusal(reason)
    return int(digits)


def _refuse_bomb(text: str, format: Format, place: Place) -> None:
    """64 MiB of `{},` would become gigabytes of objects."""
    if find_excess(text.encode(), VALUE_LIMITS, format) is not None:
        raise place.refusal(_TOO_MANY)


def _parse_json(text: str, place: Place) -> object:
    _refuse_bomb(text, "json", place)
    # NaN and Infinity pass here as floats: the walk refuses them, and can name the key.
    try:
        return json.loads(
            text, object_pairs_hook=build_object, parse_int=partial(read_integer, place)
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise place.refusal(f"not JSON at {where}: {error.msg}") from None


def _parse_toml(text: str, place: Place) -> object:
    if KEY_BOMB.search(text):
        raise place.refusal(f"a key of more than {MAX_KEY_PARTS} dotted parts; flatten it")
    _refuse_bomb(text, "toml", place)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise place.refusal(f"not TOML: {error}") from None
    except ValueError:
        # The one plain ValueError tomllib lets through is Python's own cap on converting digits.
        raise place.refusal("an integer does not fit in 64 bits; use a smaller one") from None


def _parse_yaml(text: str, place: Place) -> object:
    # PyYAML takes longer to import than most suites take to load: only those who write YAML pay.
    yaml: Any = importlib.import_module("yaml")
    try:
        return _YamlReader(yaml, text, place).read()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise place.refusal(f"not YAML{where}: {problem}") from None


class _YamlReader:
    """Reads YAML from the parser's events alone.

    No constructor ever runs, so no tag can make an object and no alias multiply one. Unquoted words
    are read as JSON would read them, all else is text: `yes`, `12:30` and `2026-02-13`, too.
    """

    def __init__(self, yaml: Any, text: str, place: Place) -> None:
        self._yaml = yaml
        self._place = place
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._events: Iterator[Any] = yaml.parse(text, Loader=loader)
        self._n_values = 0

    def read(self) -> object:
        document = None
        n_documents = 0
        for event in self._events:
            if isinstance(event, self._yaml.DocumentStartEvent):
                n_documents += 1
                if n_documents > 1:
                    reason = "a second YAML document; put each suite in a file of its own"
                    raise self._refusal(event, reason)
            elif isinstance(event, self._yaml.NodeEvent):
                document = self._build(event, depth=0)
        return document

    def _build(self, event: Any, depth: int) -> Any:
        """The value that an event opens, inside `depth` others.

        It is refused before it is built where it is a bomb.
        """
        self._n_values += 1
        if self._n_values > VALUE_LIMITS.values:
            raise self._place.refusal(_TOO_MANY)
        self._refuse_references(event)
        if isinstance(event, self._yaml.ScalarEvent):
            return self._read_scalar(event)
        if depth == MAX_DEPTH:
            raise self._refusal(event, _TOO_DEEP)
        if isinstance(event, self._yaml.SequenceStartEvent):
            return [self._build(inner, depth + 1) for inner in self._inner_events()]
        pairs = []
        for key in self._inner_events():
            if not isinstance(key, self._yaml.ScalarEvent):
                raise self._refusal(key, "a key must be text; put it in quotes")
            pairs.append((key.value, self._build(next(self._events), depth + 1)))
        return build_object(pairs)

    def _inner_events(self) -> Iterator[Any]:
        """What opens the parts of a list or an object, up to its end."""
        for event in self._events:
            if isinstance(event, self._yaml.CollectionEndEvent):
                return
            yield event

    def _refuse_references(self, event: Any) -> None:
        if event.anchor is not None:
            sign = "*" if isinstance(event, self._yaml.AliasEvent) else "&"
            reason = (
                f"anchors and aliases ({sign}{event.anchor}) are not allowed;"
                " write the value out or quote it"
            )
            raise self._refusal(event, reason)
        if event.tag is not None:
            reason = f"tags ({event.tag}) are not allowed; leave it out, or quote the text"
            raise self._refusal(event, reason)

    def _read_scalar(self, event: Any) -> Any:
        is_unquoted = event.implicit[0]
        if not is_unquoted:
            return event.value
        if event.value in ("", "~"):
            return None
        # NaN and Infinity are words here, as nothing else in YAML reads them as numbers.
        with suppress(ValueError):
            return json.loads(
                event.value, parse_int=partial(read_integer, self._place), parse_constant=str
            )
        return event.value

    def _refusal(self, event: Any, message: str) -> SuiteError:
        mark = event.start_mark
        return self._place.refusal(message if mark is None else f"line {mark.line + 1}: {message}")


Parser: TypeAlias = Callable[[str, Place], object]
_PARSERS: dict[str, Parser] = {
    ".json": _parse_json,
    ".toml": _parse_toml,
    ".yaml": _parse_yaml,
    ".yml": _parse_yaml,
}


def _refuse_unportable(
    value: Any, place: Place, depth: int, keys: tuple[str | int, ...] = ()
) -> None:
    """Walk the document once; every refusal names the prompt, and the key in it that `keys` lead
    to."""
    if depth > MAX_DEPTH:
        raise place.at(*keys).refusal(_TOO_DEEP)
    if isinstance(value, dict):
        _refuse_unportable_object(value, place, depth, keys)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if depth == 0:  # the list of prompts
                _refuse_unportable(item, place.at_prompt(index + 1, item), 1)
            else:
                _refuse_unportable(item, place, depth + 1, (*keys, index))
    else:
        problem = _scalar_problem(value)
        if problem is not None:
            raise place.at(*keys).refusal(problem)


def _refuse_unportable_object(
    value: dict[Any, Any], place: Place, depth: int, keys: tuple[str | int, ...]
) -> None:
    if _REPEATED in value:
        repeated = place.at(*keys, value[_REPEATED])
        raise repeated.refusal("given twice in one object; keep one of them")
    for key, item in value.items():
        problem = _scalar_problem(key)
        if problem is not None:
            raise place.at(*keys).refusal(f"the key {key!r} {problem}")
        if depth == 0 and key == "prompts" and isinstance(item, list):
            # The depth of each prompt is counted from their list.
            _refuse_unportable(item, place, 0)
        else:
            _refuse_unportable(item, place, depth + 1, (*keys, key))


def _scalar_problem(value: object) -> str | None:
    """Why a single value cannot be in every format that suites are written in, or None."""
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            return "holds half of a surrogate pair, which is not text; write the whole character"
        return None
    if isinstance(value, int):
        if not _MIN_INTEGER <= value <= _MAX_INTEGER:
            return "the integer does not fit in 64 bits; use a smaller one"
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else "the number is not finite; write a finite one"
    if value is None:
        return None
    return f"holds {kind_of(value)}; put it in quotes to make it text"
