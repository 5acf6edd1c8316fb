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


class WriterThread(threading.Thread):
    """Takes lines from its queue and puts them on disk in that order; a None in the queue ends it.

    A daemon, so that a program that forgets to close cannot hang; the owner of the appender closes it at exit.
    """

    def __init__(self, directory: Directory, name: str) -> None:
        super().__init__(name=f"journal {name}", daemon=True)
        self.queue: SimpleQueue[Pending | None] = SimpleQueue()
        self.failure: str | None = None
        self.told_to_end = False
        self._directory = directory
        self._path = directory.path / name
        self._ending = False
        self._crowded = False
        self._fd = directory.open(name, APPEND)
        self._size = os.fstat(self._fd).st_size

    def run(self) -> None:
        try:
            while batch := self._next_batch():
                self._commit(batch)
        finally:
            os.close(self._fd)
            # Nobody is left waiting should an unforeseen error end the thread; after a normal end nobody is.
            while not self._ending and not self.queue.empty():
                if (pending := self.queue.get()) is not None:
                    acknowledge([pending], self._fail(_STOPPED))

    def finish(self) -> None:
        """Write what is queued, then end. May be called again after an interrupt cut the waiting short."""
        self.told_to_end = True
        self.queue.put(None)
        self.join()

    def _next_batch(self) -> list[Pending]:
        """All that waits, up to a bound; empty when the thread is to end."""
        batch: list[Pending] = []
        n_bytes = 0
        item = None if self._ending else self.queue.get()
        if self._crowded and item is not None:
            # Where several calls are under way the next line is near. Waiting for it costs none of them its time, and
            # a thread that wakes for every line fights the loop for the interpreter.
            time.sleep(_GATHER_S)
        while item is not None:
            batch.append(item)
            n_bytes += len(item[0])
            # Nobody else takes from this queue: what is in it now is there for the next line.
            if n_bytes >= _BATCH_BYTES or self.queue.empty():
                break
            item = self.queue.get()
        self._ending = item is None
        self._crowded = len(batch) > 1
        return batch

    def _commit(self, batch: Sequence[Pending]) -> None:
        n_stored = 0
        try:
            if self.failure is None:
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
        """The first failure is the one that is told from then on."""
        self.failure = self.failure or str(why)
        return self.failure

    def _cut_back(self, kept: int) -> None:
        # Where even this fails, the next writer of the run finds the torn line and puts it aside.
        with suppress(OSError):
            os.ftruncate(self._fd, self._size + kept)


class Appender:
    """Appends lines to `name` in a run folder. The thread starts with the first line; `rest` and `close` end it."""

    def __init__(self, directory: Directory, name: str) -> None:
        self._directory = directory
        self._path = directory.path / name
        self._lock = threading.Lock()
        self._writer: WriterThread | None = None
        self._failure: str | None = None
        self._closed = False
        self._pid = os.getpid()

    async def append(self, line: bytes) -> None:
        """Return once `line` is on disk; raise `DiskFailure` if it cannot be. Cancelled, the line is still written."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._closed or os.getpid() != self._pid:
                raise RunFolderError(NOT_OPEN.format(self._path))
            if self._writer is not None and self._writer.told_to_end:
                self._stop()
            if self._writer is None:
                if self._failure is not None:
                    raise DiskFailure(self._failure)
                try:
                    writer = WriterThread(self._directory, self._path.name)
                except OSError as error:
                    self._directory.require_present()
                    raise disk_failure(self._path, error) from error
                except RunFolderError as error:
                    # Put there while the run was under way: by now the request was not wrong, and something was sent.
                    raise DiskFailure(str(error)) from error
                writer.start()
                self._writer = writer
            self._writer.queue.put((line, waiter))
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
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._stop()
            self._closed = True

    def _stop(self) -> None:
        if self._writer is not None:
            self._writer.finish()
            self._failure = self._writer.failure
            self._writer = None


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
