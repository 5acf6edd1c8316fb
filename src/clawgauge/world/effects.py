"""What calls did to the world, in order: the record a task is judged on, and the clock it is dated by.

An effect undone later stays on record: a file deleted and written again was deleted. The time starts where the
specification says, on UTC, and moves on with the calls; it is the same every time, like all that nobody specified.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass
from typing import Literal

from clawgauge.world.spec import LATEST_S


class Clock:
    """Seconds since 1970, moved on by calls and by `sleep`."""

    def __init__(self, start_s: int) -> None:
        self.start_s = start_s
        self.now_s = start_s

    def advance(self, seconds: float) -> None:
        self.now_s = min(LATEST_S, self.now_s + max(0, int(seconds)))

    def moment(self, at_s: int | None = None) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.now_s if at_s is None else at_s, dt.UTC)


def incidental(seed: int, least: int, most: int, *name: object) -> int:
    """A number from `least` to `most` for the thing called `name`: it looks arbitrary and is the same every time."""
    digest = hashlib.sha256(repr((seed, *name)).encode("utf-8", "replace")).digest()
    return least + int.from_bytes(digest[:8], "big") % (most - least + 1)


EffectKind = Literal[
    "created", "changed", "deleted", "killed", "sent", "scheduled", "unscheduled", "service", "remembered",
    "forgotten", "fetched", "read", "heard",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that happened. `subject` is a path, a process name, a recipient, a command, a URL, and so on."""

    kind: EffectKind
    subject: str
    detail: str = ""
    at_s: int = 0


class EffectLog:
    """Effects as they happen; silent while the world is being set up."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.effects: list[Effect] = []
        self._read: set[str] = set()
        self.is_listening = False

    def note(self, kind: EffectKind, subject: str, detail: str = "") -> None:
        # Reading may happen a thousand times in a loop and says as much once.
        if self.is_listening and not (kind == "read" and subject in self._read):
            self._read |= {subject} if kind == "read" else set()
            self.effects.append(Effect(kind, subject, detail, self._clock.now_s))
