"""The command on a real terminal: a pseudo-terminal, and every byte that was drawn on it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

from support.command import clean_environment, trust_configuration
from support.waiting import PATIENCE_S


def on_a_terminal(
    cwd: Path,
    *words: str,
    env: dict[str, str] | None = None,
    typed: bytes = b"",
    trusting: bool = True,
) -> bytes:
    """Run the command with all three streams on one terminal; returns what it drew, with its own line ends."""
    if trusting:
        trust_configuration(cwd)
    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[
        1
    ] &= ~termios.ONLCR  # no carriage return of the terminal's own: one that shows was printed
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    termios.tcsetwinsize(theirs, (50, 220))
    process = subprocess.Popen(
        [sys.executable, "-m", "clawgauge", *words],
        cwd=cwd,
        env=clean_environment(TERM="xterm-256color", **(env or {})),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, typed)
    drawn = b""
    try:
        while piece := os.read(ours, 65536):
            drawn += piece
    except OSError:
        pass  # how Linux says that the other end is closed
    finally:
        os.close(ours)
        process.wait(timeout=PATIENCE_S)
    return drawn
