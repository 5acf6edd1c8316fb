"""A run followed as it is written: one reader for each run, however many pages show it."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clawgauge.errors import ClawgaugeError, RunFolderError
from clawgauge.journal.disk import LINE_CAP_BYTES, RESULTS, open_file
from clawgauge.journal.reader import line_decoder
from clawgauge.reports.html.calls import OUTCOMES, classify
from clawgauge.run_data import Row, Run
from clawgauge.run_data.calls import reason_of
from clawgauge.run_data.state import RunState, read_state
from clawgauge.workers import Workers

MAX_ROWS = 200  # as many as live.js shows
MAX_LISTENERS = 100
_MAX_PENDING = 16
_MAX_REASON_CHARS = 160
_POLL_S = 0.25


class News(NamedTuple):
    """What one look at a run has found."""

    rows: list[dict[str, Any]]
    state: RunState
    # Whether the file was written anew, as by a retry of what failed: earlier rows are no more.
    from_start: bool


class Follower:
    """Reads results.jsonl on from where it was last read. Used by one thread at a time.

    `counts` has how many calls of each target ended how, `planned` how many each is to be asked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decode = line_decoder(Row)
        self._file_id: tuple[int, int] | None = None
        self._offset = 0
        self.counts: dict[str, Counter[str]] = {}
        self.planned = _count_planned(path)

    def look(self) -> News:
        # Asked before the rows are read: what was written before the end is then among them.
        state = read_state(self._path)
        rows: deque[dict[str, Any]] = deque(maxlen=MAX_ROWS)
        from_start = False
        try:
            with open_file(self._path, RESULTS) as file:
                status = os.fstat(file.fileno())
                file_id = (status.st_dev, status.st_ino)
                if file_id != self._file_id or status.st_size < self._offset:
                    from_start = self._file_id is not None
                    self._file_id = file_id
                    self._offset = 0
                    self.counts = {}
                file.seek(self._offset)
                while True:
                    line = file.readline(LINE_CAP_BYTES)
                    # A line that has no end yet is still being written.
                    if not line.endswith(b"\n"):
                        break
                    self._offset += len(line)
                    row = self._decode(line)
                    if row is not None:
                        rows.append(self._count(row))
        except (OSError, RunFolderError):
            pass  # not there yet, or not any more
        return News(rows=list(rows), state=state, from_start=from_start)

    def _count(self, row: Row) -> dict[str, Any]:
        """`row` as the page gets it, counted."""
        outcome = OUTCOMES[classify(row)]
        self.counts.setdefault(row.target.label, Counter())[outcome] += 1
        return {
            "target": row.target.label,
            "prompt": f"{row.suite}/{row.prompt_id}",
            "name": row.prompt_name,
            "outcome": outcome,
            "why": (reason_of(row) or "")[:_MAX_REASON_CHARS],
            "e2e_ms": row.e2e_ms,
            "ttft_ms": row.ttft_ms,
        }


def _count_planned(path: Path) -> dict[str, int]:
    try:
        config = Run.open(path).config
    except ClawgaugeError:
        return {}
    if config is None:
        return {}
    n_each = len(config.prompts) * config.options.repeats
    return {target.label: n_each for target in config.targets}


class Listener:
    """What one page has not been sent yet. A page that falls far behind is sent the whole state
    anew instead."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._pending: deque[bytes] = deque()
        self._wants_snapshot = True
        self._ended = False
        self._changed = asyncio.Event()

    def put(self, message: bytes) -> None:
        if len(self._pending) >= _MAX_PENDING:
            self.restart()
        elif not self._wants_snapshot:
            self._pending.append(message)
        self._changed.set()

    def restart(self) -> None:
        self._pending.clear()
        self._wants_snapshot = True
        self._changed.set()

    def end(self) -> None:
        """No more comes; what is waiting can still be sent."""
        self._ended = True
        self._changed.set()

    def close(self) -> None:
        """Nothing is sent any more."""
        self._pending.clear()
        self._wants_snapshot = False
        self.end()

    async def next(self) -> bytes | None:
        """The next message, once there is one; None at the end."""
        while True:
            if self._wants_snapshot and self._feed.snapshot is not None:
                self._wants_snapshot = False
                return self._feed.snapshot
            if self._pending:
                return self._pending.popleft()
            if self._ended:
                return None
            self._changed.clear()
            await self._changed.wait()


class Feed:
    """One run's news for all its listeners, read and encoded once, until it ends or `cancel`."""

    def __init__(self, path: Path, workers: Workers) -> None:
        self._path = path
        self._workers = workers
        self._recent: deque[dict[str, Any]] = deque(maxlen=MAX_ROWS)
        self.listeners: set[Listener] = set()
        # The whole state as a message; None until the run has been read once.
        self.snapshot: bytes | None = None
        self.has_ended = False
        self._task = asyncio.create_task(self._follow())

    def cancel(self) -> None:
        self._task.cancel()

    async def _follow(self) -> None:
        try:
            follower = await self._workers.run(lambda: Follower(self._path))
            while True:
                news = await self._workers.run(follower.look)
                self._publish(news, follower)
                if news.state is not RunState.RUNNING:
                    return
                await asyncio.sleep(_POLL_S)
        finally:
            # Whoever comes from now on finds out anew whether the run goes on.
            self.has_ended = True
            for listener in self.listeners:
                listener.end()

    def _publish(self, news: News, follower: Follower) -> None:
        is_first = self.snapshot is None
        is_last = news.state is not RunState.RUNNING
        if not (news.rows or news.from_start or is_first or is_last):
            return
        if news.from_start:
            self._recent.clear()
        self._recent.extend(news.rows)
        self.snapshot = _encode(list(self._recent), news.state, follower, from_start=True)
        increment = _encode(news.rows, news.state, follower, from_start=False)
        for listener in self.listeners:
            if news.from_start:
                listener.restart()
            else:
                listener.put(increment)


def _encode(
    rows: list[dict[str, Any]],
    state: RunState,
    follower: Follower,
    *,
    from_start: bool,
) -> bytes:
    """A server-sent event."""
    message = {
        "rows": rows,
        "counts": follower.counts,
        "planned": follower.planned,
        "running": state is RunState.RUNNING,
        "state": state.value,
        "from_start": from_start,
    }
    return b"data: " + msgspec.json.encode(message) + b"\n\n"


class Feeds:
    """The feeds of all runs that somebody watches."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._feeds: dict[Path, Feed] = {}
        self._n_listeners = 0

    @property
    def is_full(self) -> bool:
        return self._n_listeners >= MAX_LISTENERS

    @contextmanager
    def listen(self, path: Path) -> Iterator[Listener]:
        feed = self._feeds.get(path)
        if feed is None or feed.has_ended:
            feed = Feed(path, self._workers)
            self._feeds[path] = feed
        listener = Listener(feed)
        feed.listeners.add(listener)
        self._n_listeners += 1
        try:
            yield listener
        finally:
            self._n_listeners -= 1
            feed.listeners.discard(listener)
            if not feed.listeners:
                feed.cancel()
                if self._feeds.get(path) is feed:
                    del self._feeds[path]

    def close(self) -> None:
        """End all streams now."""
        for feed in self._feeds.values():
            feed.cancel()
            for listener in feed.listeners:
                listener.close()
