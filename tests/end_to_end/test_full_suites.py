"""Both built-in suites, whole, on the embedded model: what `make run` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import clawgauge


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_selection_on_the_embedded_model(tmp_path: Path) -> None:
    """Every prompt of a run without -s is answered by a real model; one that never saw the tools has shown nothing."""
    done = clawgauge(tmp_path, "run", "-t", "embedded:smollm2-135m", timeout_s=1700)
    assert done.code == 0, done.stderr
    records = done.records()
    assert len(records) == len({(r["suite"], r["prompt_id"]) for r in records}) >= 49
    assert {r["suite"] for r in records} == {
        "core",
        "tool_use",
        "native_tools",
        "restraint",
        "agentic",
    }
    assert all(r["success"] and r["ttft_ms"] is not None and r["output_tokens"] for r in records)
    assert all(r["output_tokens"] <= 256 * (r["turns"] or 1) for r in records)
    (group,) = done.summary()["models"]
    assert group["tool_use"]["n"] >= 20 and {
        need["met"] for need in group["tool_use"]["needs"]
    } == {"cannot_tell"}
    assert group["output_tps"]["p50"] > 0 and group["peak_memory_bytes"] > 100_000_000
