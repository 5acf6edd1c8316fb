"""Result lines appended for good, without ever making the event loop wait for the disk."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from clawgauge.errors import DiskFailure, RunFolderError
from clawgauge.journal.disk import APPEND, Directory, disk_failure, sync_data, write_all

# As much as one write takes at most, but for its last line.
_BATCH_BYTES = 1 << 20
_GATHER_S = 0.004
_POLL_S = 0.01
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


class _Losses:
    """What did not get to the disk: how writing failed first, and how many calls were lost.

    All writers of a file share it. After the first failure nothing more is written.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reason: str | None = None
        self.n_calls = 0

    def fail(self, reason: str) -> str:
        """Note a failure. Returns the first one there was: it is what is reported from then on."""
        with self._lock:
            if self.reason is None:
                self.reason = reason
            return self.reason

    def count_calls(self, n_calls: int) -> None:
        with self._lock:
            self.n_calls += n_calls


class Appender:
    """Appends lines to the file `name` of a run folder, in the order they are handed over.

    A thread of its own writes them. It starts with the first line; `rest` and `close` end it. It
    is a daemon, so that a program that forgets to close cannot hang: the owner of the appender
    closes it at exit.
    """

    def __init__(self, directory: Directory, name: str) -> None:
        self._directory = directory
        self._path = directory.path / name
        self._lock = threading.Lock()
        # A forked child has the object, and not the thread.
        self._pid = os.getpid()
        self._writer: _Writer | None = None
        self._losses = _Losses()
        self._is_closed = False

    @property
    def n_calls_lost(self) -> int:
        """How many calls' lines were handed over and did not get to the disk.

        It is final after `flush` or `close`.
        """
        return self._losses.n_calls

    async def append(self, line: bytes, *, is_call: bool = True) -> None:
        """Return once `line` is on disk.

        Raises `DiskFailure` where it cannot be, and `RunFolderError` after `close`. Where the
        caller is cancelled, the line is still written.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._require_open()
            pending = Pending(line, waiter, is_call)
            try:
                if self._writer is None or not self._writer.put(pending):
                    self._writer = self._start_writer(previous=self._writer)
                    if not self._writer.put(pending):
                        raise DiskFailure(self._losses.fail(_STOPPED))
            except DiskFailure:
                self._losses.count_calls(int(is_call))
                raise
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

    def _start_writer(self, previous: _Writer | None) -> _Writer:
        """Open the file, and start a thread. Raises `DiskFailure`.

        `previous` takes no more lines. It is still writing where an interrupt cut the waiting for
        its end short.
        """
        if previous is not None:
            previous.tell_to_end()
        if self._losses.reason is not None:
            raise DiskFailure(self._losses.reason)
        try:
            writer = _Writer(self._directory, self._path, self._losses, previous)
        except OSError as error:
            self._directory.require_present()
            raise disk_failure(self._path, error) from error
        except RunFolderError as error:
            # Put there while the run was under way: the request was right, and something was sent.
            raise DiskFailure(str(error)) from error
        writer.start()
        return writer

    def _stop(self) -> None:
        """Write what is queued, then end the thread.

        May be called again after an interrupt cut the waiting short.
        """
        if self._writer is not None:
            self._writer.tell_to_end()
            self._writer.await_end()
            self._writer = None


class _Writer:
    """A thread that writes, with its queue and its open file.

    All of it is its own: after an interrupt the next one may be started while this one still
    writes. The next one waits for the end of `previous` before it looks at the file.
    """

    def __init__(
        self, directory: Directory, path: Path, losses: _Losses, previous: _Writer | None
    ) -> None:
        self._directory = directory
        self._path = path
        self._losses = losses
        self._previous = previous
        # A None in it ends the thread.
        self._queue: SimpleQueue[Pending | None] = SimpleQueue()
        self._takes_lines = True
        # Guards the queue against a line that comes after its last look.
        self._gate = threading.Lock()
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"journal {path.name}", daemon=True)
        self._fd = directory.open(path.name, APPEND)
        self._size = os.fstat(self._fd).st_size

    def start(self) -> None:
        self._thread.start()

    def put(self, pending: Pending) -> bool:
        """Hand a line over. Returns False, and does nothing, where no more are taken."""
        with self._gate:
            if self._takes_lines:
                self._queue.put(pending)
            return self._takes_lines

    def tell_to_end(self) -> None:
        """Take no more lines, and end once the others are written. Harmless when repeated."""
        with self._gate:
            self._takes_lines = False
        self._queue.put(None)

    def await_end(self) -> None:
        """Wait for the end of the thread. May be called again after an interrupt."""
        self._thread.join()
        # An interrupt while it was joined makes Python 3.11 and 3.12 take it for ended.
        while not self._has_ended.is_set():
            time.sleep(_POLL_S)

    def _run(self) -> None:
        """What the thread does."""
        with ExitStack() as at_end:
            # The last one first, whatever the others raise.
            at_end.callback(self._has_ended.set)
            at_end.callback(self._lose_queued)
            at_end.callback(os.close, self._fd)
            if self._previous is not None:
                self._previous._has_ended.wait()
                self._previous = None
                self._size = os.fstat(self._fd).st_size
            self._write_queue()

    def _write_queue(self) -> None:
        """Whatever waits, up to a bound, goes to the disk at once."""
        is_crowded = False
        is_ending = False
        while not is_ending:
            batch, is_ending = self._take_batch(is_crowded)
            is_crowded = len(batch) > 1
            if batch:
                self._commit(batch)

    def _lose_queued(self) -> None:
        """Leave nobody waiting should an unforeseen error end the thread.

        After a normal end nobody is.
        """
        with self._gate:
            self._takes_lines = False
        while not self._queue.empty():
            pending = self._queue.get()
            if pending is not None:
                self._lose([pending])

    def _take_batch(self, is_crowded: bool) -> tuple[list[Pending], bool]:
        """Wait for a line, and take those that are queued behind it.

        Returns them, and whether the thread is to end after them.
        """
        batch: list[Pending] = []
        n_bytes = 0
        pending = self._queue.get()
        if is_crowded and pending is not None:
            # Where several calls are under way the next line is near. Waiting for it costs none of
            # them its time, and a thread that wakes for every line fights the loop for the
            # interpreter.
            time.sleep(_GATHER_S)
        while pending is not None:
            batch.append(pending)
            n_bytes += len(pending.line)
            # Nobody else takes from this queue: what is in it now is there for the next line.
            if n_bytes >= _BATCH_BYTES or self._queue.empty():
                return batch, False
            pending = self._queue.get()
        return batch, True

    def _commit(self, batch: Sequence[Pending]) -> None:
        """Put the lines of a batch on disk, and wake whoever waits for them."""
        n_stored = 0
        try:
            if self._losses.reason is None:
                data = b"".join(pending.line for pending in batch)
                n_bytes_stored = self._store(data)
                n_stored = data.count(b"\n", 0, n_bytes_stored)
        finally:
            acknowledge(batch[:n_stored], None)
            not_stored = batch[n_stored:]
            if not_stored:
                self._lose(not_stored)

    def _lose(self, batch: Sequence[Pending]) -> None:
        """Raise `DiskFailure` where the lines of `batch` are waited for.

        It says how writing failed first; where nothing failed before, that the thread stopped.
        """
        self._losses.count_calls(sum(pending.is_call for pending in batch))
        acknowledge(batch, self._losses.fail(_STOPPED))

    def _store(self, data: bytes) -> int:
        """Put `data` on disk. Returns how many of its bytes are there for good: whole lines."""
        n_kept = len(data)
        try:
            write_all(self._fd, data)
        except OSError as error:
            self._losses.fail(str(disk_failure(self._path, error)))
            # What fitted before the disk was full are answers that somebody waited, and perhaps
            # paid, for.
            n_written = max(0, os.fstat(self._fd).st_size - self._size)
            n_kept = data.rfind(b"\n", 0, n_written) + 1
        try:
            sync_data(self._fd)
        except OSError as error:
            # After a failed sync nobody knows what the disk has, and asking again may wrongly say
            # that all is well.
            self._losses.fail(str(disk_failure(self._path, error)))
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
            self._losses.fail(str(failure))
            n_kept = 0
        self._size += n_kept
        return n_kept


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
