"""What calls did to the world, in order: the record a task is judged on.

An effect undone later stays on record: a file deleted and written again was deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clawgauge.world.clock import Clock

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
        self._noted: set[tuple[str, str]] = set()
        self._listening = False

    def listen(self) -> None:
        """From here on effects are recorded."""
        self._listening = True

    def note(self, kind: EffectKind, subject: str, detail: str = "") -> None:
        if self._listening:
            self.effects.append(Effect(kind, subject, detail, self._clock.now_s))

    def note_once(self, kind: EffectKind, subject: str) -> None:
        """Note what may happen a thousand times in a loop and says as much once: the reading of a file."""
        if self._listening and (kind, subject) not in self._noted:
            self._noted.add((kind, subject))
            self.note(kind, subject)
