"""The most memory that was in use, and the energy that was spent, while something went on."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self

import psutil

from clawgauge.host import commands
from clawgauge.host.commands import SYSTEM_PATH, read_figure, run_command
from clawgauge.host.energy import EnergyMeter
from clawgauge.host.gpus import NVIDIA_VRAM_QUERY, parse_nvidia_vram

VRAM_INTERVAL_S = 2.0
_HAS_CHILDREN_FILE = Path(f"/proc/self/task/{os.getpid()}/children").exists()


class PeakSampler:
    """Samples on entering, every `interval_s`, and on leaving.

    A figure that is never known stays None. `pids` gives the roots of the process trees to add up.
    It is called at each sample, from the sampler's own thread, so it must be safe to call from
    there. VRAM is asked for only where nvidia-smi is on the PATH of `environ`, and then every two
    seconds at most.
    """

    peak_memory_bytes: int | None = None
    peak_process_bytes: int | None = None
    peak_vram_bytes: int | None = None
    energy_j: dict[str, float] | None = None

    def __init__(
        self,
        interval_s: float = 0.25,
        pids: Callable[[], Iterable[int]] = tuple,
        environ: Mapping[str, str] = SYSTEM_PATH,
    ) -> None:
        self._interval_s = interval_s
        self._pids = pids
        self._environ = environ
        self._energy_meter = EnergyMeter()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._start("peak-memory", self.sample, first_s=0.0, interval_s=self._interval_s)
        if shutil.which(NVIDIA_VRAM_QUERY[0], path=self._environ.get("PATH", "")):
            self._start(
                "peak-vram",
                self._sample_vram,
                first_s=VRAM_INTERVAL_S,
                interval_s=VRAM_INTERVAL_S,
            )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            # nvidia-smi may be stuck in its driver; its own time limit bounds the wait for it.
            thread.join(2 * (commands.TIMEOUT_S + commands.KILL_GRACE_S))

    def sample(self) -> None:
        self._energy_meter.sample()
        self.energy_j = self._energy_meter.gained_j
        memory = read_figure(psutil.virtual_memory)
        if memory is not None:
            used_bytes = memory.total - memory.available
            self.peak_memory_bytes = max(self.peak_memory_bytes or 0, used_bytes)
        roots = list(self._pids())
        if roots:
            rss_bytes = read_tree_rss_bytes(roots)
            self.peak_process_bytes = max(self.peak_process_bytes or 0, rss_bytes)

    def _sample_vram(self) -> None:
        used_bytes = parse_nvidia_vram(run_command(NVIDIA_VRAM_QUERY, self._environ))
        if used_bytes is not None:
            self.peak_vram_bytes = max(self.peak_vram_bytes or 0, used_bytes)

    def _start(
        self, name: str, sample: Callable[[], None], *, first_s: float, interval_s: float
    ) -> None:
        """Sample after `first_s`, then every `interval_s`, and once more at the end."""

        def repeat() -> None:
            wait_s = first_s
            while not self._stopping.wait(wait_s):
                sample()
                wait_s = interval_s
            sample()

        thread = threading.Thread(target=repeat, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()


def read_tree_rss_bytes(roots: Iterable[int]) -> int:
    """Resident memory of the given processes and all their descendants.

    Pages that they share count once for each.
    """
    pending = list(roots)
    counted_pids: set[int] = set()
    total_bytes = 0
    while pending:
        pid = pending.pop()
        if pid in counted_pids:
            continue
        counted_pids.add(pid)
        try:
            process = psutil.Process(pid)
            total_bytes += process.memory_info().rss
            pending += _find_children(process)
        except commands.UNKNOWABLE:
            continue  # it has ended meanwhile
    return total_bytes


def _find_children(process: psutil.Process) -> list[int]:
    if not _HAS_CHILDREN_FILE:
        return [child.pid for child in process.children()]
    # psutil would look at every process of the machine for this.
    pids: list[int] = []
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        pids += map(int, (task / "children").read_bytes().split())
    return pids
