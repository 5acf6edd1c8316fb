"""Before anything is asked: what was mistyped is told with what was meant, and what a run shows while it goes on."""

from __future__ import annotations

import json
import re
from pathlib import Path

from faults.terminal import on_a_terminal
from support.command import chat_config, clawgauge, write_suite
from support.isolation import NO_SERVER
from support.rows import every_row
from support.scripted_server import (
    Hang,
    InstalledModel,
    ScriptedServer,
    Status,
    Text,
    model_not_found,
)

SMALL = ("-s", "small.json")


def test_a_model_finds_its_provider(place: Path, server: ScriptedServer) -> None:
    """`-t llama3.2:3b` or `-t gemma3` is asked of the one server that lists it, and that is said; where two or none do,
    one sentence names them, or what is near."""
    names = ["llama3.2:3b", "qwen3:8b", "org/my-talker-7b"]
    with ScriptedServer(models=names) as first, ScriptedServer(models=["qwen3:8b"]) as second:
        chat_config(place, first=first.v1_url, second=second.v1_url)
        found = clawgauge(place, "run", "-t", "llama3.2:3b@high", *SMALL)
        assert (
            found.code == 0
            and "llama3.2:3b@high is taken for first:llama3.2:3b@high\n" in found.stderr
        )
        assert {call.model for call in first.calls} == {"llama3.2:3b"}
        both = clawgauge(place, "run", "-t", "qwen3:8b", *SMALL)
        assert both.code == 2 and "name first:qwen3:8b or second:qwen3:8b" in both.stderr
        near = clawgauge(place, "run", "-t", "talker", "-t", "llama3:3b", *SMALL)
        assert near.code == 2 and "'talker' names no provider, and no server" in near.stderr
        assert (
            "mean first:org/my-talker-7b?\n" in near.stderr
            and "mean first:llama3.2:3b?\n" in near.stderr
        )
        with ScriptedServer(dialect="ollama", models=["gemma3:latest"]) as ollama:
            plain = clawgauge(
                place, "run", "-t", "gemma3", *SMALL, env={"OLLAMA_HOST": ollama.base_url}
            )
            assert (
                "gemma3 is taken for ollama_openai:gemma3\n" in plain.stderr
                and len(ollama.calls) == 4
            )
        assert (
            len(first.calls) == 4
            and second.calls == []
            and len(list((place / "runs").iterdir())) == 2
        )


def test_a_model_is_found_on_the_llama_cpp_of_this_machine(place: Path) -> None:
    """No table names that server: it is where llama.cpp usually listens, or where the user says that it does."""
    with ScriptedServer(models=["qwen3:8b"], ollama=False) as llamacpp:
        llamacpp.reply_with(Text("yes"))
        env = {"CLAWGAUGE_LOCAL_SERVERS": f"llamacpp={llamacpp.v1_url}"}
        done = clawgauge(place, "run", "-t", "qwen3:8b", *SMALL, env=env)
        assert done.code == 0 and "qwen3:8b is taken for openai_chat:qwen3:8b\n" in done.stderr
        assert len(llamacpp.calls) == 4
    nowhere = clawgauge(
        place, "run", "-t", "openai_chat:qwen3:8b", *SMALL, env={"CLAWGAUGE_LOCAL_SERVERS": "none"}
    )
    assert nowhere.code == 2 and "openai_chat has no address" in nowhere.stderr


def test_an_unknown_provider_comes_with_the_table_it_lacks(place: Path) -> None:
    """The lines can be pasted into clawgauge.toml; every wrong target is told."""
    done = clawgauge(place, "run", "-t", "my.box:m", "-t", "ollma_openai:x", *SMALL)
    assert done.code == 2 and "did you mean 'ollama_openai'" in done.stderr
    table = done.stderr.partition("clawgauge.toml:\n")[2]
    # The example's address may be that of a server on this machine, which is none of ours to ask.
    assert "localhost:8000" in table
    (place / "clawgauge.toml").write_text(table.replace("localhost:8000", NO_SERVER))
    assert clawgauge(place, "run", "-t", "my.box:m", *SMALL, "--dry-run").code == 0, table


def test_a_list_is_a_hint_and_no_refusal(place: Path, server: ScriptedServer) -> None:
    """A name that is not on a server's list is said with what may be meant, and asked; it may well be there."""
    server.reply_with(Text("yes"))
    done = clawgauge(place, "run", "-t", "fake:scripted-modle", *SMALL)
    assert done.code == 0 and len(server.calls) == 4
    assert (
        "fake:scripted-modle: not on the server's list, asked anyway; did you mean scripted-model"
        in done.stderr
    )


def test_a_server_that_never_answers_holds_nothing_up(place: Path, server: ScriptedServer) -> None:
    """The list of models hangs; the run does not wait for it."""
    server.route("/v1/models", Hang())
    done = clawgauge(place, "run", "-t", "fake:scripted-model", *SMALL)
    assert done.code == 0 and len(done.records()) == 4
    probes = json.loads((done.folder / "inventory.json").read_bytes())["providers"]
    assert [probe["reachable"] for probe in probes] == [False]


def test_what_a_model_cannot_do_is_said_before_it_is_asked(place: Path) -> None:
    """Ollama says which models take no tools and how much each can read."""
    with ScriptedServer(dialect="ollama", models=[InstalledModel("tiny:1b")]) as ollama:
        told = {
            "capabilities": ["completion"],
            "model_info": {"general.architecture": "a", "a.context_length": 2048},
        }
        ollama.route("/api/show", Status(200, told))
        words = ("run", "-t", "ollama_openai:tiny:1b", "-s", "long_context", "-s", "native_tools")
        ids = ("--prompt-ids", "long_context/P0,native_tools/P0")
        done = clawgauge(place, *words, *ids, env={"OLLAMA_HOST": ollama.base_url})
    assert (
        "tiny:1b: the server says that it takes no tools, and 3 prompts offer some\n" in done.stderr
    )
    assert "tiny:1b: 1 prompt is longer than its window of 2048 tokens\n" in done.stderr
    (probe,) = json.loads((done.folder / "inventory.json").read_bytes())["providers"]
    assert (probe["models"][0]["context_tokens"], probe["models"][0]["takes_tools"]) == (
        2048,
        False,
    )


def test_resuming_with_no_key_leaves_the_run_as_it_was(place: Path, server: ScriptedServer) -> None:
    """What was not answered stays recorded as it was: a slip is no reason to put lines aside."""
    (place / "clawgauge.toml").write_text(
        f'[providers.fake]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\napi_key_env = "MY_KEY"\n'
    )
    server.reply_with(Status(400))
    words = ("run", "-t", "fake:scripted-model", *SMALL)
    first = clawgauge(place, *words, env={"MY_KEY": "a-key-of-the-test-1"})
    before = (first.folder / "results.jsonl").read_bytes()
    again = clawgauge(place, "run", "--resume", "latest", "--retry-errors")
    assert again.code == 2 and "MY_KEY is not set" in again.stderr
    assert (first.folder / "results.jsonl").read_bytes() == before
    assert not (first.folder / "superseded.jsonl").exists()


@every_row(
    ("reply", "said", "n_lines"),
    [
        (Status(503, message="overloaded"), "small/P0 prompt_0: error (http_503)", 1),
        (
            Status(401, message="no such key"),
            "fake:scripted-model cannot answer (http_401: HTTP 401: no such key)",
            1,
        ),
    ],
)
def test_an_error_is_told_once_with_its_reason(
    place: Path, server: ScriptedServer, reply: Status, said: str, n_lines: int
) -> None:
    """Without a terminal each kind of error of a target has one line, whatever the number of prompts; so has -q."""
    server.reply_with(reply)
    words = ("run", "-t", "fake:scripted-model", *SMALL, "--max-retries", "0", "--repeats", "5")
    progress = clawgauge(place, *words).stderr.partition("\nrun ")[0]
    told = [line for line in progress.splitlines() if said in line]
    assert len(told) == n_lines and progress.count("[") <= 1, progress
    quiet = clawgauge(place, *words, "-q")
    assert quiet.code == 3 and quiet.stderr.count("\n") == 1
    counted = (
        "1 × http_401 (19 prompts not asked after it)"
        if reply.code == 401
        else f"20 × http_{reply.code}"
    )
    assert counted in quiet.stderr


def test_a_terminal_shows_the_whole_run_and_what_is_done_already(
    place: Path, server: ScriptedServer
) -> None:
    """One bar over all targets; one that an earlier session finished is done, and the last line is the folder's."""
    server.reply_with(
        lambda request: Status(503) if request.model == "other-model" else Text("yes")
    )
    targets = ("-t", "fake:scripted-model", "-t", "fake:other-model")
    clawgauge(place, "run", *targets, *SMALL, "--max-retries", "0", "--run-id", "r")
    server.reply_with(Text("yes"))
    drawn = on_a_terminal(place, "run", "--resume", "r", "--retry-errors").decode()
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)
    assert re.search(r"scripted-model +4/4 +2/3 passed .*done", plain) and re.search(
        r"[4-8]/8 +\d+ s", plain
    )
    assert plain.rstrip().endswith("runs/r")


def test_a_slip_beside_a_right_target_is_recorded(place: Path, server: ScriptedServer) -> None:
    """Where another can be asked, the wrong one is told before the first call, and has its rows."""
    server.reply_with(
        lambda r: Text("yes") if r.model == "scripted-model" else model_not_found(r.model)
    )
    done = clawgauge(
        place,
        "run",
        "-t",
        "fake:scripted-model",
        "-t",
        "fake:nobody",
        "-t",
        "openai_responses:x",
        *SMALL,
    )
    before = done.stderr.partition("[1/4]")[0]
    assert (
        "openai_responses:x: OPENAI_API_KEY is not set\n" in before
        and "fake:nobody: not on the" in before
    )
    assert len(done.records()) == 12 and done.code == 0


def test_doctor_says_what_it_did_not_check(place: Path, server: ScriptedServer) -> None:
    """A server without a list, and a protocol without an address, are no `ok`."""
    server.route("/v1/models", Status(404))
    said = clawgauge(place, "doctor").stdout
    assert re.search(r"fake at .*which it has is not checked", said)
    assert "openai_chat: not checked: it has no address" in said


def test_a_rehearsal_says_what_the_run_would_say_of_a_missing_model(tmp_path: Path) -> None:
    """No model is called; the list of the server is asked for, and the nearest names are told."""
    write_suite(tmp_path / "small.json", {"id": "P0", "name": "yes", "prompt": "Say yes."})
    with ScriptedServer(models=["llama3.2:3b"]) as server:
        words = ("run", "--dry-run", "-s", "small.json", "-t", "ollama_openai:llama3.2:2b")
        planned = clawgauge(tmp_path, *words, env={"OLLAMA_HOST": server.base_url})
        assert planned.code == 0, planned.stderr
        assert "not on the server's list, asked anyway" in planned.stderr
        assert "did you mean llama3.2:3b?" in planned.stderr
        assert server.calls == []


def test_a_rehearsal_says_that_the_server_is_down(tmp_path: Path) -> None:
    write_suite(tmp_path / "small.json", {"id": "P0", "name": "yes", "prompt": "Say yes."})
    words = ("run", "--dry-run", "-s", "small.json", "-t", "ollama_openai:llama3.2:3b")
    planned = clawgauge(tmp_path, *words)
    assert planned.code == 0
    assert "ollama_openai:llama3.2:3b: nothing answers at" in planned.stderr, planned.stderr
