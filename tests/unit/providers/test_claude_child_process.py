"""A child process is heard as it speaks, and nothing of it is left, on both event loops."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvloop

from clawgauge.child_processes import child as child_process
from clawgauge.child_processes.child import (
    MAX_LINE_BYTES,
    STDERR_TAIL_BYTES,
    Child,
    ChildCommand,
    capture,
    running,
)
from clawgauge.errors import CallFailure
from support.waiting import FOREVER_S, PATIENCE_S, growing_deadlines
from unit.providers.claude_calls import is_gone, write_program

ENV = {"PATH": "/usr/bin:/bin"}
# Each piece comes when the one before has been read, and says when that was.
SPEAK_IN_PIECES = """
import fcntl, os, termios, time
for piece in (b"a ", b"b %d\\n", b"last %d"):
    time.sleep(0.05)
    while any(fcntl.ioctl(1, termios.FIONREAD, bytes(4))):
        time.sleep(0.002)
    os.write(1, piece % time.perf_counter_ns() if b"%" in piece else piece)
"""
Run = Callable[[Awaitable[Any]], Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine on one of the loops a user may have."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_it(work: Any) -> Any:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(work)

    return run_it


def shell(text: str, folder: Path, stdin: bytes | None = b"") -> ChildCommand:
    return ChildCommand(argv=("/bin/sh", "-c", text), env=ENV, cwd=folder, stdin=stdin)


async def read_all(child: Child) -> list[bytes]:
    lines = []
    while (stamped := await child.next_line()) is not None:
        lines.append(stamped[1])
    return lines


async def start_hanging(command: ChildCommand) -> tuple[asyncio.Task[None], list[int]]:
    """A task that waits for a child which never ends, and the process ids that child has told."""
    told: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()

    async def hang() -> None:
        async with running(command) as child:
            stamped = await child.next_line()
            assert stamped is not None
            told.set_result([int(word) for word in stamped[1].split()])
            await child.next_line()

    return asyncio.ensure_future(hang()), await told


def test_a_short_child_is_captured_whole(run: Run, tmp_path: Path) -> None:
    """Output, errors, exit code, environment and working directory are the child's own."""
    done = run(
        capture(shell("pwd; echo $PATH; echo oops >&2; exit 3", tmp_path), timeout_s=PATIENCE_S)
    )
    assert done == (3, f"{tmp_path.resolve()}\n/usr/bin:/bin", "oops\n")


def test_stdin_arrives_whole_and_ends(run: Run, tmp_path: Path) -> None:
    """More than a pipe holds reaches the child, which then sees the end of its input."""
    done = run(capture(shell("wc -c", tmp_path, b"x" * 300_000), timeout_s=PATIENCE_S))
    assert done.stdout.strip() == "300000"


def test_what_is_said_after_the_last_is_dropped(run: Run, tmp_path: Path) -> None:
    async def talk() -> list[bytes]:
        async with running(shell("cat", tmp_path, None)) as child:
            for word, last in ((b"a", False), (b"b", True), (b"c", False), (b"d", True)):
                child.send(word, last=last)
            return await read_all(child)

    assert run(talk()) == [b"ab"]


def test_a_child_that_reads_nothing_is_no_obstacle(run: Run, tmp_path: Path) -> None:
    """A child that exits without reading its input is heard all the same."""
    assert (
        run(capture(shell("echo hi", tmp_path, b"x" * 1_000_000), timeout_s=PATIENCE_S)).stdout
        == "hi"
    )


def test_lines_are_stamped_as_they_arrive(run: Run, tmp_path: Path) -> None:
    """A line has the time its last byte came, also when the reader is late."""
    speaker = ChildCommand(
        argv=(sys.executable, "-I", "-S", "-c", SPEAK_IN_PIECES), env=ENV, cwd=tmp_path
    )

    async def listen() -> list[tuple[int, bytes]]:
        async with running(speaker) as child:
            await child.wait_exit(PATIENCE_S)
            lines = []
            while (stamped := await child.next_line()) is not None:
                lines.append(stamped)
            return [*lines, (time.perf_counter_ns(), b"")]

    (first_ns, first), (last_ns, last), (read_ns, _) = run(listen())
    assert first.startswith(b"a b ") and last.startswith(b"last ")
    assert (
        int(first.split()[-1]) <= first_ns < last_ns < read_ns and int(last.split()[-1]) <= last_ns
    )


def test_a_flood_is_stopped_at_the_cap(run: Run, tmp_path: Path) -> None:
    """Endless output becomes a failure, and the child is gone."""
    pids = []

    async def listen() -> None:
        async with running(shell(f"exec yes {'y' * 4000}", tmp_path)) as child:
            pids.append(child.group_id)
            await read_all(child)

    with pytest.raises(CallFailure) as caught:
        run(listen())
    assert (caught.value.status, caught.value.failure_type) == ("error", "response_too_large")
    assert is_gone(pids[0])


def test_an_endless_line_is_stopped_at_its_own_cap(run: Run, tmp_path: Path) -> None:
    """One line without an end is refused at the line cap, long before the cap on all output."""
    with pytest.raises(CallFailure, match=str(MAX_LINE_BYTES)) as caught:
        run(capture(shell("tr '\\0' x < /dev/zero", tmp_path), timeout_s=PATIENCE_S))
    assert caught.value.failure_type == "response_too_large"


def test_only_the_end_of_stderr_is_kept(run: Run, tmp_path: Path) -> None:
    """However much a child complains, its last words are kept and memory is bounded."""
    done = run(
        capture(shell("yes | head -c 300000 >&2; echo the end >&2", tmp_path), timeout_s=PATIENCE_S)
    )
    assert done.stderr.endswith("the end\n") and len(done.stderr) == STDERR_TAIL_BYTES


def test_a_stubborn_grandchild_is_killed(run: Run, tmp_path: Path) -> None:
    """A grandchild that ignores SIGTERM and keeps the pipe delays us by the grace, and dies."""
    done = run(
        capture(
            shell("(trap '' TERM; sleep 600) & echo $!; sleep 0.1; exit 0", tmp_path),
            timeout_s=PATIENCE_S,
        )
    )
    assert done.exit_code == 0 and is_gone(int(done.stdout))


def test_a_grandchild_in_a_session_of_its_own_does_not_hold_us(run: Run, tmp_path: Path) -> None:
    """Out of reach of the group's end, it may live on, but not keep us waiting."""
    escape = f"setsid sh -c ': > {tmp_path}/escaped; exec sleep 600' & echo $!"
    wait = f"while [ ! -e {tmp_path}/escaped ]; do sleep 0.01; done"
    program = write_program(tmp_path / "orphan", f"{escape}; {wait}; exit 0")
    done = run(
        capture(ChildCommand(argv=(str(program),), env=ENV, cwd=tmp_path), timeout_s=PATIENCE_S)
    )
    os.kill(int(done.stdout), signal.SIGKILL)  # fails if it had not been out of reach


@pytest.mark.parametrize("stubborn", [False, True])
def test_cancellation_ends_the_whole_group(run: Run, tmp_path: Path, stubborn: bool) -> None:
    """A cancelled call leaves neither child nor grandchild, not even those that ignore SIGTERM."""
    trap = "trap '' TERM; " if stubborn else ""

    async def cancel() -> None:
        task, pids = await start_hanging(shell(f"{trap}sleep 600 & echo $! $$; wait", tmp_path))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(pids) == 2 and all(is_gone(pid) for pid in pids)

    run(cancel())


def test_a_second_cancellation_skips_the_grace(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled again while waiting for a stubborn child, the end does not wait for a grace without end."""
    monkeypatch.setattr(child_process, "GRACE_S", FOREVER_S)

    async def cancel_twice() -> list[int]:
        task, pids = await start_hanging(
            shell("trap '' TERM; echo $$; while :; do sleep 1; done", tmp_path)
        )
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done(), "the grace has begun"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return pids

    (pid,) = run(cancel_twice())
    assert is_gone(pid)


def test_a_question_without_an_answer_times_out_and_leaves_nothing(
    run: Run, tmp_path: Path
) -> None:
    """A short child that hangs becomes a TimeoutError, with the child gone."""
    note = tmp_path / "pid"
    for timeout_s in growing_deadlines(0.5):
        with pytest.raises(TimeoutError):
            run(capture(shell(f"echo $$ > {note}; exec sleep 600", tmp_path), timeout_s=timeout_s))
        if note.exists() and note.read_text():
            break  # it was there before the deadline
    assert is_gone(int(note.read_text()))


def test_a_child_cancelled_while_it_starts_is_gone_when_the_caller_goes_on(
    run: Run, tmp_path: Path
) -> None:
    """However early the cancellation comes, nothing is left for the loop to clean up later."""

    async def new_children_after(turns: int) -> set[psutil.Process]:
        asked = asyncio.ensure_future(
            capture(shell("exec sleep 600", tmp_path), timeout_s=PATIENCE_S)
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        # A child of an earlier test may end meanwhile: fewer are no fault.
        return set(psutil.Process().children()) - before

    run(
        capture(shell("exit", tmp_path), timeout_s=PATIENCE_S)
    )  # whoever watches over our children stays
    before = set(psutil.Process().children())
    for turns in range(1, 6):
        assert run(new_children_after(turns)) == set()


@pytest.mark.parametrize("program", ["missing", "folder", "plain"])
def test_what_cannot_be_started_is_an_os_error(run: Run, tmp_path: Path, program: str) -> None:
    """A missing file, a folder and a file without permission raise what the system says."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    with pytest.raises(OSError):
        run(
            capture(
                ChildCommand(argv=(str(tmp_path / program),), env=ENV, cwd=tmp_path),
                timeout_s=PATIENCE_S,
            )
        )
