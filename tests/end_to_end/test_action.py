"""The steps of the GitHub action, as a script that a runner would start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.command import clawgauge, clean_environment, trust_configuration
from support.scripted_server import ScriptedServer, Text

ROOT = Path(__file__).parents[2]


def act(place: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    trust_configuration(place)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    outputs = {
        "GITHUB_OUTPUT": str(place / "output"),
        "GITHUB_STEP_SUMMARY": str(place / "step.md"),
    }
    environment = clean_environment(**{**outputs, **inputs, "PATH": path})
    return subprocess.run(
        ["bash", ROOT / "scripts" / "action"],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_a_run_its_report_and_its_summary(place: Path, server: ScriptedServer) -> None:
    server.reply_with(Text("yes"))
    done = act(
        place, TARGETS="fake:scripted-model", SUITES="small.json", ARGUMENTS="--prompt-ids\nP0,P1\n"
    )
    assert done.returncode == 0, done.stderr
    folder = place / (place / "output").read_text().removeprefix("run=").strip()
    assert (folder / "report.html").exists()
    assert (place / "step.md").read_text() == (folder / "summary.md").read_text()


def test_a_model_that_got_worse_fails_the_step(place: Path, server: ScriptedServer) -> None:
    server.reply_with(Text("yes"))
    before = clawgauge(
        place, "run", "-t", "fake:scripted-model", "-s", "small.json", "--run-id", "before"
    )
    assert before.code == 0
    server.reply_with(Text("no"))
    inputs = {"TARGETS": "fake:scripted-model", "SUITES": "small.json", "BASELINE": "runs/before"}
    done = act(place, **inputs, FAIL_ON="objective_pass_rate<0\n")
    assert done.returncode == 1, done.stderr
    assert "objective_pass_rate" in (place / "step.md").read_text()


def test_inputs_are_never_commands(place: Path) -> None:
    done = act(
        place,
        TARGETS="$(touch${IFS}owned) `touch owned` ;touch owned",
        ARGUMENTS="--dry-run\n$(touch owned)",
    )
    assert done.returncode == 2 and not (place / "owned").exists()


def test_the_action_hands_its_inputs_on_in_variables() -> None:
    """An expression in a script would be read as a part of it."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = action["runs"]["steps"]
    assert all("${{" not in step.get("run", "") for step in steps)
    given = {name for step in steps for name in step.get("env", {})}
    assert {"TARGETS", "SUITES", "ARGUMENTS", "BASELINE", "FAIL_ON"} <= given


@pytest.mark.parametrize(
    ("requirement", "installed"), [("", ROOT), ("clawgauge==9", "clawgauge==9")]
)
def test_the_action_installs_the_program_that_it_is_a_part_of(
    tmp_path: Path, requirement: str, installed: str | Path
) -> None:
    """Published or not; another one where the user names it. The step is run as a runner would."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = [
        step["run"] for step in action["runs"]["steps"] if "pip install" in step.get("run", "")
    ]
    assert action["inputs"]["requirement"]["default"] == ""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\nfor word; do last=$word; done\nprintf %s "$last" > installed\n')
    python.chmod(0o755)
    inputs = {"REQUIREMENT": requirement, "GITHUB_ACTION_PATH": str(ROOT)}
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["bash", "-ec", step], cwd=tmp_path, env={**inputs, "PATH": path}, check=True)
    assert (tmp_path / "installed").read_text() == str(installed)


def test_the_image_has_its_model_for_whoever_runs_it() -> None:
    """A run's folder is mounted, so the container runs as its owner: nothing may lie in another user's home."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    steps = [line for line in lines if line and not line.startswith("#")]
    fetch = next(place for place, step in enumerate(steps) if "--get-embedded" in step)
    assert any(step.startswith("ENV CLAWGAUGE_CACHE_DIR=/opt/") for step in steps[:fetch])
    assert "chmod -R a+rX /opt/" in steps[fetch] and not any(
        step.startswith("USER") for step in steps[:fetch]
    )
    assert '--user "$(id -u)"' in "\n".join(lines)
    copied = [name for step in steps if step.startswith("COPY") for name in step.split()[1:-1]]
    assert all((ROOT / name).exists() for name in copied)
