"""Asking the machine: a system tool's output within a time limit, or why there is none."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar, cast

import psutil

from clawgauge.child_processes import KILL, release, signal_group, start_adopted

_Figure = TypeVar("_Figure")

# No such file, no permission, a process gone, a file of another shape, a figure this system does
# not have. psutil warns with RuntimeWarning where a container hides a figure; under `-W error` that
# arrives as an exception.
UNKNOWABLE = (
    OSError,
    ValueError,
    IndexError,
    ArithmeticError,
    RuntimeError,
    RuntimeWarning,
    psutil.Error,
)
# What of it is missing is none of the figures used here, and no line for a user.
warnings.filterwarnings("ignore", ".*memory stats couldn't be determined", RuntimeWarning)
TIMEOUT_S = 2.0
KILL_GRACE_S = 0.5
OUTPUT_CAP_BYTES = 65536
SYSTEM_PATH: Mapping[str, str] = {"PATH": os.defpath}
# What of the environment a tool is given.
_PASSED_ON = (
    "PATH",
    "HOME",
    "USER",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "OLLAMA_HOST",
    "OLLAMA_MODELS",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
)
# The tool is started only when we answer for it: should we die before, the wait for our line ends
# with an end of file.
_START_WHEN_ADOPTED = ("/bin/sh", "-c", 'read -r _ && exec "$0" "$@" < /dev/null')
# The shell's exit codes for a program that cannot be run.
_NOT_STARTED = (126, 127)
_TAB_AND_NEWLINE = (0x09, 0x0A)
_CONTROL_MARKS = (*range(0x20), *range(0x7F, 0xA0))
_DIRECTION_MARKS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_UNPRINTABLE = {
    code: None for code in (*_CONTROL_MARKS, *_DIRECTION_MARKS) if code not in _TAB_AND_NEWLINE
}


def read_figure(read: Callable[[], _Figure]) -> _Figure | None:
    """What `read` returns; None where the machine does not tell."""
    try:
        return read()
    except UNKNOWABLE:
        return None


def read_text(path: Path) -> str:
    """The text of a system's file; empty where it is not there, or not for us to read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except UNKNOWABLE:
        return ""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a tool printed on stdout, safe to show; `exit_code` is None where it was killed."""

    text: str
    exit_code: int | None


def run_command(
    command: Sequence[str], environ: Mapping[str, str] = SYSTEM_PATH, timeout_s: float = TIMEOUT_S
) -> CommandOutput | None:
    """Run one tool; None where it is missing or will not start."""
    program = shutil.which(command[0], path=environ.get("PATH", ""))
    if program is None:
        return None
    env = {name: environ[name] for name in _PASSED_ON if name in environ}
    env["LC_ALL"] = "C"
    try:
        process = start_adopted([*_START_WHEN_ADOPTED, program, *command[1:]], env=env)
    except (OSError, ValueError):
        return None
    try:
        with suppress(BrokenPipeError), cast(IO[bytes], process.stdin) as pipe:
            pipe.write(b"\n")
        output, exit_code = _await_end(process, time.monotonic() + timeout_s)
    finally:
        release(process.pid)
    if exit_code in _NOT_STARTED:
        return None
    return CommandOutput(make_printable(output), exit_code)


def _await_end(process: subprocess.Popen[bytes], deadline_s: float) -> tuple[bytes, int | None]:
    """The output up to the cap, and the exit code.

    A tool that is not done in time is killed, and has no exit code.
    """
    output, has_ended = _read_output(process, deadline_s)
    if has_ended:
        with suppress(subprocess.TimeoutExpired):
            return output, process.wait(_seconds_until(deadline_s))
    signal_group(process.pid, KILL)
    try:
        exit_code = process.wait(KILL_GRACE_S)
    except subprocess.TimeoutExpired:
        # One stuck in the kernel (a dead network disk, a broken GPU driver) cannot be waited for.
        return output, None
    return output, exit_code if exit_code >= 0 else None


def _read_output(process: subprocess.Popen[bytes], deadline_s: float) -> tuple[bytes, bool]:
    """What the tool prints until the deadline, up to the cap, and whether it closed its output."""
    output = b""
    with cast(IO[bytes], process.stdout) as pipe, selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(output) < OUTPUT_CAP_BYTES:
            is_ready = selector.select(_seconds_until(deadline_s))
            if not is_ready:
                return output, False
            piece = os.read(pipe.fileno(), OUTPUT_CAP_BYTES - len(output))
            if not piece:
                return output, True
            output += piece
    return output, False


def _seconds_until(deadline_s: float) -> float:
    return max(0.0, deadline_s - time.monotonic())


def run_together(
    commands: Mapping[str, Sequence[str]],
    environ: Mapping[str, str] = SYSTEM_PATH,
    timeout_s: float = TIMEOUT_S,
) -> dict[str, CommandOutput | None]:
    """Run several tools at once, so that slow ones cost one timeout and not one each."""
    with ThreadPoolExecutor(len(commands), thread_name_prefix="host") as pool:
        outputs = pool.map(
            lambda command: run_command(command, environ, timeout_s), commands.values()
        )
        return dict(zip(commands, outputs, strict=True))


def make_printable(raw: bytes) -> str:
    """Text without control and direction marks, so that showing it cannot steer a terminal."""
    return raw.decode("utf-8", "replace").translate(_UNPRINTABLE)
