"""Shell completion, asked as a shell asks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support.command import clawgauge
from support.rows import every_row
from support.written_runs import LABEL, config, prompt, record, write_run


@every_row(
    ("line", "some"),
    [
        ("clawgauge co", ["compare", "completion"]),
        ("clawgauge show ", ["latest", "mine"]),
        ("clawgauge show m", ["mine"]),
        ("clawgauge compare la", ["latest"]),
        ("clawgauge run -t oll", [LABEL.partition(":")[0]]),
        ("clawgauge run -s na", ["native_tools"]),
        ("clawgauge run --unt", ["--until-decided"]),
        ("clawgauge report 'la", ["latest"]),
    ],
)
def test_verbs_options_runs_targets_and_suites_are_completed(
    tmp_path: Path, line: str, some: list[str]
) -> None:
    write_run(tmp_path / "runs" / "mine", [record("P0")], config=config([prompt("P0")]))
    answer = tmp_path / "answer"
    asked = {
        "_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "COMP_LINE": line,
        "COMP_POINT": str(len(line)), "COMP_TYPE": "9", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
    }  # fmt: skip
    clawgauge(tmp_path, env=asked)
    offered = answer.read_text()
    for word in some:
        assert word in offered, offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_takes_its_script(tmp_path: Path, shell: str) -> None:
    done = clawgauge(tmp_path, "completion", shell)
    assert done.code == 0 and "clawgauge" in done.stdout
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n"], input=done.stdout, text=True, check=True)
