"""Asking the machine: a system tool's output within a time limit, or why there is none."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
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

from clawgauge.child_processes import release, signal_group, start_adopted

_Answer = TypeVar("_Answer")

# No such file, no permission, a process gone, a file of another shape, a figure this system does not have. psutil
# warns with RuntimeWarning where a container hides a figure; under `-W error` that arrives as an exception.
UNTOLD = (
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
TIMEOUT_S, KILL_GRACE_S, OUTPUT_CAP_BYTES = 2.0, 0.5, 65536
SYSTEM_PATH: Mapping[str, str] = {"PATH": os.defpath}
PASSED_ON = (
    *(
        "PATH",
        "HOME",
        "USER",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "CUDA_VISIBLE_DEVICES",
        "OLLAMA_HOST",
        "OLLAMA_MODELS",
    ),
    *("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"),
)
# The tool is started only when we answer for it: should we die before, the wait for our word ends with an end of file.
_WHEN_TOLD = ("/bin/sh", "-c", 'read -r _ && exec "$0" "$@" < /dev/null')
_NOT_STARTED = (126, 127)
_BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_UNPRINTABLE = dict.fromkeys((*(set(range(0x20)) - {0x09, 0x0A}), *range(0x7F, 0xA0), *_BIDI))


def ask(question: Callable[[], _Answer]) -> _Answer | None:
    """None where the machine has no answer to give."""
    try:
        return question()
    except UNTOLD:
        return None


def read_text(path: Path) -> str:
    """What a file of the system says; empty where it is not there, or not for us to read."""
    return ask(lambda: path.read_text(encoding="utf-8", errors="replace").strip()) or ""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a tool printed on stdout, safe to show; `exit_code` is None where it had to be killed."""

    text: str
    exit_code: int | None


def run_command(
    command: Sequence[str], environ: Mapping[str, str] = SYSTEM_PATH, timeout_s: float = TIMEOUT_S
) -> CommandOutput | None:
    """Run one tool; None where it is missing or will not start."""
    program = shutil.which(command[0], path=environ.get("PATH", ""))
    if program is None:
        return None
    env = {**{name: environ[name] for name in PASSED_ON if name in environ}, "LC_ALL": "C"}
    try:
        process = start_adopted([*_WHEN_TOLD, program, *command[1:]], env=env)
    except (OSError, ValueError):
        return None
    try:
        with suppress(BrokenPipeError), cast(IO[bytes], process.stdin) as pipe:
            pipe.write(b"\n")
        raw, exit_code = _await_end(process, time.monotonic() + timeout_s)
    finally:
        release(process.pid)
    return None if exit_code in _NOT_STARTED else CommandOutput(make_printable(raw), exit_code)


def _await_end(process: subprocess.Popen[bytes], deadline_s: float) -> tuple[bytes, int | None]:
    """The output up to the cap, and the exit code; None for a tool that is not done in time, and killed."""
    output, part = b"", b"?"
    with cast(IO[bytes], process.stdout) as pipe, selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while (
            part
            and len(output) < OUTPUT_CAP_BYTES
            and selector.select(max(0.0, deadline_s - time.monotonic()))
        ):
            part = os.read(pipe.fileno(), OUTPUT_CAP_BYTES - len(output))
            output += part
    if not part:
        with suppress(subprocess.TimeoutExpired):
            return output, process.wait(max(0.0, deadline_s - time.monotonic()))
    signal_group(process.pid, signal.SIGKILL)
    # One stuck in the kernel (a dead network disk, a broken GPU driver) cannot be waited for.
    with suppress(subprocess.TimeoutExpired):
        exit_code = process.wait(KILL_GRACE_S)
        return output, exit_code if exit_code >= 0 else None
    return output, None


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
