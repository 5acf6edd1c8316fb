"""The `clawgauge` command with its peak memory, as the kernel counted it.

A small process starts the command and asks for its resource usage: started from here, the command would be charged
with the memory of the test runner, which a child holds until it becomes another program.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.command import Outcome, clean_environment, trust_configuration
from support.waiting import PATIENCE_S

MIB = 1 << 20
_LAUNCHER = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
with open(sys.argv[1], "w") as note:
    note.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""
_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


def clawgauge_measured(
    cwd: Path, *words: str, timeout_s: float = PATIENCE_S, env: dict[str, str] | None = None
) -> tuple[Outcome, float]:
    """Run the command to its end; returns how it ended and its peak resident memory in MiB."""
    trust_configuration(cwd)
    note = cwd / "peak_memory"
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            _LAUNCHER,
            str(note),
            sys.executable,
            "-m",
            "clawgauge",
            *words,
        ],
        cwd=cwd,
        env=clean_environment(**(env or {})),
        capture_output=True,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
    )
    peak_mib = int(note.read_text()) * _UNIT_BYTES / MIB
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode(), cwd), peak_mib
