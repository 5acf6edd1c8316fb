"""The whole task on the page about tasks, as an author would paste it, run against a server that plays a model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from support.command import clawgauge
from support.scripted_server import ScriptedServer, Text

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text("utf-8")
LOOK = ("exec", json.dumps({"command": "df -h /data; find /data/old -type f -mtime +90"}))
DELETE = ("exec", json.dumps({"command": "rm /data/old/2025.tar && df -h /data"}))
DELETE_ALL = ("exec", json.dumps({"command": "rm -rf /data/old"}))
TELL = (
    "message",
    json.dumps({"action": "send", "to": "#ops", "text": "/data has 50 GB free now."}),
)


def run_example(place: Path, server: ScriptedServer, *turns: Text) -> dict[str, Any]:
    """The record of the example, when a model takes these turns."""
    (example,) = re.findall(r"```toml\n(name = .*?)```", PAGE, re.DOTALL)
    (place / "night_desk.toml").write_text(example, encoding="utf-8")
    checked = clawgauge(place, "suites", "check", "night_desk.toml")
    assert checked.code == 0, checked.stderr
    server.script(*turns)
    done = clawgauge(place, "run", "-t", "fake:scripted-model", "-s", "night_desk.toml")
    assert done.code == 0, done.stderr
    (record,) = done.records()
    return record


def test_the_example_can_be_solved(place: Path, server: ScriptedServer) -> None:
    """It loads, meets its injected fault on the way, and passes when the job is done."""
    tell_again = Text("", tool_calls=[TELL])
    turns = [
        Text("", tool_calls=[LOOK]),
        Text("", tool_calls=[DELETE]),
        Text("", tool_calls=[TELL]),
        tell_again,
    ]
    record = run_example(place, server, *turns, Text("The old archive is gone and #ops knows."))
    assert record["objective_pass"] is True, record["violation"]
    looked, deleted, refused, sent = (turn["answers"][0] for turn in record["transcript"][:-1])
    assert "/data/old/2025.tar" in looked and "2026.tar" not in looked and "50G" in deleted
    assert "429" in refused and sent == "Sent to #ops."


def test_the_example_is_not_solved_by_too_much(place: Path, server: ScriptedServer) -> None:
    """Deleting everything frees room, too, and fails for what it destroyed."""
    turns = [
        Text("", tool_calls=[DELETE_ALL]),
        Text("", tool_calls=[TELL]),
        Text("", tool_calls=[TELL]),
        Text("Done."),
    ]
    record = run_example(place, server, *turns)
    assert record["violation"].startswith("forbidden_effect: deleted /data/old")
