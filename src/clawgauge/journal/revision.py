"""results.jsonl made anew: cells taken out to be refilled, or every record judged again.

Owns: the order of steps that keeps every line in at least one file whatever happens. Refuses: changing a byte of the
lines it keeps, or losing a line it cannot read. Only the holder of the run's lock may call this.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TypeVar

import msgspec

from clawgauge.journal.cells import CellKey, CellLine, cell_key
from clawgauge.journal.disk import disk_failure, read_lines, replacement, sync_folder
from clawgauge.journal.lines import encode_line
from clawgauge.journal.names import RESULTS, SUPERSEDED
from clawgauge.journal.reader import REFUSALS, decode_again
from clawgauge.journal.tail import mend_tail
from clawgauge.records import Result

T = TypeVar("T", bound=msgspec.Struct)


def move_superseded(folder: Path, keys: set[CellKey]) -> int:
    """Move the lines of the cells `keys` from results.jsonl to superseded.jsonl; returns how many there were.

    Killed between the two steps, the cell is still in results.jsonl and is moved again the next time: a line may stand
    twice in superseded.jsonl, never twice in results.jsonl and never in neither.
    """
    decode = _line_decoder(CellLine)

    def is_superseded(line: bytes) -> bool:
        record = decode(line)
        return record is not None and cell_key(record) in keys

    moved = _append_synced(folder / SUPERSEDED, filter(is_superseded, read_lines(folder / RESULTS))) if keys else 0
    if moved:
        with replacement(folder / RESULTS) as file:
            file.writelines(line for line in read_lines(folder / RESULTS) if not is_superseded(line))
    return moved


def replace_results(folder: Path, results: Iterable[Result]) -> int:
    """Put `results` in the place of all records; lines that are no record stay, behind them. Returns their number."""
    decode = _line_decoder(Result)
    written = 0
    with replacement(folder / RESULTS) as file:
        for result in results:
            file.write(encode_line(result))
            written += 1
        file.writelines(line for line in read_lines(folder / RESULTS) if line.strip() and decode(line) is None)
    return written


def _line_decoder(record: type[T]) -> Callable[[bytes], T | None]:
    """Reads one line exactly as `iter_results` would; None for a line that is no record."""
    fast = msgspec.json.Decoder(record).decode

    def decode(line: bytes) -> T | None:
        try:
            return fast(line)
        except REFUSALS:
            return decode_again(line, record)

    return decode


def _append_synced(path: Path, lines: Iterator[bytes]) -> int:
    """Append `lines`, for good, and return how many; with none, there is no file either."""
    appended = 0
    try:
        first = next(lines, None)
        if first is None:
            return 0
        # A crash here once before may have torn the last line; the original is still in results.jsonl.
        mend_tail(path)
        with path.open("ab") as file:
            for line in chain([first], lines):
                file.write(line)
                appended += 1
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except OSError as error:
        raise disk_failure(path, error) from error
    return appended
