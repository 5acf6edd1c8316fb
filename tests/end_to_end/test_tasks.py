"""Tasks through the real command: turns on the wire in both protocols, and what goes wrong in the middle of one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.command import Outcome, clawgauge, write_suite
from support.fake_claude import install_fake_claude
from support.scripted_server import Hang, ScriptedServer, Status, Text
from support.waiting import growing_deadlines

KINDS = ["openai_chat", "openai_responses"]
TASK: dict[str, Any] = {
    "prompt": "What does todo.txt say? Then delete it.",
    "system": "You look after a server.",
    "tools": ["read", "exec"],
    "world": {"files": {"/home/claw/todo.txt": "buy milk"}, "seed": 5},
    "max_turns": 4,
    "validator": {
        "type": "world_state",
        "expect": [{"file": "/home/claw/todo.txt", "absent": True}],
        "answer": {"type": "regex_fullmatch", "pattern": "(?i).*milk.*"},
    },
}
READ = ("read", '{"path": ', '"/home/claw/todo.txt"}')
DELETE = ("exec", '{"command": "rm /home/claw/todo.txt"}')
LOOK_AGAIN = ("exec", '{"command": "ls /home/claw"}')


def run(place: Path, server: ScriptedServer, kind: str, *words: str, **changes: Any) -> Outcome:
    """Run the one task against the scripted server over the given protocol."""
    (place / "clawgauge.toml").write_text(
        f'[providers.fake]\ntype = "{kind}"\nbase_url = "{server.v1_url}"\n'
    )
    task = {key: value for key, value in {**TASK, **changes}.items() if value is not None}
    write_suite(place / "task.json", task)
    return clawgauge(
        place,
        "run",
        "-t",
        "fake:scripted-model",
        "-s",
        "task.json",
        *words,
        env={"OPENAI_API_KEY": "k"},
    )


def sent_answers(body: dict[str, Any]) -> list[tuple[str, str]]:
    """(id, text) of every tool answer in a request, whichever protocol it is."""
    if "messages" in body:
        return [(m["tool_call_id"], m["content"]) for m in body["messages"] if m["role"] == "tool"]
    return [(i["call_id"], i["output"]) for i in items(body) if i["type"] == "function_call_output"]


def sent_calls(body: dict[str, Any]) -> list[tuple[str, str]]:
    """(id, name) of every call in a request."""
    if "messages" in body:
        calls = [call for m in body["messages"] for call in m.get("tool_calls", [])]
        return [(call["id"], call["function"]["name"]) for call in calls]
    return [(i["call_id"], i["name"]) for i in items(body) if i["type"] == "function_call"]


def items(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The items of a Responses request; a prompt alone is sent as text."""
    return [] if isinstance(body["input"], str) else body["input"]


def native(record: dict[str, Any]) -> list[tuple[str, int]]:
    return [
        (call["name"], call["turn"])
        for call in record["tool_invocations"]
        if call["channel"] == "native"
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_from_the_first_turn_to_the_answer(
    place: Path, server: ScriptedServer, kind: str
) -> None:
    """Each request carries all earlier turns with the world's answers; the record is of the whole task."""
    server.script(
        Text("Let me look.", tool_calls=[READ], usage=(100, 10), gap_s=0.01),
        Text("", tool_calls=[DELETE, LOOK_AGAIN], usage=(150, 20)),
        Text("It said: buy milk.", usage=(200, 5)),
    )
    done = run(place, server, kind)
    assert done.code == 0, done.stderr
    (record,) = done.records()
    first, second, third = (call.json for call in server.calls)
    assert sent_calls(first) == sent_answers(first) == []
    assert [name for _, name in sent_calls(third)] == ["read", "exec", "exec"]
    assert [call_id for call_id, _ in sent_calls(third)] == [
        call_id for call_id, _ in sent_answers(third)
    ]
    assert sent_answers(third)[:1] == sent_answers(second)
    read, _, listing = (text for _, text in sent_answers(third))
    assert "buy milk" in read and "todo.txt" not in listing, (
        "the world remembers what was done to it"
    )
    assert first["tools"] == third["tools"] and len(first["tools"]) == 2
    assert record["success"] and record["objective_pass"] is True, record["violation"]
    assert (record["raw_output"], record["turns"], record["world_seed"]) == (
        "It said: buy milk.",
        3,
        5,
    )
    assert native(record) == [("read", 1), ("exec", 2), ("exec", 2)]
    assert (record["input_tokens"], record["output_tokens"]) == (450, 35)
    assert [turn["text"] for turn in record["transcript"]] == [
        "Let me look.",
        "",
        "It said: buy milk.",
    ]
    assert [text for turn in record["transcript"] for text in turn["answers"]] == [
        text for _, text in sent_answers(third)
    ]
    assert not record["transcript_cut"] and record["finish_reason"] == "stop"
    assert record["e2e_ms"] >= sum(turn["e2e_ms"] for turn in record["transcript"]) - 3
    assert record["ttft_ms"] <= record["transcript"][0]["e2e_ms"] + 1
    assert [attempt["status"] for attempt in record["attempts"]] == ["ok"] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_in_the_middle_is_waited_out(
    place: Path, server: ScriptedServer, kind: str
) -> None:
    """A 429 and a 500 cost their turn another try, never the turns before it, and no call is made twice."""
    server.script(
        Text("", tool_calls=[DELETE]),
        Status(429),
        Status(500),
        Text("", tool_calls=[LOOK_AGAIN]),
        Text("milk"),
    )
    done = run(place, server, kind)
    (record,) = done.records()
    assert (
        record["success"] and record["turns"] == 3 and native(record) == [("exec", 1), ("exec", 2)]
    )
    assert [attempt["failure_type"] for attempt in record["attempts"]] == [
        None,
        "http_429",
        "http_500",
        None,
        None,
    ]
    bodies = [call.json for call in server.calls]
    assert bodies[1] == bodies[2] == bodies[3], "the same turn is asked again"
    assert record["e2e_ms"] <= record["total_ms"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_deadline_in_the_middle_keeps_what_was_seen(
    place: Path, server: ScriptedServer, kind: str
) -> None:
    """A turn that never ends fails the task; the turns before it, their tokens and the partial text are kept."""
    for timeout_s in growing_deadlines(1.0):
        server.script_anew(Text("Looking.", tool_calls=[READ], usage=(100, 10)), Hang("mid_stream"))
        (record,) = run(place, server, kind, "--timeout", f"{timeout_s}").records()
        if record["turns"] == 1 and record["raw_output"] and record["e2e_ms"] >= 900 * timeout_s:
            break  # both turns were heard before the deadline
    assert (record["availability_status"], record["failure_type"]) == ("error", "timeout")
    assert not record["success"] and record["objective_pass"] is None and record["tool_calls"] == []
    assert record["turns"] == 1 and "buy milk" in record["transcript"][0]["answers"][0]
    assert record["raw_output"] and record["raw_output"] != "Looking."
    assert (record["input_tokens"], record["output_tokens"]) == (100, 10)
    assert record["e2e_ms"] >= 900 * timeout_s and record["ttft_ms"] is not None


@pytest.mark.parametrize("kind", KINDS)
def test_turns_that_are_spent(place: Path, server: ScriptedServer, kind: str) -> None:
    """A model that never stops calling is stopped after `max_turns`; that is its result, and is told."""
    server.reply_with(Text("", tool_calls=[READ]))
    done = run(place, server, kind, max_turns=3)
    (record,) = done.records()
    assert record["success"] and record["turns"] == 3 == len(server.calls)
    assert record["raw_output"] == "" and record["finish_reason"] == "tool_calls"
    assert any(warning.startswith("max_turns:") for warning in record["warnings"])


def test_a_dozen_turns_where_the_suite_names_none(place: Path, server: ScriptedServer) -> None:
    """A task without `max_turns` ends all the same."""
    server.reply_with(Text("", tool_calls=[READ]))
    done = run(place, server, "openai_chat", max_turns=None)
    assert done.records()[0]["turns"] == 12 == len(server.calls)


def test_a_task_that_claude_code_runs_by_itself(tmp_path: Path) -> None:
    """The record is the same as where we take the turns: calls with their turn, the world's answers, one verdict."""
    rounds = [("Let me look.", [("read", "".join(READ[1:]))]), ("", [("exec", DELETE[1])])]
    fake = install_fake_claude(tmp_path / "bin", tool_rounds=rounds, answer="It said: buy milk.")
    write_suite(tmp_path / "task.json", TASK)
    env = {
        "PATH": f"{fake.bin_dir}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "ANTHROPIC_API_KEY": "sk-none",
    }
    done = clawgauge(tmp_path, "run", "-t", "claude_code_cli:sonnet", "-s", "task.json", env=env)
    (record,) = done.records()
    assert record["success"] and record["objective_pass"] is True, (
        record["violation"] or record["error"]
    )
    assert (record["raw_output"], record["turns"], record["world_seed"]) == (
        "It said: buy milk.",
        3,
        5,
    )
    assert native(record) == [("read", 1), ("exec", 2)] and len(record["attempts"]) == 1
    assert record["transcript"][0]["answers"] == ["buy milk"]


def test_a_malformed_call_is_answered_with_its_error(place: Path, server: ScriptedServer) -> None:
    """The model is told what was wrong and may mend it; the record keeps the text it sent."""
    server.script(
        Text("", tool_calls=[("read", '{"path": ')]), Text("", tool_calls=[READ]), Text("milk")
    )
    (record,) = run(place, server, "openai_chat").records()
    bad, good = (call for call in record["tool_invocations"] if call["channel"] == "native")
    assert (bad["valid"], bad["arguments"], good["valid"]) == (False, '{"path": ', True)
    refused, answered = (text for _, text in sent_answers(server.calls[2].json))
    assert "object" in refused and "buy milk" in answered


def test_a_call_written_as_text_is_not_made(place: Path, server: ScriptedServer) -> None:
    """A task's channel is the native one: a call in the text ends the task, is recorded, and changes nothing."""
    server.script(
        Text(
            '<tool_call>{"name": "exec", "arguments": {"command": "rm -r /home/claw"}}</tool_call>'
        )
    )
    (record,) = run(place, server, "openai_chat").records()
    assert record["success"] and record["turns"] == 1 == len(server.calls)
    assert {call["channel"].partition(":")[0] for call in record["tool_invocations"]} == {"text"}
    assert record["tool_calls"] == [] and record["transcript"][0]["calls"] == []


def test_a_target_that_is_gone_in_the_middle(place: Path, server: ScriptedServer) -> None:
    """A 401 after the first turn ends the task with its turn kept, and the target with it."""
    server.script(Text("", tool_calls=[READ]), Status(401))
    (record,) = run(place, server, "openai_chat").records()
    assert (record["availability_status"], record["failure_type"]) == ("auth_error", "http_401")
    assert record["turns"] == 1 and [a["status"] for a in record["attempts"]] == [
        "ok",
        "auth_error",
    ]


def test_nothing_a_model_says_is_run(place: Path, server: ScriptedServer) -> None:
    """Commands and paths of a task mean the simulated server; this machine's files stay as they are."""
    target = place / "made-by-a-model"
    kept = place / "kept.txt"
    kept.write_text("mine")
    server.script(
        Text("", tool_calls=[("exec", f'{{"command": "touch {target}; rm {kept}"}}')]),
        Text("", tool_calls=[("read", f'{{"path": "{kept}"}}')]),
        Text("milk"),
    )
    (record,) = run(place, server, "openai_chat").records()
    assert record["turns"] == 3 and not target.exists() and kept.read_text() == "mine"
    assert "mine" not in record["transcript"][1]["answers"][0]


def test_a_long_task_keeps_its_record_small(place: Path, server: ScriptedServer) -> None:
    """Text without end in every turn leaves a record within its bound that says it was cut."""
    server.reply_with(Text("word " * 40_000, chunks=3, tool_calls=[READ]))
    (record,) = run(place, server, "openai_chat", max_turns=12).records()
    assert record["turns"] == 12 and record["transcript_cut"] and len(record["transcript"]) < 12
    assert (done := place / "runs").exists() and max(len(line) for line in _lines(done)) < 400_000


def _lines(runs: Path) -> list[bytes]:
    return [line for path in runs.rglob("results.jsonl") for line in path.read_bytes().splitlines()]
