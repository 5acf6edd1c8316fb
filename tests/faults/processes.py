"""The command as a process that can be signalled while it works, and the processes it starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import psutil

from support.command import clean_environment, trust_configuration
from support.waiting import PATIENCE_S, wait_until

SMALL = ("run", "-t", "fake:scripted-model", "-s", "small.json")
Process = subprocess.Popen[bytes]


@contextmanager
def started(
    place: Path,
    *words: str,
    env: dict[str, str] | None = None,
    stdout: int | IO[Any] = subprocess.PIPE,
    stderr: int | IO[Any] = subprocess.PIPE,
    prefix: Sequence[str] = (),
    **how: Any,
) -> Iterator[Process]:
    """`clawgauge` with these words, running; killed on leaving should it still be there.

    `prefix` is a command that becomes the one after it, such as `nohup`.
    """
    trust_configuration(place)
    with subprocess.Popen(
        [*prefix, sys.executable, "-m", "clawgauge", *words],
        cwd=place,
        env=clean_environment(**(env or {})),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        **how,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: Process) -> tuple[int, str, str]:
    """Its exit code and what it said, once it is over; a command that hangs fails the test."""
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, (out or b"").decode(), (err or b"").decode()


def interrupt_until_it_ends(process: Process) -> None:
    """Ctrl-C, again and again, as a person does: two that come before the program has heard the first are one."""
    wait_until(lambda: has_ended_or_is_interrupted(process), every_s=0.2)


def has_ended_or_is_interrupted(process: Process) -> bool:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    return process.returncode is not None


def await_rest(process: Process) -> None:
    """Every thread of the command waits for something: what it could do by itself is done."""
    tasks = Path(f"/proc/{process.pid}/task")
    if not tasks.exists():
        time.sleep(0.5)  # no other system shows the threads of a process
        return

    def at_rest() -> bool:
        try:
            return all(
                path.read_text().rpartition(")")[2].split()[0] == "S"
                for path in tasks.glob("*/stat")
            )
        except OSError:  # a thread that has just ended
            return False

    wait_until(lambda: at_rest() and at_rest(), every_s=0.05)


def members(group_id: int) -> list[int]:
    """The living processes of a group."""
    try:
        os.killpg(group_id, 0)
    except ProcessLookupError:
        return []
    # Somebody is there, if only an orphan that has ended and that nobody has noticed yet.
    found = []
    for pid in psutil.pids():
        try:
            if os.getpgid(pid) == group_id and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def child_of(process: Process, word: str) -> psutil.Process | None:
    """The child that has `word` in its command line, as `supervisor.py` has."""
    for child in psutil.Process(process.pid).children():
        try:
            if word in " ".join(child.cmdline()):
                return child
        except psutil.Error:
            continue
    return None


def await_child(process: Process, word: str) -> psutil.Process:
    """The same, as soon as there is one."""
    wait_until(lambda: child_of(process, word))
    child = child_of(process, word)
    assert child is not None
    return child


def await_gone(*group_ids: int) -> None:
    """All groups are empty, or soon will be."""
    wait_until(lambda: not any(members(group_id) for group_id in group_ids))


def await_ended(*processes: psutil.Process) -> None:
    """All have ended, whether or not somebody has noticed yet."""
    wait_until(lambda: all(_has_ended(process) for process in processes))


def _has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
