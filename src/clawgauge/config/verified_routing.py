"""With which OpenClaw a routing was last verified on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from clawgauge.config.trusted_files import state_folder
from clawgauge.small_file import UnfitFile, read_small_file, replacing

_NAME = "routing_verified.json"
_MAX_BYTES = 1 << 16


class VerifiedRouting(msgspec.Struct, frozen=True, kw_only=True):
    """The last verification that told something of every place."""

    openclaw: str
    at: str
    n_places: int
    n_differ: int


class Verified(Protocol):
    """A verification, as far as it is kept."""

    version: str | None

    @property
    def n_places(self) -> int: ...

    @property
    def n_differ(self) -> int: ...

    @property
    def exit_code(self) -> int: ...


def keep_verification(environ: Mapping[str, str], verification: Verified) -> None:
    """Remember a verification for `doctor`; nothing is lost where that cannot be done."""
    path = _path(environ)
    if path is None or verification.version is None or verification.exit_code == 2:
        return
    kept = VerifiedRouting(
        openclaw=verification.version,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        n_places=verification.n_places,
        n_differ=verification.n_differ,
    )
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, 0o600) as file:
            file.write(msgspec.json.encode(kept))


def read_verification(environ: Mapping[str, str]) -> VerifiedRouting | None:
    """The last one; None where there was none, or it cannot be read."""
    path = _path(environ)
    if path is None:
        return None
    with suppress(UnfitFile, OSError, msgspec.DecodeError):
        data = read_small_file(path, _MAX_BYTES, "too large")
        return msgspec.json.decode(data, type=VerifiedRouting)
    return None


def _path(environ: Mapping[str, str]) -> Path | None:
    folder = state_folder(environ)
    return None if folder is None else folder / _NAME
