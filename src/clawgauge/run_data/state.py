"""Whether a run is going on, has ended or was interrupted."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from pathlib import Path

from clawgauge.errors import ClawgaugeError
from clawgauge.journal import stat_file
from clawgauge.journal.disk import CONFIG, EVENTS, LOCK
from clawgauge.journal.lock import is_being_written
from clawgauge.run_data import Run


class RunState(Enum):
    RUNNING = "running"
    ENDED = "ended"
    INTERRUPTED = "interrupted"


def read_state(path: Path) -> RunState:
    """A run is running as long as a live process holds its lock, and not one moment longer."""
    if is_being_written(path):
        return RunState.RUNNING
    if stat_file(path, CONFIG) is None:
        return RunState.ENDED
    events = stat_file(path, EVENTS)
    if events is None:
        # Who ends in order takes the lock file away.
        return RunState.ENDED if stat_file(path, LOCK) is None else RunState.INTERRUPTED
    if _was_interrupted(path, events.st_size, events.st_mtime_ns):
        return RunState.INTERRUPTED
    return RunState.ENDED


@lru_cache(maxsize=256)
def _was_interrupted(path: Path, size: int, mtime_ns: int) -> bool:
    """As its events say; size and time tell when there are more of them to read."""
    try:
        events = Run.open(path).events
    except ClawgaugeError:
        return False
    interrupted = False
    for event in events:
        if event.event == "stretch_started":
            interrupted = True
        elif event.event == "stretch_ended":
            interrupted = event.detail.get("outcome") == "interrupted"
    return interrupted
