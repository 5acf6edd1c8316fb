"""inventory.json: what this machine is and what is installed on it."""

from __future__ import annotations

import functools
import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from clawgauge.host.commands import SYSTEM_PATH, CommandOutput, ask, read_text, run_together
from clawgauge.host.snapshot import (
    MACOS_QUERY,
    NVIDIA_QUERY,
    ROCM_QUERY,
    parse_macos,
    parse_nvidia,
    parse_rocm,
)
from clawgauge.records import SCHEMA_VERSION, Inventory, ModelInfo, ProviderProbe

PACKAGES = (
    "clawgauge",
    "httptools",
    "msgspec",
    "google-re2",
    "jsonschema-rs",
    "rich",
    "psutil",
    "pyyaml",
    "uvloop",
    "xllamacpp",
)
CLI_PROGRAMS = ("ollama", "claude", "node")
VERSION_LENGTH = 200
_SIZE_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
# Instruction sets that decide how fast a model runs on a CPU.
TELLING_FLAGS = (
    *("sse4_2", "f16c", "fma", "avx", "avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16"),
    *("amx_tile", "amx_int8", "asimd", "asimddp", "sve", "i8mm"),
)
CONTAINER_MARKS = {".dockerenv": "docker", "run/.containerenv": "podman"}
CGROUP_MARKS = ("docker", "kubepods", "containerd", "lxc", "podman")
ROOT = Path("/")
# Asked for config.json and for inventory.json, and read with all of a package's README.
_package_version = functools.cache(metadata.version)
_LISTED_MODEL = re.compile(r"^(\S+)\s+([0-9a-f]{8,64})\s+(?:(\d+\.?\d*)\s([KMGT]?B)|-)\s", re.ASCII)


def collect_inventory(
    providers: Sequence[ProviderProbe], *, environ: Mapping[str, str] = SYSTEM_PATH
) -> Inventory:
    """Ask the machine everything at once, its tools on the PATH of `environ`. If some hang it takes three seconds."""
    questions: dict[str, Sequence[str]] = {name: (name, "--version") for name in CLI_PROGRAMS}
    questions |= {
        "nvidia-smi": NVIDIA_QUERY,
        "rocm-smi": ROCM_QUERY,
        "system_profiler": MACOS_QUERY,
    }
    probe = next(
        (one for one in providers if one.provider.startswith("ollama") and one.reachable), None
    )
    if probe is None:
        questions["ollama list"] = ("ollama", "list")
    outputs = run_together(questions, environ)
    gpus = parse_nvidia(outputs["nvidia-smi"]) + parse_rocm(outputs["rocm-smi"])
    return Inventory(
        schema_version=SCHEMA_VERSION, collected_at_ms=time.time_ns() // 1_000_000,
        python_version=platform.python_version(), packages=package_versions(),
        host=describe_host(environ), cpu=describe_cpu(environ), memory=describe_memory(),
        gpus=gpus + parse_macos(outputs["system_profiler"]), providers=list(providers),
        ollama_list=probe.models if probe else _parse_ollama_list(outputs["ollama list"]),
        cli_versions={name: _read_version(outputs[name]) for name in CLI_PROGRAMS},
    )  # fmt: skip


def _parse_ollama_list(output: CommandOutput | None) -> list[ModelInfo] | None:
    """The rows of `ollama list`; None where there is no Ollama or its server is not running."""
    if output is None or output.exit_code != 0:
        return None
    rows = [row.groups() for row in map(_LISTED_MODEL.match, output.text.splitlines()) if row]
    # Ollama rounds what it prints, in decimal units: near, not exact.
    sizes = [round(float(size) * _SIZE_UNITS[unit]) if size else None for _, _, size, unit in rows]
    return [
        ModelInfo(name=row[0], digest=row[1], size_bytes=n)
        for row, n in zip(rows, sizes, strict=True)
    ]


def _read_version(output: CommandOutput | None) -> str | None:
    """The line that has a version number in it, as `ollama` without its server warns before and while it says it."""
    numbered = (
        line.strip()
        for line in (output.text if output else "").splitlines()
        if re.search(r"\d+\.\d+", line)
    )
    return next(numbered, "").removeprefix("Warning: ")[:VERSION_LENGTH] or None


def package_versions(names: Sequence[str] = PACKAGES) -> dict[str, str]:
    versions = {}
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = _package_version(name)
    return versions


def describe_host(environ: Mapping[str, str], root: Path = ROOT) -> dict[str, Any]:
    """Name and kind of the system. `root` is where its /proc, /sys and /run are."""
    system = os.uname()
    return {
        "hostname": system.nodename, "system": system.sysname, "release": system.release, "machine": system.machine,
        "distribution": ask(lambda: platform.freedesktop_os_release().get("PRETTY_NAME")),
        "container": _find_container(environ, root, system.release),
        "python_implementation": platform.python_implementation(),
    }  # fmt: skip


def describe_cpu(environ: Mapping[str, str], root: Path = ROOT) -> dict[str, Any]:
    """Model, cores and speed. `usable_cores` is what this process may run on, `quota_cores` what a container grants."""
    # The first processor's block, and what stands after the last (boards name themselves there).
    pairs = (
        line.partition(":") for line in reversed(read_text(root / "proc/cpuinfo").splitlines())
    )
    told = {name.strip(): value.strip() for name, colon, value in pairs if colon}
    frequency = ask(psutil.cpu_freq)
    quota, _, period = (read_text(root / "sys/fs/cgroup/cpu.max") or "max").partition(" ")
    flags = set((told.get("flags") or told.get("Features") or "").split())
    return {
        "model": told.get("model name") or told.get("Model") or _ask_tools(environ),
        "physical_cores": ask(lambda: psutil.cpu_count(logical=False)),
        "logical_cores": os.cpu_count(), "usable_cores": ask(count_usable_cores),
        "quota_cores": None if quota == "max" else ask(lambda: round(int(quota) / int(period), 2)),
        "frequency_mhz": round(frequency.current) or None if frequency else None,
        "max_frequency_mhz": round(frequency.max) or None if frequency else None,
        "governor": read_text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        "flags": [flag for flag in TELLING_FLAGS if flag in flags],
    }  # fmt: skip


def describe_memory(root: Path = ROOT) -> dict[str, Any]:
    memory, swap = ask(psutil.virtual_memory), ask(psutil.swap_memory)
    groups = root / "sys/fs/cgroup"
    limit = read_text(groups / "memory.max") or read_text(groups / "memory/memory.limit_in_bytes")
    return {
        "total_bytes": memory.total if memory else None, "available_bytes": memory.available if memory else None,
        "swap_total_bytes": swap.total if swap else None,
        # Version 1 of cgroups says "no limit" with a number near 2^63.
        "limit_bytes": int(limit) if limit.isdecimal() and int(limit) < 1 << 60 else None,
    }  # fmt: skip


def _find_container(environ: Mapping[str, str], root: Path, release: str) -> str | None:
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    groups = read_text(root / "proc/self/cgroup")
    signs = [name for path, name in CONTAINER_MARKS.items() if (root / path).exists()]
    signs += [
        read_text(root / "run/systemd/container"),
        *(mark for mark in CGROUP_MARKS if mark in groups),
    ]
    return next(filter(None, signs), "wsl" if "microsoft" in release.lower() else None)


def _ask_tools(environ: Mapping[str, str]) -> str | None:
    """The model where /proc does not say it: on macOS, and on ARM, whose names lscpu knows by heart."""
    outputs = run_together(
        {"brand": ("sysctl", "-n", "machdep.cpu.brand_string"), "listing": ("lscpu",)}, environ
    )
    brand, listing = outputs["brand"], outputs["listing"]
    if brand and brand.exit_code == 0 and brand.text.strip():
        return brand.text.strip()
    rows = (line.partition(":") for line in listing.text.splitlines()) if listing else ()
    return next((value.strip() for name, _, value in rows if name.strip() == "Model name"), None)


def count_usable_cores() -> int | None:
    """The cores this process may run on; all there are where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
