"""Which configuration files the user has vouched for: by place and content, in the user's own state folder.

A file is trusted where it was trusted and as it was: a link elsewhere to it, a copy of it and a changed one are not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from clawgauge.errors import ConfigError, DiskFailure
from clawgauge.small_file import UnfitFile, read_small_file, replacing

_MAX_BYTES = 4 << 20


class _Entries(msgspec.Struct, forbid_unknown_fields=True):
    """trusted.json: the SHA-256 of each file, by its absolute path."""

    files: dict[str, str] = {}


def _list_path(environ: Mapping[str, str]) -> Path | None:
    """`$XDG_STATE_HOME/clawgauge/trusted.json`, else in `~/.local/state`; None where the user has no folder for it."""
    state = Path(environ.get("XDG_STATE_HOME", ""))
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or "")
    if not state.is_absolute():
        state = home / ".local" / "state"
    return state / "clawgauge" / "trusted.json" if state.is_absolute() else None


def read_trusted(environ: Mapping[str, str]) -> dict[str, str]:
    """Every trusted place with its hash. A list that others could have written is refused."""
    path = _list_path(environ)
    if path is None or not path.exists():
        return {}
    try:
        for place in (path, path.parent) if hasattr(os, "geteuid") else ():
            found = place.stat()
            if found.st_uid not in (os.geteuid(), 0) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ValueError(f"others can write to {place}")
        return msgspec.json.decode(read_small_file(path, _MAX_BYTES, "it is over 4 MiB"), type=_Entries).files
    except (UnfitFile, OSError, ValueError) as fault:
        raise ConfigError(
            f"the list of trusted files {path} cannot be used ({fault}): remove it and trust your files again"
        ) from None


def write_trusted(environ: Mapping[str, str], entries: dict[str, str]) -> None:
    """Put the list in place at one stroke, readable by the user alone."""
    path = _list_path(environ)
    if path is None:
        raise ConfigError("there is no folder to keep trusted files in: set HOME, or XDG_STATE_HOME")
    content = msgspec.json.format(msgspec.json.encode(_Entries(entries)), indent=2)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path, 0o600) as file:
            file.write(content)
    except OSError as fault:
        raise DiskFailure(f"cannot keep the list of trusted files {path}: {fault.strerror}") from fault


def place_of(file: Path) -> str:
    """Where a file is: its folder's real path, but its own name as it stands, so that a link is a place of its own."""
    try:
        return os.fspath(file.parent.resolve() / file.name)
    except (OSError, ValueError, RuntimeError) as fault:
        raise ConfigError(f"cannot tell where {file} is: {getattr(fault, 'strerror', None) or fault}") from None
