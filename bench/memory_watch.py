"""The memory of a command while it runs, a few times a second."""

from __future__ import annotations

import threading
import time

import psutil

INTERVAL_S = 0.25
MB = 1024 * 1024


class MemoryWatch:
    """Samples the largest process below a given one until it is gone. `samples_mb` holds what was seen, in order."""

    def __init__(self) -> None:
        self.samples_mb: list[float] = []

    def begin(self, pid: int) -> None:
        """Watch from now on, in a thread that ends with the process."""
        threading.Thread(target=self._watch, args=(pid,), name="memory watch", daemon=True).start()

    def _watch(self, pid: int) -> None:
        try:
            parent = psutil.Process(pid)
            while parent.is_running() and parent.status() != psutil.STATUS_ZOMBIE:
                sizes = [child.memory_info().rss for child in parent.children(recursive=True)]
                if sizes:
                    self.samples_mb.append(max(sizes) / MB)
                time.sleep(INTERVAL_S)
        except psutil.NoSuchProcess:
            return
