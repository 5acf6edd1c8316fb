"""Chooses what a person sees while a run goes on, and prints how it ended. All of it on stderr."""

from __future__ import annotations

import shutil
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from clawgauge.console.plain import PlainLines
from clawgauge.console.silent import Silent
from clawgauge.records import RunSummary, Target
from clawgauge.reports.terminal import render_ending
from clawgauge.runner.observer import Observer


def make_observer(targets: list[Target], cells_per_target: int, *, quiet: bool) -> AbstractContextManager[Observer]:
    """A live table on a terminal, plain lines elsewhere, nothing if asked to be quiet."""
    if quiet:
        return Silent()
    if sys.stderr.isatty():
        from clawgauge.console.live import LiveTable, can_redraw

        if can_redraw():
            return LiveTable(targets, cells_per_target)
    return PlainLines(sys.stderr)


def print_ending(summary: RunSummary, path: Path, refill: str, *, interrupted: bool, quiet: bool) -> None:
    """The summary, the tiers, what was not answered, and the command that refills it."""
    if not quiet:
        width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
        sys.stderr.write(render_ending(summary, path, refill, interrupted=interrupted, width=width))
        sys.stderr.flush()
