"""How full the machine is: one snapshot of it, as text and as figures."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from clawgauge.host.commands import (
    SYSTEM_PATH,
    CommandOutput,
    make_printable,
    read_figure,
    run_together,
)
from clawgauge.host.gpus import NVIDIA_QUERY, ROCM_QUERY, parse_nvidia, parse_rocm
from clawgauge.records import Resources
from clawgauge.words import format_bytes

CPU_WINDOW_S = 0.1
TOP_PROCESSES = 15
# As long as a kernel keeps it, which holds no arguments.
_MAX_NAME_CHARS = 15
_NVIDIA_TITLE = "GPU (nvidia-smi)"
_ROCM_TITLE = "GPU (rocm-smi)"
# By the titles of their sections.
COMMANDS: Mapping[str, Sequence[str]] = {
    "Memory (free -h)": ("free", "-h"),
    "Disk (df -h)": ("df", "-h"),
    "Load (uptime)": ("uptime",),
    _NVIDIA_TITLE: NVIDIA_QUERY,
    _ROCM_TITLE: ROCM_QUERY,
    "Ollama (ollama ps)": ("ollama", "ps"),
}
_MISSING = "not available"


class ProcessMemory(NamedTuple):
    """A process and its resident memory; sorted by it."""

    rss_bytes: int
    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class _Readings:
    """What the machine said of itself; None where it did not."""

    taken_at: datetime
    cpu_percent: float | None
    memory: Any
    swap: Any
    disk: Any
    load: tuple[float, float, float] | None
    processes: list[ProcessMemory]
    outputs: Mapping[str, CommandOutput | None]
    """What the tools printed, by the titles of `COMMANDS`."""


def take_snapshot(
    loaded_models: Sequence[str], *, environ: Mapping[str, str] = SYSTEM_PATH
) -> tuple[str, Resources]:
    """The text of a resources file, and its figures.

    Takes a tenth of a second; with tools that hang, three seconds.
    """
    readings = _read_machine(environ)
    figures = _make_figures(readings, loaded_models)
    # Processes and servers choose their own names, so these need cleaning as much as what the tools
    # print.
    text = make_printable(_make_text(readings, figures).encode("utf-8", "replace"))
    return text, figures


def _read_machine(environ: Mapping[str, str]) -> _Readings:
    taken_at = datetime.now().astimezone()
    # Before the tools run, so that they are not counted.
    cpu_percent = read_figure(lambda: psutil.cpu_percent(interval=CPU_WINDOW_S))
    memory = read_figure(psutil.virtual_memory)
    swap = read_figure(psutil.swap_memory)
    processes = read_figure(list_processes) or []
    outputs = read_figure(lambda: run_together(COMMANDS, environ))
    return _Readings(
        taken_at=taken_at,
        cpu_percent=cpu_percent,
        memory=memory,
        swap=swap,
        disk=read_figure(lambda: shutil.disk_usage(Path.cwd())),
        load=read_figure(psutil.getloadavg),
        processes=processes,
        outputs=outputs or dict.fromkeys(COMMANDS),
    )


def _make_figures(readings: _Readings, loaded_models: Sequence[str]) -> Resources:
    memory = readings.memory
    swap = readings.swap
    disk = readings.disk
    load_1m, load_5m, load_15m = readings.load or (None, None, None)
    gpus = parse_nvidia(readings.outputs[_NVIDIA_TITLE])
    gpus += parse_rocm(readings.outputs[_ROCM_TITLE])
    return Resources(
        taken_at_ms=round(readings.taken_at.timestamp() * 1000),
        memory_total_bytes=memory.total if memory else None,
        # What is not available to a new program; caches that would give way do not count.
        memory_used_bytes=memory.total - memory.available if memory else None,
        memory_available_bytes=memory.available if memory else None,
        swap_used_bytes=swap.used if swap else None,
        disk_total_bytes=disk.total if disk else None,
        disk_free_bytes=disk.free if disk else None,
        load_1m=load_1m,
        load_5m=load_5m,
        load_15m=load_15m,
        cpu_percent=readings.cpu_percent,
        process_count=len(readings.processes) or None,
        gpus=gpus,
        loaded_models=list(loaded_models),
    )


def _make_text(readings: _Readings, figures: Resources) -> str:
    sections = {
        "Figures": _figure_lines(readings, figures),
        f"Largest processes (of {len(readings.processes)})": _process_lines(readings.processes),
    }
    for title, output in readings.outputs.items():
        sections[title] = _command_lines(output)
    sections["Loaded models"] = "\n".join(figures.loaded_models) or "none known"
    text = f"Resources at {readings.taken_at.isoformat(timespec='milliseconds')}\n"
    for title, lines in sections.items():
        text += f"\n== {title} ==\n{lines}\n"
    return text


def _figure_lines(readings: _Readings, figures: Resources) -> str:
    swap_total_bytes = readings.swap.total if readings.swap else None
    load = ", ".join(f"{average:.2f}" for average in readings.load or ())
    cpu_percent = figures.cpu_percent
    rows = {
        "memory used": _share(figures.memory_used_bytes, figures.memory_total_bytes),
        "memory available": _size(figures.memory_available_bytes),
        "swap used": _share(figures.swap_used_bytes, swap_total_bytes),
        "disk free": _share(figures.disk_free_bytes, figures.disk_total_bytes),
        "load 1, 5, 15 min": load or _MISSING,
        "CPU": _MISSING if cpu_percent is None else f"{cpu_percent:.1f} %",
    }
    return "\n".join(f"{name:<18} {value}" for name, value in rows.items())


def _process_lines(processes: Sequence[ProcessMemory]) -> str:
    largest = sorted(processes, reverse=True)[:TOP_PROCESSES]
    lines = []
    for process in largest:
        lines.append(f"{_size(process.rss_bytes):>10}  {process.pid:>8}  {process.name}")
    return "\n".join(lines) or _MISSING


def _command_lines(output: CommandOutput | None) -> str:
    if output is None:
        return _MISSING
    lines = []
    text = output.text.strip("\n")
    if text:
        lines.append(text)
    if output.exit_code is None:
        lines.append("(stopped: it went on for too long)")
    elif output.exit_code != 0:
        lines.append(f"(ended with exit code {output.exit_code})")
    return "\n".join(lines) or "(printed nothing)"


def _share(part_bytes: int | None, total_bytes: int | None) -> str:
    return f"{_size(part_bytes)} of {_size(total_bytes)}"


def _size(size_bytes: int | None) -> str:
    return _MISSING if size_bytes is None else format_bytes(size_bytes)


def list_processes() -> list[ProcessMemory]:
    """Every process that can be seen, with its kernel name."""
    processes = []
    for process in psutil.process_iter(["name", "memory_info"]):
        memory = process.info["memory_info"]
        name = process.info["name"]
        if memory and name:
            processes.append(ProcessMemory(memory.rss, process.pid, name[:_MAX_NAME_CHARS]))
    return processes
