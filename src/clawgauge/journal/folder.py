"""A run folder open for writing: made or taken over under its lock, repaired, revised, closed."""

from __future__ import annotations

import atexit
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, BinaryIO, Self

import msgspec

from clawgauge.characters import well_formed
from clawgauge.errors import DiskFailure, RunFolderError, SuiteError
from clawgauge.journal import disk
from clawgauge.journal.appender import NOT_OPEN, Appender
from clawgauge.journal.disk import Directory
from clawgauge.journal.lines import (
    KEY_WITHHELD,
    clean,
    decode_line,
    encode_document,
    encode_line,
)
from clawgauge.journal.locate import is_run_folder
from clawgauge.journal.lock import RunLock
from clawgauge.journal.names import check_run_id
from clawgauge.journal.reader import CellKey, RunReader, cell_key, line_decoder
from clawgauge.json_limits import VALUE_LIMITS, find_excess
from clawgauge.records import CellRow, DrawnPrompt, Event, Result, RunConfig, share_contexts

_SCAN_BYTES = 1 << 16
# One write of many lines, the last of them as long as a line can be.
_TORN_CAP_BYTES = 2 * disk.LINE_CAP_BYTES


def mend_tail(directory: Directory, name: str, torn: str | None = None) -> int:
    """Make file `name` end with a whole line. Returns how many bytes that cost.

    A last line that lacks only its newline is a whole record and gets one. Anything else is cut
    off, and appended to the file `torn` first where that is given. A crash in between leaves the
    bytes in both places, never in none.
    """
    try:
        fd = directory.open(name, os.O_RDWR)
    except FileNotFoundError:
        return 0
    with os.fdopen(fd, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        start = _find_last_line(file, size)
        n_tail_bytes = size - start
        if n_tail_bytes == 0:
            return 0
        if n_tail_bytes > _TORN_CAP_BYTES:
            raise RunFolderError(
                f"{directory.path / name} ends in over {_TORN_CAP_BYTES:,} bytes without a line "
                f"end, which no crash of a run leaves; restore it from a copy, or cut them off."
            )
        file.seek(start)
        tail = file.read(n_tail_bytes)
        # An object closes itself: no prefix of one is one, so what parses was written to its end.
        is_whole = len(tail) <= disk.LINE_CAP_BYTES and decode_line(tail) is not None
        if is_whole:
            file.write(b"\n")
        else:
            if torn is not None:
                _set_torn_line_aside(directory, torn, tail)
            file.truncate(start)
        file.flush()
        os.fsync(file.fileno())
    return 0 if is_whole else n_tail_bytes


def _find_last_line(file: BinaryIO, size: int) -> int:
    """Where what follows the last newline of a file begins.

    Where there is no newline in as much as may be torn, that is somewhere before it.
    """
    start = size
    while start > 0 and size - start <= _TORN_CAP_BYTES:
        end = start
        start = max(0, end - _SCAN_BYTES)
        file.seek(start)
        last_newline = file.read(end - start).rfind(b"\n")
        if last_newline >= 0:
            return start + last_newline + 1
    return start


def _set_torn_line_aside(directory: Directory, name: str, tail: bytes) -> None:
    with os.fdopen(directory.open(name, disk.APPEND), "ab") as aside:
        if aside.tell():
            tail = b"\n" + tail
        aside.write(tail)
        aside.flush()
        os.fsync(aside.fileno())
    directory.sync()


def missing_folders(runs_dir: Path) -> list[Path]:
    """The folders that making `runs_dir` would make, its own first."""
    return [path for path in (runs_dir, *runs_dir.parents) if not os.access(path, os.F_OK)]


class RunFolder(AbstractContextManager["RunFolder"]):
    """The only writer of one run folder, from `create` or `open_existing` to `close`.

    Reading needs none of this.

    `warnings` holds sentences for the user about what was found on opening. `n_events_lost` counts
    the events that the disk refused. Where `wants_more` is false, calls in flight are recorded,
    and no other call is made.
    """

    wants_more = True

    def __init__(self, path: Path) -> None:
        directory = Directory(path)
        try:
            self._lock = RunLock(directory)
        except BaseException:
            directory.close()
            raise
        self.path = path
        self.run_id = path.resolve().name
        self.warnings: list[str] = []
        if self._lock.warning is not None:
            self.warnings.append(self._lock.warning)
        self.n_events_lost = 0
        self._directory = directory
        self._results = Appender(directory, disk.RESULTS)
        # Made with the first event, which may come from any thread.
        self._events_fd: int | None = None
        self._one_event = threading.Lock()
        atexit.register(self.close)
        try:
            self._remove_leftovers()
        except OSError:
            self.close()
            raise

    def _remove_leftovers(self) -> None:
        """Remove the staged files of a process that was killed."""
        for name, status in self._directory.entries().items():
            if disk.LEFTOVER.fullmatch(name) and stat.S_ISREG(status.st_mode):
                self._directory.unlink(name)

    @classmethod
    def create(
        cls, runs_dir: Path, run_id: str | None = None, *, now: datetime | None = None
    ) -> Self:
        """Make the folder of a new run, named `run_id` or after the local time `now`.

        Raises `RunFolderError` where it cannot be made, or the run exists already.
        """
        if run_id is not None:
            check_run_id(run_id)
        local_time = datetime.now() if now is None else now.astimezone()
        try:
            runs_dir.mkdir(parents=True, exist_ok=True)
            if run_id is not None:
                path = runs_dir / run_id
                _make_folder(path)
            else:
                path = _make_dated_folder(runs_dir, local_time)
            return cls._begin(path)
        except OSError as error:
            raise disk.folder_failure(runs_dir, error) from error

    @classmethod
    def _begin(cls, path: Path) -> Self:
        """Open the folder of a new run, and make sure that it lasts."""
        try:
            folder = cls(path)
            try:
                # Asked again under the lock: another process may have begun the same run meanwhile.
                if not disk.is_barren(path):
                    raise _taken(path)
                os.close(folder._directory.open(disk.RESULTS, disk.APPEND))
                folder._directory.sync()
                with closing(Directory(path.parent)) as runs_directory:
                    runs_directory.sync()
            except (OSError, RunFolderError):
                folder.close()
                raise
        except OSError:
            # An empty folder left behind would refuse the same run id the next time.
            with suppress(OSError):
                path.rmdir()
            raise
        return folder

    @classmethod
    def check_creatable(cls, runs_dir: Path, run_id: str | None = None) -> None:
        """Raise what `create` would raise, and leave nothing behind."""
        if run_id is not None:
            check_run_id(run_id)
        missing = missing_folders(runs_dir)
        try:
            runs_dir.mkdir(parents=True, exist_ok=True)
            if run_id is not None:
                path = runs_dir / run_id
                if path.exists() and not disk.is_barren(path):
                    raise _taken(path)
            Path(mkdtemp(prefix=".", dir=runs_dir)).rmdir()
        except OSError as error:
            raise disk.folder_failure(runs_dir, error) from error
        finally:
            for path in missing:
                with suppress(OSError):  # one never made, or one that another run has begun in
                    path.rmdir()

    @classmethod
    def open_existing(cls, path: Path) -> Self:
        """Take the lock of an existing run folder and repair what a crash left in it."""
        if not is_run_folder(path):
            raise RunFolderError(f"There is no run folder {path}; check the run id and --runs-dir.")
        try:
            folder = cls(path)
            try:
                n_torn_bytes = mend_tail(folder._directory, disk.RESULTS, disk.TORN)
                mend_tail(folder._directory, disk.EVENTS)
                mend_tail(folder._directory, disk.DRAWN_PROMPTS)
            except (OSError, RunFolderError):
                folder.close()
                raise
        except OSError as error:
            raise disk.folder_failure(path, error) from error
        if n_torn_bytes:
            folder.warnings.append(
                f"The last line of {disk.RESULTS} was cut short; its {n_torn_bytes} bytes are now "
                f"in {disk.TORN}, and its prompt counts as not asked."
            )
        return folder

    async def append(self, result: Result) -> None:
        """Record one result. Returns once its line is on disk.

        Lines come in the order of the calls. Raises `DiskFailure` where the disk does not take it.
        """
        line = clean(encode_line(result), KEY_WITHHELD)
        await self._results.append(line, is_call=result.was_asked)

    def count_lost_calls(self) -> int:
        """Of how many calls the result was handed over and is not on disk.

        Waits for what is being written.
        """
        self._results.flush()
        return self._results.n_calls_lost

    def event(self, event: Event) -> None:
        """Record an event whole or not at all, from any thread.

        A disk that refuses it does not end the run.
        """
        self._require_held(disk.EVENTS)
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

    def add_drawn_prompt(self, drawn: DrawnPrompt) -> None:
        """Write a further drawing of a prompt down, for good, before it is asked.

        Raises `DiskFailure` where the disk does not take it: without it the answer could not be
        judged again.
        """
        self._require_held(disk.DRAWN_PROMPTS)
        try:
            fd = self._directory.open(disk.DRAWN_PROMPTS, disk.APPEND)
            try:
                size = os.fstat(fd).st_size
                try:
                    disk.write_all(fd, clean(encode_line(drawn)))
                    disk.sync_data(fd)
                except OSError:
                    with suppress(OSError):
                        os.ftruncate(fd, size)
                    raise
            finally:
                os.close(fd)
        except OSError as error:
            raise self._write_failure(disk.DRAWN_PROMPTS, error) from error

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        status = self._directory.entries().get(name)
        return status is not None and stat.S_ISREG(status.st_mode)

    def write(self, name: str, document: Any) -> None:
        """Write a whole file: a text as it is, all else as JSON.

        The old file or the new one is there at any moment.
        """
        self._require_held(name)
        if isinstance(document, str):
            data = well_formed(document).encode()
        elif isinstance(document, RunConfig):
            contexts, prompts = share_contexts(document.prompts)
            document = msgspec.structs.replace(document, contexts=contexts, prompts=prompts)
            data = encode_document(document)
            _refuse_unreadable(data)
        else:
            data = encode_document(document)
        try:
            with self._directory.staged(name) as file:
                file.write(clean(data))
        except OSError as error:
            raise self._write_failure(name, error) from error

    def supersede(self, keys: set[CellKey]) -> int:
        """Move the lines of these cells to superseded.jsonl, so that they can be filled again.

        Returns how many lines were moved. Killed between the two steps, the cell is still in
        results.jsonl and is moved again the next time: a line may stand twice in superseded.jsonl,
        never twice in results.jsonl and never in neither.
        """
        decode = line_decoder(CellRow)

        def is_superseded(line: bytes) -> bool:
            row = decode(line)
            return row is not None and cell_key(row) in keys

        with self._results.rest():
            lines = filter(is_superseded, self._read_result_lines())
            try:
                first_line = next(lines, None)
                if first_line is None:
                    return 0
                n_moved = self._append_superseded(chain([first_line], lines))
            except OSError as error:
                raise disk.disk_failure(self.path / disk.SUPERSEDED, error) from error
            try:
                with self._directory.staged(disk.RESULTS) as file:
                    for line in self._read_result_lines():
                        if not is_superseded(line):
                            file.write(line)
            except OSError as error:
                raise self._write_failure(disk.RESULTS, error) from error
            return n_moved

    def _append_superseded(self, lines: Iterable[bytes]) -> int:
        """Append lines to superseded.jsonl, for good. Returns how many."""
        n_lines = 0
        # A crash here once before may have torn the last line; the original is still in
        # results.jsonl.
        mend_tail(self._directory, disk.SUPERSEDED)
        with os.fdopen(self._directory.open(disk.SUPERSEDED, disk.APPEND), "ab") as aside:
            for line in lines:
                aside.write(line)
                n_lines += 1
            aside.flush()
            os.fsync(aside.fileno())
        self._directory.sync()
        return n_lines

    def rewrite_results(
        self, change: Callable[[Result], Result], approve: Callable[[], None] | None = None
    ) -> int:
        """Put `change` of every record in its place, all at one stroke.

        Returns how many records there were. Other lines stay as they are, and so does one with a
        field that does not fit its type: written anew, it would lose what it says there. `approve`
        is called before the old file is given up, and may raise to keep it.
        """
        if RunReader(self.path, Result).first_harness:
            raise RunFolderError(
                f"{self.path} was made by the first harness and is only read; run its suite again."
            )
        decode = line_decoder(Result, fitting=True)
        n_rewritten = 0
        try:
            with self._results.rest(), self._directory.staged(disk.RESULTS) as file:
                for line in self._read_result_lines():
                    result = decode(line)
                    if result is None:
                        file.write(line)
                        continue
                    file.write(encode_line(change(result)))
                    n_rewritten += 1
                if approve is not None:
                    approve()
        except OSError as error:
            raise self._write_failure(disk.RESULTS, error) from error
        return n_rewritten

    def close(self) -> None:
        """Write what is waiting, end the writer thread, release the lock.

        Harmless when repeated, or in a forked child.
        """
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

    def _require_held(self, name: str) -> None:
        if not self._lock.is_held:
            raise RunFolderError(NOT_OPEN.format(self.path / name))

    def _write_failure(self, name: str, error: OSError) -> DiskFailure:
        self._directory.require_present()
        return disk.disk_failure(self.path / name, error)

    def _read_result_lines(self) -> Iterator[bytes]:
        fd = self._directory.open(disk.RESULTS, os.O_RDONLY)
        with os.fdopen(fd, "rb", disk.READ_BUFFER_BYTES) as file:
            yield from disk.read_lines(file)


def _make_folder(path: Path) -> None:
    """Make the folder of a run that has a name. Raises `RunFolderError` where the run exists."""
    try:
        path.mkdir()
    except FileExistsError:
        # A run killed before it wrote anything must not use its id up: nothing is there to resume.
        if path.is_symlink() or not disk.is_barren(path):
            raise _taken(path) from None


def _make_dated_folder(runs_dir: Path, local_time: datetime) -> Path:
    """Make a folder named after the time, with a number behind it where that is taken."""
    name = local_time.strftime("%Y%m%d_%H%M%S")
    for number in count(1):
        path = runs_dir / (name if number == 1 else f"{name}_{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise AssertionError("there is always another number")


def _refuse_unreadable(config: bytes) -> None:
    """Raise `SuiteError` where config.json could not be read back: such a run must not begin."""
    excess = find_excess(config, VALUE_LIMITS)
    cap_bytes = disk.CAP_BYTES[disk.CONFIG]
    if len(config) > cap_bytes:
        excess = f"more than {cap_bytes >> 20} MiB"
    if excess is not None:
        raise SuiteError(
            f"the prompts of this run hold {excess} together: "
            f"choose fewer suites, and run several times"
        )


def _taken(path: Path) -> RunFolderError:
    return RunFolderError(
        f"Run {path.name!r} exists already in {path.parent}; "
        f"use --resume {path.name}, or choose another --run-id."
    )
