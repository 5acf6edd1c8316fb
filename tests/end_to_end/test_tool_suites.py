"""The suites that offer tools, through the real command and every protocol: perfect, terrible and silent models."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from clawgauge.records import Prompt
from support.command import Outcome, clawgauge, read_records
from support.fake_claude import install_fake_claude
from support.scripted_play import OUTPUT_TOKENS, Cast, play
from support.scripted_server import ScriptedServer, Text
from support.slow_rest import slow_rest
from support.task_models import TERRIBLE_AT_TASKS, InOneTurn, Player, solves
from support.tool_models import (
    TERRIBLE,
    ToolModel,
    breaks_off_a_call,
    gives_no_arguments,
    gives_wrong_types,
    only_talks,
    perfect,
    says_nothing,
    writes_calls_as_text,
)

KINDS = ("openai_chat", "openai_responses", "anthropic_messages", "gemini")
PERFECT: dict[str, list[Player]] = {
    "native_tools": [InOneTurn(perfect("native_tools"))],
    "restraint": [InOneTurn(perfect("restraint"))],
    "agentic": [solves],
}
WORST: dict[str, list[Player]] = {
    "native_tools": [InOneTurn(model) for model in TERRIBLE["native_tools"]],
    "restraint": [InOneTurn(model) for model in TERRIBLE["restraint"]],
    "agentic": list(TERRIBLE_AT_TASKS),
}
SUITES = tuple(PERFECT)


def run(place: Path, server: ScriptedServer, kind: str, *suites: str) -> Outcome:
    """All answers of some suites from the scripted server, over one protocol."""
    table = f'[providers.fake]\ntype = "{kind}"\nbase_url = "{server.v1_url}"\nlocal = true\n'
    (place / "clawgauge.toml").write_text(table)
    chosen = [word for suite in suites for word in ("-s", suite)]
    words = ["run", "-t", "fake:scripted-model", *chosen, "--concurrency", "4"]
    done = clawgauge(place, *words, env={"OPENAI_API_KEY": "k"})
    assert done.code == 0, done.stderr
    return done


def group_of(done: Outcome) -> dict[str, Any]:
    (group,) = done.summary()["models"]
    found: dict[str, Any] = group
    return found


def share(figure: dict[str, Any]) -> tuple[int, int, float]:
    return figure["k"], figure["n"], figure["rate"]


@pytest.mark.parametrize("kind", slow_rest(KINDS, every=len(KINDS)))
def test_a_perfect_model_passes_everything(place: Path, server: ScriptedServer, kind: str) -> None:
    """Every prompt and every task is solvable as it is sent, and each figure of the summary says so by itself."""
    cast = play(server, PERFECT)
    done = run(place, server, kind, *SUITES)
    records, group = done.records(), group_of(done)
    assert [
        (r["prompt_id"], r["violation"], r["error"]) for r in records if not r["objective_pass"]
    ] == []
    assert [record["warnings"] for record in records if record["warnings"]] == []
    n_native, n_restraint, n_tasks = (
        sum(record["suite"] == suite for record in records) for suite in SUITES
    )
    assert n_native + n_restraint + n_tasks == len(cast.prompts)
    n_held_back = sum(map(wants_none, cast.prompts))
    n_calls = sum(map(wants_call, cast.prompts))
    assert group["objective_pass_rate"] == group["pass_rate_scheduled"] == 1.0
    tool_use, tasks = group["tool_use"], group["tasks"]
    assert (tool_use["source"], tool_use["suites"]) == ("native", ["native_tools"])
    assert (
        tool_use["tier"] == 1
        and tool_use["recommended_for_subagents"]
        and tool_use["caution"] is None
    )
    n_made = sum(
        len(cast.script_of(prompt)[0].calls)
        for prompt in cast.prompts
        if prompt.suite == "native_tools"
    )
    assert tool_use["channels"] == {
        "native": n_made,
        "text": 0,
        "malformed": 0,
        "mention": 0,
        "none": 0,
    }
    assert share(tool_use) == share(group["argument_accuracy"]) == (n_calls, n_calls, 1.0)
    assert share(group["restraint"]) == (n_held_back, n_held_back, 1.0)
    assert share(tasks) == (n_tasks, n_tasks, 1.0)
    mean_turns = mean(
        [len(cast.script_of(prompt)) for prompt in cast.prompts if prompt.suite == "agentic"]
    )
    assert tasks["mean_turns"] == pytest.approx(mean_turns)
    assert tasks["mean_tokens"] == pytest.approx(mean_turns * OUTPUT_TOKENS)


@pytest.mark.parametrize("kind", slow_rest(KINDS, every=len(KINDS)))
def test_a_terrible_model_passes_nothing(place: Path, server: ScriptedServer, kind: str) -> None:
    """Whichever way a model is terrible, nothing is passed by accident; the way is on record and in the figures."""
    cast = play(server, WORST)
    done = run(place, server, kind, *SUITES)
    records, group = done.records(), group_of(done)
    judged = [record for record in records if record["failure_type"] != "empty_response"]
    assert [(r["suite"], r["prompt_id"]) for r in judged if r["objective_pass"] is not False] == []
    # Who writes calls as text writes nothing where none is wanted.
    silent = {record["prompt_id"] for record in records if record not in judged}
    assert silent <= {prompt.id for prompt in cast.prompts if prompt.tool_choice == "none"}
    assert group["objective_pass_rate"] == 0.0
    for suite in SUITES:
        channels = {record["tool_channel"] for record in records if record["suite"] == suite}
        assert {"native", "text:hermes", "malformed"} <= channels
    violations = {str(r["violation"]).partition(":")[0] for r in records if r["suite"] == "agentic"}
    assert violations == {"forbidden_effect", "state_not_reached", "turn_budget_spent"}
    assert group["argument_accuracy"]["k"] == group["restraint"]["k"] == group["tasks"]["k"] == 0
    n_called = played_by(cast, gives_no_arguments, gives_wrong_types)
    assert group["tool_use"]["k"] == n_called, "a call with wrong arguments is a call"
    assert group["tool_use"]["rescued"] == played_by(cast, writes_calls_as_text)
    assert group["tool_use"]["channels"]["malformed"] == played_by(cast, breaks_off_a_call)
    assert group["tool_use"]["channels"]["none"] == played_by(cast, only_talks)
    codes = Counter(
        str(r["violation"]).partition(":")[0]
        for r in records
        if r["suite"] == "restraint" and not r["expected_tools"]
    )
    n_native, n_text = codes["unexpected_call"], codes["call_as_text"]
    assert n_native + n_text == group["restraint"]["n"] and n_native and n_text
    where = f"of {n_native + n_text} answers where none was wanted"
    assert f"called a tool in {n_native} {where}" in group["tool_use"]["caution"]
    assert f"wrote a call as text in {n_text} {where}" in group["tool_use"]["caution"]
    for record in records:
        if str(record["violation"]).startswith("call_as_text"):
            assert record["tool_call_count"] == 0
            assert record["tool_invocations"][0]["channel"].startswith("text:")


def wants_call(prompt: Prompt) -> bool:
    """Whether a prompt counts toward the tier: all of `native_tools`, but for those that rule calls out."""
    return prompt.suite == "native_tools" and bool(prompt.expected_tools)


def wants_none(prompt: Prompt) -> bool:
    """Whether a prompt shows restraint by itself: all of the suite, but for the pairs."""
    return prompt.suite == "restraint" and not prompt.expected_tools


def played_by(cast: Cast, *models: ToolModel) -> int:
    """How many prompts that count toward the tier these models answered."""
    players = [InOneTurn(model) for model in models]
    return sum(wants_call(prompt) and cast.player_of(prompt) in players for prompt in cast.prompts)


@pytest.mark.parametrize("kind", slow_rest([*KINDS, "ollama"], every=4))
def test_rescoring_needs_no_model(place: Path, server: ScriptedServer, kind: str) -> None:
    """The folder alone gives back every verdict: on right and wrong calls, written and native, and on whole tasks."""
    play(server, {suite: [*PERFECT[suite], *WORST[suite]] for suite in SUITES})
    folder = run(place, server, kind, *SUITES).folder
    before = read_records(folder)
    assert {record["objective_pass"] for record in before if record["suite"] == "agentic"} == {
        True,
        False,
    }
    blank = {
        "objective_pass": None,
        "violation": None,
        "tool_channel": None,
        "tool_use_success": False,
    }
    blank |= {"parsed_output": None, "tool_calls": [], "tool_call_count": 0}
    lines = [json.dumps(record | blank, ensure_ascii=False) + "\n" for record in before]
    (folder / "results.jsonl").write_text("".join(lines), encoding="utf-8")
    done = clawgauge(place, "rescore", str(folder))
    assert done.code == 0, done.stderr
    assert read_records(folder) == before


def test_silence_is_no_restraint(place: Path, server: ScriptedServer) -> None:
    """An empty answer has no verdict, but it is an answer: it counts in n, and it passes nothing."""
    cast = play(server, {suite: [InOneTurn(says_nothing)] for suite in SUITES})
    done = run(place, server, "openai_chat", *SUITES)
    group = group_of(done)
    assert {
        (r["availability_status"], r["failure_type"], r["objective_pass"]) for r in done.records()
    } == {("ok", "empty_response", None)}
    asked = Counter(prompt.suite for prompt in cast.prompts)
    n_calls = sum(map(wants_call, cast.prompts))
    n_held_back = sum(map(wants_none, cast.prompts))
    assert share(group["tool_use"]) == share(group["argument_accuracy"]) == (0, n_calls, 0.0)
    assert share(group["restraint"]) == (0, n_held_back, 0.0)
    assert share(group["tasks"]) == (0, asked["agentic"], 0.0)
    assert group["pass_rate_scheduled"] == 0.0 and group["objective_pass_rate"] is None


def run_claude_code(place: Path, cast: Cast, *words: str) -> Outcome:
    """The same through the CLI, which is offered the tools by our MCP server and takes the turns of a task itself."""
    fake = install_fake_claude(place / "bin", by_prompt=cast.claude_rounds())
    env = {
        "PATH": f"{fake.bin_dir}:{os.environ['PATH']}",
        "HOME": str(place),
        "ANTHROPIC_API_KEY": "sk-none",
    }
    chosen = [word for suite in SUITES for word in ("-s", suite)]
    done = clawgauge(
        place, "run", "-t", "claude_code_cli:sonnet", *chosen, "--concurrency", "2", *words, env=env
    )
    assert done.code == 0, done.stderr
    return done


FEW = (
    "native_tools/P0,native_tools/P8,native_tools/P31,native_tools/P37",
    "restraint/P7,restraint/P21",
)
FEW_TASKS = "agentic/P1,agentic/P10,agentic/P15"


@pytest.mark.parametrize(
    "words",
    [
        ("--prompt-ids", ",".join((*FEW, FEW_TASKS))),
        pytest.param((), id="all", marks=pytest.mark.slow),
    ],
)
def test_a_perfect_model_behind_claude_code(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Through the CLI and our MCP server, calls, restraint and tasks get the verdicts they get elsewhere."""
    cast = Cast(PERFECT)
    done = run_claude_code(tmp_path, cast, *words)
    records, group = done.records(), group_of(done)
    assert [
        (r["prompt_id"], r["violation"], r["error"]) for r in records if not r["objective_pass"]
    ] == []
    turns = {
        prompt.id: len(cast.script_of(prompt))
        for prompt in cast.prompts
        if prompt.suite == "agentic"
    }
    tasks = [record for record in records if record["suite"] == "agentic"]
    assert [record["turns"] for record in tasks] == [turns[record["prompt_id"]] for record in tasks]
    n_calls, _, n_tasks = (sum(record["suite"] == suite for record in records) for suite in SUITES)
    n_held_back = sum(r["suite"] == "restraint" and not r["expected_tools"] for r in records)
    assert share(group["tool_use"]) == share(group["argument_accuracy"]) == (n_calls, n_calls, 1.0)
    assert share(group["restraint"]) == (n_held_back, n_held_back, 1.0)
    assert share(group["tasks"]) == (n_tasks, n_tasks, 1.0)
    assert group["tasks"]["mean_turns"] == pytest.approx(
        mean([record["turns"] for record in tasks])
    )


@pytest.mark.slow
def test_a_terrible_model_behind_claude_code(tmp_path: Path) -> None:
    """What fails over HTTP fails there too, malformed calls and spent turns included."""
    done = run_claude_code(tmp_path, Cast(WORST))
    records = done.records()
    assert [
        (r["suite"], r["prompt_id"], r["error"])
        for r in records
        if r["objective_pass"] is not False
    ] == []
    violations = {str(r["violation"]).partition(":")[0] for r in records if r["suite"] == "agentic"}
    assert violations == {"forbidden_effect", "state_not_reached", "turn_budget_spent"}


def test_calls_too_large_to_record_keep_their_verdict(place: Path, server: ScriptedServer) -> None:
    """Arguments that were judged but not kept are not judged again as if they were missing."""
    parameters = {"type": "object", "properties": {"content": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "write", "parameters": parameters}}
    expected = [{"name": "write", "arguments": {"content": "*"}}]
    prompt = {
        "id": "P0",
        "name": "large",
        "prompt": "Write a lot.",
        "tools": [tool],
        "validator": {"type": "tool_call", "expected_calls": expected},
    }
    (place / "large.json").write_text(json.dumps([prompt]))
    server.reply_with(Text(None, tool_calls=[("write", json.dumps({"content": "x" * 100_000}))]))
    folder = run(place, server, "openai_chat", "large.json").folder
    before = read_records(folder)
    assert (
        before[0]["objective_pass"] is True
        and before[0]["tool_invocations"][0]["arguments"] is None
    )
    done = clawgauge(place, "rescore", str(folder))
    assert (
        done.code == 0
        and "1 answer made calls too large to be recorded: the verdict stays" in done.stderr
    )
    assert read_records(folder) == before


def test_forms_of_a_prompt_are_cells_of_their_own(place: Path, server: ScriptedServer) -> None:
    """The id as written asks all forms, a numbered id asks one, and `show` finds each."""
    prompt = {
        "id": "P3",
        "name": "echo",
        "prompt": "Say {word}",
        "validator": {"type": "exact", "value": "{word}"},
        "variants": [{"word": "red"}, {"word": "blue"}, {"word": "green"}],
    }
    (place / "forms.json").write_text(json.dumps([prompt]))
    server.reply_with(
        lambda request: Text(request.json["messages"][-1]["content"].removeprefix("Say "))
    )

    def asked(ids: str) -> list[str]:
        done = clawgauge(
            place, "run", "-t", "fake:scripted-model", "-s", "forms.json", "--prompt-ids", ids
        )
        assert done.code == 0, done.stderr
        assert all(record["objective_pass"] for record in done.records())
        return [record["prompt_id"] for record in done.records()]

    assert asked("P3") == ["P3", "P3#2", "P3#3"]
    assert asked("P3#2") == ["P3#2"]
    assert asked("forms/P3#1,P3#3") == ["P3", "P3#3"]
    shown = clawgauge(place, "show", "latest", "forms/P3#3")
    assert shown.code == 0 and "Say green" in shown.stdout and "Say red" not in shown.stdout
    refused = clawgauge(
        place, "run", "-t", "fake:scripted-model", "-s", "forms.json", "--prompt-ids", "P3#4"
    )
    assert refused.code == 2 and "'P3#4'" in refused.stderr
