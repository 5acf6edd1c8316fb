"""Prompts of all built-in suites on the embedded model."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import clawgauge

N_PROMPTS_BY_SUITE = {"core": 10, "tool_use": 5, "native_tools": 24, "restraint": 6, "agentic": 4}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_prompts_of_every_suite_on_the_embedded_model(tmp_path: Path) -> None:
    """A real model answers each; one that never saw the tools has shown nothing."""
    prompt_ids = []
    for suite, n_prompts in N_PROMPTS_BY_SUITE.items():
        prompt_ids += [f"{suite}/P{number}" for number in range(n_prompts)]
    chosen = [f"--suite={suite}" for suite in N_PROMPTS_BY_SUITE]
    done = clawgauge(
        tmp_path,
        "run",
        "-t",
        "embedded:smollm2-135m",
        *chosen,
        "--prompt-ids",
        ",".join(prompt_ids),
        timeout_s=1700,
    )
    assert done.code == 0, done.stderr
    records = done.records()
    asked_ids = [f"{r['suite']}/{r['prompt_id']}" for r in records]
    assert len(asked_ids) == len(set(asked_ids))
    # A prompt's variants ("P7#2") are asked with it.
    assert {asked_id.partition("#")[0] for asked_id in asked_ids} == set(prompt_ids)
    assert all(r["success"] and r["ttft_ms"] is not None and r["output_tokens"] for r in records)
    assert all(r["output_tokens"] <= 256 * (r["turns"] or 1) for r in records)
    (group,) = done.summary()["models"]
    assert group["tool_use"]["n"] >= 20
    assert {need["met"] for need in group["tool_use"]["needs"]} == {"cannot_tell"}
    assert group["output_tps"]["p50"] > 0 and group["peak_memory_bytes"] > 100_000_000
