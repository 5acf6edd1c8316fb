"""Files of the user's: small ones read whole, their size known before, as text or as TOML; any
replaced at a stroke."""

from __future__ import annotations

import difflib
import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from clawgauge.errors import ConfigError

_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")
)
T = TypeVar("T")
MAX_KEY_PARTS = 64
# More dotted parts than anyone writes: tomllib takes quadratic time, half a minute over 40,000
# parts, 80 KB of file.
_DOTTED = (
    r"""(?:^[ \t\[]*+|[{,][ \t]*+)(?:(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
)
KEY_BOMB = re.compile(f"{_DOTTED}{{{MAX_KEY_PARTS}}}", re.MULTILINE)


class UnfitFile(Exception):
    """A file that cannot be read as one. Says why and what to do, without the name: the caller
    knows what it is."""


def read_small_file(path: Path, max_bytes: int, too_large: str) -> bytes:
    """All of the file. Raises `UnfitFile`, with the words `too_large` where it has more than
    `max_bytes`."""
    content = None
    try:
        # Asked before opening as well: to open a device can be to start it.
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            with open(os.open(path, _FLAGS), "rb") as file:  # noqa: PTH123  # a descriptor
                status = os.fstat(file.fileno())
                if stat.S_ISREG(status.st_mode):
                    content = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise UnfitFile("no such file; check the path") from None
    except OSError as fault:
        raise UnfitFile(
            f"cannot be read ({fault.strerror}); check the path and its permissions"
        ) from None
    except ValueError:  # a NUL in the path, which no file can have
        raise UnfitFile("not a path; take the NUL character out") from None
    if stat.S_ISDIR(status.st_mode):
        raise UnfitFile("is a directory; name a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise UnfitFile("is not a regular file; name one")
    # None: the file has nothing to say yet, as some of /proc.
    if content is None or len(content) > max_bytes:
        raise UnfitFile(too_large)
    return content


@contextmanager
def replacing(path: Path, mode: int | None = None) -> Iterator[BinaryIO]:
    """A file that takes the place of `path`, whole and synced, once the block ends well; else it
    leaves no trace. It has the permissions of what was there, else `mode`, else those of any new
    file. Where these are their owner's alone and no `mode` is given, so is it, whatever was there.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".tmp")
    temp = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temp.chmod(_permissions(path, mode))
        temp.replace(path)
    finally:
        with suppress(OSError):
            temp.unlink()


def _permissions(path: Path, mode: int | None) -> int:
    """The permissions of a file that takes the place of `path`; see `replacing`."""
    mask = os.umask(0o077)
    os.umask(mask)
    bits = mode or 0o666 & ~mask
    if path.exists():
        bits = path.stat().st_mode & 0o777
    if mode is None and mask == 0o077:
        bits &= 0o600
    return bits


def read_toml(
    path: Path, type: type[T], what: str, check: Callable[[dict[str, Any]], None] | None = None
) -> tuple[T, bytes]:
    """The file as a `type`, and its bytes. `what` is what refusals call it; `check` may refuse the
    tables before."""
    try:
        raw = read_small_file(path, 1 << 20, "it is over 1 MiB; it should hold a few tables")
    except UnfitFile as unfit:
        raise ConfigError(f"cannot read the {what} {path}: {unfit}") from None
    try:
        text = raw.decode("utf-8-sig")
        if re.search(r"(?<!\\)(?:\\\\)*\\(?:u0000|U00000000)", text):
            raise ConfigError(
                f"the {what} {path} has a NUL character in it, which no name has; take it out"
            )
        if KEY_BOMB.search(text):
            raise ConfigError(f"the {what} {path} has a key of too many dotted parts; flatten it")
        tables = tomllib.loads(text)
    # Python's own cap on the digits of a number is a plain ValueError, which the others are kinds
    # of.
    except (ValueError, RecursionError) as fault:
        raise ConfigError(f"the {what} {path} cannot be used, it is not TOML: {fault}") from fault
    try:
        if check is not None:
            check(tables)
        return msgspec.convert(tables, type), raw
    except (msgspec.ValidationError, RecursionError) as fault:
        raise ConfigError(
            f"the {what} {path} cannot be used: {_plainly(str(fault), type)}"
        ) from fault


_KINDS = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}
_KINDS |= {"array": "a list", "object": "a table"}


def _plainly(fault: str, type: Any) -> str:
    """What is wrong with a file, in the words of TOML: msgspec speaks of JSON."""
    message, _, path = fault.partition(" - at `$")
    key = path.rstrip("`").lstrip(".").replace("[...]", ".NAME")
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", message):
        return _describe_unknown_key(match[1], key, type)
    if match := re.fullmatch(r"Expected `(.*)`, got `(.*)`", message):
        expected = []
        for kind in match[1].split("|"):
            if "null" not in kind:
                expected.append(_KINDS.get(kind.strip(), kind.strip()))
        actual = _KINDS.get(match[2], match[2])
        return f"{key or 'it'} must be {' or '.join(expected)}, not {actual}"
    return f"{key}: {message}" if key else message


def _describe_unknown_key(unknown: str, table: str, type: Any) -> str:
    where = f" in [{table}]" if table else ""
    similar = difflib.get_close_matches(unknown, _field_names(type), n=1)
    hint = f"; did you mean {similar[0]}?" if similar else ""
    return f"there is no key {unknown!r}{where}{hint}"


def _field_names(type: Any) -> list[str]:
    """The names of all fields of a type, and of the types in it."""
    names = []
    types: list[Any] = [msgspec.inspect.type_info(type)]
    while types:
        info = types.pop()
        for field in getattr(info, "fields", ()):
            names.append(field.name)
            types.append(field.type)
        types.extend(getattr(info, "types", ()))
        value_type = getattr(info, "value_type", None)
        if value_type is not None:
            types.append(value_type)
    return names
