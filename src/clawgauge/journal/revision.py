"""results.jsonl made anew: cells taken out to be refilled, or every record judged again.

Owns: the order of steps that keeps every line in at least one file whatever happens. Refuses: changing a byte of the
lines it keeps, or losing a line it cannot read. Only the holder of the run's lock may call this.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain

from clawgauge.journal.cells import CellKey, cell_key
from clawgauge.journal.directory import Directory
from clawgauge.journal.disk import APPEND, READ_BUFFER_BYTES, disk_failure, read_lines
from clawgauge.journal.lines import encode_line
from clawgauge.journal.names import RESULTS, SUPERSEDED
from clawgauge.journal.reader import line_decoder
from clawgauge.journal.tail import mend_tail
from clawgauge.records import CellRow, Result


def move_superseded(directory: Directory, keys: set[CellKey]) -> int:
    """Move the lines of the cells `keys` from results.jsonl to superseded.jsonl; returns how many there were.

    Killed between the two steps, the cell is still in results.jsonl and is moved again the next time: a line may stand
    twice in superseded.jsonl, never twice in results.jsonl and never in neither.
    """
    decode = line_decoder(CellRow)

    def is_superseded(line: bytes) -> bool:
        record = decode(line)
        return record is not None and cell_key(record) in keys

    moved = _append_synced(directory, SUPERSEDED, filter(is_superseded, _result_lines(directory))) if keys else 0
    if moved:
        with directory.replacement(RESULTS) as file:
            file.writelines(line for line in _result_lines(directory) if not is_superseded(line))
    return moved


def replace_results(directory: Directory, results: Iterable[Result]) -> int:
    """Put `results` in the place of all records; other lines stay as they are, behind them. Returns their number.

    A line with a field that does not fit its type is such a line: written anew, it would lose what it says there.
    """
    decode = line_decoder(Result, fitting=True)
    written = 0
    with directory.replacement(RESULTS) as file:
        for result in results:
            file.write(encode_line(result))
            written += 1
        file.writelines(line for line in _result_lines(directory) if line.strip() and decode(line) is None)
    return written


def _result_lines(directory: Directory) -> Iterator[bytes]:
    with os.fdopen(directory.open(RESULTS, os.O_RDONLY), "rb", buffering=READ_BUFFER_BYTES) as file:
        yield from read_lines(file)


def _append_synced(directory: Directory, name: str, lines: Iterator[bytes]) -> int:
    """Append `lines`, for good, and return how many; with none, there is no file either."""
    appended = 0
    try:
        first = next(lines, None)
        if first is None:
            return 0
        # A crash here once before may have torn the last line; the original is still in results.jsonl.
        mend_tail(directory, name)
        with os.fdopen(directory.open(name, APPEND), "ab") as file:
            for line in chain([first], lines):
                file.write(line)
                appended += 1
            file.flush()
            os.fsync(file.fileno())
        directory.sync()
    except OSError as error:
        raise disk_failure(directory.path / name, error) from error
    return appended
