"""A small TOML file of the user's, read into the type it must fit, or refused in one sentence that names it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

import msgspec

from clawgauge.errors import ConfigError

T = TypeVar("T")


def read_toml(path: Path, type: type[T], what: str) -> T:
    """The file as a `type`. `what` is what refusals call it: `policy`, `prices`."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8-sig")), type)
    except OSError as fault:
        raise ConfigError(f"cannot read the {what} {path}: {fault.strerror}") from fault
    except (ValueError, RecursionError) as fault:  # TOML's and msgspec's errors are kinds of ValueError
        raise ConfigError(f"the {what} {path} cannot be used: {fault}") from fault
