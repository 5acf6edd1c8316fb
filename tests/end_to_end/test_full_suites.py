"""Both built-in suites, whole, on the embedded model: what `make run` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import clawgauge


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_both_suites_on_the_embedded_model(tmp_path: Path) -> None:
    """Every prompt is answered by a real model, and the tier it gets is decided."""
    done = clawgauge(tmp_path, "run", "-t", "embedded:smollm2-135m", timeout_s=1700)
    assert done.code == 0, done.stderr
    records = done.records()
    assert len(records) == len({(r["suite"], r["prompt_id"]) for r in records}) >= 49
    assert {r["suite"] for r in records} == {"core", "tool_use"}
    assert all(r["success"] and r["ttft_ms"] is not None and r["output_tokens"] for r in records)
    assert all(r["output_tokens"] <= 256 for r in records)
    (group,) = done.summary()["models"]
    assert group["tool_use"]["n"] >= 24 and group["tool_use"]["decided"] is True
    assert group["output_tps"]["p50"] > 0 and group["peak_memory_bytes"] > 100_000_000
