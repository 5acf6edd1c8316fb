"""inventory.json: what this machine is and what is installed on it."""

from __future__ import annotations

import functools
import platform
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata

from clawgauge.host.commands import SYSTEM_PATH, CommandOutput, run_together
from clawgauge.host.gpus import (
    MACOS_QUERY,
    NVIDIA_QUERY,
    ROCM_QUERY,
    parse_macos,
    parse_nvidia,
    parse_rocm,
)
from clawgauge.host.machine import describe_cpu, describe_host, describe_memory
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
_OLLAMA_LIST = "ollama list"
_MAX_VERSION_CHARS = 200
_VERSION_NUMBER = re.compile(r"\d+\.\d+")
# Before the line in which `ollama` without its server says its version.
_WARNING = "Warning: "
_SIZE_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_LISTED_MODEL = re.compile(
    r"^(?P<name>\S+)\s+(?P<digest>[0-9a-f]{8,64})\s+"
    r"(?:(?P<size>\d+\.?\d*)\s(?P<unit>[KMGT]?B)|-)\s",
    re.ASCII,
)
# Asked for config.json and for inventory.json, and read with all of a package's README.
_package_version = functools.cache(metadata.version)


def collect_inventory(
    providers: Sequence[ProviderProbe], *, environ: Mapping[str, str] = SYSTEM_PATH
) -> Inventory:
    """Ask the machine everything at once, its tools on the PATH of `environ`.

    If some of them hang it takes three seconds.
    """
    questions: dict[str, Sequence[str]] = {name: (name, "--version") for name in CLI_PROGRAMS}
    questions["nvidia-smi"] = NVIDIA_QUERY
    questions["rocm-smi"] = ROCM_QUERY
    questions["system_profiler"] = MACOS_QUERY
    ollama = _find_ollama(providers)
    if ollama is None:
        questions[_OLLAMA_LIST] = ("ollama", "list")
    outputs = run_together(questions, environ)
    gpus = parse_nvidia(outputs["nvidia-smi"])
    gpus += parse_rocm(outputs["rocm-smi"])
    gpus += parse_macos(outputs["system_profiler"])
    ollama_models = parse_ollama_list(outputs[_OLLAMA_LIST]) if ollama is None else ollama.models
    return Inventory(
        schema_version=SCHEMA_VERSION,
        collected_at_ms=time.time_ns() // 1_000_000,
        python_version=platform.python_version(),
        packages=package_versions(),
        host=describe_host(environ),
        cpu=describe_cpu(environ),
        memory=describe_memory(),
        gpus=gpus,
        ollama_list=ollama_models,
        cli_versions={name: read_version(outputs[name]) for name in CLI_PROGRAMS},
        providers=list(providers),
    )


def _find_ollama(providers: Sequence[ProviderProbe]) -> ProviderProbe | None:
    """What an Ollama has answered already, if one was reached."""
    for probe in providers:
        if probe.reachable and probe.provider.startswith("ollama"):
            return probe
    return None


def parse_ollama_list(output: CommandOutput | None) -> list[ModelInfo] | None:
    """The rows of `ollama list`; None where there is no Ollama or its server is not running."""
    if output is None or output.exit_code != 0:
        return None
    models = []
    for line in output.text.splitlines():
        match = _LISTED_MODEL.match(line)
        if match is None:
            continue
        size_bytes = None
        if match["size"]:
            # Ollama rounds what it prints, in decimal units: near, not exact.
            size_bytes = round(float(match["size"]) * _SIZE_UNITS[match["unit"]])
        model = ModelInfo(name=match["name"], digest=match["digest"], size_bytes=size_bytes)
        models.append(model)
    return models


def read_version(output: CommandOutput | None) -> str | None:
    """The line that has a version number in it; some programs warn before it."""
    if output is None:
        return None
    for line in output.text.splitlines():
        if _VERSION_NUMBER.search(line):
            version = line.strip().removeprefix(_WARNING)
            return version[:_MAX_VERSION_CHARS] or None
    return None


def package_versions(names: Sequence[str] = PACKAGES) -> dict[str, str]:
    """The versions of these packages, of those that are installed."""
    versions = {}
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = _package_version(name)
    return versions
