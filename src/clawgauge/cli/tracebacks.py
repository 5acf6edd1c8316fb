"""The last words of a program that fails unforeseen: a sentence where the machine refused something, or a traceback.

Owns: what Python prints when nothing caught an error, without the keys, and telling a machine's refusal from a defect.
Refuses: catching anything; a defect still ends the program.
"""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Callable
from types import TracebackType

from clawgauge.errors import MachineError
from clawgauge.reports.phrases import clean_lines


def redact_tracebacks(redact: Callable[[str], str]) -> None:
    """From now on an error that nobody caught is printed with its secrets replaced."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(clean_lines(redact("".join(traceback.format_exception(kind, error, trace)))))

    sys.excepthook = show


def machine_failure(fault: BaseException) -> MachineError | None:
    """What this machine refused, in a sentence for the user; None where the fault is another's.

    Of calls that failed at once one speaks for all. An `OSError` without a number is not the system's: some library
    made it, and a network's is no fault of this machine. uvloop, out of descriptors, fails once more while it closes.
    """
    if isinstance(fault, BaseExceptionGroup):
        return next((found for found in map(machine_failure, fault.exceptions) if found is not None), None)
    if isinstance(fault, MachineError):
        return fault
    if isinstance(fault, OSError) and fault.errno is not None and not isinstance(fault, ConnectionError):
        what = f"{fault.strerror}: {fault.filename}" if fault.filename else f"{fault.strerror}"
    elif isinstance(fault, MemoryError):
        what = "no memory is left"
    elif isinstance(fault, RuntimeError) and "start new thread" in str(fault):
        what = "no thread can be started"
    elif isinstance(fault, RuntimeError) and getattr(fault.__context__, "errno", None) in (errno.EMFILE, errno.ENFILE):
        return machine_failure(fault.__context__) if fault.__context__ else None
    else:
        return None
    return MachineError(
        f"This machine would not go on ({what}); what was recorded stands: give it what it lacks, then try again."
    )
