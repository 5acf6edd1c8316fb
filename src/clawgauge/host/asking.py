"""How a question to the machine may go unanswered, said once for the whole room."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psutil

_Answer = TypeVar("_Answer")

# No such file, no permission, a process gone, a file of another shape, a figure this system does not have. psutil
# warns with RuntimeWarning where a container hides a figure; under `-W error` that arrives as an exception.
UNTOLD = (
    OSError,
    ValueError,
    IndexError,
    ArithmeticError,
    NotImplementedError,
    RuntimeError,
    RuntimeWarning,
    psutil.Error,
)


def ask(question: Callable[[], _Answer]) -> _Answer | None:
    """The machine's answer; None where it has none to give."""
    try:
        return question()
    except UNTOLD:
        return None
