"""The provider shown in the docs is a working provider."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from support.waiting import PATIENCE_S

DOCS = Path(__file__).parents[2] / "docs"


def test_the_documented_provider_runs(tmp_path: Path) -> None:
    """The code in docs/providers.md, installed with its entry point, answers a run; a pattern finds its model."""
    page = (DOCS / "providers.md").read_text(encoding="utf-8")
    match = re.search(r"<!-- example: shout_provider.py -->\n```python\n(.*?)```", page, re.DOTALL)
    assert match is not None
    code = match.group(1)
    assert len(code.splitlines()) <= 40
    plugins = tmp_path / "plugins"
    info = plugins / "shout_provider-1.0.dist-info"
    info.mkdir(parents=True)
    (plugins / "shout_provider.py").write_text(code)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shout-provider\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[clawgauge.providers]\nshout = shout_provider:create\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "clawgauge",
            "run",
            "-t",
            "shout:*",
            "-s",
            "core",
            "--prompt-ids",
            "P0,P1",
            "--quiet",
        ],
        env={**os.environ, "PYTHONPATH": str(plugins)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    lines = (Path(tmp_path, done.stdout.strip()) / "results.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["provider"] for record in records] == ["shout", "shout"]
    assert all(record["success"] and record["ttft_ms"] is not None for record in records)
    assert all(record["raw_output"] == record["raw_output"].upper() for record in records)
