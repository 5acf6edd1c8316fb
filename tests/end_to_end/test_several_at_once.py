"""Targets elsewhere are asked side by side, several calls at once; a server of one's own gets one at a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command import chat_config, clawgauge, write_suite
from support.scripted_server import ScriptedServer, Status, Text

N_PROMPTS = 24


@pytest.fixture
def suite(place: Path) -> Path:
    write_suite(place / "many.json", *[{"prompt": f"say {n}"} for n in range(N_PROMPTS)])
    return place


def configure(place: Path, server: ScriptedServer, *, local: bool) -> None:
    chat_config(place, fake=server.v1_url)
    path = place / "clawgauge.toml"
    path.write_text(path.read_text().replace("local = true", f"local = {str(local).lower()}"))


def most_at_once(place: Path, run: str) -> list[int]:
    lines = (place / "runs" / run / "events.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["event"] == "target_finished"]
    return [event["detail"]["most_at_once"] for event in events]


def run(place: Path, *words: str):
    return clawgauge(
        place, "run", "--config", "clawgauge.toml", "-s", "many.json", "--run-id", "r", *words
    )


def test_targets_elsewhere_are_asked_side_by_side(suite: Path, server: ScriptedServer) -> None:
    configure(suite, server, local=False)
    server.reply_with(Text("yes"))
    done = run(suite, "-t", "fake:a", "-t", "fake:b")
    assert done.code == 0, done.stderr
    assert max(most_at_once(suite, "r")) > 1
    order = [record["model"] for record in done.records()]
    assert order.index("b") < N_PROMPTS, "the second target began before the first was done"


def test_a_server_of_ones_own_gets_one_call_at_a_time(suite: Path, server: ScriptedServer) -> None:
    configure(suite, server, local=True)
    server.reply_with(Text("yes"))
    done = run(suite, "-t", "fake:a", "-t", "fake:b")
    assert done.code == 0, done.stderr
    assert most_at_once(suite, "r") == [1, 1]
    order = [record["model"] for record in done.records()]
    assert order == ["a"] * N_PROMPTS + ["b"] * N_PROMPTS


def test_a_server_that_has_enough_is_left_alone_and_no_call_is_lost(
    suite: Path, server: ScriptedServer
) -> None:
    """Three refusals with Retry-After while several calls are under way: all are answered in the end."""
    configure(suite, server, local=False)
    refusal = Status(429, headers={"Retry-After": "1"})
    server.script(*[Text("yes")] * 8, refusal, refusal, refusal)
    server.reply_with(Text("yes"))
    done = run(suite, "-t", "fake:a")
    assert done.code == 0, done.stderr
    assert [record["success"] for record in done.records()] == [True] * N_PROMPTS
    arrivals_ns = [call.received_ns for call in server.calls]
    refused_ns = arrivals_ns[8]
    after = [arrival for arrival in arrivals_ns if arrival > refused_ns]
    late = [arrival for arrival in after if arrival - refused_ns >= 0.99e9]
    # What was on its way when the first refusal came may still arrive.
    assert len(after) - len(late) <= 7
