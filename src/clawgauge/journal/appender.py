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

# As much as one write takes at most, but for its last line.
_BATCH_BYTES = 1 << 20
_GATHER_S = 0.004
_WOKEN_PER_TURN = 16
NOT_OPEN = "{} is not open for writing here; open its run folder again."
_STOPPED = (
    "The thread that writes results stopped unforeseen; what was recorded stands: "
    "go on with --resume."
)


class Pending(NamedTuple):
    """A line on its way to the disk, who waits for it, and whether it is the record of a call."""

    line: bytes
    waiter: asyncio.Future[None]
    is_call: bool


class Appender:
    """Appends lines to the file `name` of a run folder, in the order they are handed over.

    A thread of its own writes them. It starts with the first line; `rest` and `close` end it. It
    is a daemon, so that a program that forgets to close cannot hang: the owner of the appender
    closes it at exit.

    `n_calls_lost` counts the calls whose line was handed over and did not get to the disk; it is
    final once the thread has ended.
    """

    def __init__(self, directory: Directory, name: str) -> None:
        self._directory = directory
        self._path = directory.path / name
        self._lock = threading.Lock()
        # A forked child has the object, and not the thread.
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None
        # The first failure. After it nothing more is written.
        self._failure: str | None = None
        self._is_closed = False
        # Whether the thread was told to end, and an interrupt cut the waiting for it short.
        self._is_stopping = False
        self.n_calls_lost = 0

    async def append(self, line: bytes, *, is_call: bool = True) -> None:
        """Return once `line` is on disk.

        Raises `DiskFailure` where it cannot be, and `RunFolderError` after `close`. Where the
        caller is cancelled, the line is still written.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._require_open()
            if self._is_stopping:
                self._stop()
            if self._thread is None:
                try:
                    self._start()
                except DiskFailure:
                    self.n_calls_lost += is_call
                    raise
            self._queue.put(Pending(line, waiter, is_call))
        await waiter

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Let all lines get to the disk, close the file, and take no line until the block ends.

        Meanwhile the file may be replaced.
        """
        with self._lock:
            self._require_open()
            self._stop()
            yield

    def flush(self) -> None:
        """Wait until every line that was handed over is on disk, or is known not to get there."""
        if os.getpid() == self._pid:
            with self._lock:
                self._stop()

    def close(self) -> None:
        """Write what is waiting, end the thread, and take nothing more.

        Harmless when repeated, or in a forked child.
        """
        if os.getpid() == self._pid:
            with self._lock:
                self._stop()
                self._is_closed = True

    def _require_open(self) -> None:
        if self._is_closed or os.getpid() != self._pid:
            raise RunFolderError(NOT_OPEN.format(self._path))

    def _start(self) -> None:
        """Open the file, and start the thread. Raises `DiskFailure`."""
        if self._failure is not None:
            raise DiskFailure(self._failure)
        try:
            self._fd = self._directory.open(self._path.name, APPEND)
            self._size = os.fstat(self._fd).st_size
        except OSError as error:
            self._directory.require_present()
            raise disk_failure(self._path, error) from error
        except RunFolderError as error:
            # Put there while the run was under way: the request was right, and something was sent.
            raise DiskFailure(str(error)) from error
        # A None in it ends the thread.
        self._queue: SimpleQueue[Pending | None] = SimpleQueue()
        # The queue is the thread's own: an interrupt while it is joined makes Python take it for
        # ended, and another one may be started beside it.
        thread = threading.Thread(
            target=self._write_queue,
            args=(self._queue,),
            name=f"journal {self._path.name}",
            daemon=True,
        )
        thread.start()
        self._thread = thread

    def _stop(self) -> None:
        """Write what is queued, then end the thread.

        May be called again after an interrupt cut the waiting short.
        """
        if self._thread is not None:
            self._is_stopping = True
            self._queue.put(None)
            self._thread.join()
            self._thread = None
            self._is_stopping = False

    def _write_queue(self, queue: SimpleQueue[Pending | None]) -> None:
        """What the thread does: whatever waits, up to a bound, goes to the disk at once."""
        is_ending = False
        is_crowded = False
        try:
            while not is_ending:
                batch, is_ending = self._take_batch(queue, is_crowded)
                is_crowded = len(batch) > 1
                if batch:
                    self._commit(batch)
        finally:
            os.close(self._fd)
            # Nobody is left waiting should an unforeseen error end the thread. After a normal end
            # nobody is.
            while not is_ending and not queue.empty():
                pending = queue.get()
                if pending is not None:
                    self._lose([pending], _STOPPED)

    def _take_batch(
        self, queue: SimpleQueue[Pending | None], is_crowded: bool
    ) -> tuple[list[Pending], bool]:
        """Wait for a line, and take those that are queued behind it.

        Returns them, and whether the thread is to end after them.
        """
        batch: list[Pending] = []
        n_bytes = 0
        pending = queue.get()
        if is_crowded and pending is not None:
            # Where several calls are under way the next line is near. Waiting for it costs none of
            # them its time, and a thread that wakes for every line fights the loop for the
            # interpreter.
            time.sleep(_GATHER_S)
        while pending is not None:
            batch.append(pending)
            n_bytes += len(pending.line)
            # Nobody else takes from this queue: what is in it now is there for the next line.
            if n_bytes >= _BATCH_BYTES or queue.empty():
                return batch, False
            pending = queue.get()
        return batch, True

    def _commit(self, batch: Sequence[Pending]) -> None:
        """Put the lines of a batch on disk, and wake whoever waits for them."""
        n_stored = 0
        try:
            if self._failure is None:
                data = b"".join(pending.line for pending in batch)
                n_bytes_stored = self._store(data)
                n_stored = data.count(b"\n", 0, n_bytes_stored)
        finally:
            acknowledge(batch[:n_stored], None)
            not_stored = batch[n_stored:]
            if not_stored:
                self._lose(not_stored, _STOPPED)

    def _lose(self, batch: Sequence[Pending], reason: str) -> None:
        """Raise `DiskFailure` where the lines of `batch` are waited for.

        It says how writing failed first, and `reason` where nothing failed before.
        """
        for pending in batch:
            self.n_calls_lost += pending.is_call
        acknowledge(batch, self._fail(reason))

    def _store(self, data: bytes) -> int:
        """Put `data` on disk. Returns how many of its bytes are there for good: whole lines."""
        n_kept = len(data)
        try:
            write_all(self._fd, data)
        except OSError as error:
            self._fail(str(disk_failure(self._path, error)))
            # What fitted before the disk was full are answers that somebody waited, and perhaps
            # paid, for.
            n_written = max(0, os.fstat(self._fd).st_size - self._size)
            n_kept = data.rfind(b"\n", 0, n_written) + 1
        try:
            sync_data(self._fd)
        except OSError as error:
            # After a failed sync nobody knows what the disk has, and asking again may wrongly say
            # that all is well.
            self._fail(str(disk_failure(self._path, error)))
            n_kept = 0
        if n_kept < len(data):
            # Where even this fails, the next writer of the run finds the torn line and puts it
            # aside.
            with suppress(OSError):
                os.ftruncate(self._fd, self._size + n_kept)
        try:
            # Asked after the write: whatever went into a file that nobody finds any more was not
            # recorded.
            self._directory.require_present(self._path.name, self._fd)
        except DiskFailure as failure:
            self._fail(str(failure))
            n_kept = 0
        self._size += n_kept
        return n_kept

    def _fail(self, reason: str) -> str:
        """Note a failure. Returns the first one there was: it is what is reported from then on."""
        if not self._failure:
            self._failure = reason
        return self._failure


def acknowledge(batch: Sequence[Pending], failure: str | None) -> None:
    """Wake everyone in `batch`: one call into each event loop, however many wait there.

    With a `failure` they get a `DiskFailure` of it.
    """
    waiters_by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for pending in batch:
        waiters_by_loop.setdefault(pending.waiter.get_loop(), []).append(pending.waiter)
    for loop, waiters in waiters_by_loop.items():
        # In a closed loop nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_wake, loop, waiters, failure)


def _wake(
    loop: asyncio.AbstractEventLoop, waiters: Sequence[asyncio.Future[None]], failure: str | None
) -> None:
    """Wake a few, then let the loop look at its sockets.

    Whoever is woken starts the next call, which takes a while.
    """
    for waiter in waiters[:_WOKEN_PER_TURN]:
        if waiter.done():
            continue
        if failure is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(DiskFailure(failure))
    others = waiters[_WOKEN_PER_TURN:]
    if others:
        loop.call_soon(_wake, loop, others, failure)
