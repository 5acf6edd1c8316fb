"""A folder that version 0.1.0 wrote is read as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

from clawgauge import load
from support.command import clawgauge

OLD_RUN = Path(__file__).parents[2] / "data" / "run_0_1_0"
READERS = [
    ["show"], ["show", "-v"], ["show", "latest", "small/P1"], ["report"], ["history"], ["export"], ["route"],
    ["compare", "old", "other"], ["summarize"], ["rescore"],
]  # fmt: skip


def test_a_run_of_0_1_0_is_read_by_every_verb(tmp_path: Path) -> None:
    """Three prompts: one passed, one called a tool in text, one had no answer."""
    for name in ("old", "other"):
        shutil.copytree(OLD_RUN, tmp_path / "runs" / name)
    for words in READERS:
        done = clawgauge(tmp_path, *words)
        assert done.code == 0, (words, done.stderr)
    assert "2/3" in clawgauge(tmp_path, "history").stdout
    assert [row["objective_pass"] for row in load("old", tmp_path / "runs")] == [True, True, None]
