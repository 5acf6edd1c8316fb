"""Google's Gemini API through the real command: levels, keys, a task with its signatures, init and doctor."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from support import gemini_format
from support.command import Outcome, clawgauge, write_suite
from support.rows import every_row
from support.scripted_server import ReceivedRequest, Reply, ScriptedServer, Status, Text

KEY = "AIzaSyCanary-0123456789_abcdefghijklmno"
TASK: dict[str, Any] = {
    "prompt": "What does todo.txt say? Then delete it.",
    "tools": ["read", "exec"],
    "world": {"files": {"/home/claw/todo.txt": "buy milk"}, "seed": 5},
    "max_turns": 4,
    "validator": {
        "type": "world_state",
        "expect": [{"file": "/home/claw/todo.txt", "absent": True}],
        "answer": {"type": "regex_fullmatch", "pattern": "(?i).*milk.*"},
    },
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_suite(
        tmp_path / "one.json",
        {"prompt": "yes?", "validator": {"type": "regex_fullmatch", "pattern": "yes"}},
    )
    write_suite(tmp_path / "task.json", TASK)
    return tmp_path


@pytest.fixture
def google() -> Any:
    with ScriptedServer(models=["gemini-2.5-flash", "gemini-3.8-flash"], ollama=False) as server:
        yield server


def run(
    place: Path, google: ScriptedServer, target: str, suite: str, variable: str = "GEMINI_API_KEY"
) -> Outcome:
    environ = {"GOOGLE_GEMINI_BASE_URL": google.base_url, variable: KEY}
    return clawgauge(place, "run", "-t", target, "-s", suite, "--max-retries", "0", env=environ)


def assert_silent(place: Path, *outcomes: Outcome) -> None:
    """The key is in nothing that was printed or written."""
    for outcome in outcomes:
        assert KEY not in outcome.stdout + outcome.stderr
    for path in place.rglob("*"):
        if path.is_file():
            assert KEY not in path.read_bytes().decode("utf-8", "replace"), path.name


@pytest.mark.parametrize("variable", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_a_run_records_what_was_sent_and_never_the_key(
    place: Path, google: ScriptedServer, variable: str
) -> None:
    """Level, room for thoughts, tokens and finish are on record; the key went out as a header, and is nowhere else."""

    def answer(request: ReceivedRequest) -> Reply:
        sent = {name.lower(): value for name, value in request.headers.items()}["x-goog-api-key"]
        assert sent == KEY
        return Text("yes", usage=(9, 2), cached_tokens=4, reasoning=f"the key is {sent}")

    google.reply_with(answer)
    done = run(place, google, "gemini:gemini-2.5-flash@low", "one.json", variable)
    assert done.code == 0, done.stderr
    (record,) = done.records()
    assert record["objective_pass"] is True
    assert (record["provider"], record["model"]) == ("gemini", "gemini-2.5-flash")
    assert record["thinking_level"] == "low"
    assert (record["input_tokens"], record["cached_tokens"]) == (9, 4)
    config = json.loads((done.folder / "config.json").read_bytes())
    sent = google.calls[0].json["generationConfig"]
    sampling = config["sampling"]["gemini:gemini-2.5-flash@low"]
    assert sampling["max_tokens"] == sent["maxOutputTokens"] == 1024 + 2048
    assert sent["thinkingConfig"]["thinkingBudget"] == 2048
    assert config["providers"]["gemini"]["api_key_env"] == variable
    assert any(warning.startswith("key_withheld") for warning in record["warnings"])
    assert_silent(place, done)


def test_a_refused_key_ends_the_target_and_names_its_variable(
    place: Path, google: ScriptedServer
) -> None:
    """Google refuses a key with status 400: every further call would fail the same way."""
    google.reply_with(gemini_format.key_refused())
    environ = {"GOOGLE_GEMINI_BASE_URL": google.base_url, "GEMINI_API_KEY": KEY}
    words = ["run", "-t", "gemini:gemini-2.5-flash", "-s", "one.json", "--repeats", "3"]
    done = clawgauge(place, *words, env=environ)
    assert done.code == 3
    assert len(google.calls) == 1
    records = done.records()
    assert {record["failure_type"] for record in records} == {"api_key_invalid"}
    assert {record["availability_status"] for record in records} == {"auth_error"}
    assert [record["asked"] for record in records] == [True, False, False]
    assert "The key was refused: check GEMINI_API_KEY." in done.stderr
    assert_silent(place, done)


def test_a_task_is_gone_on_with_under_its_own_signatures(
    place: Path, google: ScriptedServer
) -> None:
    """Turn by turn the API gets back what it signed, and never refuses to go on."""
    script = [
        Text(
            None,
            reasoning="look first",
            tool_calls=[("read", '{"path": "/home/claw/todo.txt"}')],
        ),
        Text("Now.", tool_calls=[("exec", '{"command": "rm /home/claw/todo.txt"}')]),
        Text("It said: buy milk."),
    ]

    def answer(request: ReceivedRequest) -> Status | Text:
        return gemini_format.unsigned_call(request) or script[len(google.calls) - 1]

    google.reply_with(answer)
    done = run(place, google, "gemini:gemini-3.8-flash@high", "task.json")
    assert done.code == 0, done.stderr
    (record,) = done.records()
    assert (record["objective_pass"], record["turns"]) == (True, 3)
    first, second, third = google.calls
    contents = third.json["contents"]
    signed = []
    for content in contents:
        for part in content["parts"]:
            if "thoughtSignature" in part:
                signed.append(part["thoughtSignature"])
    assert signed == [gemini_format.signature(first), gemini_format.signature(second)]
    assert contents[2]["parts"][0]["functionResponse"]["response"] == {"output": "buy milk"}
    assert third.json["generationConfig"]["thinkingConfig"]["thinkingLevel"] == "HIGH"


@every_row(
    ("target", "sentence"),
    [
        ("gemini:gemini-2.5-pro@off", "gemini-2.5-pro cannot be asked not to think"),
        ("gemini:gemini-3.8-flash@xhigh", "it takes @low, @medium and @high"),
        ("openai_responses:gpt-5@off", "openai_responses cannot ask a model not to think"),
    ],
)
def test_a_level_that_cannot_be_sent_is_refused_before_the_run(
    place: Path, target: str, sentence: str
) -> None:
    with ScriptedServer() as server:
        environ = {"GOOGLE_GEMINI_BASE_URL": server.base_url, "GEMINI_API_KEY": KEY}
        done = clawgauge(place, "run", "-t", target, "-s", "one.json", "--dry-run", env=environ)
        assert server.requests == []
    assert done.code == 2
    assert sentence in done.stderr


def test_init_and_doctor_find_it_by_its_key(place: Path, google: ScriptedServer) -> None:
    """Its models are listed, a cheap one is proposed and not asked, and the key is shown nowhere."""
    environ = {"GOOGLE_GEMINI_BASE_URL": google.base_url, "GOOGLE_API_KEY": KEY}
    done = clawgauge(place, "init", env=environ, trusting=False)
    assert done.code == 0
    assert "found gemini: gemini-2.5-flash" in done.stderr
    text = (place / "clawgauge.toml").read_text()
    assert '# "gemini:gemini-2.5-flash",' in text
    assert tomllib.loads(text)["run"]["targets"] == ["embedded:smollm2-135m"]
    looked = clawgauge(place, "doctor", env=environ)
    (line,) = (line for line in looked.stdout.splitlines() if " gemini at " in line)
    assert line.startswith("ok ")
    assert "models: gemini-2.5-flash, gemini-3.8-flash and gemini-embedding-001" in looked.stdout
    google.route("/v1beta/models", gemini_format.key_refused())
    refused = clawgauge(place, "doctor", env=environ)
    assert "check the value of GOOGLE_API_KEY" in refused.stdout
    unset = clawgauge(place, "doctor")
    assert "no gemini at" in unset.stdout
    assert "GEMINI_API_KEY is not set" in unset.stdout
    assert_silent(place, done, looked, refused)
