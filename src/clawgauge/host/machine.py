"""The machine under the run: system, processor, memory, and the limits a container puts on them.

Owns: reading /proc, /sys and psutil for facts that do not change during a run. Refuses: raising; a fact that cannot
be had is None.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from clawgauge.host.asking import ask
from clawgauge.host.commands import run_together
from clawgauge.host.memory import read_memory

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
