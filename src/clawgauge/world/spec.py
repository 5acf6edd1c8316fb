"""What a specification may say: a noun's fields are its keys; every refusal names the key and what is accepted."""

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
_NOT_BLANK, _PATH, _NAME, _MODE = r"\S", r"^/[^\0]*$", "^[a-z][a-z0-9-]{0,30}$", "^(0o)?[0-7]{1,4}$"
Word = Annotated[str, Meta(pattern=_NOT_BLANK)]
Path = Annotated[str, Meta(pattern=_PATH)]
Name = Annotated[str, Meta(pattern=_NAME)]
Mode = Annotated[str, Meta(pattern=_MODE)]
Amount = Annotated[float, Meta(ge=0, le=1e9)]
Seconds = Annotated[int, Meta(ge=0, le=86_400)]
Port = Annotated[int, Meta(ge=1, le=65_535)]
Size = int | str
_PATTERNS = {
    _NOT_BLANK: "text that is not blank", _PATH: "an absolute path", _MODE: 'an octal mode as text, such as "0640"',
    _NAME: "a short name of lower-case letters, digits and hyphens",
}  # fmt: skip
_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
}
_KINDS |= {"object": "an object", "null": "null"}
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([KMGT]?)B?")
_T = TypeVar("_T")


class Noun(msgspec.Struct, forbid_unknown_fields=True):
    """One object of a specification. A default is not checked: it may be what says that a key was not given."""


def read(kind: type[_T], value: Any, place: str = "") -> _T:
    """`value`, which stands at `place`, as what it is declared to be; raises `SuiteError` naming the key."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        words, _, where = str(error).partition(" - at `$")
    key = (place + where.rstrip("`")).lstrip(".")
    if found := re.search(r"(missing required|unknown) field `(.*)`", words):
        key = f"{key}.{found[2]}".lstrip(".")
        if found[1] != "unknown":
            raise SuiteError(f"key '{key}' is missing")
        nouns: list[Any] = Noun.__subclasses__() if where else [kind]
        known = {name for noun in nouns for name in noun.__struct_encode_fields__} - {found[2]}
        near = difflib.get_close_matches(found[2], sorted(known), n=1)
        hint = f"did you mean '{near[0]}'?" if near else "take it out"
        raise SuiteError(f"key '{key}' is not known; {hint}")
    expected, _, got = words.partition(", got ")
    kinds, _, bound = expected.removeprefix("Expected `").partition("`")
    wanted = " or ".join(_KINDS.get(one, one) for one in kinds.split(" | ")) + bound
    if " regex " in bound:
        pattern = bound.partition(" regex ")[2]
        choices = re.sub(r"^'\^\(\?:|\)\$'$", "", pattern).replace("|", ", ")
        wanted = next(
            (words for known, words in _PATTERNS.items() if repr(known) == pattern),
            f"one of {choices}",
        )
    raise SuiteError(
        f"key '{key}' must be {wanted}{f', not {_KINDS.get(got[1:-1], got)}' if got else ''}"
    )


@contextlib.contextmanager
def at_key(key: str, problem: str = "") -> Iterator[None]:
    """What the world refuses while it is set up is a fault of the key that is being read."""
    try:
        yield
    except Refusal as refusal:
        raise SuiteError(f"key '{key}'{problem}: {refusal}") from None


def read_size(value: Any, key: str) -> int:
    if type(value) is int and 0 <= value < 2**53:
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise SuiteError(
            f"key '{key}' must be a number of bytes or text such as \"18G\", not {str(value)[:60]!r}"
        )
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2] or " "))


def read_moment(value: Any, key: str) -> int:
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
