"""The last words of a program that fails unforeseen: its traceback, without the keys.

Owns: what Python prints when nothing caught an error. Refuses: catching anything; a defect still ends the program.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from types import TracebackType

from clawgauge.reports.phrases import clean_lines


def redact_tracebacks(redact: Callable[[str], str]) -> None:
    """From now on an error that nobody caught is printed with its secrets replaced."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(clean_lines(redact("".join(traceback.format_exception(kind, error, trace)))))

    sys.excepthook = show
