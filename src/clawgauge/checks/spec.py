"""Shapes of what a suite's author writes. What does not fit is refused by its place and the
reason."""

from __future__ import annotations

import difflib
import importlib
import math
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias, get_args, get_type_hints

import msgspec

from clawgauge.errors import SuiteError

# What a shape is given for a key that must be there and is not.
MISSING: Any = object()

_MAX_SHOWN_CHARS = 40
_KIND_BY_TYPE = {
    str: "text",
    int: "a whole number",
    float: "a number with a fraction",
    list: "a list",
    tuple: "a list",
}

# A key, as it is written below the place of its object, and what is wrong with it.
KeyFault: TypeAlias = tuple[str, str]

# What a value may be. A shape is called with the value and its place, such as
# `validators[0].value`, and raises `SuiteError` where the value does not fit.
Shape: TypeAlias = Callable[[Any, str], object]


def check(shape: Shape, value: Any, place: str) -> None:
    """Raise `SuiteError`, naming the place and the reason, where `value` is not of this shape."""
    shape(value, place)


def kind_of(value: Any) -> str:
    """What a value is, in words for its author: "text", "a whole number", "null"."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if type(value) in _KIND_BY_TYPE:
        return _KIND_BY_TYPE[type(value)]
    if isinstance(value, Mapping):
        return "an object"
    return f"a {type(value).__name__}"


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def at(place: str, key: str) -> str:
    """The place of a key of the object at `place`."""
    return f"{place}.{key}" if place else key


def refuse(place: str, wanted: str, value: Any) -> SuiteError:
    """The error to raise for `value`, which is not what is `wanted` there (in words)."""
    if value is MISSING:
        return SuiteError(f"key '{place}' is missing; it must be {wanted}")
    is_short_text = isinstance(value, str) and len(value) <= _MAX_SHOWN_CHARS
    shown = repr(value) if is_number(value) or is_short_text else kind_of(value)
    return SuiteError(f"key '{place}' must be {wanted}, not {shown}")


def fault(place: str, key: str, reason: str) -> SuiteError:
    """The error to raise where a key under `place` is wrong; `reason` goes on from its name."""
    return SuiteError(f"key '{at(place, key)}' {reason}")


def suggest(word: str, names: Collection[str]) -> str:
    """A question that names those `names` an author may have meant, or nothing."""
    name_by_lower = {name.lower(): name for name in names}
    near = [
        repr(name_by_lower[lower])
        for lower in difflib.get_close_matches(word.lower(), name_by_lower, n=3)
    ]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def is_slip_of(key: str, names: Collection[str]) -> bool:
    """Whether a key that is none of `names` looks like one of them misspelt."""
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.8)
    return bool(near) and abs(len(near[0]) - len(key)) <= 2


@dataclass(frozen=True)
class Value:
    """A single value; `wanted` is what it is, in words.

    True is no number. A text must hold a match of `pattern`. With `among`, it must be one of these.
    """

    wanted: str
    types: tuple[type, ...] = (object,)
    low: float = -math.inf
    high: float = math.inf
    pattern: str = ""
    among: tuple[Any, ...] = ()

    def __call__(self, value: Any, place: str) -> None:
        if not self._fits(value):
            raise refuse(place, self.wanted, value)

    def _fits(self, value: Any) -> bool:
        if value is MISSING or not isinstance(value, self.types):
            return False
        if self.among and value not in self.among:
            return False
        if isinstance(value, bool):
            return bool in self.types or object in self.types
        if isinstance(value, int | float):
            return self.low <= value <= self.high
        if isinstance(value, str):
            return re.search(self.pattern, value) is not None
        return True


@dataclass(frozen=True)
class ListOf:
    """A list of `least` to `most` values of one shape; `noun` is what they are, in the plural."""

    item: Shape
    noun: str
    least: int = 1
    most: float = math.inf

    def __call__(self, value: Any, place: str) -> None:
        wanted = f"a list of one or more {self.noun}" if self.least else f"a list of {self.noun}"
        if not isinstance(value, list):
            raise refuse(place, wanted, value)
        if len(value) < self.least:
            raise SuiteError(f"key '{place}' is empty; it must be {wanted}")
        if len(value) > self.most:
            counted = f"holds {len(value)} {self.noun}; at most {self.most} are judged"
            raise SuiteError(f"key '{place}' {counted}")
        for index, item in enumerate(value):
            check(self.item, item, f"{place}[{index}]")


@dataclass(frozen=True)
class Named:
    """An object of values of one shape, under names that are the author's."""

    item: Shape
    noun: str

    def __call__(self, value: Any, place: str) -> None:
        if not isinstance(value, Mapping):
            raise refuse(place, f"an object of {self.noun}", value)
        for name, item in value.items():
            check(self.item, item, at(place, name))


@dataclass(frozen=True)
class Fields:
    """An object with these keys.

    One that is not `closed` may hold an author's notes, but no slip of a key that is known.
    `also` looks at the whole object when each key is right by itself.
    """

    required: Mapping[str, Shape]
    optional: Mapping[str, Shape] = field(default_factory=dict)
    closed: bool = True
    also: Callable[[Any], KeyFault | None] | None = None

    def __call__(self, value: Any, place: str) -> None:
        shapes = {**self.required, **self.optional}
        if not isinstance(value, Mapping):
            raise refuse(place, f"an object with {', '.join(shapes)}", value)
        for key in value:
            if key in shapes:
                continue
            if self.closed or is_slip_of(str(key), shapes):
                hint = suggest(str(key), shapes) or f"; the keys here are {', '.join(shapes)}"
                raise fault(place, key, f"is not known here{hint}")
        for key, shape in shapes.items():
            if key in value or key in self.required:
                check(shape, value.get(key, MISSING), at(place, key))
        key_fault = self.also(value) if self.also is not None else None
        if key_fault is not None:
            raise fault(place, *key_fault)


@dataclass(frozen=True)
class ByType:
    """An object of the shape that its `type` names; `shape_of` has it for each of `types`.

    With `short`, the type alone will do.
    """

    types: Collection[str]
    shape_of: Callable[[str], Shape]
    noun: str
    short: bool = False

    def __call__(self, value: Any, place: str) -> None:
        if self.short and isinstance(value, str):
            value = {"type": value}
        if not isinstance(value, Mapping):
            example = next(iter(self.types))
            raise refuse(place, f"{self.noun} such as {{'type': '{example}', …}}", value)
        kind = value.get("type", MISSING)
        if not isinstance(kind, str) or kind not in self.types:
            raise refuse(at(place, "type"), f"one of {', '.join(self.types)}", kind)
        others = {key: item for key, item in value.items() if key != "type"}
        check(self.shape_of(kind), others, place)


class Spec(msgspec.Struct, frozen=True):
    """An object of a suite file in the form judging reads it.

    The annotation of a field holds its type and the shape an author has to give it:
    `value: Annotated[str, some_text]`. A field with a default may be left out.
    """

    def find_contradiction(self) -> KeyFault | None:
        """The key that is wrong beside the others, and why; each is right by itself."""
        return None


@cache
def fields_of(spec_type: type[Spec], *, closed: bool = True) -> Fields:
    """What an author may write for a `Spec`, by the shapes in its annotations."""
    hints = get_type_hints(spec_type, include_extras=True)
    required: dict[str, Shape] = {}
    optional: dict[str, Shape] = {}
    for key in msgspec.structs.fields(spec_type):
        _, shape = get_args(hints[key.name])
        if key.required:
            required[key.encode_name] = shape
        else:
            optional[key.encode_name] = shape

    def find_contradiction(value: Any) -> KeyFault | None:
        return msgspec.convert(value, spec_type).find_contradiction()

    return Fields(required, optional, closed, also=find_contradiction)


def choice(*options: str) -> Shape:
    return Value(" or ".join(map(repr, options)), (str,), among=options)


def whole_number(least: int, most: float = math.inf) -> Shape:
    upward = f"a whole number, {least} or more"
    wanted = upward if math.isinf(most) else f"a whole number from {least} to {most}"
    return Value(wanted, (int,), least, most)


anything = Value("given")
any_text = Value("text", (str,))
some_text = Value("text that is not blank", (str,), pattern=r"\S")
some_texts = ListOf(some_text, "texts")
an_object = Value("an object", (Mapping,))
true_or_false = Value("true or false", (bool,))
only_true = Value("true, or left out", (bool,), among=(True,))
finite_number = Value("a finite number", (int, float), -sys.float_info.max, sys.float_info.max)


def a_world(value: Any, place: str) -> None:
    """A shape: the simulated machine of a task."""
    check(an_object, value, place)
    try:
        # A suite without tasks does without the machine.
        importlib.import_module("clawgauge.world.machine").check_world(value)
    except SuiteError as error:
        raise SuiteError(f"{place}: {error}") from None
