"""One look at the machine as text and figures; its peak memory, and the energy it counts (RAPL, NVML)."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec
import psutil

from clawgauge.host import commands
from clawgauge.host.commands import (
    SYSTEM_PATH,
    CommandOutput,
    ask,
    read_text,
    run_command,
    run_together,
)
from clawgauge.records import Resources
from clawgauge.words import format_bytes

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
CPU_WINDOW_S, TOP_PROCESSES, NAME_LENGTH = 0.1, 15, 15
_HAS_CHILDREN_FILE = Path(f"/proc/self/task/{os.getpid()}/children").exists()
MISSING = "not available"
COMMANDS: Mapping[str, Sequence[str]] = {
    "Memory (free -h)": ("free", "-h"), "Disk (df -h)": ("df", "-h"), "Load (uptime)": ("uptime",),
    "GPU (nvidia-smi)": NVIDIA_QUERY, "GPU (rocm-smi)": ROCM_QUERY, "Ollama (ollama ps)": ("ollama", "ps"),
}  # fmt: skip
VRAM_INTERVAL_S = 2.0


def take_snapshot(
    loaded_models: Sequence[str], *, environ: Mapping[str, str] = SYSTEM_PATH
) -> tuple[str, Resources]:
    """The text of a resources file, and its figures. Takes a tenth of a second; with tools that hang, three seconds."""
    taken_at = datetime.now().astimezone()
    # Before the tools run, so that they are not counted.
    cpu_percent = ask(lambda: psutil.cpu_percent(interval=CPU_WINDOW_S))
    memory, swap = ask(psutil.virtual_memory), ask(psutil.swap_memory)
    processes = ask(list_processes) or []
    outputs = ask(lambda: run_together(COMMANDS, environ)) or dict.fromkeys(COMMANDS)
    disk = ask(lambda: shutil.disk_usage(Path.cwd()))
    load = ask(os.getloadavg)
    figures = Resources(
        taken_at_ms=round(taken_at.timestamp() * 1000),
        memory_total_bytes=memory.total if memory else None,
        # What is not available to a new program; caches that would give way do not count.
        memory_used_bytes=memory.total - memory.available if memory else None,
        memory_available_bytes=memory.available if memory else None, swap_used_bytes=swap.used if swap else None,
        disk_total_bytes=disk.total if disk else None, disk_free_bytes=disk.free if disk else None,
        **dict(zip(("load_1m", "load_5m", "load_15m"), load or (), strict=False)),
        cpu_percent=cpu_percent, process_count=len(processes) or None,
        gpus=parse_nvidia(outputs["GPU (nvidia-smi)"]) + parse_rocm(outputs["GPU (rocm-smi)"]),
        loaded_models=list(loaded_models),
    )  # fmt: skip
    rows = {
        "memory used": f"{_size(figures.memory_used_bytes)} of {_size(figures.memory_total_bytes)}",
        "memory available": _size(figures.memory_available_bytes),
        "swap used": f"{_size(figures.swap_used_bytes)} of {_size(swap.total if swap else None)}",
        "disk free": f"{_size(figures.disk_free_bytes)} of {_size(figures.disk_total_bytes)}",
        "load 1, 5, 15 min": ", ".join(f"{figure:.2f}" for figure in load or ()) or MISSING,
        "CPU": MISSING if cpu_percent is None else f"{cpu_percent:.1f} %",
    }
    largest = sorted(processes, reverse=True)[:TOP_PROCESSES]
    largest_rows = "\n".join(
        f"{_size(rss_bytes):>10}  {pid:>8}  {name}" for rss_bytes, pid, name in largest
    )
    sections = {
        "Figures": "\n".join(f"{name:<18} {value}" for name, value in rows.items()),
        f"Largest processes (of {len(processes)})": largest_rows or MISSING,
        **{title: _command_lines(output) for title, output in outputs.items()},
        "Loaded models": "\n".join(figures.loaded_models) or "none known",
    }
    text = f"Resources at {taken_at.isoformat(timespec='milliseconds')}\n"
    text += "".join(f"\n== {title} ==\n{lines}\n" for title, lines in sections.items())
    # Processes and servers choose their own names, so these need cleaning as much as what the tools print.
    return commands.make_printable(text.encode("utf-8", "replace")), figures


def list_processes() -> list[tuple[int, int, str]]:
    """Every process that can be seen: its resident bytes, its id and its kernel name, which holds no arguments."""
    return [
        (process.info["memory_info"].rss, process.pid, process.info["name"][:NAME_LENGTH])
        for process in psutil.process_iter(["name", "memory_info"])
        if process.info["memory_info"] and process.info["name"]
    ]


def read_tree_rss_bytes(roots: Iterable[int]) -> int:
    """Resident memory of the given processes and all their descendants; pages they share count once for each."""
    pending, seen, total_bytes = list(roots), set[int](), 0
    while pending:
        pid = pending.pop()
        if pid in seen:
            continue
        seen.add(pid)
        try:
            process = psutil.Process(pid)
            total_bytes += process.memory_info().rss
            if not _HAS_CHILDREN_FILE:
                pending += [child.pid for child in process.children()]
                continue
            # psutil would look at every process of the machine for this.
            for task in Path(f"/proc/{pid}/task").iterdir():
                pending += map(int, (task / "children").read_bytes().split())
        except commands.UNTOLD:
            continue  # it ended between two looks
    return total_bytes


def _command_lines(output: CommandOutput | None) -> str:
    if output is None:
        return MISSING
    notes = {None: "(stopped: it went on for too long)", 0: ""}
    note = notes.get(output.exit_code, f"(ended with exit code {output.exit_code})")
    return (
        "\n".join(part for part in (output.text.strip("\n"), note) if part) or "(printed nothing)"
    )


def _size(size_bytes: int | None) -> str:
    return MISSING if size_bytes is None else format_bytes(size_bytes)


class EnergyMeter:
    """Adds up what the machine's counters gain between samples: RAPL packages (`cpu:…`) and NVML boards (`gpu:…`).
    Sample more often than a counter wraps (about an hour). One that this process may not read is left out."""

    def __init__(self, powercap: Path = POWERCAP, nvml_library: str = NVML_LIBRARY) -> None:
        # How to read each one's joules, and where it starts again from 0; None where it does not.
        self._counters: dict[str, tuple[Callable[[], float | None], float | None]] = {}
        for zone in sorted(powercap.iterdir()) if powercap.is_dir() else []:
            if _PACKAGE_ZONE.fullmatch(zone.name) and read_text(zone / "name") != "psys":
                range_j = _read_micro(zone / "max_energy_range_uj")
                self._counters[f"cpu:{zone.name}"] = (
                    partial(_read_micro, zone / "energy_uj"),
                    range_j,
                )
        count = ctypes.c_uint(0)
        # No driver, or one too old to know these calls, is none.
        with suppress(OSError, AttributeError):
            library = ctypes.CDLL(nvml_library)
            read_energy = library.nvmlDeviceGetTotalEnergyConsumption
            if library.nvmlInit_v2() == _NVML_OK:
                library.nvmlDeviceGetCount_v2(ctypes.byref(count))
            for index in range(count.value):
                device = ctypes.c_void_p()
                if (
                    library.nvmlDeviceGetHandleByIndex_v2(
                        ctypes.c_uint(index), ctypes.byref(device)
                    )
                    == _NVML_OK
                ):
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
        return {
            k: sum(j for name, j in self._gained.items() if name.startswith(k)) for k in kinds
        } or None


def _read_micro(file: Path) -> float | None:
    # Most systems let only root read these.
    text = read_text(file)
    return int(text) / 1e6 if text.isascii() and text.isdecimal() else None


def _read_board(read_energy: Callable[..., int], device: ctypes.c_void_p) -> float | None:
    millijoules = ctypes.c_ulonglong(0)
    return (
        millijoules.value / 1e3
        if read_energy(device, ctypes.byref(millijoules)) == _NVML_OK
        else None
    )


def parse_nvidia(output: CommandOutput | None) -> list[dict[str, Any]]:
    rows = (
        [field.strip() for field in line.split(",")]
        for line in (output.text.splitlines() if output else [])
    )
    return [
        {"vendor": "nvidia"}
        | {
            name: read(told)
            for (name, read), told in zip(_NVIDIA_FIGURES.items(), row, strict=True)
        }
        for row in rows
        if len(row) == len(_NVIDIA_FIGURES) and row[0].isdecimal()
    ]


def parse_rocm(output: CommandOutput | None) -> list[dict[str, Any]]:
    gpus = []
    for card, facts in _json_object(output).items():
        if card.startswith("card") and isinstance(facts, dict):
            # The spelling of the keys changed between versions in case alone.
            told = {key.lower(): value for key, value in facts.items()}
            name = (
                told.get("card series") or told.get("device name") or told.get("card model") or card
            )
            total, used = (
                _to_int(told.get(f"vram total {which}memory (b)")) for which in ("", "used ")
            )
            known = {"vendor": "amd", "index": _to_int(card.removeprefix("card")), "name": name}
            gpus.append({**known, "memory_total_bytes": total, "memory_used_bytes": used})
    return gpus


def parse_macos(output: CommandOutput | None) -> list[dict[str, Any]]:
    displays = _json_object(output).get("SPDisplaysDataType")
    rows = [row for row in displays if isinstance(row, dict)] if isinstance(displays, list) else []
    return [
        {
            "vendor": "apple" if "apple" in str(row.get("spdisplays_vendor", "")).lower() else "other", "index": index,
            "name": str(row.get("sppci_model") or row.get("_name") or "unknown"),
            "cores": _to_int(row.get("sppci_cores")),
        }
        for index, row in enumerate(rows)
    ]  # fmt: skip


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


class PeakSampler:
    """Samples on entering, every `interval_s`, and on leaving; a figure that is never known stays None. `pids` names
    the roots of the process trees to add up. It is called at each sample, from the sampler's own thread, so it must be
    safe to call from there. VRAM is asked for only where nvidia-smi is on the PATH of `environ`, and then every two
    seconds at most."""

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
        self._interval_s, self._pids, self._environ = interval_s, pids, environ
        self._energy = EnergyMeter()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        looks = [("peak-memory", self.sample, 0.0, self._interval_s)]
        if shutil.which(NVIDIA_VRAM_QUERY[0], path=self._environ.get("PATH", "")):
            looks.append(("peak-vram", self._sample_vram, VRAM_INTERVAL_S, VRAM_INTERVAL_S))
        for name, *how in looks:
            thread = threading.Thread(target=self._repeat, args=how, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            # nvidia-smi may be stuck in its driver; its own time limit bounds the wait for it.
            thread.join(2 * (commands.TIMEOUT_S + commands.KILL_GRACE_S))

    def sample(self) -> None:
        self._energy.sample()
        self.energy_j = self._energy.gained_j
        if memory := ask(psutil.virtual_memory):
            self.peak_memory_bytes = max(
                self.peak_memory_bytes or 0, memory.total - memory.available
            )
        if roots := list(self._pids()):
            self.peak_process_bytes = max(self.peak_process_bytes or 0, read_tree_rss_bytes(roots))

    def _sample_vram(self) -> None:
        output = run_command(NVIDIA_VRAM_QUERY, self._environ)
        figures = [_mebibytes(line) for line in output.text.splitlines()] if output else []
        if known := [figure for figure in figures if figure is not None]:
            self.peak_vram_bytes = max(self.peak_vram_bytes or 0, sum(known))

    def _repeat(self, sample: Callable[[], None], first_s: float, interval_s: float) -> None:
        while not self._stopping.wait(first_s):
            sample()
            first_s = interval_s
        sample()
