"""Child processes: started isolated, watched from spawn to burial, and gone when this program is, however it ends.

A Python child runs this installation's code alone. `-I` leaves out the current directory, PYTHONPATH and everything
else of PYTHON*: an `argparse.py` or a `sitecustomize.py` that lies about is not loaded. It leaves out the user's own
site directory too, where clawgauge or what it needs may be installed; so the directories this process imports from
follow *behind* the standard library and the installed packages, where they can add names but replace none."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

# First of all: a signal may ask for it while the rest of this module is loaded.
_live: set[int] = set()
_SCRIPT = Path(__file__).with_name("supervisor.py")
_FAREWELL_S = 1.0
_START = (
    "import runpy, sys; "
    "path, module = sys.argv[1:3]; del sys.argv[1:3]; "
    "sys.path += [folder for folder in path.split(chr(10)) if folder not in sys.path]; "
    "runpy.run_module(module, run_name='__main__', alter_sys=True)"
)
# What an interpreter needs to start at all, which is all that the supervisor does.
_INTERPRETER_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


def isolated_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as `python -m` would, of this installation and nothing around it."""
    # Where this process imports from, but for the current directory; this package's own folder in any case.
    folders = [folder for folder in sys.path if Path(folder).is_absolute() and not _is_here(folder)]
    own = os.fspath(Path(__file__).resolve().parents[2])
    return [sys.executable, "-I", "-c", _START, "\n".join(dict.fromkeys([*folders, own])), module, *arguments]


def _is_here(folder: str) -> bool:
    try:
        return Path(folder).samefile(".")
    except OSError:
        return False


def adopt(group_id: int) -> None:
    """Answer for a group from now on. Give a child its work only after this: should we die before, the end of its
    standard input is all it hears."""
    with _changing:
        _live.add(group_id)
        if not _supervisor.tell(f"+{group_id}\n"):
            _supervisor.start()


def start_adopted(argv: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
    """Start a program that takes its work from its standard input, in a session of its own; answer for it."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(argv, start_new_session=True, **pipes, **how)
    adopt(process.pid)
    return process


def release(group_id: int) -> None:
    with _changing:
        _live.discard(group_id)
        if not _supervisor.tell(f"-{group_id}\n") and _live:
            _supervisor.start()


def signal_group(group_id: int, signal_number: int) -> bool:
    """Signal a process group (0 only asks); False where nobody is left to hear it."""
    # A group's number is not given out again while it has a member: an orphaned grandchild is still reached safely.
    with suppress(ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
        if group_id > 1:
            os.killpg(group_id, signal_number)
            return True
    return False


def kill_all_groups() -> None:
    """End every child we know of, now. Takes no lock: a signal handler may call it at any moment."""
    for group_id in tuple(_live):
        signal_group(group_id, signal.SIGKILL)


class _Supervisor:
    """Our end of the pipe. Started with the first group, and anew should it be gone; it ends when we do."""

    process: subprocess.Popen[bytes] | None = None

    def tell(self, lines: str) -> bool:
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
            quiet: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            command = [sys.executable, "-I", "-S", os.fspath(_SCRIPT)]
            env = {name: os.environ[name] for name in _INTERPRETER_VARIABLES if name in os.environ}
            self.process = subprocess.Popen(command, cwd=_SCRIPT.anchor, env=env, start_new_session=True, **quiet)
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


_changing = threading.Lock()
_supervisor = _Supervisor()
atexit.register(_supervisor.dismiss)
