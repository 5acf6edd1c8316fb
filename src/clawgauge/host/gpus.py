"""GPUs as their vendors' tools describe them, and the energy the machine itself counts (RAPL, NVML)."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.host.commands import CommandOutput, ask, read_text, run_command

POWERCAP = Path("/sys/class/powercap")
NVML_LIBRARY = "libnvidia-ml.so.1"
# Packages only: their sub-domains (cores, memory controller) and the whole-platform domain count the same joules again.
_PACKAGE_ZONE = re.compile(r"intel-rapl:\d+")
_NVML_OK = 0
MEBIBYTE = 1 << 20
# A query and not the plain table: the table names processes with their arguments.
NVIDIA_QUERY = (
    "nvidia-smi",
    "--query-gpu=index,name,memory.total,memory.used,utilization.gpu,temperature.gpu,driver_version",
    "--format=csv,nounits",
)
NVIDIA_VRAM_QUERY = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
ROCM_QUERY = ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json")
MACOS_QUERY = ("system_profiler", "-json", "SPDisplaysDataType")


class EnergyMeter:
    """Adds up what the machine's counters gain between samples: RAPL packages (`cpu:…`) and NVML boards (`gpu:…`).

    Sample more often than a counter wraps (about an hour). One that this process may not read is left out.
    """

    def __init__(self, powercap: Path = POWERCAP, nvml_library: str = NVML_LIBRARY) -> None:
        # How to read each one's joules, and where it starts again from 0; None where it does not.
        self._counters: dict[str, tuple[Callable[[], float | None], float | None]] = {}
        for zone in sorted(powercap.iterdir()) if powercap.is_dir() else []:
            if _PACKAGE_ZONE.fullmatch(zone.name) and read_text(zone / "name") != "psys":
                range_j = _read_micro(zone / "max_energy_range_uj")
                self._counters[f"cpu:{zone.name}"] = partial(_read_micro, zone / "energy_uj"), range_j
        count = ctypes.c_uint(0)
        # No driver, or one too old to know these calls, is none.
        with suppress(OSError, AttributeError):
            library = ctypes.CDLL(nvml_library)
            read_energy = library.nvmlDeviceGetTotalEnergyConsumption
            if library.nvmlInit_v2() == _NVML_OK:
                library.nvmlDeviceGetCount_v2(ctypes.byref(count))
            for index in range(count.value):
                device = ctypes.c_void_p()
                if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device)) == _NVML_OK:
                    self._counters[f"gpu:{index}"] = partial(_read_board, read_energy, device), None
        told = {name: read() for name, (read, _) in self._counters.items()}
        self._last = {name: joules for name, joules in told.items() if joules is not None}
        self._gained: dict[str, float] = {}

    def sample(self) -> None:
        for name, before in self._last.items():
            read, range_j = self._counters[name]
            if (now := read()) is None:
                continue
            # Wrapped around; a counter of unknown range that went back was reset, and its gain is lost.
            gain = now - before if now >= before else now - before + range_j if range_j else 0.0
            self._last[name] = now
            self._gained[name] = self._gained.get(name, 0.0) + max(0.0, gain)

    @property
    def gained_j(self) -> dict[str, float] | None:
        """The joules by kind (`cpu`, `gpu`); None where there is no counter that could be read."""
        kinds = dict.fromkeys(name.partition(":")[0] for name in self._gained)
        return {k: sum(j for name, j in self._gained.items() if name.startswith(k)) for k in kinds} or None


def _read_micro(file: Path) -> float | None:
    # Most systems let only root read these.
    text = read_text(file)
    return int(text) / 1e6 if text.isascii() and text.isdecimal() else None


def _read_board(read_energy: Callable[..., int], device: ctypes.c_void_p) -> float | None:
    millijoules = ctypes.c_ulonglong(0)
    return millijoules.value / 1e3 if read_energy(device, ctypes.byref(millijoules)) == _NVML_OK else None


def read_vram_used_bytes(environ: Mapping[str, str]) -> int | None:
    """Memory in use on all NVIDIA GPUs together; None where that is not known."""
    output = run_command(NVIDIA_VRAM_QUERY, environ)
    figures = [_mebibytes(line) for line in output.text.splitlines()] if output else []
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


def parse_nvidia(output: CommandOutput | None) -> list[dict[str, Any]]:
    rows = ([field.strip() for field in line.split(",")] for line in (output.text.splitlines() if output else []))
    return [
        {"vendor": "nvidia"}
        | {name: read(told) for (name, read), told in zip(_NVIDIA_FIGURES.items(), row, strict=True)}
        for row in rows
        if len(row) == len(_NVIDIA_FIGURES) and row[0].isdecimal()
    ]


def parse_rocm(output: CommandOutput | None) -> list[dict[str, Any]]:
    gpus = []
    for card, facts in _json_object(output).items():
        if not card.startswith("card") or not isinstance(facts, dict):
            continue
        # The spelling of the keys changed between versions in case alone.
        told = {key.lower(): value for key, value in facts.items()}
        gpus.append(
            {
                "vendor": "amd",
                "index": _to_int(card.removeprefix("card")),
                "name": told.get("card series") or told.get("device name") or told.get("card model") or card,
                "memory_total_bytes": _to_int(told.get("vram total memory (b)")),
                "memory_used_bytes": _to_int(told.get("vram total used memory (b)")),
            }
        )
    return gpus


def parse_macos(output: CommandOutput | None) -> list[dict[str, Any]]:
    displays = _json_object(output).get("SPDisplaysDataType")
    rows = [row for row in displays if isinstance(row, dict)] if isinstance(displays, list) else []
    return [
        {
            "vendor": "apple" if "apple" in str(row.get("spdisplays_vendor", "")).lower() else "other",
            "index": index,
            "name": str(row.get("sppci_model") or row.get("_name") or "unknown"),
            "cores": _to_int(row.get("sppci_cores")),
        }
        for index, row in enumerate(rows)
    ]


def _json_object(output: CommandOutput | None) -> dict[str, Any]:
    decoded = ask(lambda: msgspec.json.decode(output.text)) if output else None
    return decoded if isinstance(decoded, dict) else {}


def _mebibytes(field: str) -> int | None:
    figure = _to_int(field)
    return None if figure is None else figure * MEBIBYTE


def _to_int(value: object) -> int | None:
    text = str(value).strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


# In the order of the query.
_NVIDIA_FIGURES: dict[str, Callable[[str], Any]] = {
    "index": _to_int, "name": str, "memory_total_bytes": _mebibytes, "memory_used_bytes": _mebibytes,
    "utilization_percent": _to_int, "temperature_c": _to_int, "driver": str,
}  # fmt: skip
