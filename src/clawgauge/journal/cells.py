"""Which cells a run folder already has, and how each one ended.

Owns: the identity of a cell and the index that resuming rests on. Refuses: deciding what to ask again.
"""

from __future__ import annotations

from pathlib import Path
from sys import intern
from typing import NamedTuple

from clawgauge.journal.reader import iter_results
from clawgauge.records import CellRow, Result, Status


class CellKey(NamedTuple):
    """What one line of results.jsonl is about."""

    provider: str
    model: str
    thinking_level: str | None
    suite: str
    prompt_id: str
    repeat: int


class CellOutcome(NamedTuple):
    """How a cell ended. `n_lines` above 1 means duplicates; the last line is the one described."""

    availability_status: Status
    success: bool
    failure_type: str | None
    n_lines: int = 1


def cell_key(result: Result | CellRow) -> CellKey:
    """The cell `result` fills."""
    return CellKey(
        # Many lines share few names: one copy of each keeps a large index small.
        intern(result.provider),
        intern(result.model),
        result.thinking_level,
        intern(result.suite),
        intern(result.prompt_id),
        result.repeat,
    )


def index_cells(path: Path) -> dict[CellKey, CellOutcome]:
    """Every cell recorded in run folder `path`. Lines that cannot be read fill no cell."""
    cells: dict[CellKey, CellOutcome] = {}
    for line in iter_results(path, CellRow):
        key = cell_key(line)
        earlier = cells.get(key)
        n_lines = 1 if earlier is None else earlier.n_lines + 1
        cells[key] = CellOutcome(line.availability_status, line.success, line.failure_type, n_lines)
    return cells
