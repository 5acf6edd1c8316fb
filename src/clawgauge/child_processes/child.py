"""One child process, from its start until nothing of it is left.

A session of its own, its stdout as time-stamped lines under size caps, the tail of its stderr, and
the end of its whole group however the caller leaves. The caller's cancellation is its deadline.

The group is adopted before the child gets its standard input: killed without a chance to clean up,
we leave at most a program that got no work and ends by itself.
"""

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

from clawgauge.child_processes import KILL, adopt, release, signal_group
from clawgauge.client_limits import require_descriptors
from clawgauge.errors import CallFailure

MAX_OUTPUT_BYTES = 16 * 1024 * 1024
MAX_LINE_BYTES = 4 * 1024 * 1024
STDERR_TAIL_BYTES = 64 * 1024
GRACE_S = 1.0

_REAP_S = 5.0
_POLL_S = 0.01
_STDIN = 0
_STDOUT = 1
_STDERR = 2
# What a running child keeps open here: three pipes, and on some loops a handle on the process.
DESCRIPTORS = 4
# While it is started, the child's own ends too, and a pipe that tells whether it could be.
_DESCRIPTORS_TO_START = 10
# With more than this waiting to be read, the child is not read from.
_MAX_LINES_WAITING = 4096
_MAX_BYTES_WAITING = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """What to run, in the current directory unless `cwd` says where.

    `argv[0]` is a path: nothing is searched for, and no shell is involved. Where `stdin` is None,
    the child's standard input stays open until `Child.send` closes it. The child is stopped when a
    line, or all of its output together, is over its cap.
    """

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
    """A running child.

    Stamps stdout inside the loop's own callback: a busy task must not move a time stamp.
    """

    def __init__(self, command: ChildCommand) -> None:
        self.group_id = 0
        self.exited_ns: int | None = None
        self._name = Path(command.argv[0]).name
        self._command = command
        # Whole lines of stdout that nobody has read yet, and when each was whole.
        self._lines: deque[tuple[int, bytes]] = deque()
        self._waiting_bytes = 0
        # The beginning of the next line, and when its last piece came.
        self._unfinished_line = bytearray()
        self._unfinished_line_ns = 0
        self._output_bytes = 0
        # Which cap the output is over.
        self._excess: str | None = None
        self._stderr = bytearray()
        self._open_pipes = {_STDOUT, _STDERR}
        self._is_stdin_complete = False
        self._is_ended_by_us = False
        # Set when there is a line to read, or none is to come.
        self._has_news = asyncio.Event()
        self._has_exited = asyncio.Event()
        # Set when the child has exited, and its pipes are read to their end.
        self._is_settled = asyncio.Event()

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
        self._take_stdout(data, at_ns)
        is_full = len(self._lines) > _MAX_LINES_WAITING or self._waiting_bytes > _MAX_BYTES_WAITING
        if self._excess is not None or is_full:
            self._stdout_transport().pause_reading()
        self._has_news.set()

    def _take_stdout(self, data: bytes, at_ns: int) -> None:
        """Add a piece of stdout, and cut off the lines that it makes whole."""
        # The beginning of a line grows in place: a long one is not copied with every piece.
        self._unfinished_line += data
        self._unfinished_line_ns = at_ns
        longest_bytes = 0
        if b"\n" in data:
            *lines, self._unfinished_line = self._unfinished_line.split(b"\n")
            for line in lines:
                self._lines.append((at_ns, bytes(line)))
                self._waiting_bytes += len(line)
                longest_bytes = max(longest_bytes, len(line))
        longest_bytes = max(longest_bytes, len(self._unfinished_line))
        self._output_bytes += len(data)
        max_output_bytes = self._command.max_output_bytes
        max_line_bytes = self._command.max_line_bytes
        if self._output_bytes > max_output_bytes:
            self._excess = f"more than {max_output_bytes} bytes of output"
        elif longest_bytes > max_line_bytes:
            self._excess = f"a line of more than {max_line_bytes} bytes"

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._stop_listening(fd)

    def process_exited(self) -> None:
        self.exited_ns = time.perf_counter_ns()
        self._has_exited.set()
        # What the child wrote is in the pipe already. A grandchild that holds the pipe open has
        # nothing to add, and would make us wait for as long as it lives.
        signal_group(self.group_id, signal.SIGTERM)
        loop = asyncio.get_running_loop()
        loop.call_later(GRACE_S, self._stop_listening, _STDOUT, _STDERR)
        self._stop_listening()

    def _stop_listening(self, *pipes: int) -> None:
        """Take nothing more from these pipes."""
        if _STDOUT in self._open_pipes.intersection(pipes):
            if self._unfinished_line:
                self._lines.append((self._unfinished_line_ns, bytes(self._unfinished_line)))
                self._waiting_bytes += len(self._unfinished_line)
            self._has_news.set()
        self._open_pipes.difference_update(pipes)
        if self._has_exited.is_set() and not self._open_pipes:
            self._is_settled.set()

    @property
    def exit_code(self) -> int | None:
        """Negative for a signal; None while it runs, and for good where it was we who ended it."""
        if not self._has_exited.is_set() or self._is_ended_by_us:
            return None
        return self._transport.get_returncode()

    @property
    def stderr_tail(self) -> str:
        return self._stderr.decode("utf-8", "replace")

    async def next_line(self) -> tuple[int, bytes] | None:
        """A line of stdout and when it was whole; None once there is no other.

        Raises `CallFailure` where the output is over a cap.
        """
        while not self._lines:
            if self._excess is not None:
                message = f"{self._name} was stopped: it wrote {self._excess}"
                raise CallFailure("error", "response_too_large", message)
            if _STDOUT not in self._open_pipes:
                return None
            self._has_news.clear()
            self._stdout_transport().resume_reading()
            await self._has_news.wait()
        at_ns, line = self._lines.popleft()
        self._waiting_bytes -= len(line)
        return at_ns, line

    def _stdout_transport(self) -> asyncio.ReadTransport:
        # A cast and not a check: uvloop's transports are none of asyncio's classes.
        return cast(asyncio.ReadTransport, self._transport.get_pipe_transport(_STDOUT))

    async def wait_exit(self, timeout_s: float) -> None:
        """Let the child leave by itself, its output read to the end, for so long and no longer."""
        await _wait(self._is_settled, timeout_s)

    def send(self, data: bytes, *, last: bool = True) -> None:
        """Write all of stdin and close it; unless `last`, a part of it.

        A child that does not read it does not stop us.
        """
        # A cast and not a check: uvloop's transports are none of asyncio's classes, nor closing
        # after their end.
        pipe = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(_STDIN))
        if self._is_stdin_complete or pipe.is_closing():
            return
        self._is_stdin_complete = last
        pipe.write(data)
        if last and not pipe.is_closing():
            pipe.write_eof()

    async def end(self) -> None:
        """Leave nothing of the child's group; a second cancellation only skips the grace."""
        self._is_ended_by_us = not self._has_exited.is_set()
        try:
            is_alive = signal_group(self.group_id, signal.SIGTERM)
            deadline_s = time.monotonic() + GRACE_S
            # Orphans are not ours to wait for, so no event tells when they are gone.
            while is_alive and time.monotonic() < deadline_s:
                await asyncio.sleep(_POLL_S)
                is_alive = signal_group(self.group_id, 0)
        finally:
            signal_group(self.group_id, KILL)
            try:
                await _wait(self._has_exited, _REAP_S)
            finally:
                self._transport.close()


@contextlib.asynccontextmanager
async def running(command: ChildCommand) -> AsyncIterator[Child]:
    """Start a child, and end it with all of its group when the block is left.

    Raises `OSError`, as the system says it, where the program cannot be started.
    """
    require_descriptors(_DESCRIPTORS_TO_START)
    child = Child(command)
    cancellation = await _start(command, child)
    adopt(child.group_id)
    try:
        if cancellation is not None:
            raise cancellation
        if command.stdin is not None:
            child.send(command.stdin)
        yield child
    finally:
        try:
            await child.end()
        finally:
            release(child.group_id)


async def _start(command: ChildCommand, child: Child) -> asyncio.CancelledError | None:
    """Start the child. Returns the cancellation that came meanwhile, if one did.

    A start is not broken off: uvloop forgets a child whose start is cancelled, and nobody would
    end it.
    """
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            lambda: child,
            *command.argv,
            env=dict(command.env),
            cwd=command.cwd,
            start_new_session=True,
        )
    )
    cancellation = None
    while not starting.done():
        try:
            await asyncio.wait([starting])
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None and starting.exception() is not None:
        raise cancellation
    starting.result()
    return cancellation


async def capture(command: ChildCommand, *, timeout_s: float) -> Captured:
    """Run a short child to its end.

    Raises `TimeoutError` where it takes too long, with nothing of it left.
    """
    lines = []
    async with asyncio.timeout(timeout_s), running(command) as child:
        while (stamped_line := await child.next_line()) is not None:
            lines.append(stamped_line[1])
        await child.wait_exit(timeout_s)
    stdout = b"\n".join(lines).decode("utf-8", "replace")
    return Captured(exit_code=child.exit_code, stdout=stdout, stderr=child.stderr_tail)


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
