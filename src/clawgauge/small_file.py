"""Files of the user's: small ones read whole, their size known before, as text or as TOML; any replaced at a stroke."""

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
# More dotted parts than anyone writes: tomllib takes quadratic time, half a minute over 40,000 parts, 80 KB of file.
_DOTTED = (
    r"""(?:^[ \t\[]*+|[{,][ \t]*+)(?:(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
)
KEY_BOMB = re.compile(f"{_DOTTED}{{{MAX_KEY_PARTS}}}", re.MULTILINE)


class UnfitFile(Exception):
    """A file that cannot be read as one. Says why and what to do, without the name: the caller knows what it is."""


def read_small_file(path: Path, max_bytes: int, too_large: str) -> bytes:
    """All of the file. Raises `UnfitFile`, with the words `too_large` where it has more than `max_bytes`."""
    try:
        # Asked before opening as well: to open a device can be to start it.
        found = path.stat()
        if stat.S_ISREG(found.st_mode):
            with open(os.open(path, _FLAGS), "rb") as file:  # noqa: PTH123  # a descriptor
                found = os.fstat(file.fileno())
                content = file.read(max_bytes + 1) if stat.S_ISREG(found.st_mode) else b""
    except FileNotFoundError:
        raise UnfitFile("no such file; check the path") from None
    except OSError as fault:
        raise UnfitFile(
            f"cannot be read ({fault.strerror}); check the path and its permissions"
        ) from None
    except ValueError:  # a NUL in the path, which no file can have
        raise UnfitFile("not a path; take the NUL character out") from None
    if not stat.S_ISREG(found.st_mode):
        is_folder = stat.S_ISDIR(found.st_mode)
        raise UnfitFile(
            "is a directory; name a file in it" if is_folder else "is not a regular file; name one"
        )
    # None: the file has nothing to say yet, as some of /proc.
    if content is None or len(content) > max_bytes:
        raise UnfitFile(too_large)
    return content


@contextmanager
def replacing(path: Path, mode: int | None = None) -> Iterator[BinaryIO]:
    """A file that takes the place of `path`, whole and synced, once the block ends well; else it leaves no trace.
    It has the permissions of what was there, else `mode`, else those of any new file. Where these are their owner's
    alone and no `mode` is given, so is it, whatever was there."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".tmp")
    temp = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0o077)
        os.umask(mask)
        bits = path.stat().st_mode & 0o777 if path.exists() else mode or 0o666 & ~mask
        temp.chmod(bits & 0o600 if mode is None and mask == 0o077 else bits)
        temp.replace(path)
    finally:
        with suppress(OSError):
            temp.unlink()


def read_toml(
    path: Path, type: type[T], what: str, check: Callable[[dict[str, Any]], None] | None = None
) -> tuple[T, bytes]:
    """The file as a `type`, and its bytes. `what` is what refusals call it; `check` may refuse the tables before."""
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
    # Python's own cap on the digits of a number is a plain ValueError, which the others are kinds of.
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
    said, _, where = fault.partition(" - at `$")
    place = where.rstrip("`").lstrip(".").replace("[...]", ".NAME")
    if found := re.fullmatch(r"Object contains unknown field `(.*)`", said):
        left, names = [msgspec.inspect.type_info(type)], []
        while left:
            one: Any = left.pop()
            names += [field.name for field in getattr(one, "fields", ())]
            left += [field.type for field in getattr(one, "fields", ())]
            left += [*getattr(one, "types", ()), *filter(None, (getattr(one, "value_type", None),))]
        near = difflib.get_close_matches(found[1], names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"there is no key {found[1]!r}{f' in [{place}]' if place else ''}{hint}"
    if found := re.fullmatch(r"Expected `(.*)`, got `(.*)`", said):
        kinds = [kind.strip() for kind in found[1].split("|") if "null" not in kind]
        wanted = " or ".join(_KINDS.get(kind, kind) for kind in kinds)
        return f"{place or 'it'} must be {wanted}, not {_KINDS.get(found[2], found[2])}"
    return f"{place}: {said}" if place else said
