"""A run as it is written: who is writing it, and its rows as they come. Nothing here touches the run."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from clawgauge.errors import RunFolderError
from clawgauge.journal import stat_file
from clawgauge.journal.disk import EVENTS, LINE_CAP_BYTES, LOCK, RESULTS, open_file
from clawgauge.journal.reader import line_decoder
from clawgauge.reports.html.calls import OUTCOMES, classify
from clawgauge.run_data import Row, Run

MAX_ROWS = 500
_MAX_WHY = 160


def is_running(path: Path) -> bool:
    """Whether somebody is writing the run: it holds the lock, and its last stretch has not ended."""
    try:
        if stat_file(path, LOCK) is None:
            return False
        events = stat_file(path, EVENTS)
        return not _has_ended(path, events.st_size, events.st_mtime_ns) if events else True
    except (OSError, RunFolderError):
        return False


@lru_cache(maxsize=256)
def _has_ended(path: Path, size: int, mtime_ns: int) -> bool:
    """As its events say; read again only once there are more of them, for a run is asked about four times a second."""
    ends = [event.event for event in Run.open(path).events if event.event.startswith("stretch_")]
    return bool(ends) and ends[-1] != "stretch_started"


class Follower:
    """The lines of results.jsonl from the first on. `counts` has how many calls of each target ended how."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._decode = line_decoder(Row)
        self.counts: dict[str, Counter[str]] = {}
        config = Run.open(path).config
        n_each = len(config.prompts) * config.options.repeats if config else 0
        self.planned = {target.label: n_each for target in config.targets} if config else {}

    def news(self) -> list[dict[str, Any]]:
        """The rows that came since, the last `MAX_ROWS` of them; all are counted."""
        rows: deque[dict[str, Any]] = deque(maxlen=MAX_ROWS)
        for line in self._lines():
            if (row := self._decode(line)) is not None:
                outcome = OUTCOMES[classify(row)]
                self.counts.setdefault(row.target.label, Counter())[outcome] += 1
                rows.append(_as_json(row, outcome))
        return list(rows)

    def _lines(self) -> Iterator[bytes]:
        try:
            with open_file(self._path, RESULTS) as file:
                if os.fstat(file.fileno()).st_size < self._offset:
                    # Written anew, as by a retry of what failed.
                    self._offset, self.counts = 0, {}
                file.seek(self._offset)
                # A line that has no end yet is still being written.
                while (line := file.readline(LINE_CAP_BYTES)).endswith(b"\n"):
                    self._offset += len(line)
                    yield line
        except (OSError, RunFolderError):
            return


def _as_json(row: Row, outcome: str) -> dict[str, Any]:
    why = row.violation if row.success else row.failure_type
    return {
        "target": row.target.label,
        "prompt": f"{row.suite}/{row.prompt_id}",
        "name": row.prompt_name,
        "outcome": outcome,
        "why": (why or "")[:_MAX_WHY],
        "e2e_ms": row.e2e_ms,
        "ttft_ms": row.ttft_ms,
    }
