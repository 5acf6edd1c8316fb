"""The machine under the run: system, processor, a container's limits, and memory of system and processes."""

from __future__ import annotations

import mmap
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from clawgauge.host.commands import UNTOLD, ask, run_together

MEMINFO = "/proc/meminfo"
NAME_LENGTH = 15
_PAGE_BYTES = mmap.PAGESIZE
_HAS_PROC = Path(MEMINFO).exists()
_HAS_CHILDREN_FILE = Path(f"/proc/self/task/{os.getpid()}/children").exists()
# Instruction sets that decide how fast a model runs on a CPU.
TELLING_FLAGS = (
    "sse4_2",
    "f16c",
    "fma",
    "avx",
    "avx2",
    "avx_vnni",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_int8",
    "asimd",
    "asimddp",
    "sve",
    "i8mm",
)
CONTAINER_MARKS = {".dockerenv": "docker", "run/.containerenv": "podman"}
ROOT = Path("/")
CGROUP_MARKS = ("docker", "kubepods", "containerd", "lxc", "podman")


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


def describe_host(environ: Mapping[str, str], root: Path = ROOT) -> dict[str, Any]:
    """Name and kind of the system. `root` is where its /proc, /sys and /run are."""
    system = os.uname()
    return {
        "hostname": system.nodename,
        "system": system.sysname,
        "release": system.release,
        "machine": system.machine,
        "distribution": ask(lambda: platform.freedesktop_os_release().get("PRETTY_NAME")),
        "container": _find_container(environ, root, system.release),
        "python_implementation": platform.python_implementation(),
    }


def describe_cpu(environ: Mapping[str, str], root: Path = ROOT) -> dict[str, Any]:
    """Model, cores and speed. `usable_cores` is what this process may run on, `quota_cores` what a container grants."""
    told = _read_cpuinfo(root)
    frequency = ask(psutil.cpu_freq)
    flags = set((told.get("flags") or told.get("Features") or "").split())
    return {
        "model": told.get("model name") or told.get("Model") or _ask_tools(environ),
        "physical_cores": ask(lambda: psutil.cpu_count(logical=False)),
        "logical_cores": os.cpu_count(),
        "usable_cores": ask(count_usable_cores),
        "quota_cores": ask(lambda: _read_cpu_quota(root)),
        "frequency_mhz": round(frequency.current) or None if frequency else None,
        "max_frequency_mhz": round(frequency.max) or None if frequency else None,
        "governor": _read_text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "flags": [flag for flag in TELLING_FLAGS if flag in flags],
    }


def describe_memory(root: Path = ROOT) -> dict[str, Any]:
    """Total memory and swap, and the limit of the container where there is one."""
    memory = read_memory()
    return {
        "total_bytes": memory.total_bytes if memory else None,
        "available_bytes": memory.available_bytes if memory else None,
        "swap_total_bytes": memory.swap_total_bytes if memory else None,
        "limit_bytes": ask(lambda: _read_memory_limit(root)),
    }


def _find_container(environ: Mapping[str, str], root: Path, release: str) -> str | None:
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    for path, name in CONTAINER_MARKS.items():
        if (root / path).exists():
            return name
    named = _read_text(root / "run/systemd/container")
    if named:
        return named
    groups = _read_text(root / "proc/self/cgroup") or ""
    marked = next((mark for mark in CGROUP_MARKS if mark in groups), None)
    return marked or ("wsl" if "microsoft" in release.lower() else None)


def _read_cpuinfo(root: Path) -> dict[str, str]:
    """The first processor's block, and what stands after the last (boards name themselves there)."""
    lines = (_read_text(root / "proc/cpuinfo") or "").splitlines()
    pairs = (line.partition(":") for line in reversed(lines))
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def _ask_tools(environ: Mapping[str, str]) -> str | None:
    """The model where /proc does not say it: on macOS, and on ARM, whose names lscpu knows by heart."""
    questions = {"sysctl": ("sysctl", "-n", "machdep.cpu.brand_string"), "lscpu": ("lscpu",)}
    outputs = run_together(questions, environ)
    brand, listing = outputs["sysctl"], outputs["lscpu"]
    if brand and brand.exit_code == 0 and brand.text.strip():
        return brand.text.strip()
    rows = (line.partition(":") for line in listing.text.splitlines()) if listing else ()
    return next((value.strip() for name, _, value in rows if name.strip() == "Model name"), None)


def count_usable_cores() -> int | None:
    """The cores this process may run on; all there are where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _read_cpu_quota(root: Path) -> float | None:
    quota, period = (_read_text(root / "sys/fs/cgroup/cpu.max") or "max 1").split()
    return None if quota == "max" else round(int(quota) / int(period), 2)


def _read_memory_limit(root: Path) -> int | None:
    limit = _read_text(root / "sys/fs/cgroup/memory.max") or _read_text(
        root / "sys/fs/cgroup/memory/memory.limit_in_bytes"
    )
    # Version 1 of cgroups says "no limit" with a number near 2^63.
    return int(limit) if limit and limit != "max" and int(limit) < 1 << 60 else None


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
