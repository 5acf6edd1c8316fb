"""Suite files as plain data, and where in them something stands, for a refusal to name."""

from __future__ import annotations

import importlib
import json
import math
import tomllib
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from clawgauge.checks.spec import Shape, at, check, kind_of
from clawgauge.errors import SuiteError
from clawgauge.json_limits import VALUE_LIMITS, Format, find_excess
from clawgauge.small_file import KEY_BOMB, MAX_KEY_PARTS, UnfitFile, read_small_file


class Place(NamedTuple):
    """A file, a prompt in it, a key of that prompt; each as far as it is known."""

    file: str
    prompt: str = ""
    key: str = ""

    def at_prompt(self, number: int, entry: object) -> Place:
        """With its id, where it has a usable one; `number` counts from 1."""
        prompt_id = entry.get("id") if isinstance(entry, dict) else None
        suffix = f" ({prompt_id!r})" if isinstance(prompt_id, str) and prompt_id.strip() else ""
        return self._replace(prompt=f"prompt {number}{suffix}")

    def at(self, *keys: str | int) -> Place:
        """As many keys, or list entries, further in."""
        path = self.key
        for key in keys:
            path = f"{path}[{key}]" if isinstance(key, int) else at(path, key)
        return self._replace(key=path)

    def refusal(self, message: str) -> SuiteError:
        inside = ", ".join(part for part in (self.prompt, f"key {self.key!r}" if self.key else "") if part)
        return SuiteError(f"{self.file}: {inside}: {message}" if inside else f"{self.file}: {message}")

    def check(self, shape: Shape, value: object) -> None:
        try:
            check(shape, value, self.key)
        except SuiteError as error:
            raise SuiteError(": ".join([self.file, ", ".join(filter(None, (self.prompt, str(error))))])) from None


MAX_FILE_BYTES = 64 * 1024 * 1024
_TOO_LARGE = f"larger than {MAX_FILE_BYTES // 1024**2} MiB; split it into several suites"
MAX_DEPTH, MAX_INTEGER_DIGITS = 64, 30
_TOO_MANY = f"holds more than {VALUE_LIMITS.values:,} values; split it into several suites"
_REPEATED = object()  # the key, in an object, of a key that was given twice
SUFFIXES = (".json", ".toml", ".yaml", ".yml")


def build_object(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    """An object from its keys and values as written. One given twice is refused by the walk, which knows its place."""
    fields: dict[Any, Any] = dict(pairs)
    if len(fields) < len(pairs):
        ((fields[_REPEATED], _),) = Counter(key for key, _ in pairs).most_common(1)
    return fields


def read_integer(place: Place, digits: str) -> int:
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
    try:
        data = read_small_file(path, MAX_FILE_BYTES, _TOO_LARGE)
        document = parse(data.decode("utf-8-sig"), place)
    except UnfitFile as unfit:
        raise Place(repr(shown) if "\0" in shown else shown).refusal(str(unfit)) from None
    except UnicodeDecodeError as error:
        raise place.refusal(f"not UTF-8 at byte {error.start}; save it as UTF-8") from None
    except RecursionError:
        raise place.refusal(f"nested deeper than {MAX_DEPTH} levels; flatten it") from None
    if not isinstance(document, dict | list):
        found = kind_of(document)
        raise place.refusal(f"holds {found}; a suite is a list of prompts, or an object with the key 'prompts'")
    _refuse_unportable(document, place, depth=0)
    return document


def _refuse_bomb(text: str, format: Format, place: Place) -> None:
    """64 MiB of `{},` would become gigabytes of objects."""
    if find_excess(text.encode(), VALUE_LIMITS, format) is not None:
        raise place.refusal(_TOO_MANY)


def _parse_json(text: str, place: Place) -> object:
    _refuse_bomb(text, "json", place)
    # NaN and Infinity pass here as floats: the walk refuses them, and can name the key.
    try:
        return json.loads(text, object_pairs_hook=build_object, parse_int=partial(read_integer, place))
    except json.JSONDecodeError as error:
        raise place.refusal(f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None


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
    """Read from the parser's events alone: no constructor ever runs, so no tag can make an object and no alias multiply
    one. Unquoted words are read as JSON would read them, all else is text: `yes`, `12:30` and `2026-02-13`, too."""
    # PyYAML takes longer to import than most suites take to load: only those who write YAML pay for it.
    yaml: Any = importlib.import_module("yaml")
    read_numbers: Any = {"parse_int": partial(read_integer, place), "parse_constant": str}

    def refusal(event: Any, message: str) -> SuiteError:
        mark = event.start_mark
        return place.refusal(f"line {mark.line + 1}: {message}" if mark is not None else message)

    numbers = count(1)

    def build(event: Any, depth: int) -> Any:
        """The value an event opens, refused before it is built where it is a bomb; it is inside `depth` others."""
        if next(numbers) > VALUE_LIMITS.values:
            raise place.refusal(_TOO_MANY)
        if event.anchor is not None:
            mark = "*" if isinstance(event, yaml.AliasEvent) else "&"
            named = f"anchors and aliases ({mark}{event.anchor})"
            raise refusal(event, f"{named} are not allowed; write the value out or quote it")
        if event.tag is not None:
            raise refusal(event, f"tags ({event.tag}) are not allowed; leave it out, or quote the text")
        if isinstance(event, yaml.ScalarEvent):
            if event.implicit[0] and event.value in ("", "~"):
                return None
            with suppress(ValueError):
                return json.loads(event.value, **read_numbers) if event.implicit[0] else event.value
            return event.value
        if depth == MAX_DEPTH:
            raise refusal(event, f"nested deeper than {MAX_DEPTH} levels; flatten it")
        is_list = isinstance(event, yaml.SequenceStartEvent)
        items: list[Any] = []
        for inner in events:
            if isinstance(inner, yaml.CollectionEndEvent):
                break
            if not is_list and not isinstance(inner, yaml.ScalarEvent):
                raise refusal(inner, "a key must be text; put it in quotes")
            items.append(build(inner, depth + 1) if is_list else (inner.value, build(next(events), depth + 1)))
        return items if is_list else build_object(items)

    events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    document, n_documents = None, 0
    try:
        for event in events:
            n_documents += isinstance(event, yaml.DocumentStartEvent)
            if n_documents > 1:
                raise refusal(event, "a second YAML document; put each suite in a file of its own")
            if isinstance(event, yaml.NodeEvent):
                document = build(event, 0)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise place.refusal(f"not YAML{where}: {problem}") from None
    return document


_PARSERS = {".json": _parse_json, ".toml": _parse_toml, ".yaml": _parse_yaml, ".yml": _parse_yaml}


def _refuse_unportable(value: Any, place: Place, depth: int, keys: tuple[str | int, ...] = ()) -> None:
    """Walk the document once; every refusal names the prompt, and the key in it that `keys` lead to."""
    if depth > MAX_DEPTH:
        raise place.at(*keys).refusal(f"nested deeper than {MAX_DEPTH} levels; flatten it")
    if isinstance(value, dict):
        if _REPEATED in value:
            raise place.at(*keys, value[_REPEATED]).refusal("given twice in one object; keep one of them")
        for key, inner in value.items():
            if (problem := _scalar_problem(key)) is not None:
                raise place.at(*keys).refusal(f"the key {key!r} {problem}")
            # A list of prompts is where the depth of each is counted from.
            is_list = depth == 0 and key == "prompts" and isinstance(inner, list)
            _refuse_unportable(inner, place, 0 if is_list else depth + 1, () if is_list else (*keys, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            here = place if depth else place.at_prompt(index + 1, inner)
            _refuse_unportable(inner, here, depth + 1, (*keys, index) if depth else ())
    elif (problem := _scalar_problem(value)) is not None:
        raise place.at(*keys).refusal(problem)


def _scalar_problem(value: object) -> str | None:
    match value:
        case str() if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            return "holds half of a surrogate pair, which is not text; write the whole character"
        case int() if not -(2**63) <= value < 2**64:
            return "the integer does not fit in 64 bits; use a smaller one"
        case float() if not math.isfinite(value):
            return "the number is not finite; write a finite one"
        case None | str() | int() | float():
            return None
    return f"holds {kind_of(value)}; put it in quotes to make it text"
