"""Child processes: started isolated, watched from spawn to burial, and gone when this program is.

`-I` leaves out the current directory, PYTHONPATH and everything else of PYTHON*: an `argparse.py` or a
`sitecustomize.py` that lies about is not loaded. It leaves out the user's own site directory too, where clawgauge or
what it needs may be installed; so the directories this process imports from follow *behind* the standard library and
the installed packages, where they can add names but replace none.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

_SCRIPT = Path(__file__).with_name("supervisor.py")
_FAREWELL_S = 1.0
_START = (
    "import runpy, sys; "
    "path, module = sys.argv[1:3]; del sys.argv[1:3]; "
    "sys.path += [folder for folder in path.split(chr(10)) if folder not in sys.path]; "
    "runpy.run_module(module, run_name='__main__', alter_sys=True)"
)
# What a program needs to find itself, its libraries and its hardware, by the beginnings of the names.
_NEEDED = (
    *("PATH", "HOME", "USER", "LANG", "LC_", "TZ", "TMP", "TEMP", "XDG_", "LD_", "DYLD_"),
    *("SYSTEMROOT", "WINDIR", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PATHEXT", "COMSPEC"),
    *("CUDA_", "NVIDIA_", "HIP_", "HSA_", "ROCR_", "ROCM_", "GGML_", "VK_", "ONEAPI_", "SYCL_", "ZE_", "MTL_", "OMP_"),
    *("KMP_", "OPENBLAS_", "MKL_", "GOMP_", "MALLOC_"),
)
_KEY_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "AUTHORIZATION")


def adopt(group_id: int) -> None:
    """Answer for a group from now on: the process id of its leader, which was just started in a session of its own.

    Give a child its work only after this. Should we die before, the end of its standard input is all it hears.
    """
    with _changing:
        _live.add(group_id)
        _supervisor.tell(f"+{group_id}\n")


def release(group_id: int) -> None:
    """Stop answering for a group: it is gone."""
    with _changing:
        _live.discard(group_id)
        _supervisor.tell(f"-{group_id}\n")


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

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def tell(self, line: str) -> None:
        if not self._write(line) and _live:
            self._start()

    def dismiss(self) -> None:
        """Close the pipe and see it go, so that whatever we left is gone when we are."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.communicate(timeout=_FAREWELL_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self) -> None:
        if self._process is not None:
            # Before its pipe closes: one that is only stuck would wake up to that, and kill what is alive and well.
            self._process.kill()
            self.dismiss()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", os.fspath(_SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=_SCRIPT.anchor,
                start_new_session=True,
            )
        except OSError:  # no process to be had: every other way to leave still ends the children
            return
        if self._process.stdin is not None:
            # A pipe that nobody empties must not hold the run.
            os.set_blocking(self._process.stdin.fileno(), False)
        self._write("".join(f"+{group_id}\n" for group_id in _live))

    def _write(self, lines: str) -> bool:
        if self._process is None or self._process.stdin is None:
            return False
        try:
            return os.write(self._process.stdin.fileno(), lines.encode()) == len(lines)
        except OSError:
            return False


_live: set[int] = set()
_changing = threading.Lock()
_supervisor = _Supervisor()
atexit.register(_supervisor.dismiss)


def isolated_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as `python -m` would, of this installation and nothing around it."""
    return [sys.executable, "-I", "-c", _START, "\n".join(_import_folders()), module, *arguments]


def needed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Of an environment, what a program that only computes needs: no key, no address of a server, no proxy."""
    return {name: value for name, value in environ.items() if name.upper().startswith(_NEEDED) and not may_be_key(name)}


def may_be_key(name: str) -> bool:
    """Whether a variable is named as keys are."""
    return any(word in name.upper() for word in _KEY_WORDS)


def _import_folders() -> list[str]:
    """Where this process imports from, but for the current directory; this package's own folder in any case."""
    own = Path(__file__).resolve().parents[1]
    folders = [folder for folder in sys.path if Path(folder).is_absolute() and not _is_here(folder)]
    return list(dict.fromkeys([*folders, os.fspath(own)]))


def _is_here(folder: str) -> bool:
    try:
        return Path(folder).samefile(".")
    except OSError:
        return False
