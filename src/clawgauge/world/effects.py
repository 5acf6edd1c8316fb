"""What calls did to the simulated machine, what they may cost, and how it says no.

The ledger is what a task is judged on: effects in their order, by the machine's own clock.
Arguments that a record would not keep are not acted on: a replay does the same.
"""

import contextlib
import datetime as dt
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

LATEST_S = 4_102_444_800  # 2100-01-01: `sleep` in a loop cannot run past what a date can show
_MAX_ARGUMENTS_BYTES = 65_536
_MAX_ALL_ARGUMENTS_BYTES = 262_144
# Of address space: the stacks of the shell's threads are most of it, and hardly touched.
_PROCESS_BYTES = 3 * 1024**3
_FUEL_PER_CALL = 8 * 1024**2
_FUEL_PER_WORLD = 128 * 1024**2
_MAX_ENDED_CALLS = 8
STEP = 256  # what looking at or changing one thing costs, whatever its size


class Refusal(Exception):
    """A tool or a command cannot do what it was asked; the message says why, for the model."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class FileFault(Refusal):
    """The file system says no, in the words of strerror(3), such as `No such file or directory`."""


NOT_FOUND = "No such file or directory"
EXISTS = "File exists"
BUSY = "Device or resource busy"
NOT_A_DIRECTORY = "Not a directory"
IS_A_DIRECTORY = "Is a directory"
NOT_EMPTY = "Directory not empty"
DENIED = "Permission denied"
NOT_PERMITTED = "Operation not permitted"
UNSUPPORTED = "Links are not supported here"
TOO_LARGE = "File too large"
NO_SPACE = "No space left on device"
NAME_TOO_LONG = "File name too long"
INVALID = "Invalid argument"


class OutOfFuel(Exception):
    """The call has done all the work it may do."""


@dataclass(slots=True)
class Fuel:
    """Roughly the bytes that may still be touched, in all and by this call.

    Counted, not timed: a replay stops at the same place anywhere.
    """

    world: int = _FUEL_PER_WORLD
    call: int = _FUEL_PER_CALL

    def start_call(self) -> None:
        self.call = min(_FUEL_PER_CALL, self.world)

    def fine(self) -> None:
        """A call was ended at a limit: after some of them the machine stands still."""
        self.world -= _FUEL_PER_WORLD // _MAX_ENDED_CALLS

    def spend(self, amount: int = STEP) -> None:
        """Raises `OutOfFuel` when there is none left."""
        self.call -= amount
        self.world -= amount
        if self.call < 0:
            raise OutOfFuel


class Clock:
    """The machine's own time; it moves only when it is told to."""

    def __init__(self, start_s: int) -> None:
        self.start_s = start_s
        self.now_s = start_s

    def advance(self, seconds: float) -> None:
        self.now_s = min(LATEST_S, self.now_s + max(0, int(seconds)))

    def moment(self, at_s: int | None = None) -> dt.datetime:
        """A time as a date, or now."""
        return dt.datetime.fromtimestamp(self.now_s if at_s is None else at_s, dt.UTC)


EffectKind = Literal[
    "created",
    "changed",
    "deleted",
    "killed",
    "sent",
    "scheduled",
    "unscheduled",
    "service",
    "remembered",
    "forgotten",
    "fetched",
    "read",
    "heard",
    "sudo",
]


class Effect(NamedTuple):
    """One thing that happened: of which kind, to what, and when by the machine's clock."""

    kind: EffectKind
    subject: str
    detail: str = ""
    at_s: int = 0


class Ledger:
    """Who acts, when, what it may still cost and what it did.

    It is silent while the machine is set up.
    """

    def __init__(self, user: str, start_s: int) -> None:
        self.user = user
        self.clock = Clock(start_s)
        self.fuel = Fuel()
        self.effects: list[Effect] = []
        self.is_listening = False
        self._subjects_read: set[str] = set()

    def note(self, kind: EffectKind, subject: str, detail: str = "") -> None:
        if not self.is_listening:
            return
        if kind == "read":
            # Reading may happen a thousand times in a loop and says as much once.
            if subject in self._subjects_read:
                return
            self._subjects_read.add(subject)
        self.effects.append(Effect(kind, subject, detail, self.clock.now_s))


class ToolAnswer(NamedTuple):
    text: str
    is_error: bool = False


def encoded_size(value: Any) -> int | None:
    """How many bytes a value has in JSON; None where it cannot be written so."""
    if value is None:
        return 0
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


@dataclass(slots=True)
class ArgumentsBudget:
    """How many bytes of arguments the calls of one answer may have in all."""

    room: int = _MAX_ALL_ARGUMENTS_BYTES

    def admit(self, arguments: Any) -> bool:
        """Whether the next call's arguments still fit; those that do not take no room."""
        size = encoded_size(arguments)
        if size is None or size > min(self.room, _MAX_ARGUMENTS_BYTES):
            return False
        self.room -= size
        return True


def bound_memory() -> None:
    """Bound what this process, which has simulated machines in it, can swell to.

    That is where the system can bound it.
    """
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_PROCESS_BYTES, hard_limit))
