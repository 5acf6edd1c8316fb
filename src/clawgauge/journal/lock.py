"""One writer per run folder.

Owns: the lock file and what it says about its holder. Refuses: waiting; a held lock is an error at once. The kernel
holds the lock, not the file: a killed process leaves a file that locks nothing.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
import weakref
from contextlib import suppress
from pathlib import Path

import msgspec

from clawgauge.errors import RunLocked
from clawgauge.journal.names import LOCK

if sys.platform == "win32":
    import msvcrt

    # Locked bytes cannot be read on Windows, so the lock sits far behind what the file says.
    _LOCKED_BYTE = 1 << 30

    def _take(fd: int) -> None:
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


_HELD_ELSEWHERE = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK})
_OPEN_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_HOLDER_BYTES = 4096


class LockHolder(msgspec.Struct, frozen=True, kw_only=True):
    """What the lock file says."""

    pid: int
    hostname: str
    started_at_ms: int


class RunLock:
    """The right to write one run folder, until `release` or the end of the process."""

    def __init__(self, path: Path, fd: int, warning: str | None) -> None:
        self.warning = warning
        self._path = path
        self._fd: int | None = fd
        _held.add(self)

    @classmethod
    def acquire(cls, folder: Path) -> RunLock:
        """Take the lock of `folder`, or raise `RunLocked` naming who has it."""
        while (lock := cls._try_acquire(folder)) is None:
            pass
        return lock

    @classmethod
    def _try_acquire(cls, folder: Path) -> RunLock | None:
        """None where the holder before us removed the file between our open and our lock: it locks nothing now."""
        path = folder / LOCK
        fd = os.open(path, _OPEN_FLAGS, 0o644)
        ours = False
        try:
            warning = _lock_or_refuse(fd, folder)
            ours = _is_still(path, fd)
            if not ours:
                return None
            _sign(fd)
            return cls(path, fd, warning)
        finally:
            if not ours:
                os.close(fd)

    @property
    def is_held(self) -> bool:
        """False once released, and in a forked child from the start."""
        return self._fd is not None

    def release(self) -> None:
        """Let go, and leave no lock file. Harmless when repeated."""
        if self._fd is None:
            return
        # Windows refuses to remove an open file, and then the next writer takes the file over.
        with suppress(OSError):
            self._path.unlink()
        self.forget()

    def forget(self) -> None:
        """Close this process's copy of the lock without touching the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            _held.discard(self)


_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    # A forked child shares the lock; were it to outlive a killed parent, the folder would stay locked.
    for lock in list(_held):
        lock.forget()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_in_child)


def _lock_or_refuse(fd: int, folder: Path) -> str | None:
    """Lock `fd`. Returns a warning where the file system has no locks at all."""
    try:
        _take(fd)
    except OSError as error:
        if error.errno in _HELD_ELSEWHERE:
            raise RunLocked(
                f"Run folder {folder} is being written by {_holder(fd)}; wait for it to end, or end it, and try again."
            ) from error
        return f"The file system of {folder} offers no locks; see to it that only one process writes this run."
    return None


def _is_still(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def _sign(fd: int) -> None:
    holder = LockHolder(pid=os.getpid(), hostname=socket.gethostname(), started_at_ms=time.time_ns() // 1_000_000)
    # A full disk takes the signature, which is a courtesy, but not the lock.
    with suppress(OSError):
        os.lseek(fd, 0, os.SEEK_SET)
        os.ftruncate(fd, 0)
        os.write(fd, msgspec.json.encode(holder) + b"\n")


def _holder(fd: int) -> str:
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        holder = msgspec.json.decode(os.read(fd, _HOLDER_BYTES), type=LockHolder)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return "another process"
    return f"process {holder.pid} on {holder.hostname}"
