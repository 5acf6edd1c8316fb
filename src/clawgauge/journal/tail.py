"""The end of a file of lines after a crash.

Owns: finding a last line that was cut short, and putting its bytes aside. Refuses: judging lines in the middle; those
are the reader's. Only the holder of the run's lock may call this.
"""

from __future__ import annotations

import os
from typing import BinaryIO

from clawgauge.errors import RunFolderError
from clawgauge.journal.directory import Directory
from clawgauge.journal.disk import APPEND, LINE_CAP_BYTES
from clawgauge.journal.lines import decode_line

_SCAN_BYTES = 1 << 16
# One write of many lines, the last of them as long as a line can be.
_TORN_CAP_BYTES = 2 * LINE_CAP_BYTES


def mend_tail(directory: Directory, name: str, torn: str | None = None) -> int:
    """Make file `name` end with a whole line and return how many bytes that cost: 0 where nothing was torn.

    A last line that lacks only its newline is a whole record and gets one. Anything else is cut off, and appended to
    `torn` first where that is given. A crash in between leaves the bytes in both places, never in none.
    """
    try:
        fd = directory.open(name, os.O_RDWR)
    except FileNotFoundError:
        return 0
    with os.fdopen(fd, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        start = _tail_start(file, size)
        if start == size:
            return 0
        if size - start > _TORN_CAP_BYTES:
            raise RunFolderError(
                f"{directory.path / name} ends in over {_TORN_CAP_BYTES:,} bytes without a line end, which no crash "
                "of a run leaves; restore it from a copy, or cut them off."
            )
        whole = _is_whole_record(file, start, size)
        if whole:
            file.seek(size)
            file.write(b"\n")
        else:
            if torn is not None:
                _copy_aside(file, start, directory, torn)
            file.truncate(start)
        file.flush()
        os.fsync(file.fileno())
    return 0 if whole else size - start


def _tail_start(file: BinaryIO, size: int) -> int:
    """Offset of the first byte after the last newline; where none is near enough, somewhere before it."""
    end = size
    while end > 0 and size - end <= _TORN_CAP_BYTES:
        begin = max(0, end - _SCAN_BYTES)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return end


def _is_whole_record(file: BinaryIO, start: int, size: int) -> bool:
    if size - start > LINE_CAP_BYTES:
        return False
    file.seek(start)
    # An object closes itself: no prefix of one is one, so what parses was written to its end.
    return decode_line(file.read(size - start)) is not None


def _copy_aside(file: BinaryIO, start: int, directory: Directory, torn: str) -> None:
    file.seek(start)
    with os.fdopen(directory.open(torn, APPEND), "ab") as aside:
        if aside.tell() > 0:
            aside.write(b"\n")
        while piece := file.read(_SCAN_BYTES):
            aside.write(piece)
        aside.flush()
        os.fsync(aside.fileno())
    directory.sync()
