"""How the world says no: in the words of the real thing, or because a call is past what it may take or do.

None of these exceptions leaves a call. What is wrong with a specification is a `SuiteError`. Arguments past the bounds
under which a record keeps them are not acted on, so that a call replayed from its record does what it did.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import msgspec

MAX_ARGUMENTS_BYTES = 65_536
MAX_ALL_ARGUMENTS_BYTES = 262_144


class Refusal(Exception):
    """A tool cannot do what it was asked; the message says why, for the model to read."""


class FileFault(Refusal):
    """The file system says no, in the words of strerror(3), such as `No such file or directory`."""


NOT_FOUND = "No such file or directory"
NOT_A_DIRECTORY = "Not a directory"
IS_A_DIRECTORY = "Is a directory"
NOT_EMPTY = "Directory not empty"
DENIED = "Permission denied"
EXISTS = "File exists"
BUSY = "Device or resource busy"
TOO_LARGE = "File too large"
NAME_TOO_LONG = "File name too long"
NO_SPACE = "No space left on device"
INVALID = "Invalid argument"
NOT_PERMITTED = "Operation not permitted"
UNSUPPORTED = "Operation not supported"

# Of address space: the stacks of the shell's threads are most of it, and hardly touched.
_PROCESS_BYTES = 3 * 1024**3
FUEL_PER_CALL = 8 * 1024**2
FUEL_PER_WORLD = 128 * 1024**2
# What looking at or changing one thing costs, whatever its size.
STEP = 256


class OutOfFuel(Exception):
    """The call has done all the work it may do."""


class Fuel:
    """Roughly the bytes that may still be touched. Counted, not timed: a replay stops at the same place anywhere."""

    def __init__(self) -> None:
        self._world = FUEL_PER_WORLD
        self._call = 0

    def start_call(self) -> None:
        self._call = min(FUEL_PER_CALL, self._world)

    def fine(self) -> None:
        """A call was ended at a limit: after eight of them the world stands still."""
        self._world -= FUEL_PER_WORLD // 8

    def spend(self, amount: int = STEP) -> None:
        self._call -= amount
        self._world -= amount
        if self._call < 0:
            raise OutOfFuel


def bound_memory() -> None:
    """What this process, which has worlds in it, can swell to is bounded, where the system can bound it."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_PROCESS_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))


def encoded_size(value: Any) -> int | None:
    """How many bytes `value` takes on disk, or None where it cannot be written."""
    if value is None:
        return 0
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


class ArgumentsBudget:
    """What is left of the room for arguments over a series of calls."""

    def __init__(self) -> None:
        self._room = MAX_ALL_ARGUMENTS_BYTES

    def admit(self, arguments: Any) -> bool:
        """Whether the next call's arguments still fit; those that do not take no room."""
        size = encoded_size(arguments)
        if size is None or size > min(self._room, MAX_ARGUMENTS_BYTES):
            return False
        self._room -= size
        return True


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The text a model is shown after a call, and whether the call failed."""

    text: str
    is_error: bool = False
