"""Records to write, and child processes to write them with."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

from clawgauge.records import (
    Attempt,
    Event,
    Result,
    RunConfig,
    RunOptions,
    Target,
    TimingsUs,
    plan_targets,
)


def append_now(journal: Any, record: Any) -> None:
    """Append from code that runs in no event loop."""
    asyncio.run(journal.append(record))


def make_result(**changes: Any) -> Result:
    """A plausible result with the fields a test cares about set."""
    fields: dict[str, Any] = {
        "run_id": "20260213_235930",
        "provider": "ollama_openai",
        "model": "llama3.2:3b",
        "thinking_level": None,
        "prompt_id": "P0",
        "prompt_name": "sanity_heartbeat",
        "availability_status": "ok",
        "started_at_ms": 1_770_000_000_000,
        "ended_at_ms": 1_770_000_000_840,
        "e2e_ms": 840,
        "ttft_ms": 120,
        "success": True,
        "failure_type": None,
        "objective_pass": True,
        "violation": None,
        "input_tokens": 31,
        "output_tokens": 12,
        "raw_output": "HEARTBEAT_OK",
        "parsed_output": {"value": "HEARTBEAT_OK"},
        "tool_calls": [],
        "tool_call_count": 0,
        "tool_use_success": False,
        "suite": "core",
        "repeat": 0,
        "expected_tools": [],
        "timings_us": TimingsUs(e2e=840_123, ttft=120_456),
        "total_ms": 840,
        "attempts": [Attempt(status="ok", failure_type=None, e2e_ms=840)],
    }
    return Result(**{**fields, **changes})


def ends_whole(path: Path) -> bool:
    """Whether the results in run folder `path` end with a whole line."""
    data = (path / "results.jsonl").read_bytes()
    return not data or data.endswith(b"\n")


def make_config(**changes: Any) -> RunConfig:
    """A config.json for a run of one target and no prompts."""
    fields: dict[str, Any] = {
        "schema_version": 1,
        "run_id": "20260213_235930",
        "created_at_ms": 1_770_000_000_000,
        "clawgauge_version": "0.1.0",
        "models": ["llama3.2:3b"],
        "planned_targets": plan_targets([Target("ollama_openai", "llama3.2:3b")]),
        "options": RunOptions(),
        "suites": [],
        "prompts": [],
        "prompts_sha256": "0" * 64,
    }
    return RunConfig(**{**fields, **changes})


def make_event(**changes: Any) -> Event:
    """An event with a name and a time."""
    return Event(**{"event": "warm_up", "at_ms": 1_770_000_000_000, **changes})


def start_child(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Run `code` in a process of its own; `sys.argv[1:]` holds `arguments`, and `samples` can be imported."""
    preamble = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    command = [sys.executable, "-c", preamble + code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_child(code: str, *arguments: object) -> str:
    """Run `code` to its end and return what it printed; a failure shows its traceback."""
    child = start_child(code, *arguments)
    printed, complaints = child.communicate(timeout=120)
    assert child.returncode == 0, complaints
    return printed
