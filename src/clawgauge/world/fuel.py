"""How much work one call, and one world, may cost this machine.

Owns: the bound on time and memory that no sequence of calls can pass. Work is counted, not timed, so that a replay
stops at the same place on any machine. Refuses: deciding what work costs.
"""

from __future__ import annotations

FUEL_PER_CALL = 4 * 1024**2
FUEL_PER_WORLD = 64 * 1024**2
# What looking at or changing one thing costs, whatever its size.
STEP = 256


class OutOfFuel(Exception):
    """The call has done all the work it may do."""


class Fuel:
    """Roughly the bytes that may still be touched."""

    def __init__(self) -> None:
        self._world = FUEL_PER_WORLD
        self._call = 0

    def start_call(self) -> None:
        self._call = min(FUEL_PER_CALL, self._world)

    def spend(self, amount: int = STEP) -> None:
        self._call -= amount
        self._world -= amount
        if self._call < 0:
            raise OutOfFuel
