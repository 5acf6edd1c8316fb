"""A small TOML file of the user's, read into the type it must fit, or refused in one sentence that names it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from clawgauge.errors import ConfigError
from clawgauge.small_file import UnfitFile, read_small_file

T = TypeVar("T")

MAX_KEY_PARTS = 64
_MAX_BYTES = 1 << 20
# tomllib takes quadratic time over one dotted key: 40,000 parts, 80 KB of file, cost half a minute.
_KEY_BOMB = re.compile(
    r"""(?:^[ \t\[]*+|[{,][ \t]*+)(?:(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    f"{{{MAX_KEY_PARTS}}}",
    re.MULTILINE,
)


def has_key_bomb(toml: str) -> bool:
    """Whether a key in this TOML has more dotted parts than anyone writes."""
    return _KEY_BOMB.search(toml) is not None


def read_toml(path: Path, type: type[T], what: str) -> T:
    """The file as a `type`. `what` is what refusals call it: `policy`, `prices`."""
    return fit_toml(parse_toml(read_toml_bytes(path, what), path, what), type, path, what)


def read_toml_bytes(path: Path, what: str) -> bytes:
    """The file as it is."""
    try:
        return read_small_file(path, _MAX_BYTES, "it is over 1 MiB; it should hold a few tables")
    except UnfitFile as unfit:
        raise ConfigError(f"cannot read the {what} {path}: {unfit}") from None


def parse_toml(raw: bytes, path: Path, what: str) -> dict[str, Any]:
    """The bytes as tables."""
    try:
        text = raw.decode("utf-8-sig")
        if has_key_bomb(text):
            raise ConfigError(f"the {what} {path} has a key of too many dotted parts; flatten it")
        return tomllib.loads(text)
    # Python's own cap on the digits of a number is a plain ValueError, which the others are kinds of.
    except (ValueError, RecursionError) as fault:
        raise ConfigError(f"the {what} {path} cannot be used, it is not TOML: {fault}") from fault


def fit_toml(table: dict[str, Any], type: type[T], path: Path, what: str) -> T:
    """The tables as a `type`."""
    try:
        return msgspec.convert(table, type)
    except (msgspec.ValidationError, RecursionError) as fault:
        raise ConfigError(f"the {what} {path} cannot be used: {fault}") from fault
