"""Realistic lines print in the simulated shell what they printed on a Debian server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clawgauge.world.effects import Refusal
from clawgauge.world.world import World

DATA = Path(__file__).parents[2] / "data" / "shell"
TREE = json.loads((DATA / "tree.json").read_text("utf-8"))
REFUSALS = ("not supported here", "command not found", "Killed", "python3")


def spec() -> dict[str, Any]:
    """The tree the lines ran on, as a world."""
    files = {}
    for path, written in TREE["files"].items():
        body = (
            {"text": written["text"]} if "text" in written else {"size": f"{written['size_mb']}M"}
        )
        files[path] = {**body, "age_days": written["age_days"], "mode": written["mode"]}
    return {"user": TREE["user"], "files": files}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least_same", "most_wrong"), [("lines", 0.95, 0.02), ("more_lines", 0.9, 0.01)]
)
def test_lines_print_what_they_print_on_a_server(
    name: str, least_same: float, most_wrong: float
) -> None:
    """Nine in ten print the same, and of the rest nearly all are refused in words; `more_lines` are the odder ones."""
    lines = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()]
    same, wrong = 0, []
    for line in lines:
        try:
            printed = World(spec()).shell.run(line["command"], TREE["home"]).text
        except Refusal as refused:
            printed = str(refused)
        if printed.rstrip("\n") == line["stdout"].rstrip("\n"):
            same += 1
        elif not any(words in printed + line["command"] for words in REFUSALS):
            wrong.append((line["command"], line["stdout"], printed))
    assert same >= least_same * len(lines)
    assert len(wrong) <= most_wrong * len(lines), wrong
