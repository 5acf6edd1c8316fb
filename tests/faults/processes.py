"""The command as a process that can be signalled while it works, and the processes it starts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import psutil

from support.command import clean_environment, trust_configuration

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
    out, err = process.communicate(timeout=30)
    return process.returncode, (out or b"").decode(), (err or b"").decode()


def wait_until(happened: Callable[[], object], within_s: float = 30.0) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


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


def await_gone(*group_ids: int, within_s: float = 5.0) -> None:
    """All groups are empty, or soon will be."""
    wait_until(lambda: not any(members(group_id) for group_id in group_ids), within_s)


def await_ended(*processes: psutil.Process, within_s: float = 5.0) -> None:
    """All have ended, whether or not somebody has noticed yet."""
    wait_until(lambda: all(_has_ended(process) for process in processes), within_s)


def _has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
