"""What a suite's author writes: shapes that refuse a value with its place and the reason, and patterns in linear time.

A shape is called with a value and its place, such as `answer.values[0]`, and raises `SuiteError` or nothing.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

import re2

import clawgauge.world as simulation
from clawgauge.characters import well_formed
from clawgauge.errors import SuiteError

Shape = Callable[[Any, str], None]
MISSING: Any = object()
"""What a shape is given for a key that must be there and is not."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """The compiled pattern, of which `re2_pattern` knows that RE2 takes it."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def matches_fully(pattern: str, text: str) -> bool:
    """Whether the whole of `text` matches."""
    return compile_pattern(pattern).fullmatch(well_formed(text)) is not None


def kind_of(value: Any) -> str:
    """A JSON value's kind, in words."""
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case str():
            return "text"
        case int():
            return "a whole number"
        case float():
            return "a number with a fraction"
        case list() | tuple():
            return "a list"
    return "an object" if isinstance(value, Mapping) else f"a {type(value).__name__}"


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def at(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def refuse(place: str, wanted: str, value: Any) -> SuiteError:
    """What to raise where `value` is not what is wanted."""
    if value is MISSING:
        return SuiteError(f"key '{place}' is missing; it must be {wanted}")
    shown = repr(value) if is_number(value) or (isinstance(value, str) and len(value) <= 40) else kind_of(value)
    return SuiteError(f"key '{place}' must be {wanted}, not {shown}")


def fault(place: str, key: str, words: str) -> SuiteError:
    """What to raise where a key under `place` is wrong; `words` go on from its name."""
    return SuiteError(f"key '{at(place, key)}' {words}")


def suggest(word: str, known: Collection[str]) -> str:
    """'; did you mean …?' for the nearest known words, or nothing."""
    by_lower = {name.lower(): name for name in known}
    near = [by_lower[lower] for lower in difflib.get_close_matches(word.lower(), by_lower, n=3)]
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def that(wanted: str, fits: Callable[[Any], bool]) -> Shape:
    """The shape of a value that `fits`; `wanted` is what it is, in words."""

    def check(value: Any, place: str) -> None:
        if not fits(value):
            raise refuse(place, wanted, value)

    return check


def choice(*words: str) -> Shape:
    return that(" or ".join(map(repr, words)), lambda value: value in words)


def whole_number(least: int, most: int | None = None) -> Shape:
    wanted = f"a whole number, {least} or more" if most is None else f"a whole number from {least} to {most}"
    return that(wanted, lambda value: type(value) is int and least <= value and (most is None or value <= most))


anything = that("given", lambda value: value is not MISSING)
any_text = that("text", lambda value: isinstance(value, str))
some_text = that("text that is not blank", lambda value: isinstance(value, str) and bool(value.strip()))
an_object = that("an object", lambda value: isinstance(value, Mapping))
true_or_false = that("true or false", lambda value: isinstance(value, bool))
finite_number = that("a finite number", lambda value: is_number(value) and math.isfinite(value))


def a_world(value: Any, place: str) -> None:
    an_object(value, place)
    try:
        simulation.check_world(value)
    except SuiteError as error:
        raise SuiteError(f"{place}: {error}") from None


def re2_pattern(value: Any, place: str) -> None:
    if not isinstance(value, str):
        raise refuse(place, "an RE2 pattern, as text", value)
    try:
        compile_pattern(value)
    except re2.error as error:
        said = error.args[0].decode("utf-8", "replace") if error.args else "no reason given"
        reason = f"cannot be read by RE2, which has no lookaround and no back-references ({said})"
        raise SuiteError(f"key '{place}' {reason}; write the pattern another way") from None
    except UnicodeEncodeError:
        raise SuiteError(f"key '{place}' holds a lone surrogate, which no text can; take it out") from None


def list_of(shape: Shape, noun: str, *, least: int = 1, most: int | None = None) -> Shape:
    """A list; `noun` is what it holds."""
    wanted = f"a list of one or more {noun}" if least else f"a list of {noun}"

    def check(value: Any, place: str) -> None:
        if not isinstance(value, list):
            raise refuse(place, wanted, value)
        if len(value) < least:
            raise SuiteError(f"key '{place}' is empty; it must be {wanted}")
        if most is not None and len(value) > most:
            raise SuiteError(f"key '{place}' holds {len(value)} {noun}; at most {most} are judged")
        for index, item in enumerate(value):
            shape(item, f"{place}[{index}]")

    return check


some_texts = list_of(some_text, "texts")


def text_or_texts(value: Any, place: str) -> None:
    for index, item in enumerate(value if isinstance(value, list) else [value]):
        if not isinstance(item, str) or not item:
            here = f"{place}[{index}]" if isinstance(value, list) else place
            raise refuse(here, "text that is not empty, or a list of texts", item)


def named(shape: Shape, noun: str) -> Shape:
    """An object whose keys are the author's own names; `noun` is what they name."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, Mapping):
            raise refuse(place, f"an object of {noun}", value)
        for name, item in value.items():
            shape(item, at(place, name))

    return check


def fields(
    required: Mapping[str, Shape],
    optional: Mapping[str, Shape] | None = None,
    *,
    closed: bool = True,
    also: Shape | None = None,
) -> Shape:
    """An object with these keys; `also` looks at what they say together.

    One that is not closed may hold an author's own notes, but no key one slip away from one that means something.
    """
    shapes = {**required, **(optional or {})}

    def check(value: Any, place: str) -> None:
        if not isinstance(value, Mapping):
            raise refuse(place, f"an object with {', '.join(shapes)}", value)
        for key in value:
            if key not in shapes and (closed or _is_slip(str(key), shapes)):
                hint = suggest(str(key), shapes) or f"; the keys here are {', '.join(shapes)}"
                raise SuiteError(f"key '{at(place, key)}' is not known here{hint}")
        for key, shape in shapes.items():
            if key in value or key in required:
                shape(value.get(key, MISSING), at(place, key))
        if also is not None:
            also(value, place)

    return check


def _is_slip(key: str, known: Collection[str]) -> bool:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.8)
    return bool(near) and abs(len(near[0]) - len(key)) <= 2


def by_type(shapes: Mapping[str, Shape], noun: str) -> Shape:
    """An object of the shape that its `type` names; `noun` is what it is."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, Mapping):
            raise refuse(place, f"{noun} such as {{'type': '{next(iter(shapes))}', …}}", value)
        here, known = at(place, "type"), ", ".join(shapes)
        kind = value.get("type", MISSING)
        if not isinstance(kind, str) or kind not in shapes:
            raise refuse(here, f"one of {known}", kind)
        shapes[kind]({key: item for key, item in value.items() if key != "type"}, place)

    return check
