"""The conditions of a run: what it asked, how, and on which machine."""

from __future__ import annotations

from typing import Any

from clawgauge.records import Inventory, RunConfig, RunSummary
from clawgauge.reports.words import word_options, word_suites
from clawgauge.words import format_bytes, format_duration, plural

_HASH_CHARS = 16


def list_conditions(
    summary: RunSummary, config: RunConfig | None, inventory: Inventory | None
) -> list[list[str]]:
    """Names and values, for all that was recorded."""
    rows = [["Run", summary.run_id]]
    if summary.source == "first_harness":
        rows.append(["Made by", "the first harness; what it did not record is shown as a dash"])
    if config is not None:
        rows.append(["Suites", word_suites(config)])
        rows.append(["Asked with", word_options(config.options)])
        rows.append(["Prompts’ hash", config.prompts_sha256[:_HASH_CHARS]])
        rows.append(["clawgauge", config.clawgauge_version])
    if summary.context is not None:
        private = f"asked in your own prompt ({summary.context}): for your eyes alone"
        rows.append(["Private", private])
    if summary.run_wall_clock_ms is not None:
        rows.append(["Took", format_duration(summary.run_wall_clock_ms)])
    if inventory is not None:
        rows += _list_machine(inventory)
    return [[name, value] for name, value in rows if value]


def _list_machine(inventory: Inventory) -> list[list[str]]:
    host = inventory.host
    cpu = inventory.cpu
    cores = cpu.get("logical_cores") or cpu.get("physical_cores")
    n_cores = plural(cores, "core") if isinstance(cores, int) else ""
    total_bytes = inventory.memory.get("total_bytes")
    memory = format_bytes(total_bytes) if isinstance(total_bytes, int | float) else ""
    gpus = [_join(gpu.get("name")) for gpu in inventory.gpus]
    return [
        ["System", _join(host.get("distribution") or host.get("system"), host.get("machine"))],
        ["Processor", _join(cpu.get("model"), n_cores)],
        ["Memory", memory],
        ["Graphics", ", ".join(gpus)],
        ["Python", inventory.python_version],
    ]


def _join(*parts: Any) -> str:
    """The parts that are known."""
    return " ".join(str(part) for part in parts if part)
