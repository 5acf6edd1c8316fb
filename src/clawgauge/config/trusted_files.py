"""Which configuration files the user has vouched for, and whether one of them still counts in full.

A file that `clawgauge trust` was said of counts as long as it is at the same place with the same
content: a link to it, a copy and a changed one do not. A file that `clawgauge init` wrote is the
user's own: it may be edited as long as nobody but the user can have written it.
"""

from __future__ import annotations

import enum
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from clawgauge.errors import ConfigError, DiskFailure
from clawgauge.small_file import UnfitFile, read_small_file, replacing

_LIST_NAME = "trusted.json"
_MAX_LIST_BYTES = 4 << 20
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MAX_GIT_INDEX_BYTES = 256 << 20
_MAX_GIT_LINK_BYTES = 64 << 10
# In these versions of its index git writes every path in full.
_GIT_VERSIONS_WITH_FULL_PATHS = (2, 3)


class TrustedFiles(msgspec.Struct, forbid_unknown_fields=True):
    """The files that the user has vouched for, by their absolute paths."""

    files: dict[str, str] = {}
    """The SHA-256 of each."""
    written_by_init: list[str] = []
    """Those that `clawgauge init` wrote, and that may be edited since."""

    def add(self, place: str, sha256: str, *, by_init: bool = False) -> None:
        self.files[place] = sha256
        self.written_by_init = [other for other in self.written_by_init if other != place]
        if by_init:
            self.written_by_init.append(place)

    def remove(self, place: str) -> bool:
        """Trust a file no more; whether it was trusted."""
        self.written_by_init = [other for other in self.written_by_init if other != place]
        return self.files.pop(place, None) is not None


class Standing(enum.Enum):
    """What a configuration file that nobody has named counts for. The values are for messages."""

    TRUSTED = "trusted"
    OWN = "yours, made by init"
    NEVER_TRUSTED = "not trusted"
    CHANGED = "changed since it was trusted"
    OTHERS_CAN_WRITE = "changed since init made it, and others can write to it"
    IN_GIT = "changed since init made it, and git tracks it"
    GONE = "gone or unreadable"

    @property
    def counts_in_full(self) -> bool:
        return self in (Standing.TRUSTED, Standing.OWN)


def find_standing(file: Path, sha256: str, trusted: TrustedFiles) -> Standing:
    """What a file with this content counts for at this place."""
    place = place_of(file)
    if place not in trusted.files:
        return Standing.NEVER_TRUSTED
    if trusted.files[place] == sha256:
        return Standing.TRUSTED
    if place not in trusted.written_by_init:
        return Standing.CHANGED
    if not _is_written_by_user_alone(Path(place)):
        return Standing.OTHERS_CAN_WRITE
    if _may_be_in_git(Path(place)):
        return Standing.IN_GIT
    return Standing.OWN


def place_of(file: Path) -> str:
    """Where a file is: its folder's real path, but its own name as it stands.

    So a link is a place of its own.
    """
    try:
        return os.fspath(file.parent.resolve() / file.name)
    except (OSError, ValueError, RuntimeError) as fault:
        reason = getattr(fault, "strerror", None) or fault
        raise ConfigError(f"cannot tell where {file} is: {reason}") from fault


def _is_written_by_user_alone(path: Path) -> bool:
    """Whether this is a file of the user's, no link, that nobody else can write to or replace."""
    if not hasattr(os, "geteuid"):
        return False
    try:
        status = path.lstat()
        folder = path.parent.stat()
    except OSError:
        return False
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        return False
    # In a sticky folder, such as /tmp, only the owner of a file can replace it.
    is_folder_open = bool(folder.st_mode & stat.S_IWOTH) and not folder.st_mode & stat.S_ISVTX
    return not status.st_mode & _WRITABLE_BY_OTHERS and not is_folder_open


def _may_be_in_git(path: Path) -> bool:
    """Whether a repository around the file tracks it, so that a pull can change it.

    Git itself is not asked, since a repository's settings can make it run programs. Where an index
    cannot be read, the file counts as tracked.
    """
    for folder in path.parents:
        git = folder / ".git"
        if not os.path.lexists(git):
            continue
        name_in_index = os.fsencode(path.relative_to(folder).as_posix()) + b"\0"
        try:
            for index in _read_git_indexes(git):
                if name_in_index in index:
                    return True
        except (UnfitFile, OSError, ValueError):
            return True
    return False


def _read_git_indexes(git: Path) -> Iterator[bytes]:
    """The index of a repository, and those parts of it that are shared with other work trees.

    Raises `ValueError` for an index in which paths may be shortened.
    """
    git_folder = git
    if git.is_file():
        # A work tree or a submodule names the folder that is its own.
        link = read_small_file(git, _MAX_GIT_LINK_BYTES, "it is too long").decode()
        git_folder = git.parent / link.removeprefix("gitdir:").strip()
    for index in (git_folder / "index", *git_folder.glob("sharedindex.*")):
        if index.exists():
            content = read_small_file(index, _MAX_GIT_INDEX_BYTES, "it is too large")
            if int.from_bytes(content[4:8]) not in _GIT_VERSIONS_WITH_FULL_PATHS:
                raise ValueError(f"{index} is of a version that is not known")
            yield content


def state_folder(environ: Mapping[str, str]) -> Path | None:
    """`$XDG_STATE_HOME/clawgauge`, else in `~/.local/state`; None where the user has neither."""
    state = Path(environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        home = Path(environ.get("HOME") or environ.get("USERPROFILE") or "")
        state = home / ".local" / "state"
    return state / "clawgauge" if state.is_absolute() else None


def read_trusted(environ: Mapping[str, str]) -> TrustedFiles:
    """What the user has vouched for. A list that others could have written is refused."""
    folder = state_folder(environ)
    if folder is None:
        return TrustedFiles()
    path = folder / _LIST_NAME
    if not path.exists():
        return TrustedFiles()
    try:
        _refuse_foreign_writers(path, folder)
        raw = read_small_file(path, _MAX_LIST_BYTES, "it is over 4 MiB")
        return msgspec.json.decode(raw, type=TrustedFiles)
    except (UnfitFile, OSError, ValueError) as fault:
        why = f"the list of trusted files {path} cannot be used ({fault})"
        raise ConfigError(f"{why}: remove it and trust your files again") from None


def _refuse_foreign_writers(*paths: Path) -> None:
    """Raise `ValueError` where anybody but the user and root can write to one of these paths."""
    if not hasattr(os, "geteuid"):
        return
    for path in paths:
        status = path.stat()
        is_own = status.st_uid in (os.geteuid(), 0)
        if not is_own or status.st_mode & _WRITABLE_BY_OTHERS:
            raise ValueError(f"others can write to {path}")


def write_trusted(environ: Mapping[str, str], trusted: TrustedFiles) -> None:
    """Replace the list of trusted files."""
    folder = state_folder(environ)
    if folder is None:
        raise ConfigError(
            "there is no folder to keep trusted files in: set HOME, or XDG_STATE_HOME"
        )
    path = folder / _LIST_NAME
    content = msgspec.json.format(msgspec.json.encode(trusted), indent=2)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path, 0o600) as file:
            file.write(content)
    except OSError as fault:
        raise DiskFailure(
            f"cannot keep the list of trusted files {path}: {fault.strerror}"
        ) from fault


def take_away_write_permission_of_others(path: Path) -> None:
    """Make a new file one that nobody but the user can write to, whatever the umask is."""
    with suppress(OSError):
        path.chmod(path.stat().st_mode & ~_WRITABLE_BY_OTHERS & 0o777)
