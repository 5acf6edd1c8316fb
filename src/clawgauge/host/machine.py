"""The machine itself: its system, processor, memory, and what a container grants of them."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from clawgauge.host.commands import read_figure, read_text, run_together

ROOT = Path("/")
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
# Files that a kind of container has.
_CONTAINER_BY_FILE = {".dockerenv": "docker", "run/.containerenv": "podman"}
# Names that stand in the control groups of processes in a container.
_CONTAINER_GROUPS = ("docker", "kubepods", "containerd", "lxc", "podman")
# Version 1 of cgroups says "no limit" with a number near 2^63.
_NO_LIMIT_BYTES = 1 << 60


def describe_host(environ: Mapping[str, str], root: Path = ROOT) -> dict[str, Any]:
    """Name and kind of the system. `root` is where its /proc, /sys and /run are."""
    system = platform.uname()
    distribution = read_figure(lambda: platform.freedesktop_os_release().get("PRETTY_NAME"))
    return {
        "hostname": system.node,
        "system": system.system,
        "release": system.release,
        "machine": system.machine,
        "distribution": distribution,
        "container": find_container(environ, root, system.release),
        "python_implementation": platform.python_implementation(),
    }


def describe_cpu(environ: Mapping[str, str], root: Path = ROOT) -> dict[str, Any]:
    """Model, cores and speed.

    `usable_cores` is what this process may run on, `quota_cores` what a container grants.
    """
    facts = _read_cpuinfo(root)
    flags = set((facts.get("flags") or facts.get("Features") or "").split())
    frequency = read_figure(psutil.cpu_freq)
    governor = read_text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return {
        "model": facts.get("model name") or facts.get("Model") or _ask_for_model(environ),
        "physical_cores": read_figure(lambda: psutil.cpu_count(logical=False)),
        "logical_cores": os.cpu_count(),
        "usable_cores": read_figure(count_usable_cores),
        "quota_cores": _read_quota_cores(root),
        "frequency_mhz": round(frequency.current) or None if frequency else None,
        "max_frequency_mhz": round(frequency.max) or None if frequency else None,
        "governor": governor or None,
        "flags": [flag for flag in TELLING_FLAGS if flag in flags],
    }


def describe_memory(root: Path = ROOT) -> dict[str, Any]:
    memory = read_figure(psutil.virtual_memory)
    swap = read_figure(psutil.swap_memory)
    return {
        "total_bytes": memory.total if memory else None,
        "available_bytes": memory.available if memory else None,
        "swap_total_bytes": swap.total if swap else None,
        "limit_bytes": _read_memory_limit(root),
    }


def _read_cpuinfo(root: Path) -> dict[str, str]:
    """The facts of the first processor, and what stands after the last.

    Boards name themselves there.
    """
    facts: dict[str, str] = {}
    for line in read_text(root / "proc/cpuinfo").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            facts.setdefault(name.strip(), value.strip())
    return facts


def _read_quota_cores(root: Path) -> float | None:
    quota, _, period = read_text(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if quota in ("", "max"):
        return None
    return read_figure(lambda: round(int(quota) / int(period), 2))


def _read_memory_limit(root: Path) -> int | None:
    groups = root / "sys/fs/cgroup"
    text = read_text(groups / "memory.max") or read_text(groups / "memory/memory.limit_in_bytes")
    if not text.isdecimal() or int(text) >= _NO_LIMIT_BYTES:
        return None
    return int(text)


def find_container(environ: Mapping[str, str], root: Path, release: str) -> str | None:
    """Which kind of container this is in; `release` is that of the kernel."""
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    for file, container in _CONTAINER_BY_FILE.items():
        if (root / file).exists():
            return container
    named_by_systemd = read_text(root / "run/systemd/container")
    if named_by_systemd:
        return named_by_systemd
    groups = read_text(root / "proc/self/cgroup")
    for container in _CONTAINER_GROUPS:
        if container in groups:
            return container
    return "wsl" if "microsoft" in release.lower() else None


def _ask_for_model(environ: Mapping[str, str]) -> str | None:
    """The model where /proc does not name it.

    On macOS, and on ARM, whose names lscpu has a list of.
    """
    questions = {"brand": ("sysctl", "-n", "machdep.cpu.brand_string"), "listing": ("lscpu",)}
    outputs = run_together(questions, environ)
    brand = outputs["brand"]
    if brand and brand.exit_code == 0 and brand.text.strip():
        return brand.text.strip()
    listing = outputs["listing"]
    if listing is None:
        return None
    for line in listing.text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "Model name":
            return value.strip()
    return None


def count_usable_cores() -> int | None:
    """The cores this process may run on; all there are where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()
