"""Asking named prompts only until all is decided that they can decide, and how such a run goes on."""

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


def test_what_is_decided_ends_the_tool_prompts(tools: Path, server: ScriptedServer) -> None:
    """Twenty-two passes are enough: five prompts are not asked, what tells of no need is, and a resume is idle."""
    server.reply_with(PASS)
    done = clawgauge(tools, *ENOUGH, "--concurrency", "1")
    assert done.code == 0, done.stderr
    assert len(server.calls) == 24
    asked = [record["prompt_id"] for record in done.records()]
    assert len(set(asked)) == 24 and asked[-2:] == ["P27", "P28"]
    (decided,) = events_of(done, "jobs_decided", "jobs_undecided", "budget_spent")
    assert decided["event"] == "jobs_decided" and decided["target"] == "fake:scripted-model"
    assert decided["detail"]["questions"]["text_calls 0.8-0.92"] == "yes"
    assert "decided after" in done.stderr
    again = clawgauge(tools, "run", "--resume", done.folder.name)
    assert again.code == 0 and "nothing is left to ask" in again.stderr
    assert len(server.calls) == 24


def test_a_few_failures_are_enough(tools: Path, server: ScriptedServer) -> None:
    server.reply_with(FAIL)
    done = clawgauge(tools, *ENOUGH, "--concurrency", "1")
    assert done.code == 0, done.stderr
    assert len(server.calls) == 5 + 2


def test_a_budget_bounds_the_calls_and_a_larger_one_goes_on(
    tools: Path, server: ScriptedServer
) -> None:
    """--max-calls 6 asks six cells; resumed with more, the run goes on from there until all is decided."""
    server.reply_with(PASS)
    done = clawgauge(tools, *ENOUGH, "--max-calls", "6")
    assert len(server.calls) == 6 and "--max-calls 6 is spent" in done.stderr
    assert "not all is decided; go on with:" in done.stderr
    assert [event["event"] for event in events_of(done, "jobs_undecided", "budget_spent")] == [
        "jobs_undecided",
        "budget_spent",
    ]
    idle = clawgauge(tools, "run", "--resume", done.folder.name)
    assert "--max-calls is spent" in idle.stderr and len(server.calls) == 6
    more = clawgauge(tools, "run", "--resume", done.folder.name, "--max-calls", "100")
    assert more.code == 0, more.stderr
    assert len(more.records()) == len(server.calls) <= 24 + 7
    assert events_of(more, "jobs_decided")
    assert json.loads((more.folder / "config.json").read_bytes())["options"]["max_calls"] == 100


def test_what_was_not_answered_tells_nothing(tools: Path, server: ScriptedServer) -> None:
    """Two calls that the server refuses are made up for by others."""
    server.script(PASS, Status(400), *[PASS] * 19, Status(400))
    server.reply_with(PASS)
    done = clawgauge(tools, *ENOUGH, "--concurrency", "1")
    statuses = [record["availability_status"] for record in done.records()]
    assert statuses.count("error") == 2
    assert statuses.count("ok") == 22 + 2


def test_several_calls_in_flight_cost_a_few_more(tools: Path, server: ScriptedServer) -> None:
    """With four calls at once at most three more are asked than had to be; every one is recorded."""
    server.reply_with(PASS)
    done = clawgauge(tools, *ENOUGH, "--concurrency", "4")
    n_tool = sum(bool(record["expected_tools"]) for record in done.records())
    assert 22 <= n_tool <= 25
    assert events_of(done, "jobs_decided")


def test_the_plan_says_about_how_many_calls_it_will_take(
    tools: Path, server: ScriptedServer
) -> None:
    """--dry-run says what is asked until when; nothing is asked. --json has the same figures."""
    shown = clawgauge(tools, *ENOUGH, "--dry-run", "--json")
    assert "asked until all that these prompts can decide is decided" in shown.stderr
    assert "about " in shown.stderr
    facts = json.loads(shown.stdout)
    assert facts["asked"] == "decision" and 20 <= facts["calls"] <= 29
    assert server.calls == []


def test_prompts_that_tell_of_no_need_are_refused(place: Path, server: ScriptedServer) -> None:
    """--until-decided without a prompt that a need rests on is a wrong request: exit 2, nothing sent."""
    write_suite(place / "talk.json", {"prompt": "say yes"})
    done = clawgauge(place, *ENOUGH[:4], "talk.json", "--until-decided")
    assert done.code == 2 and "--until-decided needs prompts that tell of a need" in done.stderr
    assert server.calls == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--repeats", "3"), "--repeats asks the same prompts again"),
        (("--draw", "2"), "--draw asks one drawing"),
        (("--fail-under", "0.5"), "--fail-under needs -s or --full"),
        (("--job", "poet"), "there is no such job"),
        (("--max-time", "soon"), "give a time such as"),
    ],
)
def test_what_only_a_list_of_prompts_can_have_is_refused_of_a_plain_run(
    place: Path, server: ScriptedServer, words: tuple[str, ...], sentence: str
) -> None:
    done = clawgauge(place, "run", "-t", "fake:scripted-model", *words)
    assert done.code == 2 and sentence in done.stderr, done.stderr
    assert server.calls == []
