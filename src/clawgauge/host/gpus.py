"""GPUs as their vendors' tools describe them: nvidia-smi, rocm-smi, macOS's system_profiler.

Owns: which question each tool is asked and how its answer is read. Refuses: guessing; a figure that a tool does not
give is None, and an answer that cannot be read means no GPU known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from clawgauge.host.commands import CommandOutput, run_command, run_together

MEBIBYTE = 1 << 20
# A query and not the plain table: the table names processes with their arguments.
NVIDIA_QUERY = (
    "nvidia-smi",
    "--query-gpu=index,name,memory.total,memory.used,utilization.gpu,temperature.gpu,driver_version",
    "--format=csv,nounits",
)
NVIDIA_VRAM_QUERY = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
ROCM_QUERY = ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json")
MACOS_QUERY = ("system_profiler", "-json", "SPDisplaysDataType")


def query_gpus(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """All GPUs that any of the tools knows."""
    outputs = run_together({"nvidia": NVIDIA_QUERY, "rocm": ROCM_QUERY, "macos": MACOS_QUERY}, environ)
    return parse_nvidia(outputs["nvidia"]) + parse_rocm(outputs["rocm"]) + parse_macos(outputs["macos"])


def read_vram_used_bytes(environ: Mapping[str, str]) -> int | None:
    """Memory in use on all NVIDIA GPUs together; None where that is not known."""
    output = run_command(NVIDIA_VRAM_QUERY, environ)
    figures = [_to_int(line) for line in output.text.splitlines()] if output else []
    known = [figure for figure in figures if figure is not None]
    return sum(known) * MEBIBYTE if known else None


def parse_nvidia(output: CommandOutput | None) -> list[dict[str, Any]]:
    gpus = []
    for line in output.text.splitlines() if output else []:
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 7 or not fields[0].isdecimal():
            continue
        gpus.append(
            {
                "vendor": "nvidia",
                "index": int(fields[0]),
                "name": fields[1],
                "memory_total_bytes": _mebibytes(fields[2]),
                "memory_used_bytes": _mebibytes(fields[3]),
                "utilization_percent": _to_int(fields[4]),
                "temperature_c": _to_int(fields[5]),
                "driver": fields[6],
            }
        )
    return gpus


def parse_rocm(output: CommandOutput | None) -> list[dict[str, Any]]:
    gpus = []
    for card, facts in _json_object(output).items():
        if not card.startswith("card") or not isinstance(facts, dict):
            continue
        # The spelling of the keys changed between versions in case alone.
        told = {key.lower(): value for key, value in facts.items()}
        gpus.append(
            {
                "vendor": "amd",
                "index": _to_int(card.removeprefix("card")),
                "name": told.get("card series") or told.get("device name") or told.get("card model") or card,
                "memory_total_bytes": _to_int(told.get("vram total memory (b)")),
                "memory_used_bytes": _to_int(told.get("vram total used memory (b)")),
            }
        )
    return gpus


def parse_macos(output: CommandOutput | None) -> list[dict[str, Any]]:
    displays = _json_object(output).get("SPDisplaysDataType")
    rows = [row for row in displays if isinstance(row, dict)] if isinstance(displays, list) else []
    return [
        {
            "vendor": "apple" if "apple" in str(row.get("spdisplays_vendor", "")).lower() else "other",
            "index": index,
            "name": str(row.get("sppci_model") or row.get("_name") or "unknown"),
            "cores": _to_int(row.get("sppci_cores")),
        }
        for index, row in enumerate(rows)
    ]


def _json_object(output: CommandOutput | None) -> dict[str, Any]:
    if output is None:
        return {}
    try:
        decoded = msgspec.json.decode(output.text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _mebibytes(field: str) -> int | None:
    figure = _to_int(field)
    return None if figure is None else figure * MEBIBYTE


def _to_int(value: object) -> int | None:
    text = str(value).strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None
