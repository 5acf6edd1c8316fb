"""The right to write a run folder: who has it, and how it is taken.

The kernel's lock is on the folder itself, which nobody can delete and make anew behind a writer's
back, and on the file `.lock` as well: that tells who holds it, keeps out the versions that knew
only the file, and is all there is where a system cannot lock folders. A held lock is an error at
once; a killed process leaves a file that locks nothing.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
import weakref
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from clawgauge.errors import RunFolderError, RunLocked
from clawgauge.journal.disk import LOCK, Directory, is_same

if sys.platform == "win32":
    import msvcrt

    # Locked bytes cannot be read on Windows, so the lock sits far behind what the file says.
    _LOCKED_BYTE = 1 << 30
else:
    import fcntl

_HELD_ELSEWHERE = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK})
_MAX_HOLDER_BYTES = 4096
_MAX_HOSTNAME_CHARS = 64
# How long a writer waits for those who only ask whether there is one, and how often it tries.
_PROBES_END_WITHIN_S = 2.0
_PROBE_PAUSE_S = 0.001


class LockHolder(msgspec.Struct, frozen=True, kw_only=True):
    """What the lock file says: who writes the folder."""

    pid: int
    hostname: str
    started_at_ms: int


class RunLock:
    """The right to write one run folder, until `release` or the end of the process.

    Made where it can be taken; `RunLocked` names who has it otherwise. Closes `directory` when it
    is released. `is_held` is False from then on, and in a forked child from the start. `warning`
    is a sentence for the user where the file system offers no locks.
    """

    def __init__(self, directory: Directory) -> None:
        is_locked = False
        if directory.fd is not None:
            is_locked = _lock_or_refuse(directory.fd, directory)
        is_ours = False
        while not is_ours:
            fd = directory.open(LOCK, os.O_RDWR | os.O_CREAT)
            try:
                is_file_locked = _lock_or_refuse(fd, directory)
                is_locked = is_locked or is_file_locked
                # The holder before us may have removed the file between our open and our lock: it
                # locks nothing now.
                is_ours = is_same(directory.prefix + LOCK, fd, directory.fd)
            finally:
                if not is_ours:
                    os.close(fd)
        _sign(fd)
        self.warning: str | None = None
        if not is_locked:
            self.warning = (
                f"The file system of {directory.path} offers no locks; "
                f"see to it that only one process writes this run."
            )
        self.is_held = True
        self._directory = directory
        self._fd = fd
        _held_locks.add(self)

    def release(self, *, in_child: bool = False) -> None:
        """Let go, and leave no lock file. Harmless when repeated.

        A forked child closes its copy of the lock alone.
        """
        if not self.is_held:
            return
        # Windows refuses to remove an open file, and then the next writer takes the file over.
        with suppress(OSError):
            directory = self._directory
            if not in_child and is_same(directory.prefix + LOCK, self._fd, directory.fd):
                directory.unlink(LOCK)
        self.is_held = False
        os.close(self._fd)
        self._directory.close()
        _held_locks.discard(self)


_held_locks: weakref.WeakSet[RunLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    # A forked child shares the lock; were it to outlive a killed parent, the folder would stay
    # locked.
    for lock in list(_held_locks):
        lock.release(in_child=True)


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_in_child)


def _sign(fd: int) -> None:
    """Write into the lock file who holds it."""
    holder = LockHolder(
        pid=os.getpid(),
        hostname=socket.gethostname(),
        started_at_ms=time.time_ns() // 1_000_000,
    )
    # A full disk takes the signature, which is a courtesy, but not the lock.
    with suppress(OSError):
        os.lseek(fd, 0, os.SEEK_SET)
        os.ftruncate(fd, 0)
        os.write(fd, msgspec.json.encode(holder) + b"\n")


def _lock_or_refuse(fd: int, directory: Directory) -> bool:
    """Lock `fd`, the folder's or the lock file's; False where the file system cannot.

    `is_being_written` shares the lock for an instant: that is waited for. A writer's lock is
    refused at once, with `RunLocked`.
    """
    deadline_s = time.monotonic() + _PROBES_END_WITHIN_S
    while True:
        try:
            _lock_exclusively(fd)
        except OSError as error:
            if error.errno not in _HELD_ELSEWHERE:
                return False
            if _is_locked(fd) or time.monotonic() > deadline_s:
                raise RunLocked(
                    f"Run folder {directory.path} is being written by {_name_holder(directory)}; "
                    f"wait for it to end, or end it, and try again."
                ) from error
        else:
            return True
        time.sleep(_PROBE_PAUSE_S)


def _lock_exclusively(fd: int) -> None:
    if sys.platform == "win32":
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_locked(fd: int) -> bool | None:
    """Whether another process holds `fd` for writing; None where the file system cannot tell.

    No system tells who holds a lock, so a shared one is taken and given back at once: it keeps out
    neither readers nor those who ask the same.
    """
    try:
        if sys.platform == "win32":
            # There is no shared lock here: a writer that comes in this instant is refused and has
            # to try again.
            os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
            os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
        else:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(fd, fcntl.LOCK_UN)
    except OSError as error:
        return True if error.errno in _HELD_ELSEWHERE else None
    return False


def is_being_written(path: Path) -> bool:
    """Whether a live process holds run folder `path` for writing.

    What a killed one has left does not count.
    """
    try:
        with closing(Directory(path)) as directory:
            return _is_directory_being_written(directory)
    except (OSError, RunFolderError):
        return False


def _is_directory_being_written(directory: Directory) -> bool:
    is_folder_locked = None
    if directory.fd is not None:
        is_folder_locked = _is_locked(directory.fd)
    if is_folder_locked:
        return True
    try:
        fd = directory.open(LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        is_file_locked = _is_locked(fd)
    finally:
        os.close(fd)
    if is_folder_locked is None and is_file_locked is None:
        return _is_holder_alive(directory)
    return bool(is_file_locked)


def _is_holder_alive(directory: Directory) -> bool:
    """Where nothing can be locked: whether the process in the lock file lives on this machine."""
    import psutil  # hardly ever needed, and slow to load

    holder = _read_holder(directory)
    if holder is None or holder.hostname != socket.gethostname():
        return False
    try:
        started_at_ms = psutil.Process(holder.pid).create_time() * 1000
    except (psutil.Error, ValueError, OverflowError):
        return False
    # One that began after the lock was taken only has the same number.
    return started_at_ms <= holder.started_at_ms


def _read_holder(directory: Directory) -> LockHolder | None:
    try:
        with os.fdopen(directory.open(LOCK, os.O_RDONLY), "rb") as file:
            return msgspec.json.decode(file.read(_MAX_HOLDER_BYTES), type=LockHolder)
    except (OSError, RunFolderError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _name_holder(directory: Directory) -> str:
    holder = _read_holder(directory)
    if holder is None:
        return "another process"
    hostname = " ".join(holder.hostname.split())[:_MAX_HOSTNAME_CHARS]
    return f"process {holder.pid} on {hostname}"
