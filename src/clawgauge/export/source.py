"""Several runs as one stream of results.

Owns: the order of the runs and the count of what could not be read. Refuses: holding more than one result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from clawgauge.journal import iter_results
from clawgauge.records import Result


class ResultStream:
    """The results of `folders`, one after the other; after a pass `n_unreadable` and `n_rows` say what was met."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.n_unreadable = 0
        self.n_rows = 0
        # Opened here once, so that a folder without results is refused before anything is written.
        self._readers = [iter_results(folder) for folder in folders]

    def __iter__(self) -> Iterator[Result]:
        self.n_unreadable = self.n_rows = 0
        for reader in self._readers:
            for result in reader:
                self.n_rows += 1
                yield result
            self.n_unreadable += reader.bad_lines
