"""A small file that a user named, read whole, whatever stands at its path.

The name may be a link: it is the user's word. What it leads to must be a regular file of a sensible size, and both are
known before the first byte is read: a FIFO or a terminal would hold the program, a device or a sparse file would fill
its memory.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


class UnfitFile(Exception):
    """A file that cannot be read as one. Says why and what to do, without the name: the caller knows what it is."""


def read_small_file(path: Path, max_bytes: int, too_large: str) -> bytes:
    """All of the file. Raises `UnfitFile`, with the words `too_large` where it has more than `max_bytes`."""
    try:
        # Asked before opening as well: to open a device can be to start it.
        _refuse_unfit(path.stat(), max_bytes, too_large)
        with open(os.open(path, _FLAGS), "rb") as file:  # noqa: PTH123  # a descriptor
            _refuse_unfit(os.fstat(file.fileno()), max_bytes, too_large)
            content = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise UnfitFile("no such file; check the path") from None
    except OSError as fault:
        raise UnfitFile(f"cannot be read ({fault.strerror}); check the path and its permissions") from None
    except ValueError:  # a NUL in the path, which no file can have
        raise UnfitFile("not a path; take the NUL character out") from None
    if content is None or len(content) > max_bytes:  # None: the file has nothing to say yet, as some of /proc
        raise UnfitFile(too_large)
    return content


_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"))


def _refuse_unfit(found: os.stat_result, max_bytes: int, too_large: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise UnfitFile("is a directory; name a file in it")
    if not stat.S_ISREG(found.st_mode):
        raise UnfitFile("is not a regular file; name one")
    if found.st_size > max_bytes:
        raise UnfitFile(too_large)
