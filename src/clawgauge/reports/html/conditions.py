"""Under which conditions a run was made: what it asked, how, with what, and on which machine.

Owns: the rows of the page's last section. Refuses: the host's name and addresses of servers; a report is passed on.
"""

from __future__ import annotations

from typing import Any

from clawgauge.records import Inventory, RunConfig, RunSummary
from clawgauge.reports.wording import format_bytes, format_duration, plural


def list_conditions(summary: RunSummary, config: RunConfig | None, inventory: Inventory | None) -> list[list[str]]:
    """`[name, value]` of everything known."""
    rows = [["Run", summary.run_id]]
    if summary.source == "first_harness":
        rows.append(["Made by", "the first harness; what it did not record is shown as a dash"])
    if config is not None:
        rows += _plan(config)
    if summary.run_wall_clock_ms is not None:
        rows.append(["Took", format_duration(summary.run_wall_clock_ms)])
    if inventory is not None:
        rows += _machine(inventory)
    return [[name, value] for name, value in rows if value]


def _plan(config: RunConfig) -> list[list[str]]:
    options = config.options
    asked = [
        plural(options.repeats, "repeat"),
        f"concurrency {options.concurrency}",
        f"timeout {options.timeout_s:g} s",
        "streaming" if options.stream else "no streaming",
        f"at most {plural(options.max_retries, 'retry', 'retries')}",
    ]
    asked += [f"at most {options.max_tokens} tokens"] if options.max_tokens is not None else []
    asked += [f"temperature {options.temperature:g}"] if options.temperature is not None else []
    asked += [f"seed {options.seed}"] if options.seed is not None else []
    asked += ["warm-up calls"] if options.warm_up else []
    asked += ["a unique line before every prompt"] if options.unique_prefix else []
    asked += ["stopped when a tier was decided"] if options.until_decided else []
    return [
        ["Suites", ", ".join(f"{s.name} {s.version} ({plural(s.n_prompts, 'prompt')})" for s in config.suites)],
        ["Asked with", ", ".join(asked)],
        ["Prompts’ hash", config.prompts_sha256[:16]],
        ["clawgauge", config.clawgauge_version],
    ]


def _machine(inventory: Inventory) -> list[list[str]]:
    host, cpu, memory = inventory.host, inventory.cpu, inventory.memory
    total = memory.get("total_bytes")
    return [
        ["System", _words(host.get("distribution") or host.get("system"), host.get("machine"))],
        ["Processor", _words(cpu.get("model"), _cores(cpu))],
        ["Memory", format_bytes(total) if isinstance(total, int | float) else ""],
        ["Graphics", ", ".join(_words(gpu.get("name")) for gpu in inventory.gpus)],
        ["Python", inventory.python_version],
    ]


def _cores(cpu: dict[str, Any]) -> str:
    cores = cpu.get("logical_cores") or cpu.get("physical_cores")
    return plural(cores, "core") if isinstance(cores, int) else ""


def _words(*parts: Any) -> str:
    return " ".join(str(part) for part in parts if part)
