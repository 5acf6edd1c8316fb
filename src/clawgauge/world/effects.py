"""What calls did to the world, in order and by its clock, what they may cost, and how the world says no.

The ledger is what a task is judged on. Arguments that a record would not keep are not acted on: a replay does the same.
"""

import contextlib
import datetime as dt
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

LATEST_S = 4_102_444_800  # 2100-01-01: `sleep` in a loop cannot run past what a date can show
_MAX_ARGUMENTS_BYTES, _MAX_ALL_ARGUMENTS_BYTES = 65_536, 262_144
# Of address space: the stacks of the shell's threads are most of it, and hardly touched.
_PROCESS_BYTES = 3 * 1024**3
_FUEL_PER_CALL, _FUEL_PER_WORLD = 8 * 1024**2, 128 * 1024**2
STEP = 256  # what looking at or changing one thing costs, whatever its size


class Refusal(Exception):
    """A tool or a command cannot do what it was asked; the message says why, for the model to read."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class FileFault(Refusal):
    """The file system says no, in the words of strerror(3), such as `No such file or directory`."""


NOT_FOUND, EXISTS, BUSY = "No such file or directory", "File exists", "Device or resource busy"
NOT_A_DIRECTORY, IS_A_DIRECTORY, NOT_EMPTY = (
    "Not a directory",
    "Is a directory",
    "Directory not empty",
)
DENIED, NOT_PERMITTED, UNSUPPORTED = (
    "Permission denied",
    "Operation not permitted",
    "Links are not supported here",
)
TOO_LARGE, NO_SPACE = "File too large", "No space left on device"
NAME_TOO_LONG, INVALID = "File name too long", "Invalid argument"


class OutOfFuel(Exception):
    """The call has done all the work it may do."""


@dataclass(slots=True)
class Fuel:
    """Roughly the bytes that may still be touched. Counted, not timed: a replay stops at the same place anywhere."""

    world: int = _FUEL_PER_WORLD
    call: int = _FUEL_PER_CALL

    def start_call(self) -> None:
        self.call = min(_FUEL_PER_CALL, self.world)

    def fine(self) -> None:
        """A call was ended at a limit: after eight of them the world stands still."""
        self.world -= _FUEL_PER_WORLD // 8

    def spend(self, amount: int = STEP) -> None:
        self.call -= amount
        self.world -= amount
        if self.call < 0:
            raise OutOfFuel


class Clock:
    def __init__(self, start_s: int) -> None:
        self.start_s = self.now_s = start_s

    def advance(self, seconds: float) -> None:
        self.now_s = min(LATEST_S, self.now_s + max(0, int(seconds)))

    def moment(self, at_s: int | None = None) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.now_s if at_s is None else at_s, dt.UTC)


EffectKind = Literal[
    "created", "changed", "deleted", "killed", "sent", "scheduled", "unscheduled", "service", "remembered",
    "forgotten", "fetched", "read", "heard", "sudo",
]  # fmt: skip


class Effect(NamedTuple):
    kind: EffectKind
    subject: str
    detail: str = ""
    at_s: int = 0


class Ledger:
    """Who acts, when, what it may still cost and what it did; silent while the world is being set up."""

    def __init__(self, user: str, start_s: int) -> None:
        self.user, self.clock, self.fuel = user, Clock(start_s), Fuel()
        self.effects: list[Effect] = []
        self.is_listening = False
        self._read: set[str] = set()

    def note(self, kind: EffectKind, subject: str, detail: str = "") -> None:
        # Reading may happen a thousand times in a loop and says as much once.
        if self.is_listening and not (kind == "read" and subject in self._read):
            self._read |= {subject} if kind == "read" else set()
            self.effects.append(Effect(kind, subject, detail, self.clock.now_s))


class ToolAnswer(NamedTuple):
    text: str
    is_error: bool = False


def encoded_size(value: Any) -> int | None:
    try:
        return 0 if value is None else len(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


@dataclass(slots=True)
class ArgumentsBudget:
    room: int = _MAX_ALL_ARGUMENTS_BYTES

    def admit(self, arguments: Any) -> bool:
        """Whether the next call's arguments still fit; those that do not take no room."""
        size = encoded_size(arguments)
        if size is None or size > min(self.room, _MAX_ARGUMENTS_BYTES):
            return False
        self.room -= size
        return True


def bound_memory() -> None:
    """What this process, which has worlds in it, can swell to is bounded, where the system can bound it."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(
            resource.RLIMIT_AS, (_PROCESS_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1])
        )
