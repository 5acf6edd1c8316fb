"""One look at the machine: a text for a person, and the same figures parsed.

Owns: what a resource snapshot shows. Refuses: raising. What the machine does not tell is "not available" in the text
and null in the figures. Processes are shown by name and memory only.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import psutil

from clawgauge.host.asking import ask
from clawgauge.host.commands import SYSTEM_PATH, CommandOutput, make_printable, run_together
from clawgauge.host.gpus import NVIDIA_QUERY, ROCM_QUERY, parse_nvidia, parse_rocm
from clawgauge.host.memory import ProcessMemory, SystemMemory, list_processes, read_memory
from clawgauge.records import Resources

CPU_WINDOW_S = 0.1
TOP_PROCESSES = 15
MISSING = "not available"
COMMANDS: Mapping[str, Sequence[str]] = {
    "free": ("free", "-h"),
    "df": ("df", "-h"),
    "uptime": ("uptime",),
    "nvidia": NVIDIA_QUERY,
    "rocm": ROCM_QUERY,
    "ollama": ("ollama", "ps"),
}


def take_snapshot(
    loaded_models: Sequence[str],
    *,
    environ: Mapping[str, str] = SYSTEM_PATH,
    folder: Path | None = None,
) -> tuple[str, Resources]:
    """The text of a resources file, and its figures. Takes a tenth of a second; with tools that hang, three seconds.

    `environ` gives the PATH on which tools are looked for; `folder` names the disk to measure (by default this one's).
    """
    taken_at = datetime.now().astimezone()
    # Before the tools run, so that they are not counted.
    cpu_percent = ask(lambda: psutil.cpu_percent(interval=CPU_WINDOW_S))
    memory = read_memory()
    processes = ask(list_processes)
    outputs = ask(lambda: run_together(COMMANDS, environ)) or dict.fromkeys(COMMANDS)
    disk = ask(lambda: shutil.disk_usage(folder or Path.cwd()))
    load = ask(os.getloadavg) or (None, None, None)
    figures = Resources(
        taken_at_ms=round(taken_at.timestamp() * 1000),
        memory_total_bytes=memory.total_bytes if memory else None,
        memory_used_bytes=memory.used_bytes if memory else None,
        memory_available_bytes=memory.available_bytes if memory else None,
        swap_used_bytes=memory.swap_used_bytes if memory else None,
        disk_total_bytes=disk.total if disk else None,
        disk_free_bytes=disk.free if disk else None,
        load_1m=load[0],
        load_5m=load[1],
        load_15m=load[2],
        cpu_percent=cpu_percent,
        process_count=len(processes) if processes else None,
        gpus=parse_nvidia(outputs["nvidia"]) + parse_rocm(outputs["rocm"]),
        loaded_models=list(loaded_models),
    )
    return _write_text(taken_at, figures, memory, processes or [], outputs), figures


def _write_text(
    taken_at: datetime,
    figures: Resources,
    memory: SystemMemory | None,
    processes: list[ProcessMemory],
    outputs: Mapping[str, CommandOutput | None],
) -> str:
    sections = {
        "Figures": _figure_lines(figures, memory),
        "Memory (free -h)": _command_lines(outputs["free"]),
        "Disk (df -h)": _command_lines(outputs["df"]),
        "Load (uptime)": _command_lines(outputs["uptime"]),
        f"Largest processes (of {len(processes)})": _process_lines(processes),
        "GPU (nvidia-smi)": _command_lines(outputs["nvidia"]),
        "GPU (rocm-smi)": _command_lines(outputs["rocm"]),
        "Ollama (ollama ps)": _command_lines(outputs["ollama"]),
        "Loaded models": "\n".join(figures.loaded_models) or "none known",
    }
    head = f"Resources at {taken_at.isoformat(timespec='milliseconds')}\n"
    body = "".join(f"\n== {title} ==\n{lines}\n" for title, lines in sections.items())
    # Processes and servers choose their own names, so these need cleaning as much as what the tools print.
    return make_printable((head + body).encode("utf-8", "replace"))


def _figure_lines(figures: Resources, memory: SystemMemory | None) -> str:
    load = [figure for figure in (figures.load_1m, figures.load_5m, figures.load_15m) if figure is not None]
    rows = {
        "memory used": f"{_size(figures.memory_used_bytes)} of {_size(figures.memory_total_bytes)}",
        "memory available": _size(figures.memory_available_bytes),
        "swap used": f"{_size(figures.swap_used_bytes)} of {_size(memory.swap_total_bytes if memory else None)}",
        "disk free": f"{_size(figures.disk_free_bytes)} of {_size(figures.disk_total_bytes)}",
        "load 1, 5, 15 min": ", ".join(f"{figure:.2f}" for figure in load) or MISSING,
        "CPU": MISSING if figures.cpu_percent is None else f"{figures.cpu_percent:.1f} %",
    }
    return "\n".join(f"{name:<18} {value}" for name, value in rows.items())


def _command_lines(output: CommandOutput | None) -> str:
    if output is None:
        return MISSING
    notes = {None: "(stopped: it went on for too long)", 0: ""}
    note = notes.get(output.exit_code, f"(ended with exit code {output.exit_code})")
    return "\n".join(part for part in (output.text.strip("\n"), note) if part) or "(printed nothing)"


def _process_lines(processes: list[ProcessMemory]) -> str:
    largest = sorted(processes, key=lambda process: process.rss_bytes, reverse=True)[:TOP_PROCESSES]
    rows = (f"{_size(process.rss_bytes):>10}  {process.pid:>8}  {process.name}" for process in largest)
    return "\n".join(rows) or MISSING


def _size(size_bytes: int | None) -> str:
    if size_bytes is None:
        return MISSING
    amount = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
