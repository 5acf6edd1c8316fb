"""Where and with what a bench run was made: a figure without its machine says nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from bench.server_process import ROOT
from bench.setting import load_average

LIBRARIES = ("clawgauge", "httptools", "aiohttp", "uvloop", "msgspec", "google-re2", "psutil")


def describe_machine() -> dict[str, Any]:
    """Host, interpreter, libraries, commit, time, and how busy the machine was."""
    return {
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "system": f"{platform.system()} {platform.release()}",
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "python": platform.python_version(),
        "libraries": {
            name: version for name in LIBRARIES if (version := _version(name)) is not None
        },
        "commit": _commit(),
        "load_average": load_average(),
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        "unknown",
    )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit measured, with a mark where the tree differs from it; None outside a checkout."""
    try:
        command = ["git", "describe", "--always", "--dirty"]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
