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
    events = _node_events(text, place)
    try:
        first = next(events, None)
        document = None if first is None else _build(first, events, place)
        for _ in events:  # what follows the document may still be malformed, or a second document
            pass
    except yaml.YAMLError as error:
        raise place.refusal(_describe(error)) from None
    return document


def _node_events(text: str, place: Place) -> Iterator[yaml.Event]:
    """The events that carry data, each checked as it passes, so that a bomb is refused before it is built."""
    n_documents = depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.DocumentStartEvent):
            n_documents += 1
            if n_documents > 1:
                raise _refusal(place, event, "a second YAML document; put each suite in a file of its own")
        elif isinstance(event, yaml.NodeEvent):
            _refuse_indirection(event, place)
            depth += isinstance(event, yaml.CollectionStartEvent)
            if depth > MAX_DEPTH:
                raise _refusal(place, event, f"nested deeper than {MAX_DEPTH} levels; flatten it")
            yield event
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            yield event


def _refuse_indirection(event: yaml.NodeEvent, place: Place) -> None:
    if event.anchor is not None:
        mark = "*" if isinstance(event, yaml.AliasEvent) else "&"
        raise _refusal(
            place, event, f"anchors and aliases ({mark}{event.anchor}) are not allowed; write the value out or quote it"
        )
    tag = getattr(event, "tag", None)
    if tag is not None:
        raise _refusal(place, event, f"tags ({tag}) are not allowed; leave it out, or quote the text")


def _build(event: yaml.Event, rest: Iterator[yaml.Event], place: Place) -> Any:
    if isinstance(event, yaml.MappingStartEvent):
        return _build_mapping(rest, place)
    if isinstance(event, yaml.SequenceStartEvent):
        return [_build(inner, rest, place) for inner in _until_end(rest)]
    return _read_scalar(event, place)


def _build_mapping(rest: Iterator[yaml.Event], place: Place) -> dict[str, Any]:
    pairs: list[tuple[str, Any]] = []
    for event in _until_end(rest):
        if not isinstance(event, yaml.ScalarEvent):
            raise _refusal(place, event, "a key must be text; put it in quotes")
        pairs.append((event.value, _build(next(rest), rest, place)))
    return build_object(pairs)


def _until_end(events: Iterator[yaml.Event]) -> Iterator[yaml.Event]:
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            return
        yield event


def _read_scalar(event: Any, place: Place) -> str | int | float | bool | None:
    text: str = event.value
    is_plain = event.implicit[0]
    if not is_plain:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return read_integer(text, place)
    return float(text) if _FLOAT.fullmatch(text) else text


def _refusal(place: Place, event: yaml.Event, message: str) -> SuiteError:
    mark = event.start_mark
    return place.refusal(f"line {mark.line + 1}: {message}" if mark is not None else message)


def _describe(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    return f"not YAML{where}: {problem}"
