"""The electrical energy this machine counts itself: processor packages through RAPL, NVIDIA GPUs through NVML.

Owns: reading the counters and adding up what they gained, wrap-arounds included. Refuses: estimating. Where the machine
has no counter, or does not let us read it, the figure is None. Counters are of whole packages and whole boards: what
ran beside the model is in them.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

POWERCAP = Path("/sys/class/powercap")
NVML_LIBRARY = "libnvidia-ml.so.1"
# Packages only: their sub-domains (cores, memory controller) and the whole-platform domain count the same joules again.
_PACKAGE_ZONE = re.compile(r"intel-rapl:\d+")
_NVML_OK = 0


class Counter(NamedTuple):
    """One running total in joules. `range_j` is where it starts again from 0; None where it does not."""

    read_j: Callable[[], float | None]
    range_j: float | None


class EnergyMeter:
    """Adds up what the counters gained between samples. Sample more often than a counter wraps (about an hour)."""

    def __init__(self, counters: Mapping[str, Counter]) -> None:
        self._counters = counters
        self._last = {name: counter.read_j() for name, counter in counters.items()}
        self._gained: dict[str, float] = {}

    def sample(self) -> None:
        """Look once at every counter."""
        for name, counter in self._counters.items():
            before, now = self._last[name], counter.read_j()
            self._last[name] = now
            if before is None or now is None:
                continue
            gain = now - before
            if gain < 0:
                # Wrapped around; a counter of unknown range that went back was reset, and its gain is lost.
                gain = gain + counter.range_j if counter.range_j else 0.0
            self._gained[name] = self._gained.get(name, 0.0) + max(0.0, gain)

    def gained_j(self, kind: str) -> float | None:
        """The joules of all counters whose name begins with `kind`; None where there is none that could be read."""
        known = [joules for name, joules in self._gained.items() if name.startswith(kind)]
        return sum(known) if known else None


def find_counters(powercap: Path = POWERCAP, nvml_library: str = NVML_LIBRARY) -> dict[str, Counter]:
    """Every counter this process may read, named `cpu:…` or `gpu:…`."""
    return {**_rapl_counters(powercap), **_nvml_counters(nvml_library)}


def _rapl_counters(powercap: Path) -> dict[str, Counter]:
    found: dict[str, Counter] = {}
    zones = sorted(powercap.iterdir()) if powercap.is_dir() else []
    for zone in zones:
        if not _PACKAGE_ZONE.fullmatch(zone.name) or _read_text(zone / "name") == "psys":
            continue
        read_j = _micro_reader(zone / "energy_uj")
        if read_j() is not None:
            found[f"cpu:{zone.name}"] = Counter(read_j, _micro_reader(zone / "max_energy_range_uj")())
    return found


def _micro_reader(file: Path) -> Callable[[], float | None]:
    def read_j() -> float | None:
        text = _read_text(file)
        return int(text) / 1e6 if text is not None and text.isdecimal() else None

    return read_j


def _read_text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        # Most systems let only root read these; a machine that does not tell is a machine without the figure.
        return None


def _nvml_counters(library_name: str) -> dict[str, Counter]:
    try:
        library = ctypes.CDLL(library_name)
        if library.nvmlInit_v2() != _NVML_OK:
            return {}
        count = ctypes.c_uint(0)
        if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != _NVML_OK:
            return {}
        found: dict[str, Counter] = {}
        for index in range(count.value):
            device = ctypes.c_void_p()
            if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device)) != _NVML_OK:
                continue
            read_j = _board_reader(library, device)
            if read_j() is not None:
                found[f"gpu:{index}"] = Counter(read_j, None)
        return found
    except (OSError, AttributeError):
        # No driver, or one too old to know these calls.
        return {}


def _board_reader(library: ctypes.CDLL, device: ctypes.c_void_p) -> Callable[[], float | None]:
    def read_j() -> float | None:
        millijoules = ctypes.c_ulonglong(0)
        status = library.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(millijoules))
        return millijoules.value / 1e3 if status == _NVML_OK else None

    return read_j
