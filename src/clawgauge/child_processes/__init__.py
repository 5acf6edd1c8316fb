"""Child processes: started isolated, watched until they are gone, and gone when this program is.

A Python child runs this installation's code alone. `-I` leaves out the current directory,
PYTHONPATH and everything else of PYTHON*: an `argparse.py` or a `sitecustomize.py` that lies about
is not loaded. It leaves out the user's own site directory too, where clawgauge or what it needs may
be installed; so the directories this process imports from follow *behind* the standard library and
the installed packages, where they can add names but replace none.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

# The process groups we answer for. First of all: a signal may ask for it while the rest of this
# module is loaded.
_live_groups: set[int] = set()
_SCRIPT = Path(__file__).with_name("supervisor.py")
_FAREWELL_S = 1.0
_START = (
    "import runpy, sys; "
    "path, module = sys.argv[1:3]; del sys.argv[1:3]; "
    "sys.path += [folder for folder in path.split(chr(10)) if folder not in sys.path]; "
    "runpy.run_module(module, run_name='__main__', alter_sys=True)"
)
# Windows has no process groups: there a group is a process and whatever came of it.
_HAS_GROUPS = hasattr(os, "killpg")
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""The signal that nothing survives. Windows has one that ends a process, and that is it."""
# What an interpreter needs to start at all, which is all that the supervisor does.
_INTERPRETER_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


def isolated_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as `python -m` would.

    It is run from this installation, with nothing of its surroundings.
    """
    # Where this process imports from, but for the current directory; this package's own folder in
    # any case.
    folders = []
    for folder in sys.path:
        if Path(folder).is_absolute() and not _is_current_directory(folder):
            folders.append(folder)
    folders.append(os.fspath(Path(__file__).resolve().parents[2]))
    search_path = "\n".join(dict.fromkeys(folders))
    return [sys.executable, "-I", "-c", _START, search_path, module, *arguments]


def _is_current_directory(folder: str) -> bool:
    try:
        return Path(folder).samefile(".")
    except OSError:
        return False


def adopt(group_id: int) -> None:
    """Answer for a process group from now on: it is ended when this program ends.

    Give a child its work only after this: should we die before, the end of its standard input is
    all it hears.
    """
    with _changing:
        _live_groups.add(group_id)
        if not _supervisor.send(f"+{group_id}\n"):
            _supervisor.start()


def start_adopted(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program that takes its work from its standard input, and answer for it.

    It runs in a session of its own.
    """
    process = subprocess.Popen(
        argv,
        env=env,
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    adopt(process.pid)
    return process


def release(group_id: int) -> None:
    """Answer for a process group no more: nothing is left of it."""
    with _changing:
        _live_groups.discard(group_id)
        if not _supervisor.send(f"-{group_id}\n") and _live_groups:
            _supervisor.start()


def signal_group(group_id: int, signal_number: int) -> bool:
    """Signal a process group; signal 0 only asks. False where nobody is left in it.

    On Windows every other signal than 0 ends the process and what came of it at once.
    """
    if group_id <= 1:
        return False
    if not _HAS_GROUPS:
        return _end_tree(group_id) if signal_number else _is_alive(group_id)
    # A group's number is not given out again while it has a member: an orphaned grandchild is
    # still reached safely.
    with suppress(ProcessLookupError, PermissionError):  # macOS: EPERM for a group of zombies
        os.killpg(group_id, signal_number)
        return True
    return False


def _end_tree(process_id: int) -> bool:
    """End a process and its descendants; False where it is gone by then, as it should be."""
    import psutil  # slow to load, and needed where there are no groups alone

    with suppress(psutil.Error):
        process = psutil.Process(process_id)
        for member in [*process.children(recursive=True), process]:
            with suppress(psutil.Error):
                member.kill()
    return _is_alive(process_id)


def _is_alive(process_id: int) -> bool:
    import psutil

    with suppress(psutil.Error):
        return bool(psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE)
    return False


def kill_all_groups() -> None:
    """End every child we know of, now.

    Takes no lock: a signal handler may call it at any moment.
    """
    for group_id in tuple(_live_groups):
        signal_group(group_id, KILL)


class _Supervisor:
    """Our end of the pipe to the supervisor, which kills what we leave running.

    It is started with the first group, and anew should it be gone; it ends when we do.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def send(self, lines: str) -> bool:
        """Write lines to it whole; False where that cannot be done."""
        if self._process is None or self._process.stdin is None:
            return False
        try:
            n_written = os.write(self._process.stdin.fileno(), lines.encode())
        except OSError:
            return False
        return n_written == len(lines)

    def start(self) -> None:
        """Start a new one, and name all groups to it."""
        if self._process is not None:
            # Before its pipe closes: one that is only stuck would wake up to that, and kill what is
            # alive and well.
            self._process.kill()
            self.dismiss()
        env = {name: os.environ[name] for name in _INTERPRETER_VARIABLES if name in os.environ}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", os.fspath(_SCRIPT)],
                env=env,
                cwd=_SCRIPT.anchor,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:  # no process to be had: every other way to leave still ends the children
            return
        if self._process.stdin is not None and hasattr(os, "set_blocking"):
            # A pipe that nobody empties must not hold the run.
            os.set_blocking(self._process.stdin.fileno(), False)
        self.send("".join(f"+{group_id}\n" for group_id in _live_groups))

    def dismiss(self) -> None:
        """Close the pipe and see it go, so that whatever we left is gone when we are."""
        process = self._process
        self._process = None
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
