"""The SKILL.md and the MCP server, loaded by the real OpenClaw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import clawgauge, clean_environment
from support.sample_runs import write_sample_run
from support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
OPENCLAW = ROOT / ".cache/openclaw/node_modules/.bin/openclaw"
NODE = ROOT / ".cache/openclaw/node/node_modules/.bin"

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not OPENCLAW.exists(), reason="the real OpenClaw is not installed: scripts/get-openclaw"
    ),
]


def openclaw(home: Path, *words: str) -> str:
    """The standard output of a command that must succeed, with a state of its own under `home`."""
    done = subprocess.run(
        [OPENCLAW, *words],
        env=clean_environment(
            HOME=str(home), PATH=f"{NODE}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        ),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_openclaw_loads_the_skill(tmp_path: Path) -> None:
    """It is read, ready (the program that it needs is found), and shown to the model."""
    folder = tmp_path / ".openclaw" / "skills" / "clawgauge"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(clawgauge(tmp_path, "mcp", "--skill").stdout)
    skill = json.loads(openclaw(tmp_path, "skills", "info", "clawgauge", "--json"))
    assert skill["name"] == "clawgauge" and skill["eligible"] is True
    assert "fit for a job" in skill["description"]
    assert skill["missing"]["bins"] == []
    assert Path(skill["filePath"]) == folder / "SKILL.md"


def test_openclaw_finds_the_tools(tmp_path: Path) -> None:
    """`openclaw mcp probe` starts the server that `openclaw mcp add` was told of, and lists its tools."""
    runs = tmp_path / "runs"
    write_sample_run(runs / "sample", run_id="sample", hostile=False)
    arguments = [
        word
        for argument in ("-m", "clawgauge", "mcp", "--runs-dir", str(runs))
        for word in ("--arg", argument)
    ]
    openclaw(tmp_path, "mcp", "add", "clawgauge", "--command", sys.executable, *arguments)
    probed = openclaw(tmp_path, "mcp", "probe", "clawgauge", "--json")
    tools = json.loads(probed)["tools"]
    assert {"clawgauge__answer_by_job", "clawgauge__show_call"} <= set(tools)
    assert "clawgauge__start_run" not in tools
