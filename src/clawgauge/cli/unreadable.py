"""Recorded lines that could not be read: said once, and in the exit code. For every verb that reads runs."""

from __future__ import annotations

import sys

from clawgauge.cli.exit_codes import DONE, UNREADABLE_LINES
from clawgauge.reports.wording import plural


def tell_unreadable(n_lines: int) -> int:
    """Say what was left out, and give the exit code for it."""
    if not n_lines:
        return DONE
    sys.stderr.write(f"{plural(n_lines, 'line')} of results.jsonl could not be read and counted in nothing\n")
    return UNREADABLE_LINES
