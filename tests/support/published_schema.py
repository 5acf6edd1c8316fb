"""Checks a run folder against the published JSON Schemas, and against the benchmark's own list of fields."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMA_DIR = Path(__file__).parents[2] / "docs" / "schema"
RESULT_FIELDS = [
    "record_type", "run_id", "provider", "model", "thinking_level", "prompt_id", "prompt_name", "availability_status",
    "started_at_ms", "ended_at_ms", "e2e_ms", "ttft_ms", "success", "failure_type", "objective_pass", "violation",
    "input_tokens", "output_tokens", "raw_output", "parsed_output", "tool_calls", "tool_call_count", "tool_use_success",
]  # fmt: skip
GROUP_FIELDS = [
    "provider", "model", "thinking_level", "n_total", "n_ok", "n_success", "n_skipped_unavailable", "n_rate_limited",
    "n_error", "success_rate_ok", "objective_pass_rate", "wall_clock_ms", "latency_ms", "resources_before",
    "resources_after",
]  # fmt: skip
STATUSES = {"ok", "skipped_unavailable", "auth_error", "rate_limited", "error"}


@functools.cache
def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMA_DIR / f"{name}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def check_run_folder(folder: Path) -> None:
    """Every file of ours in the folder is what the schemas say it is."""
    for name in ("config", "inventory", "summary"):
        path = folder / f"{name}.json"
        if path.is_file():
            validator(name).validate(json.loads(path.read_bytes()))
    for file, name in (
        ("results.jsonl", "result"),
        ("superseded.jsonl", "result"),
        ("events.jsonl", "event"),
    ):
        for line in _whole_lines(folder / file):
            validator(name).validate(line)
            if name == "result":
                check_result(line)
    summary = folder / "summary.json"
    for group in json.loads(summary.read_bytes())["models"] if summary.is_file() else ():
        assert list(group)[: len(GROUP_FIELDS)] == GROUP_FIELDS


def check_result(record: dict[str, Any]) -> None:
    """What holds for every record, whatever happened."""
    assert list(record)[: len(RESULT_FIELDS)] == RESULT_FIELDS
    assert record["record_type"] == "result" and record["availability_status"] in STATUSES
    assert record["tool_call_count"] == len(record["tool_calls"]) == len(set(record["tool_calls"]))
    assert (record["violation"] is not None) == (record["objective_pass"] is False)
    assert (record["failure_type"] is None) == record["success"]
    assert (
        len(record["raw_output"].encode()) <= 65_536
        and len((record["error"] or "").encode()) <= 2_048
    )
    if not record["success"]:
        assert record["objective_pass"] is None and record["parsed_output"] is None
        assert record["tool_calls"] == [] and record["tool_use_success"] is False
    if record["availability_status"] != "ok":
        assert not record["success"]
    assert record["ttft_ms"] is None or 0 <= record["ttft_ms"] <= record["e2e_ms"]


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    """The lines that are JSON; a test may have damaged others on purpose."""
    found = []
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
