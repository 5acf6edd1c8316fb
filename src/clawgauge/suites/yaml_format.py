"""YAML suites, read from the parser's events alone.

No constructor ever runs, so no tag can make an object and no alias can multiply one: anchors, aliases, tags and second
documents are refused where they stand. Unquoted words are read as JSON would read them, and everything else is text:
`yes`, `no`, `12:30` and `2026-02-13` are what they look like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from clawgauge.errors import SuiteError
from clawgauge.suites.document import MAX_DEPTH, Place, build_object, read_integer

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}


def parse_yaml(text: str, place: Place) -> object:
    """The one document in `text`, or None where there is none."""
    events = yaml.parse(text, Loader=_LOADER)
    document: object = None
    n_documents = 0
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                n_documents += 1
                if n_documents > 1:
                    raise _refusal(place, event, "a second YAML document; put each suite in a file of its own")
            elif isinstance(event, yaml.NodeEvent):
                document = _build(event, events, place, 0)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise place.refusal(f"not YAML{where}: {problem}") from None
    return document


def _build(event: Any, rest: Iterator[yaml.Event], place: Place, depth: int) -> Any:
    """The value an event opens, refused before it is built where it is a bomb; `depth` collections are around it."""
    if event.anchor is not None:
        mark = "*" if isinstance(event, yaml.AliasEvent) else "&"
        raise _refusal(
            place, event, f"anchors and aliases ({mark}{event.anchor}) are not allowed; write the value out or quote it"
        )
    if event.tag is not None:
        raise _refusal(place, event, f"tags ({event.tag}) are not allowed; leave it out, or quote the text")
    if isinstance(event, yaml.ScalarEvent):
        return _read_scalar(event.value, place) if event.implicit[0] else event.value
    if depth == MAX_DEPTH:
        raise _refusal(place, event, f"nested deeper than {MAX_DEPTH} levels; flatten it")
    items: list[Any] = []
    for inner in rest:
        if isinstance(inner, yaml.CollectionEndEvent):
            break
        if isinstance(event, yaml.SequenceStartEvent):
            items.append(_build(inner, rest, place, depth + 1))
        elif not isinstance(inner, yaml.ScalarEvent):
            raise _refusal(place, inner, "a key must be text; put it in quotes")
        else:
            items.append((inner.value, _build(next(rest), rest, place, depth + 1)))
    return items if isinstance(event, yaml.SequenceStartEvent) else build_object(items)


def _read_scalar(word: str, place: Place) -> str | int | float | bool | None:
    if word in _WORDS:
        return _WORDS[word]
    if _INTEGER.fullmatch(word):
        return read_integer(word, place)
    return float(word) if _FLOAT.fullmatch(word) else word


def _refusal(place: Place, event: yaml.Event, message: str) -> SuiteError:
    mark = event.start_mark
    return place.refusal(f"line {mark.line + 1}: {message}" if mark is not None else message)
