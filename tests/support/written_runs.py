"""Run folders written with plain `json` for tests that read many of them: the writer shares nothing with the reader."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

T0 = 1_771_000_000_000
PROVIDER = "ollama_openai"
MODEL = "llama3.2:3b"
LABEL = f"{PROVIDER}:{MODEL}"
OPTIONS = {
    "repeats": 1, "concurrency": 1, "timeout_s": 300.0, "max_tokens": None, "temperature": None, "seed": None,
    "stream": True, "warm_up": False, "max_retries": 5, "retry_base_s": 1.0, "max_wait_s": 60.0, "unload_others": False,
    "prompt_ids": None, "unique_prefix": False, "until_decided": False, "max_calls": None, "max_cost_usd": None,
}  # fmt: skip


def record(prompt_id: str, passed: bool | None = True, **changes: Any) -> dict[str, Any]:
    """An answered call with every field a run writes that a reader may look at."""
    base: dict[str, Any] = {
        "record_type": "result", "run_id": "r", "provider": PROVIDER, "model": MODEL, "thinking_level": None,
        "prompt_id": prompt_id, "prompt_name": f"name_{prompt_id}", "availability_status": "ok", "started_at_ms": T0,
        "ended_at_ms": T0 + 100, "e2e_ms": 100, "ttft_ms": 20, "success": True, "failure_type": None,
        "objective_pass": passed, "violation": "not_exact: got no" if passed is False else None, "input_tokens": 30,
        "output_tokens": 10, "raw_output": "yes" if passed else "no", "parsed_output": None, "tool_calls": [],
        "tool_call_count": 0, "tool_use_success": False, "suite": "core", "repeat": 0, "stretch": 0,
        "expected_tools": [], "ttfa_ms": 20, "timings_us": {"e2e": 100_000, "ttft": 20_000}, "output_tps": 50.0,
        "total_ms": 100, "attempts": [], "streamed": True, "cold_start": False, "finish_reason": "stop",
        "model_reported": MODEL, "error": None, "tool_invocations": [], "tools_offered": False,
        "judged_by": "clawgauge.checks/2", "warnings": [],
    }  # fmt: skip
    return base | changes


def unanswered(prompt_id: str, failure_type: str = "timeout", **changes: Any) -> dict[str, Any]:
    """A call that ended without an answer."""
    nothing = dict.fromkeys(
        ("objective_pass", "violation", "ttft_ms", "ttfa_ms", "output_tokens", "judged_by")
    )
    ended = {
        "availability_status": "error",
        "success": False,
        "failure_type": failure_type,
        "raw_output": "",
    }
    attempt = {"status": "error", "failure_type": failure_type, "e2e_ms": 100}
    return record(prompt_id) | nothing | ended | {"attempts": [attempt]} | changes


def prompt(prompt_id: str, suite: str = "core", **changes: Any) -> dict[str, Any]:
    base = {
        "id": prompt_id,
        "name": f"name_{prompt_id}",
        "prompt": f"ask {prompt_id}",
        "suite": suite,
    }
    return {**base, "validator": {"type": "exact", "value": "yes"}, **changes}


def config(
    prompts: Sequence[dict[str, Any]], models: Sequence[str] = (MODEL,), **changes: Any
) -> dict[str, Any]:
    suites = dict.fromkeys(entry["suite"] for entry in prompts)
    base: dict[str, Any] = {
        "schema_version": 1,
        "run_id": "r",
        "created_at_ms": T0,
        "clawgauge_version": "1.0.0",
        "models": list(models),
        "targets": [
            {"provider": PROVIDER, "model": model, "thinking_level": None} for model in models
        ],
        "options": OPTIONS | changes.pop("options", {}),
        "suites": [
            {
                "name": s,
                "version": "1",
                "description": "",
                "n_prompts": 2,
                "sha256": "0",
                "source": s,
            }
            for s in suites
        ],
        "prompts": list(prompts),
        "prompts_sha256": "0" * 64,
        "providers": {PROVIDER: {"type": PROVIDER, "base_url": "http://localhost:11434/v1"}},
        "sampling": {
            f"{PROVIDER}:{m}": {"temperature": 0.0, "max_tokens": 1024, "seed": None}
            for m in models
        },
        "versions": {"clawgauge": "1.0.0"},
        "argv": [],
    }
    return base | changes


def inventory(**changes: Any) -> dict[str, Any]:
    model = {"name": MODEL, "digest": "aaa", "quantization": "Q4_K_M"}
    base: dict[str, Any] = {
        "schema_version": 1,
        "collected_at_ms": T0,
        "python_version": "3.11",
        "packages": {},
        "host": {"hostname": "mill", "machine": "x86_64", "container": None},
        "cpu": {"model": "Zen 4", "usable_cores": 8, "quota_cores": None},
        "memory": {},
        "gpus": [],
        "ollama_list": [model],
        "cli_versions": {},
        "providers": [{"provider": PROVIDER, "reachable": True, "models": [model]}],
    }
    return base | changes


def write_run(
    folder: Path,
    records: Sequence[dict[str, Any] | str],
    *,
    config: dict[str, Any] | None = None,
    inventory: dict[str, Any] | None = None,
) -> Path:
    """Write a run folder named as its run id; a record given as a string goes in as that line."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [r if isinstance(r, str) else json.dumps({**r, "run_id": folder.name}) for r in records]
    (folder / "results.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if config is not None:
        (folder / "config.json").write_text(
            json.dumps({**config, "run_id": folder.name}), encoding="utf-8"
        )
    if inventory is not None:
        (folder / "inventory.json").write_text(json.dumps(inventory), encoding="utf-8")
    return folder


def write_old_run(folder: Path, records: Sequence[dict[str, Any]]) -> Path:
    """A folder as the first harness left it: no prompts, no suite, an event among the results."""
    additions = (
        "suite",
        "repeat",
        "stretch",
        "expected_tools",
        "judged_by",
        "timings_us",
        "attempts",
        "total_ms",
    )
    bare = [{key: value for key, value in r.items() if key not in additions} for r in records]
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        {"record_type": "event", "event": "warmup"},
        *({**r, "run_id": folder.name} for r in bare),
    ]
    (folder / "results.jsonl").write_text(
        "".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8"
    )
    (folder / "config.json").write_text(json.dumps({"models": [MODEL]}), encoding="utf-8")
    return folder
