"""A run folder open for writing: made or taken over under its lock, repaired after a crash, revised, closed.

The kernel's lock is on the folder itself, which nobody can delete and make anew behind a writer's back, and on the file
`.lock` as well: that tells who holds it, keeps out the versions that knew only the file, and is all there is where a
system cannot lock folders. A held lock is an error at once; a killed process leaves a file that locks nothing."""

from __future__ import annotations

import atexit
import errno
import os
import socket
import stat
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self

import msgspec

from clawgauge.characters import well_formed
from clawgauge.errors import DiskFailure, RunFolderError, RunLocked, SuiteError
from clawgauge.journal import disk
from clawgauge.journal.appender import NOT_OPEN, Appender
from clawgauge.journal.disk import LOCK, Directory, is_same
from clawgauge.journal.lines import KEY_WITHHELD, clean, decode_line, encode_document, encode_line
from clawgauge.journal.locate import is_run_folder
from clawgauge.journal.names import check_run_id
from clawgauge.journal.reader import CellKey, RunReader, cell_key, line_decoder
from clawgauge.json_limits import VALUE_LIMITS, find_excess
from clawgauge.records import CellRow, Event, Result, RunConfig, share_contexts

if sys.platform == "win32":
    import msvcrt

    # Locked bytes cannot be read on Windows, so the lock sits far behind what the file says.
    _LOCKED_BYTE = 1 << 30
else:
    import fcntl

_HELD_ELSEWHERE = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK})
_HOLDER_BYTES, _MAX_HOSTNAME_CHARS = 4096, 64
# How long a writer waits for those who only ask whether there is one, and how often it tries.
_PROBES_END_WITHIN_S = 2.0
_PROBE_PAUSE_S = 0.001
_SCAN_BYTES = 1 << 16
# One write of many lines, the last of them as long as a line can be.
_TORN_CAP_BYTES = 2 * disk.LINE_CAP_BYTES


def mend_tail(directory: Directory, name: str, torn: str | None = None) -> int:
    """Make file `name` end with a whole line and return how many bytes that cost: 0 where nothing was torn. A last line
    that lacks only its newline is a whole record and gets one. Anything else is cut off, and appended to `torn` first
    where that is given. A crash in between leaves the bytes in both places, never in none."""
    try:
        fd = directory.open(name, os.O_RDWR)
    except FileNotFoundError:
        return 0
    with os.fdopen(fd, "r+b") as file:
        start = size = file.seek(0, os.SEEK_END)
        found = -1
        while found < 0 < start and size - start <= _TORN_CAP_BYTES:
            end, start = start, max(0, start - _SCAN_BYTES)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
        # The first byte after the last newline; where none is near enough, somewhere before it.
        start += found + 1
        if start == size:
            return 0
        if size - start > _TORN_CAP_BYTES:
            why = (
                f"{directory.path / name} ends in over {_TORN_CAP_BYTES:,} bytes without a line end"
            )
            raise RunFolderError(
                f"{why}, which no crash of a run leaves; restore it from a copy, or cut them off."
            )
        file.seek(start)
        tail = file.read(size - start)
        # An object closes itself: no prefix of one is one, so what parses was written to its end.
        whole = len(tail) <= disk.LINE_CAP_BYTES and decode_line(tail) is not None
        if whole:
            file.write(b"\n")
        else:
            if torn is not None:
                with os.fdopen(directory.open(torn, disk.APPEND), "ab") as aside:
                    aside.write(b"\n" + tail if aside.tell() else tail)
                    aside.flush()
                    os.fsync(aside.fileno())
                directory.sync()
            file.truncate(start)
        file.flush()
        os.fsync(file.fileno())
    return 0 if whole else size - start


class LockHolder(msgspec.Struct, frozen=True, kw_only=True):
    pid: int
    hostname: str
    started_at_ms: int


class RunLock:
    """The right to write one run folder, until `release` or the end of the process. Closes `directory` with it. Made
    where it can be taken; else `RunLocked` names who has it. `is_held` is False once it is released, and in a forked
    child from the start."""

    def __init__(self, directory: Directory) -> None:
        locked = directory.fd is not None and _lock_or_refuse(directory.fd, directory)
        ours = False
        while not ours:
            fd = directory.open(LOCK, os.O_RDWR | os.O_CREAT)
            try:
                locked = _lock_or_refuse(fd, directory) or locked
                # The holder before us may have removed the file between our open and our lock: it locks nothing now.
                ours = is_same(directory.prefix + LOCK, fd, directory.fd)
            finally:
                if not ours:
                    os.close(fd)
        now_ms = time.time_ns() // 1_000_000
        signature = LockHolder(pid=os.getpid(), hostname=socket.gethostname(), started_at_ms=now_ms)
        # A full disk takes the signature, which is a courtesy, but not the lock.
        with suppress(OSError):
            os.lseek(fd, 0, os.SEEK_SET)
            os.ftruncate(fd, 0)
            os.write(fd, msgspec.json.encode(signature) + b"\n")
        alone = f"The file system of {directory.path} offers no locks; see to it that only one process writes this run."
        self.warning = None if locked else alone
        self.is_held, self._directory, self._fd = True, directory, fd
        _held.add(self)

    def release(self, *, in_child: bool = False) -> None:
        """Let go, and leave no lock file; a forked child closes its copy alone. Harmless when repeated."""
        if not self.is_held:
            return
        # Windows refuses to remove an open file, and then the next writer takes the file over.
        with suppress(OSError):
            if not in_child and is_same(
                self._directory.prefix + LOCK, self._fd, self._directory.fd
            ):
                self._directory.unlink(LOCK)
        self.is_held = False
        os.close(self._fd)
        self._directory.close()
        _held.discard(self)


_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    # A forked child shares the lock; were it to outlive a killed parent, the folder would stay locked.
    for lock in list(_held):
        lock.release(in_child=True)


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_in_child)


def _lock_or_refuse(fd: int, directory: Directory) -> bool:
    """Lock `fd`, the folder's or the lock file's; False where the file system cannot. `is_being_written` shares the
    lock for an instant: that is waited for. A writer's lock is refused at once."""
    deadline_s = time.monotonic() + _PROBES_END_WITHIN_S
    while True:
        try:
            _lock_exclusively(fd)
        except OSError as error:
            if error.errno not in _HELD_ELSEWHERE:
                return False
            if _is_locked(fd) or time.monotonic() > deadline_s:
                why = f"Run folder {directory.path} is being written by {_holder(directory)}"
                raise RunLocked(f"{why}; wait for it to end, or end it, and try again.") from error
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
    """Whether another process holds `fd` for writing; None where the file system cannot tell. No system tells who
    holds a lock, so a shared one is taken and given back at once: it keeps out neither readers nor who asks the
    same."""
    try:
        if sys.platform == "win32":
            # There is no shared lock here: a writer that comes in this instant is refused and has to try again.
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
    """Whether a live process holds run folder `path` for writing. What a killed one has left does not count."""
    try:
        with closing(Directory(path)) as directory:
            folder_locked = None if directory.fd is None else _is_locked(directory.fd)
            if folder_locked:
                return True
            try:
                fd = directory.open(LOCK, os.O_RDONLY)
            except FileNotFoundError:
                return False
            try:
                file_locked = _is_locked(fd)
            finally:
                os.close(fd)
            if folder_locked is None and file_locked is None:
                return _holder_lives(directory)
            return bool(file_locked)
    except (OSError, RunFolderError):
        return False


def _holder_lives(directory: Directory) -> bool:
    """Where nothing can be locked: whether the process that the lock file names is alive on this machine."""
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
            return msgspec.json.decode(file.read(_HOLDER_BYTES), type=LockHolder)
    except (OSError, RunFolderError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _holder(directory: Directory) -> str:
    holder = _read_holder(directory)
    if holder is None:
        return "another process"
    hostname = " ".join(holder.hostname.split())[:_MAX_HOSTNAME_CHARS]
    return f"process {holder.pid} on {hostname}"


def missing_folders(runs_dir: Path) -> list[Path]:
    """The folders on the way there, its own first, that making it would make."""
    return [path for path in (runs_dir, *runs_dir.parents) if not os.access(path, os.F_OK)]


class RunFolder(AbstractContextManager["RunFolder"]):
    """The only writer of one run folder, from `create` or `open_existing` to `close`. `warnings` holds sentences for
    the user about what was found on opening, `n_events_lost` counts the events that the disk refused. Reading needs
    none of this. Where `wants_more` is false, calls in flight are recorded, and no other."""

    wants_more = True

    def __init__(self, path: Path) -> None:
        directory = Directory(path)
        try:
            self._lock = RunLock(directory)
        except BaseException:
            directory.close()
            raise
        self.path, self.run_id, self._directory = path, path.resolve().name, directory
        self.warnings: list[str] = [] if self._lock.warning is None else [self._lock.warning]
        self.n_events_lost = 0
        self._results = Appender(directory, disk.RESULTS)
        # Made with the first event, which may come from any thread.
        self._events_fd: int | None = None
        self._one_event = threading.Lock()
        atexit.register(self.close)
        try:
            for name, found in directory.entries().items():
                if disk.LEFTOVER.fullmatch(name) and stat.S_ISREG(found.st_mode):
                    directory.unlink(name)
        except OSError:
            self.close()
            raise

    @classmethod
    def create(
        cls, runs_dir: Path, run_id: str | None = None, *, now: datetime | None = None
    ) -> Self:
        """Make the folder of a new run, named `run_id` or after the local time `now`."""
        if run_id is not None:
            check_run_id(run_id)
        dated = (datetime.now() if now is None else now.astimezone()).strftime("%Y%m%d_%H%M%S")
        try:
            runs_dir.mkdir(parents=True, exist_ok=True)
            for name in (
                [run_id] if run_id else chain([dated], (f"{dated}_{number}" for number in count(2)))
            ):
                path = runs_dir / name
                try:
                    path.mkdir()
                    break
                except FileExistsError:
                    # A run killed before it wrote anything must not use its id up: nothing is there to resume.
                    if run_id is not None and (path.is_symlink() or not disk.is_barren(path)):
                        raise _taken(path) from None
            try:
                folder = cls(path)
                try:
                    # Looked at again under the lock: another process may have begun the same run meanwhile.
                    if not disk.is_barren(path):
                        raise _taken(path)
                    os.close(folder._directory.open(disk.RESULTS, disk.APPEND))
                    folder._directory.sync()
                    with closing(Directory(runs_dir)) as above:
                        above.sync()
                except (OSError, RunFolderError):
                    folder.close()
                    raise
            except OSError:
                # An empty folder left behind would refuse the same run id the next time.
                with suppress(OSError):
                    path.rmdir()
                raise
        except OSError as error:
            raise disk.folder_failure(runs_dir, error) from error
        return folder

    @classmethod
    def check_creatable(cls, runs_dir: Path, run_id: str | None = None) -> None:
        """Raise what `create` would raise, and leave nothing behind."""
        if run_id is not None:
            check_run_id(run_id)
        missing = missing_folders(runs_dir)
        try:
            runs_dir.mkdir(parents=True, exist_ok=True)
            if (
                run_id is not None
                and (runs_dir / run_id).exists()
                and not disk.is_barren(runs_dir / run_id)
            ):
                raise _taken(runs_dir / run_id)
            Path(mkdtemp(prefix=".", dir=runs_dir)).rmdir()
        except OSError as error:
            raise disk.folder_failure(runs_dir, error) from error
        finally:
            for path in missing:
                with suppress(OSError):  # one that was never made, or that another run has begun in
                    path.rmdir()

    @classmethod
    def open_existing(cls, path: Path) -> Self:
        """Take the lock of an existing run folder and repair what a crash left in it."""
        if not is_run_folder(path):
            raise RunFolderError(f"There is no run folder {path}; check the run id and --runs-dir.")
        try:
            folder = cls(path)
            try:
                torn_bytes = mend_tail(folder._directory, disk.RESULTS, disk.TORN)
                mend_tail(folder._directory, disk.EVENTS)
            except (OSError, RunFolderError):
                folder.close()
                raise
        except OSError as error:
            raise disk.folder_failure(path, error) from error
        if torn_bytes:
            what = f"The last line of {disk.RESULTS} was cut short; its {torn_bytes} bytes are now in {disk.TORN}"
            folder.warnings.append(f"{what}, and its prompt counts as not asked.")
        return folder

    async def append(self, result: Result) -> None:
        """Record one result; returns once its line is on disk. Lines come in the order of the calls."""
        await self._results.append(
            clean(encode_line(result), KEY_WITHHELD), is_call=result.was_asked
        )

    def count_lost_calls(self) -> int:
        """Of how many calls the result was handed over and is not on disk; waits for what is being written."""
        self._results.flush()
        return self._results.n_calls_lost

    def event(self, event: Event) -> None:
        """Record an event whole or not at all, from any thread. A disk that refuses it does not end the run."""
        if not self._lock.is_held:
            raise RunFolderError(NOT_OPEN.format(self.path / disk.EVENTS))
        line = clean(encode_line(event))
        with self._one_event:
            size = None
            try:
                if self._events_fd is None:
                    self._events_fd = self._directory.open(disk.EVENTS, disk.APPEND)
                size = os.fstat(self._events_fd).st_size
                disk.write_all(self._events_fd, line)
            except (OSError, RunFolderError):
                self.n_events_lost += 1
                if self._events_fd is not None and size is not None:
                    with suppress(OSError):
                        os.ftruncate(self._events_fd, size)

    def has(self, name: str) -> bool:
        found = self._directory.entries().get(name)
        return found is not None and stat.S_ISREG(found.st_mode)

    def write(self, name: str, document: Any) -> None:
        """Write a whole file, a text as it is, all else as JSON: the old one or the new one is there at any moment."""
        if not self._lock.is_held:
            raise RunFolderError(NOT_OPEN.format(self.path / name))
        if isinstance(document, RunConfig):
            contexts, prompts = share_contexts(document.prompts)
            document = msgspec.structs.replace(document, contexts=contexts, prompts=prompts)
        data = (
            well_formed(document).encode()
            if isinstance(document, str)
            else encode_document(document)
        )
        if isinstance(document, RunConfig):
            _refuse_unreadable(data)
        try:
            with self._directory.staged(name) as file:
                file.write(clean(data))
        except OSError as error:
            raise self._failure(name, error) from error

    def supersede(self, keys: set[CellKey]) -> int:
        """Move the lines of these cells to superseded.jsonl, so that they can be filled again; returns how many. Killed
        between the two steps, the cell is still in results.jsonl and is moved again the next time: a line may stand
        twice in superseded.jsonl, never twice in results.jsonl and never in neither."""
        decode = line_decoder(CellRow)

        def is_superseded(line: bytes) -> bool:
            record = decode(line)
            return record is not None and cell_key(record) in keys

        with self._results.rest():
            moved, lines = 0, filter(is_superseded, self._result_lines())
            try:
                if (first := next(lines, None)) is None:
                    return 0
                # A crash here once before may have torn the last line; the original is still in results.jsonl.
                mend_tail(self._directory, disk.SUPERSEDED)
                with os.fdopen(self._directory.open(disk.SUPERSEDED, disk.APPEND), "ab") as aside:
                    for line in chain([first], lines):
                        aside.write(line)
                        moved += 1
                    aside.flush()
                    os.fsync(aside.fileno())
                self._directory.sync()
            except OSError as error:
                raise disk.disk_failure(self.path / disk.SUPERSEDED, error) from error
            try:
                with self._directory.staged(disk.RESULTS) as file:
                    file.writelines(
                        line for line in self._result_lines() if not is_superseded(line)
                    )
            except OSError as error:
                raise self._failure(disk.RESULTS, error) from error
            return moved

    def rewrite_results(
        self, change: Callable[[Result], Result], approve: Callable[[], None] = lambda: None
    ) -> int:
        """Put `change` of every record in its place, all at one stroke; returns how many records there were. Other
        lines stay as they are, and so does one with a field that does not fit its type: written anew, it would lose
        what it says there. `approve` is called before the old file is given up, and may raise to keep it."""
        if RunReader(self.path, Result).first_harness:
            raise RunFolderError(
                f"{self.path} was made by the first harness and is only read; run its suite again."
            )
        decode = line_decoder(Result, fitting=True)
        written = 0
        try:
            with self._results.rest(), self._directory.staged(disk.RESULTS) as file:
                for line in self._result_lines():
                    result = decode(line)
                    file.write(line if result is None else encode_line(change(result)))
                    written += result is not None
                approve()
        except OSError as error:
            raise self._failure(disk.RESULTS, error) from error
        return written

    def close(self) -> None:
        """Write what is waiting, end the writer thread, release the lock. Harmless when repeated, or in a fork."""
        if self._lock.is_held:
            self._results.close()
            with self._one_event:
                if self._events_fd is not None:
                    with suppress(OSError):
                        disk.sync_data(self._events_fd)
                    os.close(self._events_fd)
                    self._events_fd = None
            self._lock.release()
        atexit.unregister(self.close)

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _failure(self, name: str, error: OSError) -> DiskFailure:
        self._directory.require_present()
        return disk.disk_failure(self.path / name, error)

    def _result_lines(self) -> Iterator[bytes]:
        with os.fdopen(
            self._directory.open(disk.RESULTS, os.O_RDONLY), "rb", disk.READ_BUFFER_BYTES
        ) as file:
            yield from disk.read_lines(file)


def _refuse_unreadable(config: bytes) -> None:
    """What could not be read back must not be begun."""
    excess = find_excess(config, VALUE_LIMITS)
    if len(config) > disk.CAP_BYTES[disk.CONFIG]:
        excess = f"more than {disk.CAP_BYTES[disk.CONFIG] >> 20} MiB"
    if excess is not None:
        raise SuiteError(
            f"the prompts of this run hold {excess} together: choose fewer suites, and run several times"
        )


def _taken(path: Path) -> RunFolderError:
    way_out = f"use --resume {path.name}, or choose another --run-id."
    return RunFolderError(f"Run {path.name!r} exists already in {path.parent}; {way_out}")
