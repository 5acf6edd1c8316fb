"""One writer per run folder.

The kernel's lock is on the folder itself, which nobody can delete and make anew behind a writer's back, and on the file
`.lock` as well: that tells who holds it, keeps out the versions that knew only the file, and is all there is where a
system cannot lock folders. A held lock is an error at once; a killed process leaves a file that locks nothing.
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

from clawgauge.errors import RunFolderError, RunLocked
from clawgauge.journal.disk import LOCK, Directory, is_same

if sys.platform == "win32":
    import msvcrt

    # Locked bytes cannot be read on Windows, so the lock sits far behind what the file says.
    _LOCKED_BYTE = 1 << 30
else:
    import fcntl

_HELD_ELSEWHERE = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK})
_HOLDER_BYTES = 4096
_MAX_HOSTNAME_CHARS = 64
_KERNEL_LOCKS = Path("/proc/locks")


class LockHolder(msgspec.Struct, frozen=True, kw_only=True):
    pid: int
    hostname: str
    started_at_ms: int


class RunLock:
    """The right to write one run folder, until `release` or the end of the process. Closes `directory` with it.

    Made where it can be taken; else `RunLocked` names who has it. `is_held` is False once it is released, and in a
    forked child from the start.
    """

    def __init__(self, directory: Directory) -> None:
        locked = directory.fd is not None and _lock_or_refuse(directory.fd, directory)
        while True:
            fd = directory.open(LOCK, os.O_RDWR | os.O_CREAT)
            ours = False
            try:
                locked = _lock_or_refuse(fd, directory) or locked
                # The holder before us may have removed the file between our open and our lock: it locks nothing now.
                ours = is_same(directory.prefix + LOCK, fd, directory.fd)
            finally:
                if not ours:
                    os.close(fd)
            if ours:
                break
        signature = LockHolder(
            pid=os.getpid(), hostname=socket.gethostname(), started_at_ms=time.time_ns() // 1_000_000
        )
        # A full disk takes the signature, which is a courtesy, but not the lock.
        with suppress(OSError):
            os.lseek(fd, 0, os.SEEK_SET)
            os.ftruncate(fd, 0)
            os.write(fd, msgspec.json.encode(signature) + b"\n")
        alone = f"The file system of {directory.path} offers no locks; see to it that only one process writes this run."
        self.warning = None if locked else alone
        self.is_held = True
        self._directory = directory
        self._fd = fd
        _held.add(self)

    def release(self) -> None:
        """Let go, and leave no lock file. Harmless when repeated."""
        if not self.is_held:
            return
        # Windows refuses to remove an open file, and then the next writer takes the file over.
        with suppress(OSError):
            if is_same(self._directory.prefix + LOCK, self._fd, self._directory.fd):
                self._directory.unlink(LOCK)
        self.forget()

    def forget(self) -> None:
        """Close this process's copy of the lock without touching the file."""
        if self.is_held:
            self.is_held = False
            os.close(self._fd)
            self._directory.close()
            _held.discard(self)


_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    # A forked child shares the lock; were it to outlive a killed parent, the folder would stay locked.
    for lock in list(_held):
        lock.forget()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_in_child)


def _lock_or_refuse(fd: int, directory: Directory) -> bool:
    """Lock `fd`, the folder's or the lock file's; False where the file system cannot."""
    try:
        if sys.platform == "win32":
            os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD_ELSEWHERE:
            raise RunLocked(
                f"Run folder {directory.path} is being written by {_holder(directory)}; "
                "wait for it to end, or end it, and try again."
            ) from error
        return False
    return True


def _holder(directory: Directory) -> str:
    """Who the lock file says holds the folder; where it was deleted, whom the kernel knows."""
    try:
        fd = directory.open(LOCK, os.O_RDONLY)
        try:
            holder = msgspec.json.decode(os.read(fd, _HOLDER_BYTES), type=LockHolder)
        finally:
            os.close(fd)
        return f"process {holder.pid} on {' '.join(holder.hostname.split())[:_MAX_HOSTNAME_CHARS]}"
    except (OSError, RunFolderError, msgspec.DecodeError, UnicodeDecodeError):
        pass
    with suppress(OSError, ValueError, IndexError):
        found = directory.path.stat()
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        for line in _KERNEL_LOCKS.read_text("ascii").splitlines():
            # `7: FLOCK  ADVISORY  WRITE 4711 08:02:1311 0 EOF`
            words = line.split()
            if words[1] == "FLOCK" and words[5] == place and int(words[4]) > 0:
                return f"process {words[4]}"
    return "another process"
