"""A file that a user named with -o: there whole, or not there.

Owns: the temporary file beside it, and the sentence when the disk refuses. A link that a user names is followed; one in
a run folder is not, because the folder may be a stranger's: there the journal writes.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from clawgauge.errors import ClawgaugeError, ConfigError, DiskFailure
from clawgauge.journal import is_run_folder, replace_beside_records

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` once the block ends well; a device or a pipe is written directly."""
    try:
        if is_run_folder(path.parent):
            with replace_beside_records(path) as file:
                yield file
            return
        if path.exists() and not path.is_file():
            with path.open("wb") as direct:
                yield direct
            return
        with _replacement(path.resolve()) as file:
            yield file
    except OSError as error:
        raise _refusal(path, error) from error


@contextmanager
def _replacement(path: Path) -> Iterator[BinaryIO]:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".tmp")
    temp = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        # mkstemp makes a file for the owner's eyes alone; a report is a file like any other.
        temp.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        temp.replace(path)
    finally:
        with suppress(OSError):
            temp.unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def print_output(path: Path | None, text: str) -> None:
    """`text` into the file that was named, or to standard output where none was."""
    if path is None:
        sys.stdout.write(text)
    else:
        write_output(path, text)


def write_output(path: Path, text: str) -> None:
    """`text` as the whole of `path`, in UTF-8."""
    with output_file(path) as file:
        file.write(text.encode("utf-8", "replace"))


def _refusal(path: Path, error: OSError) -> ClawgaugeError:
    said = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFailure(f"Cannot write {path} ({said}); make room on the disk, then write it again.")
    return ConfigError(f"Cannot write {path} ({said}); choose another place with -o.")
