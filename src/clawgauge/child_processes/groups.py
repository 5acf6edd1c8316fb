"""Process groups we answer for: whatever we started is gone when this program is, however it ends."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

_SCRIPT = Path(__file__).with_name("supervisor.py")
_FAREWELL_S = 1.0


def adopt(group_id: int) -> None:
    """Answer for a group from now on: the process id of its leader, which was just started in a session of its own.

    Give a child its work only after this. Should we die before, the end of its standard input is all it hears.
    """
    with _changing:
        _live.add(group_id)
        if not _supervisor.tell(f"+{group_id}\n"):
            _supervisor.start()


def release(group_id: int) -> None:
    """Stop answering for a group: it is gone."""
    with _changing:
        _live.discard(group_id)
        if not _supervisor.tell(f"-{group_id}\n") and _live:
            _supervisor.start()


def signal_group(group_id: int, signal_number: int) -> bool:
    """Signal a process group (0 only asks); False where nobody is left to hear it.

    A group's number is not given out again while it has a member, so an orphaned grandchild is still reached safely.
    """
    if group_id <= 1:
        return False
    try:
        os.killpg(group_id, signal_number)
    except (ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
        return False
    return True


def kill_all_groups() -> None:
    """End every child we know of, now. Takes no lock: a signal handler may call it at any moment."""
    for group_id in tuple(_live):
        signal_group(group_id, signal.SIGKILL)


class _Supervisor:
    """Our end of the pipe. Started with the first group, and anew should it be gone; it ends when we do."""

    process: subprocess.Popen[bytes] | None = None

    def tell(self, lines: str) -> bool:
        """Whether it has been told."""
        if self.process is None or self.process.stdin is None:
            return False
        try:
            return os.write(self.process.stdin.fileno(), lines.encode()) == len(lines)
        except OSError:
            return False

    def start(self) -> None:
        if self.process is not None:
            # Before its pipe closes: one that is only stuck would wake up to that, and kill what is alive and well.
            self.process.kill()
            self.dismiss()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", os.fspath(_SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=_SCRIPT.anchor,
                start_new_session=True,
            )
        except OSError:  # no process to be had: every other way to leave still ends the children
            return
        if self.process.stdin is not None:
            # A pipe that nobody empties must not hold the run.
            os.set_blocking(self.process.stdin.fileno(), False)
        self.tell("".join(f"+{group_id}\n" for group_id in _live))

    def dismiss(self) -> None:
        """Close the pipe and see it go, so that whatever we left is gone when we are."""
        process, self.process = self.process, None
        if process is None:
            return
        try:
            process.communicate(timeout=_FAREWELL_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


_live: set[int] = set()
_changing = threading.Lock()
_supervisor = _Supervisor()
atexit.register(_supervisor.dismiss)
