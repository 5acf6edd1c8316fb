"""What a specification may say: an object's fields are its keys.

Every refusal names the key and what is accepted.
"""

import contextlib
import datetime as dt
import difflib
import pathlib
import re
import tomllib
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from clawgauge.errors import SuiteError
from clawgauge.world.effects import LATEST_S, Refusal

SERVER = tomllib.loads(pathlib.Path(__file__).with_name("server.toml").read_text("utf-8"))
_NOT_BLANK = r"\S"
_PATH = r"^/[^\0]*$"
_NAME = "^[a-z][a-z0-9-]{0,30}$"
_MODE = "^(0o)?[0-7]{1,4}$"
Word = Annotated[str, Meta(pattern=_NOT_BLANK)]
Path = Annotated[str, Meta(pattern=_PATH)]
Name = Annotated[str, Meta(pattern=_NAME)]
Mode = Annotated[str, Meta(pattern=_MODE)]
Amount = Annotated[float, Meta(ge=0, le=1e9)]
Seconds = Annotated[int, Meta(ge=0, le=86_400)]
Port = Annotated[int, Meta(ge=1, le=65_535)]
Size = int | str
# How a refusal names a pattern, and a type; a pattern that is not here lists what is accepted.
_PATTERN_NAMES = {
    _NOT_BLANK: "text that is not blank",
    _PATH: "an absolute path",
    _MODE: 'an octal mode as text, such as "0640"',
    _NAME: "a short name of lower-case letters, digits and hyphens",
}
_TYPE_NAMES = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_FIELD_FAULT = re.compile(r"(missing required|unknown) field `(.*)`")
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([KMGT]?)B?")
_UNITS = " KMGT"
_T = TypeVar("_T")


class SpecObject(msgspec.Struct, forbid_unknown_fields=True):
    """One object of a specification.

    A default is not checked: it may be what says that a key was not given.
    """


def read(kind: type[_T], value: Any, place: str = "") -> _T:
    """`value`, which stands at `place`, as what it is declared to be.

    Raises `SuiteError` naming the key.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message = str(error)
    problem, _, path = message.partition(" - at `$")
    key = (place + path.rstrip("`")).lstrip(".")
    field_fault = _FIELD_FAULT.search(problem)
    if field_fault is None:
        raise SuiteError(f"key '{key}' {_describe_type_fault(problem)}")
    field = field_fault[2]
    field_key = f"{key}.{field}".lstrip(".")
    if field_fault[1] == "missing required":
        raise SuiteError(f"key '{field_key}' is missing")
    kinds: list[Any] = SpecObject.__subclasses__() if path else [kind]
    raise SuiteError(f"key '{field_key}' is not known; {_suggest_field(field, kinds)}")


def _suggest_field(field: str, kinds: list[Any]) -> str:
    """What to do about a key that none of these kinds of object has."""
    names: set[str] = set()
    for kind in kinds:
        names.update(kind.__struct_encode_fields__)
    names.discard(field)
    nearest = difflib.get_close_matches(field, sorted(names), n=1)
    return f"did you mean '{nearest[0]}'?" if nearest else "take it out"


def _describe_type_fault(problem: str) -> str:
    """msgspec's ``Expected `int` >= 0, got `str` `` in our words."""
    expected, _, actual = problem.partition(", got ")
    types, _, bound = expected.removeprefix("Expected `").partition("`")
    if " regex " in bound:
        wanted = _describe_pattern(bound.partition(" regex ")[2])
    else:
        wanted = " or ".join(_TYPE_NAMES.get(name, name) for name in types.split(" | ")) + bound
    if not actual:
        return f"must be {wanted}"
    return f"must be {wanted}, not {_TYPE_NAMES.get(actual[1:-1], actual)}"


def _describe_pattern(shown_pattern: str) -> str:
    """What a pattern, as `repr` shows it, accepts."""
    for pattern, name in _PATTERN_NAMES.items():
        if repr(pattern) == shown_pattern:
            return name
    choices = re.sub(r"^'\^\(\?:|\)\$'$", "", shown_pattern)
    return f"one of {choices.replace('|', ', ')}"


@contextlib.contextmanager
def at_key(key: str, problem: str = "") -> Iterator[None]:
    """What the machine refuses while it is set up is a fault of the key that is being read."""
    try:
        yield
    except Refusal as refusal:
        raise SuiteError(f"key '{key}'{problem}: {refusal}") from None


def read_size(value: Any, key: str) -> int:
    """Bytes, given as their number or as text such as `18G`."""
    if type(value) is int and 0 <= value < 2**53:
        return value
    size = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if size is None:
        raise SuiteError(
            f"key '{key}' must be a number of bytes or text such as \"18G\", "
            f"not {str(value)[:60]!r}"
        )
    return int(float(size[1]) * 1024 ** _UNITS.index(size[2] or " "))


def read_moment(value: Any, key: str) -> int:
    """A date and time of UTC, as seconds since 1970."""
    try:
        moment = dt.datetime.fromisoformat(value)
    except (ValueError, TypeError):
        wanted = "a date and time such as '2026-03-02T09:00:00'"
        raise SuiteError(f"key '{key}' must be {wanted}, not {str(value)[:60]!r}") from None
    if moment.tzinfo is not None:
        raise SuiteError(f"key '{key}' has a time zone; the world runs on UTC, so leave it out")
    at_s = int(moment.replace(tzinfo=dt.UTC).timestamp())
    if not 0 <= at_s < LATEST_S:
        raise SuiteError(f"key '{key}' must be a moment from 1970 to 2099, not {value!r}")
    return at_s
