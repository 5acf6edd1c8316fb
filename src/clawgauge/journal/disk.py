"""What things in a run folder are called, the one way to open them, and bytes that last.

A run folder may come from anyone, so nothing in it is followed and nothing in it is waited for: a name is looked up in
the folder's own descriptor, links are not followed, and only a regular file is read or written. Where a system has no
such descriptors (Windows), the same is asked of the path before it is opened and of the file after.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from clawgauge.errors import ClawgaugeError, DiskFailure, RunFolderError
from clawgauge.records import Target

CONFIG = "config.json"
INVENTORY = "inventory.json"
RESULTS = "results.jsonl"
SUMMARY = "summary.json"
EVENTS = "events.jsonl"
SUPERSEDED = "superseded.jsonl"
TORN = "results.torn"
LOCK = ".lock"

RECORDS = frozenset({CONFIG, INVENTORY, RESULTS, SUMMARY, EVENTS, SUPERSEDED, TORN, LOCK})

LATEST = "latest"
"""The word that stands for the most recent run on the command line, so no run may bear it."""

MAX_RUN_ID_CHARS = 120
_MAX_NAME_BYTES = 240
_WINDOWS_CHARACTERS = frozenset('<>:"|?*')
_WINDOWS_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{digit}" for port in ("com", "lpt") for digit in range(1, 10)}
)
# Control, format (bidi marks among them), surrogate, line and paragraph separator: a name a person cannot read back.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
MAX_TAG_CHARS = 120
_HASH_CHARS = 16
# A plain tag can be read back in one way only: the model has no '_', so the last '_' ends the provider; '@' and '~' are
# in neither; and there are no capitals, so file systems that ignore case tell plain tags apart.
_PLAIN_PROVIDER = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_PLAIN_MODEL = re.compile(r"[a-z0-9.-]+")
_PLAIN_LEVEL = re.compile(r"[a-z]+")
_UNSAFE_RUN = re.compile(r"[^a-z0-9_.@-]+")
READ_BUFFER_BYTES = 1 << 18
LINE_CAP_BYTES = 16 << 20

APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})

# macOS and Windows have no fdatasync.
sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
# The files `Directory.staged` makes, by the names it gives them, and version 0.1.0 gave.
LEFTOVER = re.compile(r"\..+\.[0-9]+-[0-9a-f]+\.tmp", re.DOTALL)
_BY_DESCRIPTOR = {os.open, os.stat, os.unlink, os.rename} <= os.supports_dir_fd and os.listdir in os.supports_fd
# Those of the flags that this system has.
_FOLDER_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_DIRECTORY", "O_CLOEXEC"))
# A FIFO without a writer is opened at once instead of waited for, and is then seen to be one.
_FILE_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"))
_KINDS = {
    stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`, however little the system takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of `file`, newlines included, split at newlines alone; one over the cap comes in pieces."""
    return iter(partial(file.readline, LINE_CAP_BYTES), b"")


def disk_failure(path: Path, error: OSError) -> DiskFailure:
    return DiskFailure(
        f"Cannot write {path} ({error.strerror or error}); what was recorded before stands: "
        "make room on the disk, then go on with --resume."
    )


def folder_failure(path: Path, error: OSError) -> ClawgaugeError:
    """The error for a folder that cannot be made or written: a full disk, or a place the user must change."""
    if error.errno in FULL:
        return disk_failure(path, error)
    return RunFolderError(
        f"Cannot write to {path} ({error.strerror or error}); check its permissions or choose another --runs-dir."
    )


class Directory:
    """A run folder's directory, held open. With `search_only` its files can be read by name and nothing else."""

    def __init__(self, path: Path, *, search_only: bool = False) -> None:
        self.path = path
        flags = getattr(os, "O_PATH", 0) | _FOLDER_FLAGS if search_only else _FOLDER_FLAGS
        self.fd: int | None = os.open(path, flags) if _BY_DESCRIPTOR else None
        # What stands before a name in the folder, for the system's calls.
        self.prefix = "" if self.fd is not None else f"{path}{os.sep}"
        # Some network file systems number a file anew at every look: there nothing can be told of it later.
        self._has_identity = self.fd is not None and is_same(path, self.fd)

    def open(self, name: str, flags: int, *, cap_bytes: int | None = None) -> int:
        """A descriptor of the regular file `name`; `RunFolderError` for anything else, or what is over its cap."""
        self._refuse_foreign(name, self.stat(name))
        fd = os.open(self.prefix + name, flags | _FILE_FLAGS, 0o666, dir_fd=self.fd)
        try:
            found = os.fstat(fd)
            self._refuse_foreign(name, found)
            if cap_bytes is not None and found.st_size > cap_bytes:
                raise RunFolderError(
                    f"{self.path / name} has {found.st_size:,} bytes, and no run writes more than {cap_bytes:,} there; "
                    "restore it from a copy."
                )
            if flags & (os.O_WRONLY | os.O_RDWR) and found.st_nlink > 1:
                raise RunFolderError(
                    f"{self.path / name} is a hard link: writing it would change another file too; "
                    "put a copy in its place, and try again."
                )
        except BaseException:
            os.close(fd)
            raise
        return fd

    def stat(self, name: str) -> os.stat_result | None:
        """What bears `name`, itself and not what it may point to; None where nothing does."""
        try:
            return os.stat(self.prefix + name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def entries(self) -> dict[str, os.stat_result]:
        names = os.listdir(self.path if self.fd is None else self.fd)  # noqa: PTH208  # a descriptor has no Path
        return {name: found for name in names if (found := self.stat(name)) is not None}

    def unlink(self, name: str) -> None:
        os.unlink(self.prefix + name, dir_fd=self.fd)

    def sync(self) -> None:
        """Make the names in the folder last. Windows offers no such thing and needs none."""
        if self.fd is not None:
            os.fsync(self.fd)

    @contextmanager
    def staged(self, name: str) -> Iterator[BinaryIO]:
        """A file that takes the place of `name`, whole and synced, once the block ends well; else leaves no trace."""
        self._refuse_foreign(name, self.stat(name))
        temp = f".{name}.{os.getpid()}-{secrets.token_hex(6)}.tmp"
        fd = self.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(fd, "wb", buffering=READ_BUFFER_BYTES) as file:
                yield file
                file.flush()
                os.fsync(fd)
            self.require_present()
            os.replace(self.prefix + temp, self.prefix + name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException:
            with suppress(OSError):
                self.unlink(temp)
            raise
        self.sync()

    def require_present(self, name: str | None = None, fd: int | None = None) -> None:
        """Raise `DiskFailure` unless the path still leads to this folder, and `name` in it to the open file `fd`."""
        if self.fd is None or not self._has_identity:
            return
        if not is_same(self.path, self.fd):
            raise DiskFailure(
                f"Run folder {self.path} is no longer there: it was deleted, moved or replaced. "
                "Nothing more is asked, because nothing more could be recorded; leave a run its folder until it ends."
            )
        if name is not None and fd is not None and not is_same(name, fd, self.fd):
            raise DiskFailure(
                f"{self.path / name} was deleted or replaced while the run was writing it. "
                "Nothing more is asked, because nothing more could be recorded; leave a run its files until it ends."
            )

    def close(self) -> None:
        """Harmless when repeated."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd, self.prefix = None, f"{self.path}{os.sep}"

    def _refuse_foreign(self, name: str, found: os.stat_result | None) -> None:
        if found is not None and not stat.S_ISREG(found.st_mode):
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no regular file")
            raise RunFolderError(
                f"{self.path / name} is {kind}, and nothing in a run folder but files is read or written; "
                "take it away, and try again."
            )


def open_file(folder: Path, name: str, cap_bytes: int | None = None) -> io.BufferedReader:
    with closing(Directory(folder, search_only=True)) as directory:
        fd = directory.open(name, os.O_RDONLY, cap_bytes=cap_bytes)
    return io.BufferedReader(io.FileIO(fd, "rb"), READ_BUFFER_BYTES)


def read_file(folder: Path, name: str, cap_bytes: int) -> bytes | None:
    """The whole of `name`; None where there is none, or no folder. Refused unread where larger than `cap_bytes`."""
    try:
        with open_file(folder, name, cap_bytes) as file:
            # Of a file that somebody makes longer meanwhile no more than was looked at.
            return file.read(os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        return None


@contextmanager
def replace_beside_records(path: Path) -> Iterator[BinaryIO]:
    """A file in a run folder that nobody holds, put there at one stroke; the records themselves are refused."""
    if path.name.casefold() in RECORDS:
        raise RunFolderError(f"{path} is a run's own record, and nothing else is written there; choose another name.")
    with closing(Directory(path.parent)) as directory, directory.staged(path.name) as file:
        yield file


def stat_file(folder: Path, name: str) -> os.stat_result | None:
    """What bears `name` in `folder`; None where nothing does, or nobody may look."""
    try:
        return (folder / name).lstat()
    except (OSError, ValueError):
        return None


def is_barren(path: Path) -> bool:
    """Whether nothing was ever written into folder `path`: what a kill leaves in the first instant of a run."""
    try:
        with closing(Directory(path)) as directory:
            return all(
                stat.S_ISREG(found.st_mode)
                and (name == LOCK or LEFTOVER.fullmatch(name) or (name == RESULTS and found.st_size == 0))
                for name, found in directory.entries().items()
            )
    except OSError:
        return False


def is_same(name: str | Path, fd: int, dir_fd: int | None = None) -> bool:
    """Whether `name`, in the folder `dir_fd` if one is given, still leads to the open file `fd`."""
    try:
        return os.path.samestat(os.stat(name, dir_fd=dir_fd, follow_symlinks=dir_fd is None), os.fstat(fd))
    except OSError:
        return False


def check_run_id(run_id: str) -> None:
    """Raise `RunFolderError` for a run id that is not one plain, portable folder name."""
    faults = {
        "is empty": not run_id,
        "has a control or invisible character in it": any(unicodedata.category(one) in _UNPRINTABLE for one in run_id),
        "has a path separator in it": "/" in run_id or "\\" in run_id,
        "starts with a dot": run_id.startswith("."),
        "starts or ends with a space or a dot": run_id != run_id.strip() or run_id.endswith("."),
        'has one of < > : " | ? * in it': not _WINDOWS_CHARACTERS.isdisjoint(run_id),
        "is a device name on Windows": run_id.partition(".")[0].rstrip().lower() in _WINDOWS_DEVICES,
        f"is longer than {_MAX_NAME_BYTES} bytes": len(run_id.encode("utf-8", "replace")) > _MAX_NAME_BYTES,
        f"is longer than {MAX_RUN_ID_CHARS} characters": len(run_id) > MAX_RUN_ID_CHARS,
        "starts with a dash": run_id.startswith("-"),
        "is the word for the most recent run": run_id.lower() == LATEST,
    }
    if (fault := next((words for words, holds in faults.items() if holds), None)) is not None:
        shown = run_id if len(run_id) <= MAX_RUN_ID_CHARS else run_id[:40] + "…"
        raise RunFolderError(f"The run id {shown!r} {fault}; use letters, digits, '_', '-' and '.'.")


def resource_tag(target: Target) -> str:
    """The target's name where that is unmistakable, otherwise a readable likeness, `~` and a hash of the target."""
    level = "" if target.thinking_level is None else f"@{target.thinking_level}"
    name = f"{target.provider}_{target.model}{level}"
    is_plain = (
        _PLAIN_PROVIDER.fullmatch(target.provider)
        and _PLAIN_MODEL.fullmatch(target.model)
        and (target.thinking_level is None or _PLAIN_LEVEL.fullmatch(target.thinking_level))
    )
    if is_plain and len(name) <= MAX_TAG_CHARS:
        return name
    identity = json.dumps([target.provider, target.model, target.thinking_level])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:_HASH_CHARS]
    likeness = _UNSAFE_RUN.sub("-", name.lower()).lstrip(".@-")[: MAX_TAG_CHARS - _HASH_CHARS - 1]
    return f"{likeness}~{digest}"
