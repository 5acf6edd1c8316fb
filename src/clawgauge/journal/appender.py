"""Result lines appended for good, without ever making the event loop wait for the disk."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TypeAlias

from clawgauge.errors import DiskFailure, RunFolderError
from clawgauge.journal.disk import APPEND, Directory, disk_failure, sync_data, write_all

_BATCH_BYTES = 1 << 20
_GATHER_S = 0.004
_WOKEN_PER_TURN = 16
NOT_OPEN = "{} is not open for writing here; open its run folder again."
_STOPPED = "The thread that writes results stopped unforeseen; what was recorded stands: go on with --resume."


Pending: TypeAlias = tuple[bytes, asyncio.Future[None]]
"""A line on its way to the disk and whoever waits for it."""


class Appender:
    """Appends lines to `name` in a run folder, in a thread that starts with the first line; `rest` and `close` end it.

    The thread is a daemon, so that a program that forgets to close cannot hang; the owner closes at exit.
    """

    def __init__(self, directory: Directory, name: str) -> None:
        self._directory = directory
        self._path = directory.path / name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._told_to_end = False
        # The first failure: from then on nothing is written, and it is what everyone is told.
        self._failure: str | None = None
        self._closed = False
        self._pid = os.getpid()

    async def append(self, line: bytes) -> None:
        """Return once `line` is on disk; raise `DiskFailure` if it cannot be. Cancelled, the line is still written."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._closed or os.getpid() != self._pid:
                raise RunFolderError(NOT_OPEN.format(self._path))
            if self._told_to_end:
                self._stop()
            if self._failure is not None:
                raise DiskFailure(self._failure)
            if self._thread is None:
                try:
                    self._fd = self._directory.open(self._path.name, APPEND)
                except OSError as error:
                    self._directory.require_present()
                    raise disk_failure(self._path, error) from error
                except RunFolderError as error:
                    # Put there while the run was under way: by now the request was not wrong, and something was sent.
                    raise DiskFailure(str(error)) from error
                self._size = os.fstat(self._fd).st_size
                self._queue: SimpleQueue[Pending | None] = SimpleQueue()
                thread = threading.Thread(target=self._write, name=f"journal {self._path.name}", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    # The system has no thread to give: nobody is there to close the file, or to be waited for.
                    os.close(self._fd)
                    raise
                self._thread = thread
            self._queue.put((line, waiter))
        await waiter

    @contextmanager
    def rest(self) -> Iterator[None]:
        """All lines on disk, the file closed, and no line taken until the block ends: the file may be replaced."""
        with self._lock:
            if self._closed or os.getpid() != self._pid:
                raise RunFolderError(NOT_OPEN.format(self._path))
            self._stop()
            yield

    def close(self) -> None:
        """Write what is waiting, end the thread, take nothing more. Harmless when repeated, or in a forked child."""
        if os.getpid() == self._pid:
            with self._lock:
                self._stop()
                self._closed = True

    def _stop(self) -> None:
        """Let the thread write what is queued, and end. Called again where an interrupt cut the waiting short."""
        if self._thread is not None:
            self._told_to_end = True
            self._queue.put(None)
            self._thread.join()
            self._thread, self._told_to_end = None, False

    def _write(self) -> None:
        """The thread: lines go to the disk in the order of the queue; a None in it is the end."""
        crowded = False
        try:
            item = self._queue.get()
            while item is not None:
                if crowded:
                    # Where several calls are under way the next line is near. Waiting for it costs none of them its
                    # time, and a thread that wakes for every line fights the loop for the interpreter.
                    time.sleep(_GATHER_S)
                batch, n_bytes = [item], len(item[0])
                # Nobody else takes from this queue: what is in it now is there for the next line.
                while n_bytes < _BATCH_BYTES and not self._queue.empty() and (item := self._queue.get()) is not None:
                    batch.append(item)
                    n_bytes += len(item[0])
                crowded = len(batch) > 1
                self._commit(batch)
                item = None if item is None else self._queue.get()
        finally:
            os.close(self._fd)
            # Nobody is left waiting should an unforeseen error end the thread; after a normal end nobody is.
            while not self._queue.empty():
                if (pending := self._queue.get()) is not None:
                    acknowledge([pending], self._fail(_STOPPED))

    def _commit(self, batch: Sequence[Pending]) -> None:
        n_stored = 0
        try:
            if self._failure is None:
                data = b"".join(line for line, _ in batch)
                n_stored = data.count(b"\n", 0, self._store(data))
        finally:
            acknowledge(batch[:n_stored], None)
            if rest := batch[n_stored:]:
                acknowledge(rest, self._fail(_STOPPED))

    def _store(self, data: bytes) -> int:
        """Put `data` on disk. Returns how many of its bytes are there for good: always whole lines."""
        kept = len(data)
        try:
            write_all(self._fd, data)
        except OSError as error:
            self._fail(disk_failure(self._path, error))
            # What fitted before the disk was full are answers somebody waited and perhaps paid for.
            written = max(0, os.fstat(self._fd).st_size - self._size)
            kept = data.rfind(b"\n", 0, written) + 1
            self._cut_back(kept)
        try:
            sync_data(self._fd)
        except OSError as error:
            # After a failed sync nobody knows what the disk has, and asking again may wrongly say all is well.
            self._fail(disk_failure(self._path, error))
            kept = 0
            self._cut_back(kept)
        try:
            # Asked after the write: whatever went into a file that nobody finds any more was not recorded.
            self._directory.require_present(self._path.name, self._fd)
        except DiskFailure as gone:
            self._fail(gone)
            kept = 0
        self._size += kept
        return kept

    def _fail(self, why: object) -> str:
        self._failure = self._failure or str(why)
        return self._failure

    def _cut_back(self, kept: int) -> None:
        # Where even this fails, the next writer of the run finds the torn line and puts it aside.
        with suppress(OSError):
            os.ftruncate(self._fd, self._size + kept)


def acknowledge(batch: Sequence[Pending], failure: str | None) -> None:
    """Wake everyone in `batch`: one call into each event loop, however many wait there."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for _, waiter in batch:
        by_loop.setdefault(waiter.get_loop(), []).append(waiter)
    for loop, waiters in by_loop.items():
        # A closed loop has nobody left to tell.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, loop, waiters, failure)


def _settle(loop: asyncio.AbstractEventLoop, waiters: Sequence[asyncio.Future[None]], failure: str | None) -> None:
    """Wake a few, then let the loop look at its sockets: whoever is woken starts the next call, which takes a while."""
    for waiter in waiters[:_WOKEN_PER_TURN]:
        if waiter.done():
            continue
        if failure is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(DiskFailure(failure))
    if rest := waiters[_WOKEN_PER_TURN:]:
        loop.call_soon(_settle, loop, rest, failure)
