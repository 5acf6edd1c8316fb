"""A check that breaks costs the verdict of its answer, and nothing of what was seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clawgauge.prices import Price
from clawgauge.records import Prompt, Target
from clawgauge.world import tool_definitions
from faults.asking import ask
from support.scripted_server import ScriptedServer, Text

# No validator has this name: looking it up breaks every check of it.
BROKEN = {"type": "no such validator"}
EXEC = tool_definitions(["exec"])
PRICES = {
    Target("openai_chat", "scripted-model"): Price(model="scripted-model", input=1.0, output=2.0)
}
KINDS: dict[str, tuple[Text, dict[str, Any]]] = {
    "a short answer": (Text("Sure, here it is.", apart=True), {}),
    "a long answer": (Text("word " * 40_000, chunks=20, apart=True), {}),
    "a native call": (
        Text("On it.", tool_calls=[("exec", '{"command": "ls"}')], apart=True),
        {"tools": EXEC},
    ),
    "a task": (Text("Done.", tool_calls=[]), {"tools": EXEC, "world": {}, "max_turns": 3}),
}


def ask_kind(folder: Path, kind: str, validator: dict[str, Any]) -> dict[str, Any]:
    reply, fields = KINDS[kind]
    asked = Prompt(id="P0", name="p", prompt="go", suite="s", validator=validator, **fields)
    with ScriptedServer() as server:
        if kind == "a task":
            server.script(
                Text("Looking at it.", tool_calls=[("exec", '{"command": "echo hi"}')], apart=True)
            )
        server.reply_with(reply)
        (found,) = ask(folder, server.v1_url, prompts=[asked], prices=PRICES)
    return found


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_check_that_breaks_costs_the_verdict_alone(tmp_path: Path, kind: str) -> None:
    """Times, tokens, cost, finish reason, calls and transcript are those of an answer that could be judged."""
    broken, whole = (
        ask_kind(tmp_path / "a", kind, BROKEN),
        ask_kind(tmp_path / "b", kind, {"type": "noop"}),
    )
    assert (broken["availability_status"], broken["success"], broken["failure_type"]) == (
        "ok",
        True,
        None,
    )
    assert (broken["objective_pass"], broken["violation"], broken["judged_by"]) == (
        None,
        None,
        None,
    )
    assert broken["not_judged"] == "check_failed" and whole["not_judged"] is None
    assert "its check failed" in broken["error"] and "KeyError" in broken["error"]
    measured = (
        "started_at_ms",
        "ended_at_ms",
        "e2e_ms",
        "ttft_ms",
        "ttfa_ms",
        "timings_us",
        "output_tps",
        "total_ms",
    )
    clocked = {name: (broken[name] is None, whole[name] is None) for name in measured}
    assert all(one == other for one, other in clocked.values()), clocked
    assert broken["ttft_ms"] is not None and broken["cost_usd"] and broken["finish_reason"]
    apart = {
        *measured,
        "run_id",
        "error",
        "not_judged",
        "judged_by",
        "attempts",
        "transcript",
        "tps_rule",
    }
    assert {k: v for k, v in broken.items() if k not in apart} == {
        k: v for k, v in whole.items() if k not in apart
    }
    assert len(broken["attempts"]) == len(whole["attempts"])
    told = [
        [(turn["text"], turn["calls"], turn["answers"]) for turn in one["transcript"] or ()]
        for one in (broken, whole)
    ]
    assert told[0] == told[1] and bool(told[0]) is (kind == "a task")
