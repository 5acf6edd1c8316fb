"""inventory.json: what this machine is and what is installed on it."""

from __future__ import annotations

import platform
import re
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from clawgauge.host.commands import SYSTEM_PATH, CommandOutput, run_together
from clawgauge.host.gpus import query_gpus
from clawgauge.host.machine import describe_cpu, describe_host, describe_memory
from clawgauge.records import SCHEMA_VERSION, Inventory, ModelInfo, ProviderProbe

PACKAGES = (
    "clawgauge",
    "httptools",
    "msgspec",
    "google-re2",
    "rich",
    "psutil",
    "pyyaml",
    "uvloop",
    "xllamacpp",
)
CLI_PROGRAMS = ("ollama", "claude", "node")
VERSION_LENGTH = 200
_SIZE_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_LISTED_MODEL = re.compile(r"^(\S+)\s+([0-9a-f]{8,64})\s+(?:([\d.]+)\s([KMGT]?B)|-)\s", re.ASCII)


def collect_inventory(
    providers: Sequence[ProviderProbe],
    *,
    environ: Mapping[str, str] = SYSTEM_PATH,
    cli_paths: Mapping[str, str] | None = None,
) -> Inventory:
    """Ask the machine everything at once. With tools that hang it takes three seconds.

    `environ` gives the PATH on which tools are looked for; `cli_paths` names programs that are elsewhere, as
    `{"claude": "/opt/claude/bin/claude"}`.
    """
    gpus: list[dict[str, Any]] = []
    asking_gpus = threading.Thread(target=lambda: gpus.extend(query_gpus(environ)), name="host-gpus", daemon=True)
    asking_gpus.start()
    programs = {**{name: name for name in CLI_PROGRAMS}, **(cli_paths or {})}
    questions = {name: (program, "--version") for name, program in programs.items()}
    probe = _find_ollama(providers)
    if probe is None:
        questions["ollama list"] = (programs["ollama"], "list")
    outputs = run_together(questions, environ)
    asking_gpus.join()
    return Inventory(
        schema_version=SCHEMA_VERSION,
        collected_at_ms=time.time_ns() // 1_000_000,
        python_version=platform.python_version(),
        packages=package_versions(),
        host=describe_host(environ),
        cpu=describe_cpu(environ),
        memory=describe_memory(),
        gpus=gpus,
        ollama_list=probe.models if probe else parse_ollama_list(outputs["ollama list"]),
        cli_versions={name: read_version(outputs[name]) for name in programs},
        providers=list(providers),
    )


def parse_ollama_list(output: CommandOutput | None) -> list[ModelInfo] | None:
    """The rows of `ollama list`; None where there is no Ollama or its server is not running."""
    if output is None or output.exit_code != 0:
        return None
    rows = (_LISTED_MODEL.match(line) for line in output.text.splitlines())
    return [
        ModelInfo(name=row[1], digest=row[2], size_bytes=_to_bytes(row[3], row[4])) for row in rows if row is not None
    ]


def read_version(output: CommandOutput | None) -> str | None:
    """The line that has a version number in it, as `ollama` without its server warns before and while it says it."""
    if output is None:
        return None
    numbered = (line.strip() for line in output.text.splitlines() if re.search(r"\d+\.\d+", line))
    return next(numbered, "").removeprefix("Warning: ")[:VERSION_LENGTH] or None


def _find_ollama(providers: Sequence[ProviderProbe]) -> ProviderProbe | None:
    return next((probe for probe in providers if probe.provider.startswith("ollama") and probe.reachable), None)


def package_versions(names: Sequence[str] = PACKAGES) -> dict[str, str]:
    """The versions of those that are installed."""
    versions = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _to_bytes(amount: str | None, unit: str | None) -> int | None:
    """Ollama rounds what it prints, in decimal units: near, not exact."""
    try:
        return round(float(amount) * _SIZE_UNITS[unit]) if amount and unit else None
    except ValueError:
        return None
