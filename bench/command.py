"""Runs a command to its end and says what it took: wall time, CPU of it and its children, peak memory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 900.0
LAUNCHER = Path(__file__).with_name("launcher.py")
# Linux counts ru_maxrss in KiB, macOS in bytes.
_RSS_UNITS_PER_MB = 1024 * 1024 if sys.platform == "darwin" else 1024


class CommandFailed(RuntimeError):
    """A command that is part of a measurement did not end well, so there is nothing to measure."""


@dataclass(frozen=True, slots=True)
class Finished:
    """One command, whole. `peak_rss_mb` is of its largest process."""

    wall_s: float
    cpu_s: float
    peak_rss_mb: float


def run_command(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    started: Callable[[int], None] | None = None,
) -> Finished:
    """Run it; raises `CommandFailed` with its last words when it ends with anything but 0, or not at all.

    `started` is told the process whose child the command will be.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as err:
        report = Path(folder) / "report"
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(LAUNCHER), str(report), *argv],
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=err,
            start_new_session=True,
        )
        if started is not None:
            started(process.pid)
        try:
            process.wait(TIMEOUT_S)
        finally:
            if process.returncode is None:
                _end_group(process)
        code, *took = report.read_text().split() if report.exists() else ["not started"]
        if code != "0":
            err.seek(0)
            words = err.read().decode("utf-8", "replace")[-2000:]
            raise CommandFailed(f"{' '.join(argv)} ended with {code}: {words}")
        wall_ns, cpu_s, peak_rss = took
        return Finished(int(wall_ns) / 1e9, float(cpu_s), int(peak_rss) / _RSS_UNITS_PER_MB)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
