"""Models inside an agent program, through the real command: what the program adds, takes, and may not do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.command import Outcome, clawgauge, write_suite
from support.fake_agent import install_fake_agent
from support.scripted_server import Cut, Hang, ReceivedRequest, ScriptedServer, Status, Text

MODEL = "scripted-model"
KEY = "sk-local-0123456789abcdef"
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
CALL_DISK: dict[str, Any] = {
    "prompt": "How full is the disk?",
    "tools": [EXEC],
    "validator": {
        "type": "tool_call",
        "expected_calls": [{"name": "exec", "arguments": {"command": ["df -h"]}}],
    },
}
SAY_YES: dict[str, Any] = {"prompt": "Say yes.", "validator": {"type": "exact", "value": "yes"}}
DELETE_TASK: dict[str, Any] = {
    "prompt": "Delete todo.txt.",
    "system": "You look after a server.",
    "tools": ["exec"],
    "world": {"files": {"/home/claw/todo.txt": "buy milk"}, "seed": 5},
    "max_turns": 4,
    "validator": {
        "type": "world_state",
        "expect": [{"file": "/home/claw/todo.txt", "absent": True}],
    },
}


def prefixed(request: ReceivedRequest, name: str = "exec") -> str:
    """What the tool is called in this request: the program puts its prefix before it."""
    offered = [tool["function"]["name"] for tool in request.json.get("tools", [])]
    return next((each for each in offered if each.endswith(name)), name)


def call_exec(command: str) -> Any:
    """A model that calls `exec` once, by the name it was offered, then says that it is done."""

    def reply(request: ReceivedRequest) -> Text:
        roles = [message["role"] for message in request.json["messages"]]
        if roles[-1] == "tool":
            return Text("done")
        arguments = json.dumps({"command": command})
        return Text(None, tool_calls=[(prefixed(request), arguments)])

    return reply


def run(
    place: Path,
    server: ScriptedServer,
    prompts: list[dict[str, Any]],
    *words: str,
    bare: bool = False,
    **behaviour: Any,
) -> Outcome:
    """Ask the prompts inside the fake program, and with `bare` without it too."""
    program = install_fake_agent(place / "bin", **behaviour)
    (place / "clawgauge.toml").write_text(
        f'[providers.here]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\nlocal = true\n'
        f'api_key_env = "LOCAL_KEY"\n[providers.goose]\ncommand = "{program}"\n'
    )
    write_suite(place / "small.json", *prompts, compare="exact")
    targets = ["-t", f"here:{MODEL}"] if bare else []
    targets += ["-t", f"goose:here/{MODEL}"]
    return clawgauge(place, "run", *targets, "-s", "small.json", *words, env={"LOCAL_KEY": KEY})


def inside(outcome: Outcome) -> list[dict[str, Any]]:
    return [row for row in outcome.records() if row["provider"] == "goose"]


def test_a_model_is_asked_inside_the_program_and_beside_it(
    place: Path, server: ScriptedServer
) -> None:
    """Both ways pass; the record says whose time it was, and the screen has them under each other."""
    server.reply_with(call_exec("df -h"))
    outcome = run(place, server, [CALL_DISK], bare=True)
    assert outcome.code == 0, outcome.stderr
    bare, program = outcome.records()
    assert bare["objective_pass"] is program["objective_pass"] is True
    assert bare["agent"] is None and bare["model_ms"] is None
    assert program["model"] == f"here/{MODEL}" and program["agent"]["program"] == "goose"
    assert program["agent"]["version"] == "1.34.0" and program["agent"]["is_tested_version"]
    parts = program["model_ms"] + program["tools_ms"] + program["harness_ms"]
    assert parts == program["e2e_ms"] and program["cli_overhead_ms"] == program["harness_ms"]
    assert sum(program["harness_parts"].values()) == program["harness_ms"]
    assert program["ttft_ms"] <= program["ttft_user_ms"]
    assert (program["calls_made"], program["calls_run"], program["calls_lost"]) == (1, 1, 0)
    (call,) = program["agent_calls"]
    assert call["fate"] == "run" and call["made_channel"] == "native"
    assert program["made"]["objective_pass"] is True
    assert "inside the agent" in outcome.stderr
    shown = clawgauge(place, "show", outcome.folder.name, "small/P0")
    assert 'made exec {"command": "df -h"} / run exec {"command": "df -h"} run' in shown.stdout


def test_the_key_goes_to_the_server_and_nowhere_else(place: Path, server: ScriptedServer) -> None:
    """The program has an empty home, none of the user's variables and no key; the server gets ours."""
    server.reply_with(Text("yes"))
    notes = place / "notes.json"
    outcome = run(place, server, [SAY_YES], notes=str(notes))
    assert outcome.code == 0, outcome.stderr
    (call,) = server.calls
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert call.headers["accept-encoding"] == "identity"
    told = json.loads(notes.read_text())
    assert KEY not in json.dumps(told)
    assert told["environ"]["HOME"] != str(Path.home())
    for file in outcome.folder.rglob("*"):
        if file.is_file():
            assert KEY.encode() not in file.read_bytes(), file


def test_a_task_is_judged_by_what_reached_the_simulated_machine(
    place: Path, server: ScriptedServer
) -> None:
    server.reply_with(call_exec("rm /home/claw/todo.txt"))
    (row,) = inside(run(place, server, [DELETE_TASK]))
    assert row["objective_pass"] is True and row["turns"] == 2
    assert [turn["kind"] for turn in row["agent_turns"]] == ["turn", "turn"]
    assert row["transcript"][0]["calls"][0]["name"] == "exec"
    assert row["calls_run"] == 1 and row["made"]["objective_pass"] is True


@pytest.mark.parametrize(
    ("behaviour", "reply", "fates", "ran"),
    [
        pytest.param(
            {"numbers_become_texts": True},
            ("exec", '{"command": 7}'),
            ["altered"],
            {"command": "7"},
            id="a number becomes a text",
        ),
        pytest.param(
            {"completes_arguments": True},
            ("exec", '{"command": "l'),
            ["altered"],
            {"command": "ls"},
            id="cut arguments are completed",
        ),
        pytest.param(
            {}, ("exec", '{"command": "l'), ["lost"], None, id="cut arguments are refused"
        ),
        pytest.param({}, ("nothing", "{}"), ["lost"], None, id="a tool that nobody offered"),
    ],
)
def test_what_the_program_does_to_a_call_is_told(
    place: Path,
    server: ScriptedServer,
    behaviour: dict[str, Any],
    reply: tuple[str, str],
    fates: list[str],
    ran: Any,
) -> None:
    """Both verdicts are kept: on what the model said, and on what reached the tools."""

    def answer(request: ReceivedRequest) -> Text:
        name = prefixed(request) if reply[0] == "exec" else reply[0]
        return Text(None, tool_calls=[(name, reply[1])])

    server.reply_with(answer)
    (row,) = inside(run(place, server, [CALL_DISK], **behaviour))
    assert [call["fate"] for call in row["agent_calls"]] == fates
    assert row["agent_calls"][0]["run_arguments"] == ran
    assert row["objective_pass"] is False and row["made"]["objective_pass"] is False
    assert row["calls_lost"] == fates.count("lost")
    assert row["calls_altered"] == fates.count("altered")


def test_a_call_without_the_prefix_passes_bare_and_is_lost_inside(
    place: Path, server: ScriptedServer
) -> None:
    """The model names the tool as everybody else calls it; the program knows it by its own name alone."""
    server.reply_with(Text(None, tool_calls=[("exec", '{"command": "df -h"}')]))
    (row,) = inside(run(place, server, [CALL_DISK]))
    assert row["objective_pass"] is False and row["calls_lost"] == 1
    assert row["made"]["objective_pass"] is True


def test_a_call_that_the_program_hides_was_written_and_lost(
    place: Path, server: ScriptedServer
) -> None:
    written = (
        '<tool_call>{"name": "clawgauge__exec", "arguments": {"command": "df -h"}}</tool_call>'
    )
    server.reply_with(Text(written))
    outcome = run(place, server, [CALL_DISK], hides_written_calls=True)
    (row,) = inside(outcome)
    (call,) = row["agent_calls"]
    assert call["fate"] == "lost" and call["made_channel"] == "text:hermes"
    assert row["objective_pass"] is False
    assert "1 call never reached the tools (1 of them written as text)" in outcome.stderr
    assert len(server.calls) == 1, "a second request of a prompt of one turn is not passed on"


@pytest.mark.parametrize(
    ("behaviour", "failure"),
    [
        pytest.param({"offers_of_its_own": ["shell"]}, "agent_tools_open", id="a tool of its own"),
        pytest.param({"drops_tools": True}, "tools_dropped", id="without our tools"),
        pytest.param({"asks_for_model": "dearer"}, "model_mismatch", id="another model"),
    ],
)
def test_a_request_that_is_not_ours_reaches_no_server(
    place: Path, server: ScriptedServer, behaviour: dict[str, Any], failure: str
) -> None:
    (row,) = inside(run(place, server, [CALL_DISK], **behaviour))
    assert row["failure_type"] == failure and row["success"] is False
    assert server.calls == []


def test_an_untested_version_is_not_passed_a_call_of_a_tool_of_its_own(
    place: Path, server: ScriptedServer
) -> None:
    server.reply_with(Text(None, tool_calls=[("shell", '{"command": "touch /canary"}')]))
    (row,) = inside(run(place, server, [CALL_DISK], version="9.9.9"))
    assert row["agent"]["ended_by"] == "withheld" and not row["agent"]["is_tested_version"]
    assert [call["fate"] for call in row["agent_calls"]] == ["withheld"]
    assert row["objective_pass"] is False


def test_a_server_is_asked_once_however_often_the_program_would(
    place: Path, server: ScriptedServer
) -> None:
    """The program is ended at the first failure, whatever its exit code says; asking again is the run's business."""
    server.reply_with(Status(500))
    (row,) = inside(run(place, server, [SAY_YES], "--max-retries", "0", asks_again_on_errors=True))
    assert row["failure_type"] == "http_500" and len(server.calls) == 1
    assert row["agent"]["ended_by"] == "failure"


def test_the_wait_that_a_server_asks_for_is_kept(place: Path, server: ScriptedServer) -> None:
    server.script(Status(429, headers={"Retry-After": "1"}), Text("yes"))
    (row,) = inside(run(place, server, [SAY_YES]))
    assert row["objective_pass"] is True
    first, _ = row["attempts"]
    assert first["status"] == "rate_limited" and first["retry_after_s"] == 1
    assert first["waited_ms"] >= 1000


def test_a_cut_reply_is_a_failure_though_the_program_ends_well(
    place: Path, server: ScriptedServer
) -> None:
    server.reply_with(Cut(after_chunks=1))
    (row,) = inside(run(place, server, [SAY_YES], "--max-retries", "0"))
    assert row["failure_type"] == "stream_interrupted"


def test_a_program_that_asks_nothing_says_why(place: Path, server: ScriptedServer) -> None:
    (row,) = inside(run(place, server, [SAY_YES], asks_nothing=True))
    assert row["failure_type"] == "agent_error"
    assert "no model was chosen" in row["error"]


def test_a_silent_server_ends_at_the_deadline_with_nothing_left(
    place: Path, server: ScriptedServer
) -> None:
    server.reply_with(Hang())
    outcome = run(place, server, [CALL_DISK], "--timeout", "3", "--max-retries", "0")
    (row,) = inside(outcome)
    assert row["failure_type"] == "timeout" and row["agent"]["ended_by"] == "timeout"
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(place) not in listed.stdout.replace(str(place / "bin" / "unused"), "")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("goose:scripted-model", "name the model's provider before it"),
        ("goose:nowhere/m", "there is no provider 'nowhere'"),
        ("codex:here/m", "codex speaks the Responses API only"),
        (f"goose:here/{MODEL}@high", "goose takes no @high"),
    ],
)
def test_a_pair_that_cannot_talk_is_refused_before_a_run(
    place: Path, server: ScriptedServer, target: str, words: str
) -> None:
    chat = f'[providers.here]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\n'
    (place / "clawgauge.toml").write_text(chat)
    write_suite(place / "small.json", SAY_YES)
    outcome = clawgauge(place, "run", "-t", target, "-s", "small.json")
    assert outcome.code == 2 and words in outcome.stderr
    assert not (place / "runs").exists()


def test_a_program_that_is_not_installed_is_named_with_how_to_install_it(
    place: Path, server: ScriptedServer
) -> None:
    chat = f'[providers.here]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\n'
    (place / "clawgauge.toml").write_text(chat)
    write_suite(place / "small.json", SAY_YES)
    outcome = clawgauge(place, "run", "-t", f"goose:here/{MODEL}", "-s", "small.json")
    assert outcome.code == 2
    assert "goose is not on PATH: install it with" in outcome.stderr


def test_doctor_tells_of_programs_that_are_here_alone(place: Path, server: ScriptedServer) -> None:
    run(place, server, [SAY_YES])
    told = clawgauge(place, "doctor").stdout
    assert "goose 1.34.0" in told and "-t goose:PROVIDER/MODEL" in told
    assert "codex" not in told


def test_rescore_gives_both_verdicts(place: Path, server: ScriptedServer) -> None:
    server.reply_with(Text(None, tool_calls=[("exec", '{"command": "df -h"}')]))
    outcome = run(place, server, [CALL_DISK])
    before = inside(outcome)
    again = clawgauge(place, "rescore", outcome.folder.name)
    assert again.code == 0, again.stderr
    rows = [
        json.loads(line) for line in (outcome.folder / "results.jsonl").read_text().splitlines()
    ]
    assert rows[0]["made"] == before[0]["made"]
    assert rows[0]["objective_pass"] is False


def test_compare_pairs_the_program_with_the_bare_model(place: Path, server: ScriptedServer) -> None:
    server.reply_with(Text("yes"))
    outcome = run(place, server, [SAY_YES], bare=True)
    compared = clawgauge(
        place, "compare", outcome.folder.name, "--models", f"here:{MODEL}", f"goose:here/{MODEL}"
    )
    assert compared.code == 0, compared.stderr
    report = clawgauge(place, "report", outcome.folder.name, "-o", "page.html")
    assert report.code == 0
    assert "inside the agent" in (place / "page.html").read_text().lower()


def test_a_program_is_put_before_the_embedded_model(place: Path) -> None:
    """The server that clawgauge starts itself is reached like any other, and the limit of a reply is passed on."""
    program = install_fake_agent(place / "bin", notes=str(place / "notes.json"))
    (place / "clawgauge.toml").write_text(f'[providers.goose]\ncommand = "{program}"\n')
    write_suite(place / "small.json", {"prompt": "Say yes.", "validator": {"type": "noop"}})
    outcome = clawgauge(
        place, "run", "-t", "goose:embedded/smollm2-135m", "-s", "small.json", "--max-tokens", "8"
    )
    assert outcome.code == 0, outcome.stderr
    (row,) = outcome.records()
    assert row["success"] and row["agent_turns"][0]["status"] == 200
    assert json.loads((place / "notes.json").read_text())["environ"]["GOOSE_MAX_TOKENS"] == "8"


def test_capacity_loads_no_program(place: Path, server: ScriptedServer) -> None:
    """Twenty programs on two cores would be the load, and not the model behind them."""
    chat = f'[providers.here]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\n'
    (place / "clawgauge.toml").write_text(chat)
    outcome = clawgauge(place, "capacity", "-t", f"goose:here/{MODEL}", "--context", "1k")
    assert outcome.code == 2 and f"-t here:{MODEL}" in outcome.stderr
    assert server.calls == []
