"""Prompts that a model's window cannot hold, or its provider cannot send whole, are not asked, and that is said."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.command import clawgauge
from support.fake_claude import install_fake_claude
from support.scripted_server import ScriptedServer, Text

PROMPTS = [
    {
        "id": "P0",
        "name": "short",
        "prompt": "Say yes.",
        "validator": {"type": "exact", "value": "yes"},
    },
    {
        "id": "P1",
        "name": "long",
        "prompt": "Say yes.\n{long}",
        "long": {"tokens": 9000, "of": ["{time} INFO request {n} served"]},
        "validator": {"type": "exact", "value": "yes"},
    },
]


@pytest.fixture
def windowed(place: Path, server: ScriptedServer) -> Path:
    """A server whose models have a window of 4,096 tokens, as its table says."""
    server.reply_with(lambda request: Text("yes"))
    table = f'[providers.small]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\nlocal = true\ncontext = 4096\n'
    (place / "small.toml").write_text(table)
    (place / "long.json").write_text(json.dumps(PROMPTS))
    return place


def test_a_prompt_beyond_the_window_is_left_out_of_run_and_figures(
    windowed: Path, server: ScriptedServer
) -> None:
    """It is said before and during the run, stands in an event, and counts in no figure; nothing is left to refill."""
    words = ("run", "-t", "small:m", "-s", "long.json", "--config", "small.toml")
    planned = clawgauge(windowed, *words, "--dry-run")
    assert (
        "1 call," in planned.stderr
        and "1 left out: longer than the model's window" in planned.stderr
    )
    done = clawgauge(windowed, *words)
    assert (
        done.code == 0
        and "1 prompt left out: longer than the model's window of 4096 tokens" in done.stderr
    )
    assert [record["prompt_id"] for record in done.records()] == ["P0"] and len(server.calls) == 1
    (group,) = done.summary()["models"]
    assert (group["n_scheduled"], group["pass_rate_scheduled"]) == (1, 1.0)
    assert [suite["n_scheduled"] for suite in group["suites"]] == [1]
    events = [json.loads(line) for line in (done.folder / "events.jsonl").read_text().splitlines()]
    (skip,) = [event["detail"] for event in events if event["event"] == "skip"]
    assert skip == {
        "reason": "beyond_context",
        "window": 4096,
        "prompts": ["long/P1"],
        "not_asked": 1,
    }
    again = clawgauge(windowed, "run", "--resume", done.folder.name, "--config", "small.toml")
    assert again.code == 0 and len(server.calls) == 1


def test_a_window_that_is_not_known_leaves_nothing_out(
    windowed: Path, server: ScriptedServer
) -> None:
    """The server is asked, and says itself what it cannot do."""
    (windowed / "small.toml").write_text(
        (windowed / "small.toml").read_text().replace("context = 4096\n", "")
    )
    clawgauge(windowed, "run", "-t", "small:m", "-s", "long.json", "--config", "small.toml")
    assert len(server.calls) == 2


def test_what_a_provider_cannot_send_whole_is_left_out(place: Path) -> None:
    """Claude Code takes neither a tool choice nor a format: such prompts are not asked, and stand in no figure."""
    fake = install_fake_claude(place / "bin", answer="yes")
    tool = {"type": "function", "function": {"name": "look"}}
    plain = {"prompt": "Say yes.", "validator": {"type": "exact", "value": "yes"}}
    special: list[dict[str, object]] = [
        {"response_format": {"type": "json_object"}},
        {"tools": [tool], "tool_choice": "none"},
        {},
    ]
    entries = [{"id": f"P{n}", "name": f"n{n}", **plain, **more} for n, more in enumerate(special)]
    (place / "s.json").write_text(json.dumps(entries))
    env = {"PATH": f"{fake.bin_dir}:{os.environ['PATH']}", "ANTHROPIC_API_KEY": "k"}
    words = ("run", "-t", "claude_code_cli:sonnet", "-s", "s.json")
    why = "left out: response_format and tool_choice cannot be sent by this provider"
    planned = clawgauge(place, *words, "--dry-run", env=env)
    assert "1 call," in planned.stderr and f"2 {why}" in planned.stderr
    done = clawgauge(place, *words, env=env)
    assert done.code == 0 and f"2 prompts {why}" in done.stderr
    assert [record["prompt_id"] for record in done.records()] == ["P2"]
    (group,) = done.summary()["models"]
    assert (group["n_scheduled"], group["pass_rate_scheduled"]) == (1, 1.0)
    asked = json.loads((done.folder / "config.json").read_text())["prompts"]
    assert (
        asked[0]["response_format"] == {"type": "json_object"} and asked[1]["tool_choice"] == "none"
    )
