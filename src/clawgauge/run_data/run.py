"""A run folder, opened once: its documents when first asked for, its rows in one pass for all who count them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

from clawgauge.errors import RunFolderError
from clawgauge.journal import (
    ResultReader,
    as_config,
    is_first_harness,
    read_event_log,
    read_events,
    read_inventory,
    read_raw_config,
    read_results_at,
    read_summary,
    started_at_ms,
)
from clawgauge.records import Event, Inventory, Result, RunConfig, RunSummary
from clawgauge.run_data.row import Row

# Enough that a record costs a few list steps in C instead of thirty lines of Python, and few enough to keep at hand.
BATCH_ROWS = 512


class Collector(Protocol):
    """Takes in every row of a run, some at a time; `offsets` tell where their lines begin, for `Run.results_at`."""

    def add(self, rows: list[Row], offsets: list[int]) -> None: ...


class Run:
    """One run folder, ours or the first harness's. What it reads it remembers, but for rows, which it streams.

    What cannot be read is counted in `n_unreadable_lines`, once the rows have been gone through.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader: ResultReader[Row] | None = None

    @classmethod
    def open(cls, path: Path) -> Self:
        """The run in folder `path`. Nothing is read before it is asked for."""
        return cls(path)

    def feed(self, *collectors: Collector) -> Self:
        """Let all of them take in every row, in one pass over results.jsonl."""
        reader = self._reader = ResultReader(self.path, Row, self._readable_config)
        for rows, offsets in reader.batches(BATCH_ROWS):
            for collector in collectors:
                collector.add(rows, offsets)
        return self

    def results_at(self, offsets: Iterable[int]) -> Iterator[tuple[int, Result]]:
        """The whole records whose lines begin at `offsets`, each with its own, in file order."""
        return read_results_at(self.path, offsets)

    @property
    def n_unreadable_lines(self) -> int:
        return self._reader.bad_lines if self._reader else 0

    @property
    def run_id(self) -> str:
        return self.config.run_id if self.config else self.path.resolve().name

    @cached_property
    def config(self) -> RunConfig | None:
        """config.json; None where there is none, or where the first harness made it."""
        return as_config(self.path, self._raw_config)

    @cached_property
    def _raw_config(self) -> dict[str, Any] | None:
        return read_raw_config(self.path)

    @property
    def _readable_config(self) -> dict[str, Any] | None:
        # A spoilt config.json must not keep anyone from the results.
        with suppress(RunFolderError):
            return self._raw_config
        return None

    @cached_property
    def events(self) -> list[Event]:
        """events.jsonl, and what the first harness wrote among its results."""
        return read_events(self.path) if self._reader is None else [*read_event_log(self.path), *self._reader.events]

    @cached_property
    def inventory(self) -> Inventory | None:
        """inventory.json; the first harness wrote one of its own shape, which reads as none."""
        return read_inventory(self.path)

    @cached_property
    def summary(self) -> RunSummary | None:
        """summary.json as it was last written: it may be older than the records."""
        return read_summary(self.path)

    @cached_property
    def started_at_ms(self) -> float:
        return started_at_ms(self.path, self._readable_config)

    @property
    def first_harness(self) -> bool:
        if self._reader is not None and self._reader.first_harness is not None:
            return self._reader.first_harness
        return is_first_harness(self.path)
