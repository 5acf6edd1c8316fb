"""Memory figures: of the system, of every process, of a process tree.

On Linux they are read from /proc directly: the peak sampler looks four times a second, and psutil scans every process
of the machine to find the children of one. Elsewhere psutil answers. Refuses: command lines. A process is known by its
kernel name alone, because arguments may hold secrets (and psutil completes a long name from the arguments).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from clawgauge.host.asking import UNTOLD, ask

MEMINFO = "/proc/meminfo"
NAME_LENGTH = 15
_PAGE_BYTES = mmap.PAGESIZE
_HAS_PROC = Path(MEMINFO).exists()
_HAS_CHILDREN_FILE = Path(f"/proc/self/task/{os.getpid()}/children").exists()


@dataclass(frozen=True, slots=True)
class SystemMemory:
    """`used_bytes` is what is not available to a new program; caches that would give way do not count."""

    total_bytes: int
    available_bytes: int
    swap_total_bytes: int
    swap_used_bytes: int

    @property
    def used_bytes(self) -> int:
        return self.total_bytes - self.available_bytes


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """A process by its kernel name and resident size."""

    pid: int
    name: str
    rss_bytes: int


def read_memory() -> SystemMemory | None:
    """The system's memory now; None where the machine will not say."""
    return ask(lambda: parse_meminfo(_read(MEMINFO)) if _HAS_PROC else _ask_psutil())


def parse_meminfo(raw: bytes) -> SystemMemory:
    """The text of /proc/meminfo as figures."""
    total_bytes = _find_bytes(raw, b"MemTotal:")
    if not total_bytes:
        raise ValueError(f"{MEMINFO} has no MemTotal")
    available_bytes = _find_bytes(raw, b"MemAvailable:")
    if available_bytes is None:
        # Some containers hide it; free memory and caches come close.
        available_bytes = sum(_find_bytes(raw, name) or 0 for name in (b"MemFree:", b"Buffers:", b"\nCached:"))
    swap_total_bytes = _find_bytes(raw, b"SwapTotal:") or 0
    swap_used_bytes = swap_total_bytes - (_find_bytes(raw, b"SwapFree:") or 0)
    return SystemMemory(total_bytes, available_bytes, swap_total_bytes, swap_used_bytes)


def list_processes() -> list[ProcessMemory]:
    """Every process that can be seen."""
    if not _HAS_PROC:
        return [found for pid in psutil.pids() if (found := _process_by_psutil(pid))]
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())  # noqa: PTH208 - Path objects cost double
    return [found for pid in pids if (found := _process_by_stat(pid))]


def read_tree_rss_bytes(roots: Iterable[int]) -> int:
    """Resident memory of the given processes and all their descendants; pages they share count once for each."""
    pending, seen, total_bytes = list(roots), set[int](), 0
    while pending:
        pid = pending.pop()
        if pid in seen:
            continue
        seen.add(pid)
        try:
            total_bytes += _read_rss_bytes(pid)
            pending += _read_children(pid)
        except UNTOLD:
            continue  # it ended between two looks
    return total_bytes


def _find_bytes(raw: bytes, name: bytes) -> int | None:
    start = raw.find(name)
    return int(raw[start + len(name) : raw.index(b"kB", start)]) * 1024 if start >= 0 else None


def _ask_psutil() -> SystemMemory:
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    return SystemMemory(memory.total, memory.available, swap.total, swap.used)


def _process_by_stat(pid: int) -> ProcessMemory | None:
    try:
        # The name stands in parentheses and may itself hold any character; the 22nd field after it is the RSS.
        before, _, after = _read(f"/proc/{pid}/stat").rpartition(b")")
        name = before.partition(b"(")[2].decode("utf-8", "replace")
        return ProcessMemory(pid, name, int(after.split()[21]) * _PAGE_BYTES)
    except UNTOLD:
        return None


def _process_by_psutil(pid: int) -> ProcessMemory | None:
    try:
        process = psutil.Process(pid)
        return ProcessMemory(pid, process.name()[:NAME_LENGTH], process.memory_info().rss)
    except UNTOLD:
        return None


def _read_rss_bytes(pid: int) -> int:
    if _HAS_PROC:
        return int(_read(f"/proc/{pid}/statm").split()[1]) * _PAGE_BYTES
    return int(psutil.Process(pid).memory_info().rss)


def _read_children(pid: int) -> list[int]:
    if not _HAS_CHILDREN_FILE:
        return [child.pid for child in psutil.Process(pid).children()]
    children: list[int] = []
    for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - as above
        children += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    return children


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 65536)
    finally:
        os.close(descriptor)
