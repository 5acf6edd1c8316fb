"""The machine's state around one target's suite, as the run's events tell it.

Owns: reading `target_finished` events: the first one's snapshot before, the last one's after, the highest peak of all.
Refuses: the resources_*.txt files; they are for people.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from clawgauge.records import Event, Resources


@dataclass(frozen=True, slots=True)
class Machine:
    """Resources before and after a target's suite, the peaks in between, the energy spent; None where nobody looked."""

    before: Resources | None = None
    after: Resources | None = None
    peak_memory_bytes: int | None = None
    peak_vram_bytes: int | None = None
    energy_j: float | None = None


def read_machine(events: Iterable[Event], target_label: str) -> Machine:
    """The machine during one target's suite; a resumed run has several such stretches."""
    details = [e.detail for e in events if e.event == "target_finished" and e.target == target_label]
    if not details:
        return Machine()
    return Machine(
        before=_resources(details[0].get("resources_before")),
        after=_resources(details[-1].get("resources_after")),
        peak_memory_bytes=_peak(detail.get("peak_memory_bytes") for detail in details),
        peak_vram_bytes=_peak(detail.get("peak_vram_bytes") for detail in details),
        energy_j=_sum_energy(detail.get("energy_j") for detail in details),
    )


def _resources(value: Any) -> Resources | None:
    try:
        return msgspec.convert(value, Resources | None)
    except msgspec.ValidationError:
        return None


def _sum_energy(stretches: Iterable[Any]) -> float | None:
    """Processors and GPUs of all stretches together; None where the machine has no counters that could be read."""
    known = [
        float(joules)
        for stretch in stretches
        if isinstance(stretch, dict)
        for joules in stretch.values()
        if isinstance(joules, int | float)
    ]
    return sum(known) if known else None


def _peak(values: Iterable[Any]) -> int | None:
    return max((value for value in values if isinstance(value, int)), default=None)
