"""Models inside the real codex, goose and OpenClaw: what each does to a call, and what none may do."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command import clawgauge, clean_environment, write_suite
from support.published_schema import check_run_folder
from support.scripted_server import Hang, ReceivedRequest, ScriptedServer, Text
from support.waiting import wait_until

ROOT = Path(__file__).parents[2]
PLACES = {
    "codex": ROOT / ".cache/agents/codex/node_modules/.bin",
    "goose": ROOT / ".cache/agents/goose/node_modules/.bin",
    "openclaw": ROOT / ".cache/openclaw/node_modules/.bin",
}
NODE = ROOT / ".cache/openclaw/node/node_modules/.bin"
TYPES = {"codex": "openai_responses", "goose": "openai_chat", "openclaw": "ollama"}
MODEL = "scripted-model"
EXEC = {
    "type": "function",
    "function": {
        "name": "exec",
        "description": "Run a command.",
        "parameters": {
            "type": "object",
            "required": ["command"],
            "properties": {"command": {"type": "string"}},
        },
    },
}
# A built-in of each program, with what would make a file if anything ran it.
BUILT_INS: dict[str, dict[str, dict[str, Any]]] = {
    "codex": {
        "exec_command": {"cmd": "touch {canary}"},
        "shell": {"command": ["touch", "{canary}"]},
        "apply_patch": {"input": "*** Begin Patch\n*** Add File: {canary}\n+x\n*** End Patch"},
    },
    "goose": {
        "developer__shell": {"command": "touch {canary}"},
        "shell": {"command": "touch {canary}"},
        "developer__text_editor": {"command": "write", "path": "{canary}", "file_text": "x"},
    },
    "openclaw": {
        "exec": {"command": "touch {canary}"},
        "write": {"path": "{canary}", "content": "x"},
    },
}
# What becomes of the model's reply in each program: the fates of its calls.
FATES = {
    "one": {"codex": ["run"], "goose": ["run"], "openclaw": ["run"]},
    "two": {"codex": ["run", "run"], "goose": ["run", "run"], "openclaw": ["run", "run"]},
    "unknown": {"codex": ["lost"], "goose": ["lost"], "openclaw": ["lost"]},
    "short": {"codex": ["lost"], "goose": ["lost"], "openclaw": ["lost"]},
    "hermes": {"codex": ["lost"], "goose": ["lost"], "openclaw": ["lost"]},
    "number": {"codex": ["run"], "goose": ["run"], "openclaw": ["altered"]},
    "cut": {"codex": ["lost"], "goose": ["altered"]},
    "markup": {"codex": ["lost"], "goose": ["lost"], "openclaw": ["gained"]},
}


def needs(program: str) -> pytest.MarkDecorator:
    reason = f"the real {program} is not installed: scripts/get-agents, scripts/get-openclaw"
    return pytest.mark.skipif(not (PLACES[program] / program).exists(), reason=reason)


PROGRAMS = [pytest.param(name, marks=needs(name)) for name in PLACES]
pytestmark = pytest.mark.real


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder to run in; afterwards every run in it meets the published schema."""
    yield tmp_path
    for config in tmp_path.rglob("config.json"):
        check_run_folder(config.parent)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def offered(request: ReceivedRequest) -> str:
    """What `exec` is called in this request; codex names a namespace beside it."""
    for tool in request.json.get("tools", []):
        namespace = f"{tool['name']}::" if tool.get("type") == "namespace" else ""
        for member in tool.get("tools", [tool]):
            function = member.get("function", member)
            if str(function.get("name", "")).endswith("exec"):
                return namespace + str(function["name"])
    return "exec"


def case_of(request: ReceivedRequest) -> str:
    found = re.search(r"CASE ([\w:]+)", json.dumps(request.json))
    return found[1] if found else "none"


def has_result(request: ReceivedRequest) -> bool:
    text = json.dumps(request.json)
    return '"role": "tool"' in text or "function_call_output" in text


def reply_by_case(program: str, canary: Path) -> Any:
    """A model that does what the prompt's case says."""

    def reply(request: ReceivedRequest) -> Text:
        if has_result(request):
            return Text("done")
        name = offered(request)
        case = case_of(request)
        disk = '{"command": "df -h"}'
        match case:
            case "one":
                return Text(None, tool_calls=[(name, disk)])
            case "two":
                return Text(None, tool_calls=[(name, disk), (name, '{"command": "uptime"}')])
            case "unknown":
                return Text(None, tool_calls=[("frobnicate", "{}")])
            case "short":
                return Text(None, tool_calls=[("exec", disk)])
            case "number":
                return Text(None, tool_calls=[(name, '{"command": 7}')])
            case "cut":
                return Text(None, tool_calls=[(name, '{"command": "df -h')])
            case "hermes":
                call = json.dumps({"name": name, "arguments": {"command": "df -h"}})
                return Text(f"<tool_call>\n{call}\n</tool_call>")
            case "markup":
                parameter = "<parameter=command>\ndf -h\n</parameter>"
                return Text(f"<function={name}>\n{parameter}\n</function>")
        built_in = case.partition(":")[2]
        arguments = json.dumps(BUILT_INS[program][built_in]).replace("{canary}", str(canary))
        return Text(None, tool_calls=[(built_in, arguments)])

    return reply


def run_cases(
    place: Path, server: ScriptedServer, program: str, cases: list[str], canary: Path
) -> dict[str, dict[str, Any]]:
    """The record of each case, asked inside the program."""
    prompts: list[dict[str, Any]] = []
    for case in cases:
        prompts.append(
            {
                "id": f"C{len(prompts)}",
                "name": case.replace(":", "_"),
                "prompt": f"How full is the disk? CASE {case}",
                "tools": [EXEC],
                "validator": {
                    "type": "tool_call",
                    "expected_calls": [{"name": "exec", "arguments": {"command": ["df -h"]}}],
                },
            }
        )
    write_suite(place / "cases.json", *prompts, compare="exact")
    configure(place, server, program)
    server.reply_with(reply_by_case(program, canary))
    outcome = clawgauge(
        place,
        "run",
        "-t",
        f"{program}:here/{MODEL}",
        "-s",
        "cases.json",
        "--max-retries",
        "0",
        env=environment(),
    )
    assert outcome.code in (0, 3), outcome.stderr
    rows = {}
    for case, row in zip(cases, outcome.records(), strict=True):
        assert row["agent"]["is_tested_version"], row["agent"]
        rows[case] = row
    return rows


def configure(place: Path, server: ScriptedServer, program: str) -> None:
    address = server.base_url if TYPES[program] == "ollama" else server.v1_url
    (place / "clawgauge.toml").write_text(
        f'[providers.here]\ntype = "{TYPES[program]}"\nbase_url = "{address}"\nlocal = true\n'
        'api_key_env = "LOCAL_KEY"\n'
        f'[providers.{program}]\ncommand = "{PLACES[program] / program}"\n'
    )


def environment() -> dict[str, str]:
    path = f"{NODE}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "LOCAL_KEY": "sk-local-0123456789abcdef"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_each_program_does_to_a_call(
    place: Path, server: ScriptedServer, tmp_path: Path, program: str
) -> None:
    """Pinned by version: a new one that hides, repairs or runs something else is to be told."""
    cases = [case for case, fates in FATES.items() if program in fates]
    home_before = sorted(Path.home().iterdir())
    rows = run_cases(place, server, program, cases, tmp_path / "canary")
    seen = {case: [call["fate"] for call in row["agent_calls"]] for case, row in rows.items()}
    assert seen == {case: FATES[case][program] for case in cases}
    for row in rows.values():
        assert row["model_ms"] + row["tools_ms"] + row["harness_ms"] == row["e2e_ms"]
        assert sum(turn["kind"] == "turn" for turn in row["agent_turns"]) == 1
    assert sorted(Path.home().iterdir()) == home_before


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_tool_of_its_own_runs_anything(
    place: Path, server: ScriptedServer, tmp_path: Path, program: str
) -> None:
    """The model calls what the program has when it is used as it comes; no file appears."""
    canary = tmp_path / "canary"
    cases = [f"builtin:{name}" for name in BUILT_INS[program]]
    rows = run_cases(place, server, program, cases, canary)
    assert not canary.exists()
    for row in rows.values():
        assert row["calls_run"] == 0 and row["objective_pass"] is False


@pytest.mark.parametrize("program", [pytest.param("goose", marks=needs("goose"))])
def test_nothing_is_left_of_a_program_whose_run_was_killed(
    place: Path, server: ScriptedServer, program: str
) -> None:
    write_suite(place / "small.json", {"prompt": "hi", "tools": [EXEC]})
    configure(place, server, program)
    server.reply_with(Hang())
    words = [
        "run",
        "-t",
        f"{program}:here/{MODEL}",
        "-s",
        "small.json",
        "--config",
        "clawgauge.toml",
    ]
    folder = place / "temporary"
    folder.mkdir()
    env = clean_environment(**environment(), TMPDIR=str(folder))
    running = subprocess.Popen(
        [sys.executable, "-m", "clawgauge", *words], cwd=place, env=env, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: bool(server.calls))
    running.send_signal(signal.SIGKILL)
    running.wait()
    wait_until(lambda: str(folder) not in listed_processes())


def listed_processes() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
