"""Bytes on disk for good: whole writes, syncing, and files that are replaced at one stroke.

Owns: the system calls that make a write last, and the sentence a user reads when the disk refuses one. Refuses: knowing
what the bytes mean.
"""

from __future__ import annotations

import errno
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from clawgauge.errors import ClawgaugeError, DiskFailure, RunFolderError

READ_BUFFER_BYTES = 1 << 18
LINE_CAP_BYTES = 16 << 20
TEMP_SUFFIX = ".tmp"

_APPEND_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_temp_serial = itertools.count()

# macOS and Windows have no fdatasync.
sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def open_append(path: Path) -> int:
    """A file descriptor whose every write goes to the end of `path`."""
    return os.open(path, _APPEND_FLAGS, 0o666)


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`, however little the system takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of `path`, newlines included, split at newlines alone; one over the cap comes in pieces."""
    with path.open("rb", buffering=READ_BUFFER_BYTES) as file:
        yield from iter(partial(file.readline, LINE_CAP_BYTES), b"")


def sync_folder(path: Path) -> None:
    """Make the names in folder `path` last. Windows offers no such thing and needs none."""
    if sys.platform == "win32":
        return
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def replacement(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path`, whole and synced, once the block ends well; otherwise leaves no trace."""
    temp = path.with_name(f".{path.name}.{os.getpid()}-{next(_temp_serial)}{TEMP_SUFFIX}")
    try:
        with temp.open("xb", buffering=READ_BUFFER_BYTES) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temp.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise disk_failure(path, error) from error
    finally:
        with suppress(OSError):
            temp.unlink()


def disk_failure(path: Path, error: OSError) -> DiskFailure:
    """The error for a write to `path` that the disk refused."""
    return DiskFailure(
        f"Cannot write {path} ({error.strerror or error}); what was recorded before stands: "
        "make room on the disk, then go on with --resume."
    )


def folder_failure(path: Path, error: OSError) -> ClawgaugeError:
    """The error for a folder that cannot be made or written: a full disk, or a place the user must change."""
    if error.errno in _FULL:
        return disk_failure(path, error)
    return RunFolderError(
        f"Cannot write to {path} ({error.strerror or error}); check its permissions or choose another --runs-dir."
    )
