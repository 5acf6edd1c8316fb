"""The simulated shell against the real one: the same lines, run in the same folder, print and leave the same."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from clawgauge.world import World
from support.waiting import PATIENCE_S

LINES: list[str] = json.loads((Path(__file__).parents[2] / "data" / "shell_lines.json").read_text("utf-8"))
FILES = {
    "log": "b ERROR one\na ok\nc ERROR two\nb ERROR one\n",
    "conf": "port = 80\nhost = a\nport = 81\n",
    "csv": "n,v\na,3\nb,10\nc,2\n",
    "e.txt": "",
    "d/x.jpeg": "1",
    "d/y z.jpeg": "22",
    "d/.hidden": "h",
    "d/sub/deep.txt": "deep\n",
}
WORKDIR = "/srv/w"


def _has_gnu_tools() -> bool:
    programs = ("sh", "ls", "sed", "grep", "awk", "find", "xargs")
    if not all(map(shutil.which, programs)):
        return False
    # BusyBox and BSD words differ; the simulation speaks GNU.
    return all(
        b"GNU" in subprocess.run([name, "--version"], capture_output=True).stdout
        for name in ("ls", "sed", "grep", "find")
    )


@pytest.mark.skipif(not _has_gnu_tools(), reason="needs GNU coreutils, sed, grep and find to compare with")
@pytest.mark.parametrize("line", LINES)
def test_line_does_what_it_does_on_the_host(tmp_path: Path, line: str) -> None:
    """Output, exit code and the files left behind are the same."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "HOME": "/home/claw", "USER": "claw"}
    real = subprocess.run(
        ["sh", "-c", line],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )
    world = World({"files": {f"{WORKDIR}/{name}": text for name, text in FILES.items()}})
    said = world.call("exec", {"command": line, "workdir": WORKDIR}).text.rstrip("\n")

    status = [f"(exit code {real.returncode})"] if real.returncode else []
    printed = real.stdout.replace(str(tmp_path), WORKDIR).rstrip("\n")
    assert said == ("\n".join(part for part in (printed, *status) if part) or "(no output)")
    left = {str(path.relative_to(tmp_path)): path.read_text("utf-8") for path in tmp_path.rglob("*") if path.is_file()}
    files = world.machine.files
    simulated = {path[len(WORKDIR) + 1 :]: files.text_of(path) for path in files if path.startswith(f"{WORKDIR}/")}
    assert {name: text for name, text in simulated.items() if text is not None} == left
