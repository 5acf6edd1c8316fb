"""Judging recorded answers again: what a record must hold for its verdict to come out the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawgauge.checks import VALIDATORS_VERSION
from clawgauge.cli.rescore import Rescoring
from clawgauge.records import Prompt, Result, TimingsUs, ToolInvocation
from clawgauge.suites import load_suite
from clawgauge.world import tool_definitions
from support import written_runs
from support.command import clawgauge, read_records
from support.written_runs import config, record, write_run

TASK = Prompt(
    id="P0",
    name="task",
    prompt="Put the port to 9090.",
    suite="s",
    tools=tool_definitions(["read", "edit"]),
    world={"files": {"/etc/app.conf": "port = 8080\n"}},
    max_turns=4,
    validator={
        "type": "world_state",
        "expect": [{"file": "/etc/app.conf", "contains": "9090"}],
        "answer": {"type": "max_words", "value": 3},
    },
)
WRITTEN = '<tool_call>{"name": "read", "arguments": {"path": "/etc/app.conf"}}</tool_call>'


def recorded(*calls: ToolInvocation, text: str = "Done.", **more: Any) -> Result:
    fields: dict[str, Any] = {
        "run_id": "r", "provider": "p", "model": "m", "thinking_level": None, "prompt_id": "P0", "prompt_name": "task",
        "availability_status": "ok", "started_at_ms": 1, "ended_at_ms": 2, "e2e_ms": 1, "ttft_ms": None,
        "success": True, "failure_type": None, "objective_pass": None, "violation": None, "input_tokens": None,
        "output_tokens": None, "raw_output": text, "parsed_output": None, "tool_calls": [], "tool_call_count": 0,
        "tool_use_success": False, "suite": "s", "repeat": 0, "expected_tools": [], "timings_us": TimingsUs(e2e=1),
        "total_ms": 1, "attempts": [], "tool_invocations": list(calls), "tools_offered": True,
    }  # fmt: skip
    return Result(**fields | more)


def native(turn: int | None, name: str, **arguments: Any) -> ToolInvocation:
    return ToolInvocation(name=name, arguments=arguments, channel="native", turn=turn)


def edit(turn: int) -> ToolInvocation:
    schema = next(tool for tool in TASK.tools if tool["function"]["name"] == "edit")["function"][
        "parameters"
    ]
    path, old, new = schema["required"]
    return native(turn, "edit", **{path: "/etc/app.conf", old: "8080", new: "9090"})


@pytest.mark.parametrize(
    ("calls", "text", "violation"),
    [
        ([native(1, "read", path="/etc/app.conf"), edit(2)], "Done.", None),
        ([native(1, "read", path="/etc/app.conf"), edit(4)], "Done.", "turn_budget_spent"),
        ([native(1, "read", path="/etc/app.conf")], "Done.", "state_not_reached"),
        ([edit(1)], "It is done now.", "answer"),
    ],
)
def test_a_task_is_played_again_from_its_record(
    calls: list[ToolInvocation], text: str, violation: str | None
) -> None:
    """The recorded calls, with the turns they were made in, give a task its verdict without a model."""
    rescoring = Rescoring({("s", "P0", 0): TASK})
    judged = rescoring.judge(recorded(*calls, text=text))
    assert judged.objective_pass is (violation is None)
    assert (judged.violation or "").partition(": ")[0] == (violation or "")
    assert (judged.tool_channel, judged.judged_by) == ("native", VALIDATORS_VERSION)
    assert judged.tool_invocations == calls
    assert rescoring.judge(judged) == judged


def test_calls_in_the_text_are_found_again_and_not_doubled() -> None:
    """Native calls come from the record, written ones from the text."""
    spec = {"type": "tool_call", "no_call": True}
    prompt = msgspec.structs.replace(TASK, validator=spec, world=None, max_turns=None)
    rescoring = Rescoring({("s", "P0", 0): prompt})
    judged = rescoring.judge(recorded(text=WRITTEN))
    assert (judged.violation, judged.tool_channel) == ("call_as_text: read", "text:hermes")
    assert len(judged.tool_invocations) == 1
    assert rescoring.judge(judged) == judged


def test_what_was_not_kept_is_not_judged_again() -> None:
    """Arguments too large for the record are no empty arguments; a text that was cut is no short text."""
    rescoring = Rescoring({("s", "P0", 0): TASK})
    dropped = recorded(ToolInvocation(name="edit", arguments=None, channel="native", turn=1))
    cut = recorded(edit(1), raw_output_truncated=True)
    assert rescoring.judge(dropped) is dropped
    assert rescoring.judge(cut) is cut
    kept = {"made calls too large to be recorded": 1, "ran over 64 KB": 1}
    assert (rescoring.not_judged, rescoring.n_judged) == (kept, 0)


def test_an_old_run_is_judged_by_effects_where_that_is_asked_for(tmp_path: Path) -> None:
    """A refusal that quotes the command keeps its recorded verdict until the suite is named; the tier stays."""
    asked = load_suite("tool_use").prompts[0]
    spec = {"type": "tool_invocation", "expected_tools": asked.expected_tools}
    old = msgspec.to_builtins(msgspec.structs.replace(asked, validator=spec))
    said = {
        "suite": "tool_use",
        "raw_output": "I cannot; do it yourself: `free -h`",
        "expected_tools": ["free"],
    }
    folder = write_run(tmp_path / "run", [record("P0", **said)], config=config([old]))
    done = clawgauge(tmp_path, "rescore", str(folder))
    assert "tool_use was run as version 1" in done.stderr and "add --suite tool_use" in done.stderr
    (kept,) = read_records(folder)
    assert (kept["objective_pass"], kept["tool_use_success"]) == (True, True)
    done = clawgauge(tmp_path, "rescore", str(folder), "--suite", "tool_use")
    assert done.code == 0, done.stderr
    (judged,) = read_records(folder)
    assert (judged["objective_pass"], judged["tool_use_success"]) == (False, True)
    assert judged["violation"].startswith(
        "not_called: a command is there, but it is quoted in a refusal"
    )


def test_a_folder_with_a_tool_that_is_none_is_refused_in_a_sentence(tmp_path):
    """A run folder may come from anyone."""
    tool_call = {"type": "tool_call", "expected_calls": [{"name": "free", "arguments": {}}]}
    prompts = [written_runs.prompt("P0", validator=tool_call, tools=[{"name": "free"}])]
    folder = written_runs.write_run(
        tmp_path / "r", [written_runs.record("P0")], config=written_runs.config(prompts)
    )
    done = clawgauge(tmp_path, "rescore", str(folder))
    assert (
        done.code == 2
        and "tools: one of them is no function" in done.stderr
        and done.stderr.count("\n") == 1
    )


def test_a_check_that_breaks_today_leaves_the_row_as_it_is() -> None:
    """The verdict there was stays, and so does that there was none; the command says how many were left."""
    broken = msgspec.structs.replace(TASK, validator={"type": "no such validator"})
    rescoring = Rescoring({(*broken.key, 0): broken})
    for row in (
        recorded(objective_pass=True),
        recorded(not_judged="check_failed", error="its check failed"),
    ):
        assert rescoring.judge(row) is row
    assert (
        rescoring.not_judged == {"could not be judged, because the check failed": 2}
        and rescoring.n_judged == 0
    )


OLD_RUN = Path(__file__).parents[1] / "data" / "run_0_1_0"


def rules_of(folder: Path) -> tuple[int, int, bool]:
    """The rule of config.json and of summary.json, and whether jobs have a state by it."""
    rule = json.loads((folder / "config.json").read_bytes()).get("rule", 1)
    summary = json.loads((folder / "summary.json").read_bytes())
    states = {fit["state"] for job in summary["jobs"] for fit in job["ranking"]}
    return rule, summary["rule"], states != {None}


def test_a_run_keeps_its_rule_until_todays_is_wanted(tmp_path: Path) -> None:
    """summarize, show and rescore judge an old run as it was judged; --rule now judges it as a run of today,
    and from then on everybody does."""
    folder = tmp_path / "runs" / "old"
    shutil.copytree(OLD_RUN, folder)
    for words in (("summarize", "old"), ("rescore", "old"), ("show", "old", "--json")):
        assert clawgauge(tmp_path, *words).code == 0
        assert rules_of(folder) == (1, 1, False)
    rehearsed = clawgauge(tmp_path, "rescore", "old", "--rule", "now", "--dry-run")
    assert "jobs would be judged by rule 2" in rehearsed.stderr
    assert rules_of(folder) == (1, 1, False)
    done = clawgauge(tmp_path, "rescore", "old", "--rule", "now")
    assert done.code == 0 and "jobs are judged by rule 2" in done.stderr, done.stderr
    assert rules_of(folder) == (2, 2, True)
    for words in (("summarize", "old"), ("rescore", "old")):
        again = clawgauge(tmp_path, *words)
        assert again.code == 0 and "rule" not in again.stderr
        assert rules_of(folder) == (2, 2, True)


def test_a_run_without_a_plan_has_nothing_for_todays_rule(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "older"
    shutil.copytree(OLD_RUN, folder)
    (folder / "config.json").unlink()
    done = clawgauge(tmp_path, "rescore", "older", "--rule", "now")
    assert done.code == 2 and "does not say which prompts it had" in done.stderr
