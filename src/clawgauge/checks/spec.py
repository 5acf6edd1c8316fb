"""What a suite's author writes: shapes, refusals that name the place and the reason, and patterns in linear time."""

from __future__ import annotations

import difflib
import importlib
import math
import re
import sys
import unicodedata
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import re2

from clawgauge.characters import well_formed
from clawgauge.checks.answer import quoted
from clawgauge.errors import SuiteError

MISSING: Any = object()  # what a shape is given for a key that must be there and is not


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """The compiled pattern, of which `re2_pattern` knows that RE2 takes it."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def matches_fully(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).fullmatch(well_formed(text)) is not None


_KINDS = {str: "text", int: "a whole number", float: "a number with a fraction", list: "a list", tuple: "a list"}


def kind_of(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    kind = "an object" if isinstance(value, Mapping) else f"a {type(value).__name__}"
    return _KINDS.get(type(value), kind)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def at(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def refuse(place: str, wanted: str, value: Any) -> SuiteError:
    if value is MISSING:
        return SuiteError(f"key '{place}' is missing; it must be {wanted}")
    shown = repr(value) if is_number(value) or (isinstance(value, str) and len(value) <= 40) else kind_of(value)
    return SuiteError(f"key '{place}' must be {wanted}, not {shown}")


def fault(place: str, key: str, words: str) -> SuiteError:
    """What to raise where a key under `place` is wrong; `words` go on from its name."""
    return SuiteError(f"key '{at(place, key)}' {words}")


def suggest(word: str, known: Collection[str]) -> str:
    by_lower = {name.lower(): name for name in known}
    near = [by_lower[lower] for lower in difflib.get_close_matches(word.lower(), by_lower, n=3)]
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


class Value(NamedTuple):
    """A single value; `wanted` is what it is, in words. True is no number; `pattern` is to be found in a text."""

    wanted: str
    types: tuple[type, ...] = (object,)
    low: float = -math.inf
    high: float = math.inf
    pattern: str = ""
    among: tuple[Any, ...] = ()


class ListOf(NamedTuple):
    item: Shape
    noun: str
    least: int = 1
    most: float = math.inf


class Named(NamedTuple):
    item: Shape
    noun: str


class Fields(NamedTuple):
    """An object with these keys; one that is not closed may hold an author's notes, but no slip of a known key."""

    required: Mapping[str, Shape]
    optional: Mapping[str, Shape] = {}
    closed: bool = True
    # Tells the key that is wrong beside the others, and the words that follow on it.
    also: Callable[[Any], tuple[str, str] | None] | None = None


class ByType(NamedTuple):
    """An object of the shape that its `type` names. With `short`, the type alone will do."""

    shapes: Mapping[str, Shape]
    noun: str
    short: bool = False


# What a value may be; where words do not reach, a function that raises `SuiteError` or nothing.
Shape: TypeAlias = Value | ListOf | Named | Fields | ByType | Callable[[Any, str], object]


def check(shape: Shape, value: Any, place: str) -> None:
    match shape:
        case Value(types=types):
            fits = value is not MISSING and isinstance(value, types) and (not shape.among or value in shape.among)
            if isinstance(value, bool):
                fits = fits and (bool in types or object in types)
            elif isinstance(value, int | float):
                fits = fits and shape.low <= value <= shape.high
            elif isinstance(value, str):
                fits = fits and re.search(shape.pattern, value) is not None
            if not fits:
                raise refuse(place, shape.wanted, value)
        case ListOf(noun=noun):
            wanted = f"a list of one or more {noun}" if shape.least else f"a list of {noun}"
            if not isinstance(value, list):
                raise refuse(place, wanted, value)
            if len(value) < shape.least:
                raise SuiteError(f"key '{place}' is empty; it must be {wanted}")
            if len(value) > shape.most:
                raise SuiteError(f"key '{place}' holds {len(value)} {noun}; at most {shape.most} are judged")
            for index, item in enumerate(value):
                check(shape.item, item, f"{place}[{index}]")
        case Named():
            if not isinstance(value, Mapping):
                raise refuse(place, f"an object of {shape.noun}", value)
            for name, item in value.items():
                check(shape.item, item, at(place, name))
        case Fields(required=required):
            shapes = {**required, **shape.optional}
            if not isinstance(value, Mapping):
                raise refuse(place, f"an object with {', '.join(shapes)}", value)
            for key in value:
                near = [] if key in shapes else difflib.get_close_matches(str(key), shapes, n=1, cutoff=0.8)
                is_slip = bool(near) and abs(len(near[0]) - len(str(key))) <= 2
                if key not in shapes and (shape.closed or is_slip):
                    hint = suggest(str(key), shapes) or f"; the keys here are {', '.join(shapes)}"
                    raise fault(place, key, f"is not known here{hint}")
            for key, of_key in shapes.items():
                if key in value or key in required:
                    check(of_key, value.get(key, MISSING), at(place, key))
            if shape.also and (wrong := shape.also(value)):
                raise fault(place, *wrong)
        case ByType(shapes=shapes):
            value = {"type": value} if shape.short and isinstance(value, str) else value
            if not isinstance(value, Mapping):
                raise refuse(place, f"{shape.noun} such as {{'type': '{next(iter(shapes))}', …}}", value)
            kind = value.get("type", MISSING)
            if not isinstance(kind, str) or kind not in shapes:
                raise refuse(at(place, "type"), f"one of {', '.join(shapes)}", kind)
            check(shapes[kind], {key: item for key, item in value.items() if key != "type"}, place)
        case _:
            shape(value, place)


def choice(*words: str) -> Shape:
    return Value(" or ".join(map(repr, words)), (str,), among=words)


def whole_number(least: int, most: float = math.inf) -> Shape:
    upward = f"a whole number, {least} or more"
    return Value(upward if math.isinf(most) else f"a whole number from {least} to {most}", (int,), least, most)


anything = Value("given")
any_text = Value("text", (str,))
some_text = Value("text that is not blank", (str,), pattern=r"\S")
some_texts = ListOf(some_text, "texts")
an_object = Value("an object", (Mapping,))
true_or_false = Value("true or false", (bool,))
finite_number = Value("a finite number", (int, float), -sys.float_info.max, sys.float_info.max)


def a_world(value: Any, place: str) -> None:
    check(an_object, value, place)
    try:
        # A suite without tasks does without the machine.
        importlib.import_module("clawgauge.world.machine").check_world(value)
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


def text_or_texts(value: Any, place: str) -> None:
    for index, item in enumerate(value if isinstance(value, list) else [value]):
        here = f"{place}[{index}]" if isinstance(value, list) else place
        if not isinstance(item, str) or not item:
            raise refuse(here, "text that is not empty, or a list of texts", item)
        if (pattern := pattern_in(item)) is not None:
            re2_pattern(pattern, here)


RULE_KEYS = ("contains_all", "contains_none")
_PLAIN_QUOTES = str.maketrans("‘’‚‛′“”„‟″", "'" * 5 + '"' * 5)


def pattern_in(wanted: Any) -> str | None:
    """The RE2 pattern that a suite's text stands for, or None where it stands for itself."""
    return wanted.removeprefix("re:") if isinstance(wanted, str) and wanted.startswith("re:") else None


def as_written(text: str) -> str:
    """`text` but for what two keyboards differ in: NFC, straight quotation marks, no white space at the ends."""
    text = well_formed(text).strip()
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_PLAIN_QUOTES)


def is_text_rule(wanted: Any) -> bool:
    return isinstance(wanted, Mapping) and bool(wanted) and all(key in RULE_KEYS for key in wanted)


def _text_or_pattern(value: Any, place: str) -> None:
    check(some_text, value, place)
    if (pattern := pattern_in(value)) is not None:
        re2_pattern(pattern, place)


_EMPTY = ("contains_all", "is missing or empty; give some texts there or in 'contains_none'")
TEXT_RULE = Fields(
    {},
    dict.fromkeys(RULE_KEYS, ListOf(_text_or_pattern, "texts or patterns", least=0)),
    also=lambda rule: _find_contradiction(rule) if any(rule.get(key) for key in RULE_KEYS) else _EMPTY,
)


def _find_contradiction(rule: Mapping[str, Any]) -> tuple[str, str] | None:
    """A plain text that is wanted and holds one that is not; what patterns meet only a text can tell."""
    wanted, unwanted = ([text for text in rule.get(key, []) if pattern_in(text) is None] for key in RULE_KEYS)
    fault = next(filter(None, (find_rule_fault({"contains_none": unwanted}, text) for text in wanted)), None)
    return ("contains_all", f"{fault}, which 'contains_none' rules out; take one of them out") if fault else None


def find_rule_fault(rule: Mapping[str, Any], text: str) -> str | None:
    """What is wrong with `text`, to follow on its name, or None. A plain text is looked for in any case and spacing."""
    text = as_written(text)
    folded = " ".join(text.casefold().split())

    def holds(wanted: str) -> bool:
        if (pattern := pattern_in(wanted)) is not None:
            return compile_pattern(pattern).search(text) is not None
        return " ".join(as_written(wanted).casefold().split()) in folded

    lacked = (f"lacks {quoted(wanted)}" for wanted in rule.get("contains_all", []) if not holds(wanted))
    held = (f"holds {quoted(unwanted)}" for unwanted in rule.get("contains_none", []) if holds(unwanted))
    return next(chain(lacked, held), None)
