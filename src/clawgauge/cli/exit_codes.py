"""What the command's exit code says. The errors carry theirs (`RequestError` 2, `MachineError` 4)."""

from __future__ import annotations

DONE = 0
GATE_FAILED = 1
NOTHING_ANSWERED = 3
UNREADABLE_LINES = 5
INTERRUPTED = 130
