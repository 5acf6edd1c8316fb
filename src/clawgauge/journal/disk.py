"""What is in a run folder, the one way to open it, and bytes that last.

A run folder may come from anyone, so nothing in it is followed or waited for: a name is looked up
in the folder's own descriptor (on Windows by its path, before and after), and only a regular file
is read or written.
"""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from clawgauge.errors import ClawgaugeError, DiskFailure, RunFolderError

CONFIG = "config.json"
INVENTORY = "inventory.json"
RESULTS = "results.jsonl"
SUMMARY = "summary.json"
EVENTS = "events.jsonl"
DRAWN_PROMPTS = "prompts.jsonl"
SUPERSEDED = "superseded.jsonl"
TORN = "results.torn"
LOCK = ".lock"
RECORDS = frozenset(
    {CONFIG, INVENTORY, RESULTS, SUMMARY, EVENTS, DRAWN_PROMPTS, SUPERSEDED, TORN, LOCK}
)

# Far beyond what a run writes: config.json holds whole suites, events.jsonl a line per retry.
CAP_BYTES = {
    CONFIG: 256 << 20,
    INVENTORY: 32 << 20,
    SUMMARY: 64 << 20,
    EVENTS: 1 << 30,
    DRAWN_PROMPTS: 256 << 20,
}
READ_BUFFER_BYTES = 1 << 18
LINE_CAP_BYTES = 16 << 20

APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_REFUSED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})

# macOS and Windows have no fdatasync.
sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
# The files `Directory.staged` makes, by the names it gives them, and version 0.1.0 gave.
LEFTOVER = re.compile(r"\..+\.[0-9]+-[0-9a-f]+\.tmp", re.DOTALL)
_HAS_FOLDER_DESCRIPTORS = {
    os.open,
    os.stat,
    os.unlink,
    os.rename,
} <= os.supports_dir_fd and os.listdir in os.supports_fd


def _flags(*names: str) -> int:
    """Those of the flags that this system has."""
    return sum(getattr(os, name, 0) for name in names)


_FOLDER_FLAGS = os.O_RDONLY | _flags("O_DIRECTORY", "O_CLOEXEC")
# A FIFO without a writer is opened at once instead of waited for, and is then seen to be one.
_FILE_FLAGS = _flags("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY")
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`, however little the system takes at a time."""
    rest = memoryview(data)
    while rest:
        n_written = os.write(fd, rest)
        rest = rest[n_written:]


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of `file`, newlines included, split at newlines alone.

    A line over the cap comes in pieces.
    """
    return iter(partial(file.readline, LINE_CAP_BYTES), b"")


def disk_failure(path: Path, error: OSError) -> DiskFailure:
    """The error for a file that cannot be written."""
    return DiskFailure(
        f"Cannot write {path} ({error.strerror or error}); what was recorded before stands: "
        f"{way_out(error)}, then go on with --resume."
    )


def way_out(error: BaseException | None) -> str:
    """What a user can do where the disk refused to write."""
    if isinstance(error, OSError) and error.errno in _REFUSED:
        return "give this user leave to write there"
    return "make room on the disk"


def folder_failure(path: Path, error: OSError) -> ClawgaugeError:
    """The error for a folder that cannot be made or written.

    That is a full disk, or a place that the user must change.
    """
    if error.errno in FULL:
        return disk_failure(path, error)
    instead = "choose another --runs-dir"
    if stat_file(path, CONFIG):
        instead = "work on a copy of the run (show only reads it)"
    return RunFolderError(
        f"Cannot write to {path} ({error.strerror or error}); "
        f"give this user leave to write there, or {instead}."
    )


class Directory:
    """A run folder's directory, held open.

    With `search_only` its files can be read by name and nothing else.
    """

    def __init__(self, path: Path, *, search_only: bool = False) -> None:
        self.path = path
        flags = _FOLDER_FLAGS
        if search_only:
            flags |= _flags("O_PATH")
        self.fd: int | None = os.open(path, flags) if _HAS_FOLDER_DESCRIPTORS else None
        # What stands before a name in the folder, for the system's calls.
        self.prefix = "" if self.fd is not None else f"{path}{os.sep}"
        # Some network file systems number a file anew each time: there nothing can be told later.
        self._has_identity = self.fd is not None and is_same(path, self.fd)

    def open(self, name: str, flags: int, *, cap_bytes: int | None = None) -> int:
        """A descriptor of the regular file `name`.

        Raises `RunFolderError` for anything else, for a file of more than `cap_bytes`, and for one
        to be written that has another name too.
        """
        self._refuse_foreign_name(name)
        fd = os.open(self.prefix + name, flags | _FILE_FLAGS, 0o666, dir_fd=self.fd)
        try:
            status = os.fstat(fd)
            self._refuse_foreign(name, status)
            if cap_bytes is not None and status.st_size > cap_bytes:
                raise RunFolderError(
                    f"{self.path / name} has {status.st_size:,} bytes, and no run writes more than "
                    f"{cap_bytes:,} there; restore it from a copy."
                )
            is_written = bool(flags & (os.O_WRONLY | os.O_RDWR))
            if is_written and status.st_nlink > 1:
                raise RunFolderError(
                    f"{self.path / name} is a hard link: writing it would change another file too; "
                    f"put a copy in its place, and try again."
                )
        except BaseException:
            os.close(fd)
            raise
        return fd

    def entries(self) -> dict[str, os.stat_result]:
        """What bears each name in the folder: itself, not what it may point to."""
        # A descriptor has no Path.
        names = os.listdir(self.path if self.fd is None else self.fd)  # noqa: PTH208
        entries = {}
        for name in names:
            with suppress(FileNotFoundError):
                entries[name] = os.stat(self.prefix + name, dir_fd=self.fd, follow_symlinks=False)
        return entries

    def unlink(self, name: str) -> None:
        os.unlink(self.prefix + name, dir_fd=self.fd)

    def sync(self) -> None:
        """Make the names in the folder last. Windows offers no such thing and needs none."""
        if self.fd is not None:
            os.fsync(self.fd)

    @contextmanager
    def staged(self, name: str) -> Iterator[BinaryIO]:
        """A file that takes the place of `name`, whole and synced, once the block ends well.

        Where it does not end well, the file leaves no trace.
        """
        self._refuse_foreign_name(name)
        temp_name = f".{name}.{os.getpid()}-{secrets.token_hex(6)}.tmp"
        fd = self.open(temp_name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(fd, "wb", buffering=READ_BUFFER_BYTES) as file:
                yield file
                file.flush()
                os.fsync(fd)
            self.require_present()
            os.replace(
                self.prefix + temp_name,
                self.prefix + name,
                src_dir_fd=self.fd,
                dst_dir_fd=self.fd,
            )
        except BaseException:
            with suppress(OSError):
                self.unlink(temp_name)
            raise
        self.sync()

    def require_present(self, name: str | None = None, fd: int | None = None) -> None:
        """Raise `DiskFailure` unless the path still leads to this folder.

        With `name` and `fd`, also unless `name` in it still leads to that open file.
        """
        if self.fd is None or not self._has_identity:
            return
        if not is_same(self.path, self.fd):
            fault = f"Run folder {self.path} is no longer there: it was deleted, moved or replaced."
            what_to_leave = "folder"
        elif name is not None and fd is not None and not is_same(name, fd, self.fd):
            fault = f"{self.path / name} was deleted or replaced while the run was writing it."
            what_to_leave = "files"
        else:
            return
        raise DiskFailure(
            f"{fault} Nothing more is asked, because nothing more could be recorded; "
            f"leave a run its {what_to_leave} until it ends."
        )

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
            self.prefix = f"{self.path}{os.sep}"

    def _refuse_foreign_name(self, name: str) -> None:
        """Raise where what bears `name` is not a file; there may be none."""
        try:
            status = os.stat(self.prefix + name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return
        self._refuse_foreign(name, status)

    def _refuse_foreign(self, name: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "no regular file")
            raise RunFolderError(
                f"{self.path / name} is {kind}, and nothing in a run folder but files is read or "
                f"written; take it away, and try again."
            )


def open_file(folder: Path, name: str, cap_bytes: int | None = None) -> io.BufferedReader:
    """A file of a run folder, open for reading. Refused where larger than `cap_bytes`."""
    with closing(Directory(folder, search_only=True)) as directory:
        fd = directory.open(name, os.O_RDONLY, cap_bytes=cap_bytes)
    return io.BufferedReader(io.FileIO(fd, "rb"), READ_BUFFER_BYTES)


def read_file(folder: Path, name: str, cap_bytes: int) -> bytes | None:
    """The whole of `name`; None where there is no such file, or no folder.

    Refused unread where larger than `cap_bytes`.
    """
    try:
        with open_file(folder, name, cap_bytes) as file:
            # Of a file that somebody makes longer meanwhile no more than its size was found to be.
            return file.read(os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        return None


@contextmanager
def replace_beside_records(path: Path) -> Iterator[BinaryIO]:
    """A file in a run folder that nobody holds, put in place at one stroke.

    Raises `RunFolderError` for the name of a record.
    """
    if path.name.casefold() in RECORDS:
        raise RunFolderError(
            f"{path} is a run's own record, and nothing else is written there; choose another name."
        )
    with closing(Directory(path.parent)) as directory, directory.staged(path.name) as file:
        yield file


def stat_file(folder: Path, name: str) -> os.stat_result | None:
    """What bears `name` in `folder`; None where nothing does, or nobody may look."""
    try:
        return (folder / name).lstat()
    except (OSError, ValueError):
        return None


def is_barren(path: Path) -> bool:
    """Whether nothing was ever written into folder `path`.

    That is what a kill leaves in the first instant of a run.
    """
    try:
        with closing(Directory(path)) as directory:
            entries = directory.entries()
    except OSError:
        return False
    for name, status in entries.items():
        if not stat.S_ISREG(status.st_mode):
            return False
        if name == RESULTS and status.st_size:
            return False
        if name not in (LOCK, RESULTS) and not LEFTOVER.fullmatch(name):
            return False
    return True


def is_same(name: str | Path, fd: int, dir_fd: int | None = None) -> bool:
    """Whether `name` still leads to the open file `fd`.

    `name` is looked up in the folder `dir_fd` where that is given.
    """
    try:
        status = os.stat(name, dir_fd=dir_fd, follow_symlinks=dir_fd is None)
        return os.path.samestat(status, os.fstat(fd))
    except OSError:
        return False
