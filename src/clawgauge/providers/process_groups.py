"""The process groups this program has started and not yet buried, so that a hurried exit can end them all.

The one piece of state shared by whoever starts a child; a signal handler may read it at any moment.
"""

from __future__ import annotations

import contextlib
import os
import signal

_live: set[int] = set()


def adopt(group_id: int) -> None:
    """A group we are now responsible for."""
    _live.add(group_id)


def release(group_id: int) -> None:
    """A group that is gone, or no longer ours."""
    _live.discard(group_id)


def kill_group(group_id: int) -> None:
    """SIGKILL to a whole group; one that is gone already is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(group_id, signal.SIGKILL)
        else:
            os.kill(group_id, signal.SIGTERM)


def kill_all_groups() -> None:
    """End every child we know of, now."""
    for group_id in tuple(_live):
        kill_group(group_id)
