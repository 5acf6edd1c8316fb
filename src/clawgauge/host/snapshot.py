"""One look at the machine as text and figures, and the most memory in use while a block of work runs."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Self

import psutil

from clawgauge.host import gpus
from clawgauge.host.commands import (
    KILL_GRACE_S,
    SYSTEM_PATH,
    TIMEOUT_S,
    UNTOLD,
    CommandOutput,
    ask,
    make_printable,
    run_together,
)
from clawgauge.records import Resources
from clawgauge.words import format_bytes

CPU_WINDOW_S = 0.1
TOP_PROCESSES = 15
NAME_LENGTH = 15
_HAS_CHILDREN_FILE = Path(f"/proc/self/task/{os.getpid()}/children").exists()
MISSING = "not available"
COMMANDS: Mapping[str, Sequence[str]] = {
    "Memory (free -h)": ("free", "-h"),
    "Disk (df -h)": ("df", "-h"),
    "Load (uptime)": ("uptime",),
    "GPU (nvidia-smi)": gpus.NVIDIA_QUERY,
    "GPU (rocm-smi)": gpus.ROCM_QUERY,
    "Ollama (ollama ps)": ("ollama", "ps"),
}
VRAM_INTERVAL_S = 2.0


def take_snapshot(loaded_models: Sequence[str], *, environ: Mapping[str, str] = SYSTEM_PATH) -> tuple[str, Resources]:
    """The text of a resources file, and its figures. Takes a tenth of a second; with tools that hang, three seconds.

    `environ` gives the PATH on which tools are looked for. The disk is that of the current directory.
    """
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
        memory_available_bytes=memory.available if memory else None,
        swap_used_bytes=swap.used if swap else None,
        disk_total_bytes=disk.total if disk else None,
        disk_free_bytes=disk.free if disk else None,
        **dict(zip(("load_1m", "load_5m", "load_15m"), load or (), strict=False)),
        cpu_percent=cpu_percent,
        process_count=len(processes) or None,
        gpus=gpus.parse_nvidia(outputs["GPU (nvidia-smi)"]) + gpus.parse_rocm(outputs["GPU (rocm-smi)"]),
        loaded_models=list(loaded_models),
    )
    rows = {
        "memory used": f"{_size(figures.memory_used_bytes)} of {_size(figures.memory_total_bytes)}",
        "memory available": _size(figures.memory_available_bytes),
        "swap used": f"{_size(figures.swap_used_bytes)} of {_size(swap.total if swap else None)}",
        "disk free": f"{_size(figures.disk_free_bytes)} of {_size(figures.disk_total_bytes)}",
        "load 1, 5, 15 min": ", ".join(f"{figure:.2f}" for figure in load or ()) or MISSING,
        "CPU": MISSING if cpu_percent is None else f"{cpu_percent:.1f} %",
    }
    rows_of_largest = (
        f"{_size(rss_bytes):>10}  {pid:>8}  {name}"
        for rss_bytes, pid, name in sorted(processes, reverse=True)[:TOP_PROCESSES]
    )
    sections = {
        "Figures": "\n".join(f"{name:<18} {value}" for name, value in rows.items()),
        f"Largest processes (of {len(processes)})": "\n".join(rows_of_largest) or MISSING,
        **{title: _command_lines(output) for title, output in outputs.items()},
        "Loaded models": "\n".join(figures.loaded_models) or "none known",
    }
    text = f"Resources at {taken_at.isoformat(timespec='milliseconds')}\n"
    text += "".join(f"\n== {title} ==\n{lines}\n" for title, lines in sections.items())
    # Processes and servers choose their own names, so these need cleaning as much as what the tools print.
    return make_printable(text.encode("utf-8", "replace")), figures


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
        except UNTOLD:
            continue  # it ended between two looks
    return total_bytes


def _command_lines(output: CommandOutput | None) -> str:
    if output is None:
        return MISSING
    notes = {None: "(stopped: it went on for too long)", 0: ""}
    note = notes.get(output.exit_code, f"(ended with exit code {output.exit_code})")
    return "\n".join(part for part in (output.text.strip("\n"), note) if part) or "(printed nothing)"


def _size(size_bytes: int | None) -> str:
    return MISSING if size_bytes is None else format_bytes(size_bytes)


class PeakSampler:
    """Samples on entering, every `interval_s`, and on leaving; a figure that is never known stays None.

    `pids` names the roots of the process trees to add up. It is called at each sample, from the sampler's own thread
    (the first time from the caller's), so it must be safe to call from there.
    VRAM is asked for only where nvidia-smi is on the PATH of `environ`, and then every two seconds at most.
    """

    def __init__(
        self,
        interval_s: float = 0.25,
        pids: Callable[[], Iterable[int]] = tuple,
        *,
        environ: Mapping[str, str] = SYSTEM_PATH,
    ) -> None:
        self.peak_memory_bytes: int | None = None
        self.peak_process_bytes: int | None = None
        self.peak_vram_bytes: int | None = None
        self._interval_s = interval_s
        self._pids = pids
        self._environ = environ
        self._energy = gpus.EnergyMeter()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self.sample()
        looks = [("peak-memory", self.sample, self._interval_s)]
        if shutil.which(gpus.NVIDIA_VRAM_QUERY[0], path=self._environ.get("PATH", "")):
            looks.append(("peak-vram", self._sample_vram, VRAM_INTERVAL_S))
        for name, sample, interval_s in looks:
            thread = threading.Thread(target=self._repeat, args=(sample, interval_s), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            # nvidia-smi may be stuck in its driver; its own time limit bounds the wait for it.
            thread.join(2 * (TIMEOUT_S + KILL_GRACE_S))

    @property
    def energy_j(self) -> dict[str, float] | None:
        """The joules of the machine's own counters, by kind (`cpu`, `gpu`); None where it has none that may be read."""
        return self._energy.gained_j

    def sample(self) -> None:
        self._energy.sample()
        if memory := ask(psutil.virtual_memory):
            self.peak_memory_bytes = max(self.peak_memory_bytes or 0, memory.total - memory.available)
        if roots := list(self._pids()):
            self.peak_process_bytes = max(self.peak_process_bytes or 0, read_tree_rss_bytes(roots))

    def _sample_vram(self) -> None:
        used_bytes = gpus.read_vram_used_bytes(self._environ)
        if used_bytes is not None:
            self.peak_vram_bytes = max(self.peak_vram_bytes or 0, used_bytes)

    def _repeat(self, sample: Callable[[], None], interval_s: float) -> None:
        while not self._stopping.wait(interval_s):
            sample()
        sample()
