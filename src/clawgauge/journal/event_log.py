"""events.jsonl, written as things happen.

Owns: whole lines in that file. Refuses: stopping a run; an event the disk refuses is counted and let go.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from clawgauge.errors import RunFolderError
from clawgauge.journal.directory import Directory
from clawgauge.journal.disk import APPEND, sync_data, write_all
from clawgauge.journal.names import EVENTS


class EventLog:
    """Appends lines to the events of a run folder from any thread. The file is made with the first line."""

    def __init__(self, directory: Directory) -> None:
        self.n_lost = 0
        self._directory = directory
        self._lock = threading.Lock()
        self._fd: int | None = None

    def write(self, line: bytes) -> None:
        """Append `line` whole or not at all."""
        with self._lock:
            try:
                if self._fd is None:
                    self._fd = self._directory.open(EVENTS, APPEND)
                size = os.fstat(self._fd).st_size
            except (OSError, RunFolderError):
                self.n_lost += 1
                return
            try:
                write_all(self._fd, line)
            except OSError:
                self.n_lost += 1
                with suppress(OSError):
                    os.ftruncate(self._fd, size)

    def close(self) -> None:
        """Make the events last and let go of the file. Harmless when repeated."""
        with self._lock:
            if self._fd is not None:
                with suppress(OSError):
                    sync_data(self._fd)
                os.close(self._fd)
                self._fd = None
