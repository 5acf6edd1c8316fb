"""The energy that the machine counts: of its processors (RAPL), and of NVIDIA's boards (NVML)."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from clawgauge.host.commands import read_text

POWERCAP = Path("/sys/class/powercap")
NVML_LIBRARY = "libnvidia-ml.so.1"
# Packages only: their sub-domains (cores, memory controller) and the whole-platform domain count
# the same joules again.
_PACKAGE_ZONE = re.compile(r"intel-rapl:\d+")
_WHOLE_PLATFORM = "psys"
_NVML_OK = 0


class _Counter:
    """A counter of joules, and what it has gained.

    `kind` is what it counts: `cpu` or `gpu`. `range_j` is where it starts again from 0; None where
    it does not, or where that is not known.
    """

    def __init__(
        self, kind: str, read_j: Callable[[], float | None], range_j: float | None = None
    ) -> None:
        self.kind = kind
        self.gained_j: float | None = None
        self._read_j = read_j
        self._range_j = range_j
        # None where this process may not read it.
        self._last_j = read_j()

    def sample(self) -> None:
        now_j = self._read_j()
        if self._last_j is None or now_j is None:
            return
        gain_j = now_j - self._last_j
        if gain_j < 0:
            # It wrapped around; one of unknown range was reset, and its gain is lost.
            gain_j = gain_j + self._range_j if self._range_j else 0.0
        self._last_j = now_j
        self.gained_j = (self.gained_j or 0.0) + max(0.0, gain_j)


class EnergyMeter:
    """Adds up what the machine's counters gain between samples.

    Sample more often than a counter wraps (about an hour). One that this process may not read is
    left out.
    """

    def __init__(self, powercap: Path = POWERCAP, nvml_library: str = NVML_LIBRARY) -> None:
        self._counters = [*_find_packages(powercap), *_find_boards(nvml_library)]

    def sample(self) -> None:
        for counter in self._counters:
            counter.sample()

    @property
    def gained_j(self) -> dict[str, float] | None:
        """The joules by kind (`cpu`, `gpu`); None where there is no counter that could be read."""
        total_j_by_kind: dict[str, float] = {}
        for counter in self._counters:
            if counter.gained_j is not None:
                total_j = total_j_by_kind.get(counter.kind, 0)
                total_j_by_kind[counter.kind] = total_j + counter.gained_j
        return total_j_by_kind or None


def _find_packages(powercap: Path) -> Iterator[_Counter]:
    if not powercap.is_dir():
        return
    for zone in sorted(powercap.iterdir()):
        if not _PACKAGE_ZONE.fullmatch(zone.name) or read_text(zone / "name") == _WHOLE_PLATFORM:
            continue
        yield _Counter(
            kind="cpu",
            read_j=partial(_read_microjoules, zone / "energy_uj"),
            range_j=_read_microjoules(zone / "max_energy_range_uj"),
        )


def _find_boards(library_name: str) -> list[_Counter]:
    counters = []
    # No driver, or one too old to know these calls, is none.
    try:
        library: Any = ctypes.CDLL(library_name)
        read_energy = library.nvmlDeviceGetTotalEnergyConsumption
        n_boards = ctypes.c_uint(0)
        if library.nvmlInit_v2() == _NVML_OK:
            library.nvmlDeviceGetCount_v2(ctypes.byref(n_boards))
        for index in range(n_boards.value):
            board = ctypes.c_void_p()
            status = library.nvmlDeviceGetHandleByIndex_v2(
                ctypes.c_uint(index), ctypes.byref(board)
            )
            if status == _NVML_OK:
                read_j = partial(_read_board, read_energy, board)
                counters.append(_Counter(kind="gpu", read_j=read_j))
    except (OSError, AttributeError):
        pass
    return counters


def _read_microjoules(file: Path) -> float | None:
    # Most systems let only root read these.
    text = read_text(file)
    if not text.isascii() or not text.isdecimal():
        return None
    return int(text) / 1e6


def _read_board(read_energy: Callable[..., int], board: ctypes.c_void_p) -> float | None:
    millijoules = ctypes.c_ulonglong(0)
    if read_energy(board, ctypes.byref(millijoules)) != _NVML_OK:
        return None
    return millijoules.value / 1e3
