"""Asking only as much as a tier needs: what is asked, what is saved, and how a run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.command import Outcome, clawgauge, write_suite
from support.scripted_server import ScriptedServer, Status, Text

PASS, FAIL = Text("I will run `free -h`."), Text("I cannot do that.")
TOOL = {
    "prompt": "free memory?",
    "validator": {"type": "tool_invocation", "expected_tools": ["free"]},
}
ENOUGH = ("run", "-t", "fake:scripted-model", "-s", "tools.json", "--until-decided")


@pytest.fixture
def tools(place: Path) -> Path:
    """A suite of twenty-seven tool prompts and two others."""
    write_suite(place / "tools.json", *[TOOL] * 27, {"prompt": "say yes"}, {"prompt": "say no"})
    return place


def events_of(done: Outcome, *names: str) -> list[dict[str, Any]]:
    lines = (done.folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] in names]


def test_a_decided_tier_ends_the_tool_prompts(tools: Path, server: ScriptedServer) -> None:
    """Twenty passes are enough: seven prompts are not asked, the run says so, and a resume is idle."""
    server.reply_with(PASS)
    done = clawgauge(tools, *ENOUGH)
    assert done.code == 0, done.stderr
    assert len(server.calls) == 22
    asked = [record["prompt_id"] for record in done.records()]
    assert asked == [*(f"P{n}" for n in range(20)), "P27", "P28"]
    (decided,) = events_of(done, "decided", "undecided", "budget_spent")
    assert decided["event"] == "decided" and decided["target"] == "fake:scripted-model"
    assert decided["detail"] | {"p": None} == {
        "tier": 1, "tier1": "yes", "n": 20, "k": 20, "p": None,
        "asked": 20, "not_asked": 7, "not_needed": 7, "futile": False,
    }  # fmt: skip
    assert "Tier 1 decided" in done.stderr and "7 not needed" in done.stderr
    again = clawgauge(tools, "run", "--resume", done.folder.name)
    assert again.code == 0 and "nothing is left to ask" in again.stderr
    assert len(server.calls) == 22


def test_a_budget_bounds_the_calls_and_a_larger_one_goes_on(
    tools: Path, server: ScriptedServer
) -> None:
    """--max-calls 6 asks six cells; resumed with more, the run goes on from there until the tier is decided."""
    server.reply_with(PASS)
    done = clawgauge(tools, *ENOUGH, "--max-calls", "6")
    assert len(server.calls) == 6 and "--max-calls 6 is spent" in done.stderr
    assert [event["event"] for event in events_of(done, "undecided", "budget_spent")] == [
        "undecided",
        "budget_spent",
    ]
    idle = clawgauge(tools, "run", "--resume", done.folder.name)
    assert "--max-calls is spent" in idle.stderr and len(server.calls) == 6
    more = clawgauge(tools, "run", "--resume", done.folder.name, "--max-calls", "100")
    assert more.code == 0, more.stderr
    assert len(server.calls) == 22 and len(more.records()) == 22
    assert events_of(more, "decided")[-1]["detail"]["n"] == 20
    assert json.loads((more.folder / "config.json").read_bytes())["options"]["max_calls"] == 100


def test_failed_cells_of_a_decided_tier_are_not_asked_again(
    tools: Path, server: ScriptedServer
) -> None:
    """--retry-errors refills what failed, but not a tool prompt whose answer can no longer matter."""
    server.script(PASS, Status(400), *[PASS] * 19, Status(400), PASS)
    done = clawgauge(tools, *ENOUGH)
    failed = [
        record["prompt_id"] for record in done.records() if record["availability_status"] == "error"
    ]
    assert failed == ["P1", "P27"]
    again = clawgauge(tools, "run", "--resume", done.folder.name, "--retry-errors")
    assert again.code == 0, again.stderr
    assert len(server.calls) == 24
    still_failed = [
        record["prompt_id"]
        for record in again.records()
        if record["availability_status"] == "error"
    ]
    assert still_failed == ["P1"]


def test_several_calls_in_flight_may_overshoot_and_all_count(
    tools: Path, server: ScriptedServer
) -> None:
    """With four calls at once a few more than twenty are asked; every one of them is recorded and in the evidence."""
    server.reply_with(PASS)
    done = clawgauge(tools, *ENOUGH, "--concurrency", "4")
    (decided,) = events_of(done, "decided")
    n_tool = sum(bool(record["expected_tools"]) for record in done.records())
    assert 20 <= n_tool <= 24
    assert decided["detail"]["n"] == decided["detail"]["asked"] == n_tool
    assert decided["detail"]["not_needed"] == 27 - n_tool


def test_the_plan_says_what_a_tier_is_likely_to_take(tools: Path, server: ScriptedServer) -> None:
    """--dry-run counts the tool prompts and forecasts; nothing is asked. --json has the same figures."""
    shown = clawgauge(tools, *ENOUGH, "--dry-run", "--json")
    assert "tier: 27 tool prompts give a clear answer for some strong models, " in shown.stderr
    assert (
        "at most 29 calls" in shown.stderr
        and "a model drops by 10 points, 27 prompts show it in 8% of cases" in shown.stderr
    )
    tier = json.loads(shown.stdout)["tier"]
    assert tier["prompts"] == tier["families"] == 27 and tier["until_decided"] is True
    likely = {seen["rate"]: seen for seen in tier["likely"]}
    assert likely[0.95]["median"] is None and 0.3 < likely[0.95]["p_decided"] < 1
    assert (
        likely[0.65]["p_decided"] < 0.5 < likely[0.3]["p_decided"]
        and likely[0.65]["median"] is None
    )
    assert server.calls == []


def test_the_plan_sees_no_further_than_its_calls_go(tools: Path) -> None:
    """--max-calls bounds what is foreseen as it bounds what is asked."""
    shown = clawgauge(tools, *ENOUGH, "--dry-run", "--json", "--max-calls", "5")
    assert "tier: 5 tool prompts give a clear answer for few strong models, " in shown.stderr
    assert (
        "points, 5 prompts show it in" in shown.stderr
        and json.loads(shown.stdout)["tier"]["prompts"] == 5
    )
    hopeless = clawgauge(tools, *ENOUGH, "--dry-run", "--max-calls", "2").stderr
    assert (
        "tier: 2 tool prompts cannot tell whether a model is Tier 1, whatever the answers"
        in hopeless
    )


def test_a_search_that_cannot_end_is_refused(place: Path, server: ScriptedServer) -> None:
    """--until-decided without tool prompts enough in the plan is a wrong request: exit 2, nothing sent."""
    write_suite(place / "talk.json", {"prompt": "say yes"})
    done = clawgauge(place, *ENOUGH[:4], "talk.json", "--until-decided")
    assert done.code == 2 and "--until-decided needs prompts that expect a tool" in done.stderr
    tool = {"validator": {"type": "tool_invocation", "expected_tools": ["free"]}}
    write_suite(
        place / "two.json", *[{"prompt": f"free memory of host {n}?", **tool} for n in range(2)]
    )
    few = clawgauge(place, *ENOUGH[:4], "two.json", "--until-decided")
    assert few.code == 2 and "have too few to decide anything" in few.stderr and few.stdout == ""
    assert server.calls == []
