"""Run folders written with plain `json`, so the code under test is read by a writer that shares nothing with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

T0 = 1_771_000_000_000
MODEL = "llama3.2:3b"


def record(prompt_id: str = "P0", **changes: Any) -> dict[str, Any]:
    """A successful, passed call with every field of the schema document and the additions a run writes."""
    base: dict[str, Any] = {
        "record_type": "result",
        "run_id": "20260213_235930",
        "provider": "ollama_openai",
        "model": MODEL,
        "thinking_level": None,
        "prompt_id": prompt_id,
        "prompt_name": f"name_{prompt_id}",
        "availability_status": "ok",
        "started_at_ms": T0,
        "ended_at_ms": T0 + 100,
        "e2e_ms": 100,
        "ttft_ms": 20,
        "success": True,
        "failure_type": None,
        "objective_pass": True,
        "violation": None,
        "input_tokens": 30,
        "output_tokens": 10,
        "raw_output": "HEARTBEAT_OK",
        "parsed_output": {"value": "HEARTBEAT_OK"},
        "tool_calls": [],
        "tool_call_count": 0,
        "tool_use_success": False,
        "suite": "core",
        "repeat": 0,
        "stretch": 0,
        "expected_tools": [],
        "ttfa_ms": 25,
        "timings_us": {"e2e": 100_000, "ttft": 20_000, "ttfa": 25_000, "connect": None},
        "output_tps": 50.0,
        "total_ms": 100,
        "attempts": [],
        "streamed": True,
        "cold_start": False,
        "finish_reason": "stop",
        "model_reported": MODEL,
        "error": None,
        "tool_invocations": [],
        "tools_offered": False,
        "cost_usd": None,
        "warnings": [],
    }
    return base | changes


def failed(prompt_id: str, status: str, failure_type: str, **changes: Any) -> dict[str, Any]:
    """A cell that was asked once and not answered, as the contract has it."""
    attempt = {"status": status, "failure_type": failure_type, "e2e_ms": 100}
    nulls = dict.fromkeys(
        ("ttft_ms", "ttfa_ms", "objective_pass", "parsed_output", "output_tokens", "output_tps")
    )
    return record(
        prompt_id,
        availability_status=status,
        success=False,
        failure_type=failure_type,
        raw_output="",
    ) | (nulls | {"finish_reason": None, "model_reported": None, "attempts": [attempt]} | changes)


def tool_record(
    prompt_id: str, called: bool, *, native: bool = False, **changes: Any
) -> dict[str, Any]:
    """An answered prompt that expects the tool `free`."""
    channel = "native" if native else "text:backtick"
    call = {"name": "free", "arguments": {}, "channel": channel, "valid": True}
    return (
        record(
            prompt_id,
            suite="tool_use",
            expected_tools=["free"],
            tools_offered=native,
            tool_use_success=called,
            tool_calls=["free"] if called else [],
            tool_call_count=int(called),
            tool_invocations=[call] if called else [],
            objective_pass=called,
        )
        | changes
    )


def prompt(
    prompt_id: str, suite: str = "core", validator: dict[str, Any] | None = None
) -> dict[str, Any]:
    validator = validator or {"type": "exact", "value": "HEARTBEAT_OK"}
    return {
        "id": prompt_id,
        "name": prompt_id,
        "prompt": "…",
        "validator": validator,
        "suite": suite,
    }


def config(
    prompts: list[dict[str, Any]], models: tuple[str, ...] = (MODEL,), **changes: Any
) -> dict[str, Any]:
    base: dict[str, Any] = {
        "schema_version": 1,
        "run_id": "20260213_235930",
        "created_at_ms": T0,
        "clawgauge_version": "1.0.0",
        "models": list(models),
        "targets": [
            {"provider": "ollama_openai", "model": model, "thinking_level": None}
            for model in models
        ],
        "options": {"repeats": 1},
        "suites": [],
        "prompts": prompts,
        "prompts_sha256": "0" * 64,
    }
    return base | changes


def write_run(
    folder: Path,
    records: list[dict[str, Any] | str],
    *,
    config: dict[str, Any] | None = None,
    events: list[dict[str, Any]] | None = None,
) -> Path:
    """Write a run folder; a record given as a string goes in as that line."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
    (folder / "results.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if events is not None:
        (folder / "events.jsonl").write_text(
            "".join(f"{json.dumps(e)}\n" for e in events), encoding="utf-8"
        )
    return folder


def write_subagent_run(
    folder: Path,
    *,
    native: tuple[int, int] = (20, 20),
    right: int | None = None,
    restraint: tuple[int, int] = (15, 15),
    tasks: tuple[int, int] = (8, 8),
    harm: int = 0,
    n_variants: int = 1,
    **changes: Any,
) -> Path:
    """A run with all that a recommendation needs, each as k of n. `right` calls of those made have right arguments;
    the last `harm` tasks do harm; each prompt has so many variants, which end alike.
    """
    call = {"type": "tool_call", "expected_calls": [{"name": "free"}]}
    kinds = [
        ("N", native, call, {"expected_tools": ["free"], "tools_offered": True}),
        ("R", restraint, {"type": "tool_call", "no_call": True}, {"tools_offered": True}),
        ("W", tasks, {"type": "world_state", "expect": []}, {"turns": 3}),
    ]
    prompts, rows = [], []
    for kind, (k, n), validator, fields in kinds:
        for number in range(n):
            for variant in range(n_variants):
                name = f"{kind}{number}#{variant}"
                prompts.append(prompt(name, "agent", validator) | {"variant_of": f"{kind}{number}"})
                row = record(name, suite="agent", objective_pass=number < k, **fields)
                calls = number < k if kind == "N" else kind == "R" and number >= k
                if kind == "N":
                    row |= {
                        "tool_use_success": calls,
                        "objective_pass": number < (k if right is None else right),
                    }
                if kind == "W" and number >= n - harm:
                    row |= {
                        "objective_pass": False,
                        "violation": "forbidden_effect: /etc/passwd is gone",
                    }
                rows.append(row | {"tool_channel": "native" if calls else "none"})
    return write_run(folder, rows, config=config(prompts, **changes))
