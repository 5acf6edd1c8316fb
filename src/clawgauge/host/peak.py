"""The most memory in use, and the energy spent, while a block of work runs.

Owns: two sampling threads and their maxima. Refuses: attribution; system memory and VRAM are of the whole machine,
and only `peak_process_bytes` belongs to the given processes. A sample costs well under a millisecond, so that sampling
does not disturb the timings it runs beside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Self

from clawgauge.host.commands import KILL_GRACE_S, SYSTEM_PATH, TIMEOUT_S, find_program
from clawgauge.host.energy import EnergyMeter, find_counters
from clawgauge.host.gpus import NVIDIA_VRAM_QUERY, read_vram_used_bytes
from clawgauge.host.memory import read_memory, read_tree_rss_bytes

VRAM_INTERVAL_S = 2.0


def _no_pids() -> list[int]:
    return []


class PeakSampler:
    """Samples on entering, every `interval_s`, and on leaving; a figure that is never known stays None.

    `pids` names the roots of the process trees to add up. It is called at each sample, from the sampler's own thread
    (the first time from the caller's), so it must be safe to call from there.
    VRAM is asked for only where nvidia-smi is on the PATH of `environ`, and then every two seconds at most.
    """

    def __init__(
        self,
        interval_s: float = 0.25,
        pids: Callable[[], Iterable[int]] = _no_pids,
        *,
        environ: Mapping[str, str] = SYSTEM_PATH,
    ) -> None:
        self.peak_memory_bytes: int | None = None
        self.peak_process_bytes: int | None = None
        self.peak_vram_bytes: int | None = None
        self._interval_s = interval_s
        self._pids = pids
        self._environ = environ
        self._energy = EnergyMeter(find_counters())
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self.sample()
        self._start("peak-memory", self.sample, self._interval_s)
        if find_program(NVIDIA_VRAM_QUERY[0], self._environ):
            self._start("peak-vram", self._sample_vram, VRAM_INTERVAL_S)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            # nvidia-smi may be stuck in its driver; its own time limit bounds the wait for it.
            thread.join(2 * (TIMEOUT_S + KILL_GRACE_S))

    @property
    def energy_j(self) -> dict[str, float] | None:
        """The joules of the machine's own counters, by kind (`cpu`, `gpu`); None where it has none that may be read."""
        known = {kind: joules for kind in ("cpu", "gpu") if (joules := self._energy.gained_j(kind)) is not None}
        return known or None

    def sample(self) -> None:
        """Look once at system memory, at the process trees and at the energy counters."""
        self._energy.sample()
        memory = read_memory()
        if memory is not None:
            self.peak_memory_bytes = max(self.peak_memory_bytes or 0, memory.used_bytes)
        roots = list(self._pids())
        if roots:
            self.peak_process_bytes = max(self.peak_process_bytes or 0, read_tree_rss_bytes(roots))

    def _sample_vram(self) -> None:
        used_bytes = read_vram_used_bytes(self._environ)
        if used_bytes is not None:
            self.peak_vram_bytes = max(self.peak_vram_bytes or 0, used_bytes)

    def _start(self, name: str, sample: Callable[[], None], interval_s: float) -> None:
        def run() -> None:
            stopping = False
            while not stopping:
                stopping = self._stopping.wait(interval_s)
                sample()

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
