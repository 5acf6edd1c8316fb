"""Where the simulated shell cannot be installed, or is not needed, the rest works as ever."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PLAN = """
import sys
{before}
from clawgauge.cli import main
sys.argv = ["clawgauge", "run", "--dry-run", "-t", "embedded:smollm2-135m", *{suites!r}]
try:
    code = main()
finally:
    print("loaded" if sys.modules.get("bashkit") else "not loaded")
sys.exit(code)
"""


def plan(folder: Path, *suites: str, missing: bool) -> subprocess.CompletedProcess[str]:
    before = 'sys.modules["bashkit"] = None' if missing else ""
    program = PLAN.format(
        before=before, suites=[word for suite in suites for word in ("-s", suite)]
    )
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True
    )


def test_rehearsal_of_tasks_does_not_load_the_shell(tmp_path: Path) -> None:
    """The plan of a run with tasks is made, and their worlds are checked, without the engine."""
    done = plan(tmp_path, "agentic", missing=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "not loaded")


def test_tasks_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    """Other suites are run; a run of tasks alone is refused with what to do."""
    done = plan(tmp_path, "core", "agentic", missing=True)
    assert done.returncode == 0
    assert re.search(
        r"left out \d+ prompts that need the simulated shell: the package bashkit is not",
        done.stderr,
    )
    refused = plan(tmp_path, "agentic", missing=True)
    assert refused.returncode == 2
    assert "every prompt chosen needs the simulated shell" in refused.stderr
    assert "Traceback" not in refused.stderr
