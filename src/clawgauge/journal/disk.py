"""Bytes on disk for good: whole writes and syncing.

Owns: the system calls that make a write last, and the sentence a user reads when the disk refuses one. Refuses: knowing
what the bytes mean, and opening files; `directory` does.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from clawgauge.errors import ClawgaugeError, DiskFailure, RunFolderError

READ_BUFFER_BYTES = 1 << 18
LINE_CAP_BYTES = 16 << 20

APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})

# macOS and Windows have no fdatasync.
sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`, however little the system takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of `file`, newlines included, split at newlines alone; one over the cap comes in pieces."""
    return iter(partial(file.readline, LINE_CAP_BYTES), b"")


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
