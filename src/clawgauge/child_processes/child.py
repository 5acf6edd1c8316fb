"""One child process, from spawn to burial: a session of its own, its stdout as time-stamped lines under size caps, the
tail of its stderr, and the end of its whole group however the caller leaves. The caller's cancellation is its deadline.

The group is adopted before the child gets its standard input: killed without a chance to clean up, we leave at most a
program that was told nothing and ends by itself."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from clawgauge.child_processes import adopt, release, signal_group
from clawgauge.client_limits import require_descriptors
from clawgauge.errors import CallFailure

MAX_OUTPUT_BYTES = 16 * 1024 * 1024
MAX_LINE_BYTES = 4 * 1024 * 1024
STDERR_TAIL_BYTES = 64 * 1024
GRACE_S = 1.0

_REAP_S, _POLL_S = 5.0, 0.01
_STDIN, _STDOUT, _STDERR = 0, 1, 2
# What a running child keeps open here: three pipes, and on some loops a handle on the process.
DESCRIPTORS = 4
_MOST_LINES_WAITING = 4096
_MOST_BYTES_WAITING = 64 * 1024 * 1024
# While it is started, the child's own ends too, and a pipe that tells whether it could be.
_DESCRIPTORS_TO_START = 10


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """What to run, here unless `cwd` says where. `argv[0]` is a path: nothing is searched for, no shell is involved.
    Where `stdin` is None, the child's standard input stays open for as long as it is wanted. It is stopped when a line,
    or all of its output together, is over its cap."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None = None
    stdin: bytes | None = b""
    max_line_bytes: int = MAX_LINE_BYTES
    max_output_bytes: float = MAX_OUTPUT_BYTES


class Captured(NamedTuple):
    """A short child's whole output. `exit_code` is negative for a signal."""

    exit_code: int | None
    stdout: str
    stderr: str


class Child(asyncio.SubprocessProtocol):
    """A running child. Stamps stdout inside the loop's own callback: a busy task must not move a time stamp."""

    def __init__(self, command: ChildCommand) -> None:
        self.exited_ns: int | None = None
        self._name, self._command = Path(command.argv[0]).name, command
        self._lines: deque[tuple[int, bytes]] = deque()
        self._rest, self._stderr = bytearray(), bytearray()
        self._news, self._exited, self._settled = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._listened_to = {_STDOUT, _STDERR}
        self._ended_by_us = self._said_all = False
        self._excess: str | None = None
        self.group_id = self._rest_ns = self._output_bytes = 0
        self._waiting_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self.group_id = self._transport.get_pid() or 0

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        at_ns = time.perf_counter_ns()
        if fd != _STDOUT:
            self._stderr += data
            del self._stderr[:-STDERR_TAIL_BYTES]
            return
        if self._excess is not None:
            return
        self._output_bytes += len(data)
        # The beginning of a line grows in place: a long one is not copied with every piece.
        self._rest += data
        self._rest_ns = at_ns
        *lines, rest = self._rest.split(b"\n") if b"\n" in data else [self._rest]
        self._rest = rest
        self._lines.extend((at_ns, bytes(line)) for line in lines)
        most, longest = self._command.max_output_bytes, self._command.max_line_bytes
        if self._output_bytes > most:
            self._excess = f"more than {most} bytes of output"
        elif max(map(len, (*lines, rest))) > longest:
            self._excess = f"a line of more than {longest} bytes"
        self._waiting_bytes += sum(map(len, lines))
        is_full = len(self._lines) > _MOST_LINES_WAITING or self._waiting_bytes > _MOST_BYTES_WAITING
        if self._excess is not None or is_full:
            cast(asyncio.ReadTransport, self._transport.get_pipe_transport(_STDOUT)).pause_reading()
        self._news.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._stop_listening(fd)

    def process_exited(self) -> None:
        self.exited_ns = time.perf_counter_ns()
        self._exited.set()
        # What the child wrote is in the pipe already. A grandchild that holds the pipe open has nothing to add, and
        # would make us wait for as long as it lives.
        signal_group(self.group_id, signal.SIGTERM)
        asyncio.get_running_loop().call_later(GRACE_S, self._stop_listening, _STDOUT, _STDERR)
        self._stop_listening()

    def _stop_listening(self, *pipes: int) -> None:
        if _STDOUT in self._listened_to.intersection(pipes):
            if self._rest:
                self._lines.append((self._rest_ns, bytes(self._rest)))
                self._waiting_bytes += len(self._rest)
            self._news.set()
        self._listened_to.difference_update(pipes)
        if self._exited.is_set() and not self._listened_to:
            self._settled.set()

    @property
    def exit_code(self) -> int | None:
        """Negative for a signal; None while it runs, and for good where it was we who ended it."""
        return self._transport.get_returncode() if self._exited.is_set() and not self._ended_by_us else None

    @property
    def stderr_tail(self) -> str:
        return self._stderr.decode("utf-8", "replace")

    async def next_line(self) -> tuple[int, bytes] | None:
        """A line of stdout and when it was whole; None once there is no other. Raises when a cap is passed."""
        while not self._lines:
            if self._excess is not None:
                raise CallFailure("error", "response_too_large", f"{self._name} was stopped: it wrote {self._excess}")
            if _STDOUT not in self._listened_to:
                return None
            self._news.clear()
            cast(asyncio.ReadTransport, self._transport.get_pipe_transport(_STDOUT)).resume_reading()
            await self._news.wait()
        stamped = self._lines.popleft()
        self._waiting_bytes -= len(stamped[1])
        return stamped

    async def wait_exit(self, timeout_s: float) -> None:
        """Let the child leave by itself, its last words heard, for so long and no longer."""
        await _wait(self._settled, timeout_s)

    def send(self, data: bytes, *, last: bool = True) -> None:
        """Write all of stdin, or a part of it, and close it; a child that does not read it does not stop us."""
        # A cast and not a check: uvloop's transports are none of asyncio's classes, nor closing after their end.
        pipe = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(_STDIN))
        if self._said_all or pipe.is_closing():
            return
        self._said_all = last
        pipe.write(data)
        if last and not pipe.is_closing():
            pipe.write_eof()

    async def end(self) -> None:
        """Nothing of the child's group is left after this; a second cancellation only skips the grace."""
        self._ended_by_us = not self._exited.is_set()
        try:
            alive, deadline_s = signal_group(self.group_id, signal.SIGTERM), time.monotonic() + GRACE_S
            # Orphans are not ours to wait for, so no event tells when they are gone.
            while alive and time.monotonic() < deadline_s:
                await asyncio.sleep(_POLL_S)
                alive = signal_group(self.group_id, 0)
        finally:
            signal_group(self.group_id, signal.SIGKILL)
            try:
                await _wait(self._exited, _REAP_S)
            finally:
                self._transport.close()


@contextlib.asynccontextmanager
async def running(command: ChildCommand) -> AsyncIterator[Child]:
    """Spawn, hand out, and bury. Raises `OSError` as the system says it when the program cannot be started."""
    require_descriptors(_DESCRIPTORS_TO_START)
    child = Child(command)
    spawning = asyncio.get_running_loop().subprocess_exec(
        lambda: child, *command.argv, env=dict(command.env), cwd=command.cwd, start_new_session=True
    )
    # A start is not broken off: uvloop forgets a child whose start is cancelled, and nobody would end it.
    starting, cancelled = asyncio.ensure_future(spawning), None
    while not starting.done():
        try:
            await asyncio.wait([starting])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None and starting.exception() is not None:
        raise cancelled
    starting.result()
    adopt(child.group_id)
    try:
        if cancelled is not None:
            raise cancelled
        if command.stdin is not None:
            child.send(command.stdin)
        yield child
    finally:
        try:
            await child.end()
        finally:
            release(child.group_id)


async def capture(command: ChildCommand, *, timeout_s: float) -> Captured:
    """Run a short child to its end. Raises `TimeoutError` when it takes too long, with nothing of it left."""
    lines = []
    async with asyncio.timeout(timeout_s), running(command) as child:
        while (stamped := await child.next_line()) is not None:
            lines.append(stamped[1])
        await child.wait_exit(timeout_s)
    return Captured(child.exit_code, b"\n".join(lines).decode("utf-8", "replace"), child.stderr_tail)


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
