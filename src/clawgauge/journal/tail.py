"""The end of a file of lines after a crash.

Owns: finding a last line that was cut short, and putting its bytes aside. Refuses: judging lines in the middle; those
are the reader's. Only the holder of the run's lock may call this.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from clawgauge.journal.disk import LINE_CAP_BYTES, sync_folder
from clawgauge.journal.lines import decode_object

_SCAN_BYTES = 1 << 16


def mend_tail(path: Path, torn: Path | None = None) -> int:
    """Make `path` end with a whole line and return how many bytes that cost: 0 where nothing was torn.

    A last line that lacks only its newline is a whole record and gets one. Anything else is cut off, and appended to
    `torn` first where that is given. A crash in between leaves the bytes in both places, never in none.
    """
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        return 0
    with file:
        size = file.seek(0, os.SEEK_END)
        start = _tail_start(file, size)
        if start == size:
            return 0
        whole = _is_whole_record(file, start, size)
        if whole:
            file.seek(size)
            file.write(b"\n")
        else:
            if torn is not None:
                _copy_aside(file, start, torn)
            file.truncate(start)
        file.flush()
        os.fsync(file.fileno())
    return 0 if whole else size - start


def _tail_start(file: BinaryIO, size: int) -> int:
    """Offset of the first byte after the last newline."""
    end = size
    while end > 0:
        begin = max(0, end - _SCAN_BYTES)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def _is_whole_record(file: BinaryIO, start: int, size: int) -> bool:
    if size - start > LINE_CAP_BYTES:
        return False
    file.seek(start)
    # An object closes itself: no prefix of one is one, so what parses was written to its end.
    return decode_object(file.read(size - start)) is not None


def _copy_aside(file: BinaryIO, start: int, torn: Path) -> None:
    file.seek(start)
    with torn.open("ab") as aside:
        if aside.tell() > 0:
            aside.write(b"\n")
        while piece := file.read(_SCAN_BYTES):
            aside.write(piece)
        aside.flush()
        os.fsync(aside.fileno())
    sync_folder(torn.parent)
