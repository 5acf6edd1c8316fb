"""The real `claude` binary with a prompt's own tools: against scripted turns, and against a real model that calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from real.test_claude_code import CLAUDE_DIR
from support.command import Outcome, clawgauge, write_suite
from support.forwarding_proxy import ForwardingProxy
from support.published_schema import check_run_folder
from support.scripted_server import Hang, ScriptedServer, Status, Text
from support.waiting import PATIENCE_S, growing_deadlines

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not (CLAUDE_DIR / "claude").exists(), reason="no claude here: make test-real installs it"
    ),
]
PREFIX = "mcp__clawgauge__"
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather for a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
PROMPT = {
    "prompt": "What is the weather in Paris?",
    "tools": [WEATHER],
    "validator": {
        "type": "tool_call",
        "expected_calls": [{"name": "get_weather", "arguments": {"city": ["Paris"]}}],
    },
}
TASK = {
    "prompt": "What does todo.txt say?",
    "tools": ["read", "exec"],
    "world": {"files": {"/home/claw/todo.txt": "buy milk"}, "seed": 3},
    "max_turns": 3,
    "validator": {
        "type": "world_state",
        "expect": [{"called": "read"}],
        "answer": {"type": "regex_fullmatch", "pattern": "(?i).*milk.*"},
    },
}
LOOK = (f"{PREFIX}read", '{"path": ', '"/home/claw/todo.txt"}')


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder to run in; afterwards every run in it meets the published schema, and no `claude` or server is left."""
    yield tmp_path
    for config in tmp_path.rglob("config.json"):
        check_run_folder(config.parent)
    # The temporary files of a call are in this folder, so its programs have it in their command lines.
    mine = [
        p
        for p in psutil.process_iter(["cmdline"])
        if str(tmp_path) in " ".join(p.info["cmdline"] or [])
    ]
    _, alive = psutil.wait_procs(mine, timeout=PATIENCE_S)
    assert alive == []


def ask(
    place: Path, address: str, prompt: dict[str, Any], *words: str, key: str = "ANTHROPIC_API_KEY"
) -> Outcome:
    write_suite(place / "one.json", prompt)
    return clawgauge(
        place, "run", "-t", "claude_code_cli:smollm2-135m", "-s", "one.json", *words,
        env={
            "ANTHROPIC_BASE_URL": address,
            key: "sk-ant-canary-real",
            "PATH": f"{CLAUDE_DIR}:/usr/bin:/bin",
            "HOME": str(place),
            "TMPDIR": str(place),
        },
    )  # fmt: skip


def force_a_call(body: dict[str, Any]) -> None:
    """Make the small model call, and then answer in words; it is no measure of its skill, but the call is real.

    Left to itself it writes what llama.cpp can read neither as text nor as a call.
    """
    body["temperature"] = 0
    last = body["messages"][-1]["content"]
    if isinstance(last, list) and any(part.get("type") == "tool_result" for part in last):
        del body["tools"]
    else:
        body |= {"tool_choice": {"type": "any"}, "chat_template_kwargs": {"force_tool": True}}


def test_a_real_model_calls_through_the_real_cli(place: Path, llama_tools_address: str) -> None:
    """Model, CLI and MCP server are all real: a native call arrives with its arguments and counts as tool use."""
    with ForwardingProxy(llama_tools_address, force_a_call) as proxy:
        done = ask(place, proxy.base_url, PROMPT, "--max-tokens", "96")
    assert done.code == 0, done.stderr
    (record,) = done.records()
    assert record["success"] and record["tool_use_success"], record
    (call,) = [call for call in record["tool_invocations"] if call["channel"] == "native"]
    assert (call["name"], call["valid"]) == ("get_weather", True) and isinstance(
        call["arguments"], dict
    )
    assert record["tool_calls"] == ["get_weather"] and record["finish_reason"] == "tool_calls"
    assert record["turns"] is None and record["transcript"] is None
    assert 0 < record["ttft_ms"] <= record["e2e_ms"] and record["output_tokens"] > 0
    assert [tool["name"] for tool in proxy.bodies[0]["tools"]] == [f"{PREFIX}get_weather"], (
        "and no tool of the CLI's"
    )
    assert len(proxy.bodies) == 1, "one turn is one request"


def test_a_real_model_takes_turns_in_a_world(place: Path, llama_tools_address: str) -> None:
    """A task runs inside the CLI: the real model's calls are answered by the simulated world, turn by turn."""
    with ForwardingProxy(llama_tools_address, force_a_call) as proxy:
        done = ask(place, proxy.base_url, TASK, "--max-tokens", "96")
    (record,) = done.records()
    assert record["success"], record["error"]
    assert (
        record["turns"] == len(record["transcript"]) == len(proxy.bodies) == 2
        and record["world_seed"] == 3
    )
    first, second = record["transcript"]
    assert first["calls"][0]["turn"] == 1 and len(first["answers"]) == len(first["calls"])
    assert first["answers"][0] in str(proxy.bodies[1]["messages"]), (
        "what the world said is what the model was told"
    )
    assert second["calls"] == [] and second["text"] == record["raw_output"] != ""


def test_a_login_is_offered_the_same_tools(place: Path) -> None:
    """Without `--bare` the CLI would hold tools back behind a search of its own; the model is shown exactly ours."""
    with ScriptedServer() as server:
        server.script(Text("", tool_calls=[(f"{PREFIX}get_weather", '{"city": "Paris"}')]))
        done = ask(place, server.base_url, PROMPT, key="CLAUDE_CODE_OAUTH_TOKEN")
    (record,) = done.records()
    assert record["objective_pass"] is True, record["error"]
    assert [tool["name"] for tool in server.calls[0].json["tools"]] == [f"{PREFIX}get_weather"]


def test_a_task_with_the_real_cli(place: Path) -> None:
    """Two rounds of calls, the world's answers in the requests that follow, and the last turn's text as the answer."""
    with ScriptedServer() as server:
        server.script(
            Text("Let me look.", tool_calls=[LOOK]),
            Text("", tool_calls=[(f"{PREFIX}exec", '{"command": "pwd"}'), LOOK]),
            Text("It says: buy milk."),
        )
        done = ask(place, server.base_url, TASK)
    (record,) = done.records()
    assert record["success"] and record["raw_output"] == "It says: buy milk.", record
    assert (record["turns"], record["objective_pass"]) == (3, True)
    assert [(call["name"], call["turn"]) for call in record["tool_invocations"] if call["channel"] == "native"] == [
        ("read", 1), ("exec", 2), ("read", 2),
    ]  # fmt: skip
    told = server.calls[1].json["messages"][-1]["content"][0]
    assert told["type"] == "tool_result" and "buy milk" in str(told["content"])
    assert record["transcript"][0]["answers"][0] in str(told["content"])
    assert record["input_tokens"] == 36, "the sum over the turns"


def test_turns_that_are_spent(place: Path) -> None:
    """`--max-turns` ends the task without a failure, and the record says that the model was not done."""
    with ScriptedServer() as server:
        server.reply_with(Text("", tool_calls=[LOOK]))
        done = ask(place, server.base_url, TASK)
    (record,) = done.records()
    assert record["success"] and record["turns"] == 3 == len(server.calls)
    assert [warning.partition(":")[0] for warning in record["warnings"]] == ["max_turns"]


def test_a_limit_in_the_middle_of_a_task(place: Path) -> None:
    """A 429 after a turn was paid for is recorded with that turn; the task is not begun anew."""
    with ScriptedServer() as server:
        server.script(Text("", tool_calls=[LOOK]), Status(429))
        done = ask(place, server.base_url, TASK, "--max-retries", "2")
    (record,) = done.records()
    assert (record["availability_status"], record["failure_type"]) == ("rate_limited", "http_429")
    assert record["turns"] == 1 and "buy milk" in record["transcript"][0]["answers"][0]
    assert len(server.calls) == 2 and len(record["attempts"]) == 1


def test_a_hang_in_the_middle_of_a_task(place: Path) -> None:
    """Our deadline ends the CLI and its server, and what had happened is kept."""
    with ScriptedServer() as server:
        for timeout_s in growing_deadlines(5.0):
            server.script_anew(Text("", tool_calls=[LOOK]), Hang("mid_stream"))
            (record,) = ask(place, server.base_url, TASK, "--timeout", f"{timeout_s}").records()
            assert record["failure_type"] == "timeout" and not record["success"]
            if record["transcript"] and record["transcript"][0]["answers"]:
                break  # the first turn was over before the deadline
    assert "buy milk" in record["transcript"][0]["answers"][0] and record["ttft_ms"] is not None


def test_nothing_a_model_says_is_run(place: Path) -> None:
    """A call to a tool of the CLI's own, or of nobody's, changes no file and is recorded as a call."""
    target = place / "made-by-a-model"
    with ScriptedServer() as server:
        server.script(Text("", tool_calls=[("Bash", f'{{"command": "touch {target}"}}')]))
        server.reply_with(
            Text("", tool_calls=[(f"{PREFIX}exec", f'{{"command": "touch {target}"}}')])
        )
        first = ask(place, server.base_url, PROMPT)
        second = ask(place, server.base_url, TASK)
    assert not target.exists()
    (record,) = first.records()
    assert record["tool_calls"] == ["bash"] and not record["tool_use_success"]
    assert second.records()[0]["turns"] == 3
