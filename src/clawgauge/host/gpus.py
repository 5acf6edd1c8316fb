"""The GPUs of the machine, out of what the tools of their makers print."""

from __future__ import annotations

from typing import Any

import msgspec

from clawgauge.host.commands import CommandOutput, read_figure

_MEBIBYTE = 1 << 20
_MAX_DIGITS = 19
# A query and not the plain table: the table names processes with their arguments.
NVIDIA_QUERY = (
    "nvidia-smi",
    "--query-gpu=index,name,memory.total,memory.used,utilization.gpu,temperature.gpu,"
    "driver_version",
    "--format=csv,nounits",
)
_NVIDIA_N_FIELDS = 7
NVIDIA_VRAM_QUERY = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
ROCM_QUERY = ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json")
MACOS_QUERY = ("system_profiler", "-json", "SPDisplaysDataType")


def parse_nvidia(output: CommandOutput | None) -> list[dict[str, Any]]:
    """The GPUs in the answer to `NVIDIA_QUERY`."""
    if output is None:
        return []
    gpus = []
    for line in output.text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != _NVIDIA_N_FIELDS or not fields[0].isdecimal():
            continue
        index, name, memory_total, memory_used, utilization, temperature, driver = fields
        gpu = {
            "vendor": "nvidia",
            "index": _to_int(index),
            "name": name,
            "memory_total_bytes": _mebibytes_to_bytes(memory_total),
            "memory_used_bytes": _mebibytes_to_bytes(memory_used),
            "utilization_percent": _to_int(utilization),
            "temperature_c": _to_int(temperature),
            "driver": driver,
        }
        gpus.append(gpu)
    return gpus


def parse_nvidia_vram(output: CommandOutput | None) -> int | None:
    """The memory in use on all GPUs, of the answer to `NVIDIA_VRAM_QUERY`."""
    if output is None:
        return None
    used_bytes = []
    for line in output.text.splitlines():
        figure = _mebibytes_to_bytes(line)
        if figure is not None:
            used_bytes.append(figure)
    return sum(used_bytes) if used_bytes else None


def parse_rocm(output: CommandOutput | None) -> list[dict[str, Any]]:
    """The GPUs in the answer to `ROCM_QUERY`."""
    gpus = []
    for card, facts in _json_object(output).items():
        if not card.startswith("card") or not isinstance(facts, dict):
            continue
        # The spelling of the keys changed between versions in case alone.
        facts = {key.lower(): value for key, value in facts.items()}
        name = facts.get("card series") or facts.get("device name") or facts.get("card model")
        gpu = {
            "vendor": "amd",
            "index": _to_int(card.removeprefix("card")),
            "name": name or card,
            "memory_total_bytes": _to_int(facts.get("vram total memory (b)")),
            "memory_used_bytes": _to_int(facts.get("vram total used memory (b)")),
        }
        gpus.append(gpu)
    return gpus


def parse_macos(output: CommandOutput | None) -> list[dict[str, Any]]:
    """The GPUs in the answer to `MACOS_QUERY`."""
    displays = _json_object(output).get("SPDisplaysDataType")
    if not isinstance(displays, list):
        return []
    gpus: list[dict[str, Any]] = []
    for facts in displays:
        if not isinstance(facts, dict):
            continue
        is_apple = "apple" in str(facts.get("spdisplays_vendor", "")).lower()
        gpu = {
            "vendor": "apple" if is_apple else "other",
            "index": len(gpus),
            "name": str(facts.get("sppci_model") or facts.get("_name") or "unknown"),
            "cores": _to_int(facts.get("sppci_cores")),
        }
        gpus.append(gpu)
    return gpus


def _json_object(output: CommandOutput | None) -> dict[str, Any]:
    if output is None:
        return {}
    document = read_figure(lambda: msgspec.json.decode(output.text))
    return document if isinstance(document, dict) else {}


def _mebibytes_to_bytes(field: str) -> int | None:
    n_mebibytes = _to_int(field)
    return None if n_mebibytes is None else n_mebibytes * _MEBIBYTE


def _to_int(value: object) -> int | None:
    """A number of nothing but digits; None for everything else, such as `[N/A]`."""
    text = str(value).strip()
    if not text.isascii() or not text.isdecimal() or len(text) > _MAX_DIGITS:
        return None
    return int(text)
