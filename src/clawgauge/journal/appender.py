"""Result lines appended for good, without ever making the event loop wait for the disk."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import NamedTuple

from clawgauge.errors import DiskFailure, RunFolderError
from clawgauge.journal.disk import APPEND, Directory, disk_failure, sync_data, write_all

_BATCH_BYTES = 1 << 20
_GATHER_S, _WOKEN_PER_TURN = 0.004, 16
NOT_OPEN = "{} is not open for writing here; open its run folder again."
_STOPPED = "The thread that writes results stopped unforeseen; what was recorded stands: go on with --resume."


class Pending(NamedTuple):
    """A line on its way to the disk, whoever waits for it, and whether it holds what a call brought."""

    line: bytes
    waiter: asyncio.Future[None]
    is_call: bool


class Appender:
    """Appends lines to `name` in a run folder, in the order they are handed over. A thread of its own writes them. It
    starts with the first line; `rest` and `close` end it. It is a daemon, so that a program that forgets to close
    cannot hang: the owner of the appender closes it at exit. `n_calls_lost` counts the calls whose line was handed over
    and did not get to the disk; it is final once the thread has ended."""

    def __init__(self, directory: Directory, name: str) -> None:
        self._directory, self._path = directory, directory.path / name
        self._lock, self._pid = threading.Lock(), os.getpid()
        self._thread: threading.Thread | None = None
        self._failure: str | None = None
        self._closed = self._told_to_end = False
        self.n_calls_lost = 0

    async def append(self, line: bytes, *, is_call: bool = True) -> None:
        """Return once `line` is on disk; raise `DiskFailure` if it cannot be. Cancelled, the line is still written."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._closed or os.getpid() != self._pid:
                raise RunFolderError(NOT_OPEN.format(self._path))
            if self._told_to_end:
                self._stop()
            if self._thread is None:
                if self._failure is not None:
                    self.n_calls_lost += is_call
                    raise DiskFailure(self._failure)
                try:
                    self._fd = self._directory.open(self._path.name, APPEND)
                    self._size = os.fstat(self._fd).st_size
                except OSError as error:
                    self.n_calls_lost += is_call
                    self._directory.require_present()
                    raise disk_failure(self._path, error) from error
                except RunFolderError as error:
                    self.n_calls_lost += is_call
                    # Put there while the run was under way: by now the request was not wrong, and something was sent.
                    raise DiskFailure(str(error)) from error
                # A None in it ends the thread.
                self._queue: SimpleQueue[Pending | None] = SimpleQueue()
                thread = threading.Thread(target=self._write, name=f"journal {self._path.name}", daemon=True)
                thread.start()
                self._thread = thread
            self._queue.put(Pending(line, waiter, is_call))
        await waiter

    @contextmanager
    def rest(self) -> Iterator[None]:
        """All lines on disk, the file closed, and no line taken until the block ends: the file may be replaced."""
        with self._lock:
            if self._closed or os.getpid() != self._pid:
                raise RunFolderError(NOT_OPEN.format(self._path))
            self._stop()
            yield

    def flush(self) -> None:
        """Wait until every line that was handed over is on disk, or is known not to get there."""
        if os.getpid() == self._pid:
            with self._lock:
                self._stop()

    def close(self) -> None:
        """Write what is waiting, end the thread, take nothing more. Harmless when repeated, or in a forked child."""
        if os.getpid() == self._pid:
            with self._lock:
                self._stop()
                self._closed = True

    def _stop(self) -> None:
        """Write what is queued, then end. May be called again after an interrupt cut the waiting short."""
        if self._thread is not None:
            self._told_to_end = True
            self._queue.put(None)
            self._thread.join()
            self._thread, self._told_to_end = None, False

    def _write(self) -> None:
        """The thread: all that waits, up to a bound, goes to the disk at once."""
        queue, ending, crowded = self._queue, False, False
        try:
            while not ending:
                batch, n_bytes, item = list[Pending](), 0, queue.get()
                if crowded and item is not None:
                    # Where several calls are under way the next line is near. Waiting for it costs none of them its
                    # time, and a thread that wakes for every line fights the loop for the interpreter.
                    time.sleep(_GATHER_S)
                while item is not None:
                    batch.append(item)
                    n_bytes += len(item.line)
                    # Nobody else takes from this queue: what is in it now is there for the next line.
                    if n_bytes >= _BATCH_BYTES or queue.empty():
                        break
                    item = queue.get()
                ending, crowded = item is None, len(batch) > 1
                if batch:
                    self._commit(batch)
        finally:
            os.close(self._fd)
            # Nobody is left waiting should an unforeseen error end the thread; after a normal end nobody is.
            while not ending and not queue.empty():
                if (pending := queue.get()) is not None:
                    self._lose([pending], _STOPPED)

    def _commit(self, batch: Sequence[Pending]) -> None:
        n_stored = 0
        try:
            if self._failure is None:
                data = b"".join(pending.line for pending in batch)
                n_stored = data.count(b"\n", 0, self._store(data))
        finally:
            acknowledge(batch[:n_stored], None)
            if rest := batch[n_stored:]:
                self._lose(rest, _STOPPED)

    def _lose(self, batch: Sequence[Pending], why: str) -> None:
        """Tell everyone in `batch` that their line is not on disk; `why` counts where no failure came before."""
        self.n_calls_lost += sum(pending.is_call for pending in batch)
        acknowledge(batch, self._fail(why))

    def _store(self, data: bytes) -> int:
        """Put `data` on disk. Returns how many of its bytes are there for good: always whole lines."""
        kept = len(data)
        try:
            write_all(self._fd, data)
        except OSError as error:
            self._fail(disk_failure(self._path, error))
            # What fitted before the disk was full are answers somebody waited and perhaps paid for.
            kept = data.rfind(b"\n", 0, max(0, os.fstat(self._fd).st_size - self._size)) + 1
        try:
            sync_data(self._fd)
        except OSError as error:
            # After a failed sync nobody knows what the disk has, and asking again may wrongly say all is well.
            self._fail(disk_failure(self._path, error))
            kept = 0
        if kept < len(data):
            # Where even this fails, the next writer of the run finds the torn line and puts it aside.
            with suppress(OSError):
                os.ftruncate(self._fd, self._size + kept)
        try:
            # Asked after the write: whatever went into a file that nobody finds any more was not recorded.
            self._directory.require_present(self._path.name, self._fd)
        except DiskFailure as gone:
            self._fail(gone)
            kept = 0
        self._size += kept
        return kept

    def _fail(self, why: object) -> str:
        """The first failure is the one that is told from then on."""
        self._failure = self._failure or str(why)
        return self._failure


def acknowledge(batch: Sequence[Pending], failure: str | None) -> None:
    """Wake everyone in `batch`: one call into each event loop, however many wait there."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for pending in batch:
        by_loop.setdefault(pending.waiter.get_loop(), []).append(pending.waiter)
    for loop, waiters in by_loop.items():
        # A closed loop has nobody left to tell.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, loop, waiters, failure)


def _settle(loop: asyncio.AbstractEventLoop, waiters: Sequence[asyncio.Future[None]], failure: str | None) -> None:
    """Wake a few, then let the loop look at its sockets: whoever is woken starts the next call, which takes a while."""
    for waiter in waiters[:_WOKEN_PER_TURN]:
        if not waiter.done():
            waiter.set_result(None) if failure is None else waiter.set_exception(DiskFailure(failure))
    if rest := waiters[_WOKEN_PER_TURN:]:
        loop.call_soon(_settle, loop, rest, failure)
