"""A run from the command line: what is asked, recorded, printed and returned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command import clawgauge
from support.scripted_server import Held, InstalledModel, ScriptedServer, Status, Text

SMALL = ("run", "-t", "fake:scripted-model", "-s", "small.json")


def test_a_whole_run(place: Path, server: ScriptedServer) -> None:
    """Every prompt is asked once, judged, recorded, summed up; stdout is the folder's path and nothing else."""
    server.script(
        Text("yes"), Text("one two three four"), Text("I will run `free -h`."), Text("so be it")
    )
    done = clawgauge(place, *SMALL)
    assert done.code == 0, done.stderr
    assert done.stdout == f"{Path('runs') / done.folder.name}\n"
    records = done.records()
    assert [(r["prompt_id"], r["objective_pass"]) for r in records] == [
        ("P0", True),
        ("P1", False),
        ("P2", True),
        ("P3", None),
    ]
    assert records[1]["violation"] == "too_many_words: got 4, limit 3"
    assert records[2]["tool_calls"] == ["free"] and records[2]["tool_use_success"] is True
    assert all(r["ttft_ms"] is not None and r["e2e_ms"] >= r["ttft_ms"] for r in records)
    group = done.summary()["models"][0]
    assert (group["n_total"], group["n_ok"], group["objective_pass_rate"]) == (
        4,
        4,
        pytest.approx(2 / 3),
    )
    assert group["tool_use"]["tier"] == 1 and group["tool_use"]["decided"] is False
    present = {path.name for path in done.folder.iterdir()}
    assert {
        "config.json",
        "inventory.json",
        "results.jsonl",
        "summary.json",
        "summary.md",
        "events.jsonl",
    } <= present
    assert {
        "resources_fake_scripted-model_before.txt",
        "resources_fake_scripted-model_after.txt",
    } <= present
    assert "which model for which job" in done.stderr and "[4/4]" in done.stderr


def test_json_puts_the_summary_on_stdout(place: Path) -> None:
    """With --json stdout is the summary object, the same as in summary.json."""
    done = clawgauge(place, *SMALL, "--json", "--quiet")
    shown = json.loads(done.stdout)
    assert done.stderr == ""
    folder = place / "runs" / shown["run_id"]
    assert shown["models"] == json.loads((folder / "summary.json").read_bytes())["models"]


def test_what_is_sent(place: Path, server: ScriptedServer) -> None:
    """Defaults for a local server: temperature 0, streaming with usage, the bounded reply; flags change each."""
    clawgauge(place, *SMALL, "--prompt-ids", "P0")
    clawgauge(
        place, *SMALL[:2], "fake:scripted-model@high", *SMALL[3:], "--prompt-ids", "P0",
        "--max-tokens", "9", "--temperature", "0.7", "--seed", "3", "--no-stream",
    )  # fmt: skip
    first, second = (call.json for call in server.calls)
    assert first == {
        "model": "scripted-model",
        "messages": [{"role": "user", "content": "say yes"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 1024,
        "temperature": 0.0,
    }
    assert second["max_tokens"] == 9 and second["temperature"] == 0.7 and second["seed"] == 3
    assert (
        second["reasoning_effort"] == "high"
        and second["stream"] is False
        and "stream_options" not in second
    )


def test_repeats_are_cells_of_their_own(place: Path, server: ScriptedServer) -> None:
    """--repeats asks every prompt again; each answer is a record with its own number."""
    done = clawgauge(place, *SMALL, "--repeats", "3", "--concurrency", "4")
    cells = {(r["prompt_id"], r["repeat"]) for r in done.records()}
    assert cells == {(f"P{p}", n) for p in range(4) for n in range(3)}
    assert len(server.calls) == 12


def test_concurrency_is_calls_in_flight(place: Path, server: ScriptedServer) -> None:
    """After the first call, which goes alone, the others are in flight together, each on its own connection."""
    # The first is answered at once, the others when all of them are there, and not before.
    server.reply_with(Held(Text("yes"), lambda: len(server.calls) in (1, 4)))
    done = clawgauge(place, *SMALL, "--concurrency", "4")
    assert [record["success"] for record in done.records()] == [True] * 4
    assert len({call.connection for call in server.calls}) == 3


def test_a_warm_up_is_an_event_and_takes_the_cold_start(
    place: Path, server: ScriptedServer
) -> None:
    """With --warm-up one more call goes out first; it is no result, and no result is cold after it."""
    cold = clawgauge(place, *SMALL)
    warm = clawgauge(place, *SMALL, "--warm-up")
    assert [r["cold_start"] for r in cold.records()] == [True, False, False, False]
    assert [r["cold_start"] for r in warm.records()] == [False] * 4
    events = [json.loads(line) for line in (warm.folder / "events.jsonl").read_text().splitlines()]
    assert [e["detail"]["cold_start"] for e in events if e["event"] == "warm_up"] == [True]
    assert len(server.calls) == 9


def test_a_model_the_server_has_loaded_does_not_start_cold(place: Path) -> None:
    """`/api/ps` lists it: the first call of a run, and of a resumed one, loads nothing; unlisted, it does."""
    with ScriptedServer(models=["warm:latest", "cold"], loaded=["warm:latest"]) as ollama:
        targets = ("-t", "ollama_openai:warm", "-t", "ollama_openai:cold")
        env = {"OLLAMA_HOST": ollama.base_url}
        words = ("run", *targets, "-s", "small.json", "--run-id", "r")
        done = clawgauge(place, *words, "--max-calls", "2", env=env)
        clawgauge(place, "run", "--resume", "r", "--max-calls", "4", env=env)
    cold = {
        name: [r["cold_start"] for r in done.records() if r["model"] == name]
        for name in ("warm", "cold")
    }
    assert cold == {"warm": [False] * 4, "cold": [True, False, False, False]}


def test_a_target_that_cannot_answer_is_asked_once(place: Path, server: ScriptedServer) -> None:
    """After the first evidence the other cells get the same status without a call; the run ends with exit 3."""
    server.reply_with(Status(401))
    done = clawgauge(place, *SMALL)
    records = done.records()
    assert {(r["availability_status"], r["failure_type"]) for r in records} == {
        ("auth_error", "http_401")
    }
    assert [len(r["attempts"]) for r in records] == [1, 0, 0, 0]
    assert all(r["e2e_ms"] == 0 for r in records[1:])
    assert len(server.calls) == 1
    assert done.code == 3


def test_patterns_take_what_ollama_has(place: Path) -> None:
    """`ollama_openai:*` asks every chat model, no embedding model, minus the exclusions; tags come from /api/tags."""
    models = [
        InstalledModel("llama3.2:3b"),
        InstalledModel("qwen3:8b"),
        InstalledModel("nomic-embed-text:latest"),
    ]
    with ScriptedServer(dialect="ollama", models=models) as ollama:
        done = clawgauge(
            place, "run", "-t", "ollama_openai:*", "-t", "!ollama_openai:qwen*", "-s", "small.json",
            env={"OLLAMA_HOST": ollama.base_url},
        )  # fmt: skip
    assert {r["model"] for r in done.records()} == {"llama3.2:3b"}
    inventory = json.loads((done.folder / "inventory.json").read_bytes())
    assert [m["name"] for m in inventory["ollama_list"]] == [m.name for m in models]


def test_without_a_target_ollama_is_taken(place: Path) -> None:
    """No -t: the chat models of a reachable Ollama, and a word about paid providers that are there but not used."""
    with ScriptedServer(dialect="ollama", models=["llama3.2:3b", "all-minilm:22m"]) as ollama:
        done = clawgauge(
            place,
            "run",
            "-s",
            "small.json",
            env={"OLLAMA_HOST": ollama.base_url, "OPENAI_API_KEY": "sk-not-used-here"},
        )
    assert {(r["provider"], r["model"]) for r in done.records()} == {
        ("ollama_openai", "llama3.2:3b")
    }
    assert "4 calls" in done.stderr.partition("[1/4]")[0], "the plan is shown first"
    assert "-t openai_responses:MODEL" in done.stderr and "sk-not-used-here" not in done.stderr


def test_patterns_take_thinking_levels(place: Path) -> None:
    """`PROVIDER:*@high` asks every model at that level."""
    with ScriptedServer(dialect="ollama", models=["a:1b", "b:1b"]) as ollama:
        env = {"OLLAMA_HOST": ollama.base_url}
        done = clawgauge(place, "run", "-t", "ollama_openai:*@high", "-s", "small.json", env=env)
    assert {(r["model"], r["thinking_level"]) for r in done.records()} == {
        ("a:1b", "high"),
        ("b:1b", "high"),
    }


def test_options_a_provider_cannot_take_are_said_and_not_recorded_as_sent(
    place: Path, server: ScriptedServer
) -> None:
    """A seed that Responses has no field for is not in config.json's sampling, and the user is told."""
    env = {"OPENAI_BASE_URL": server.v1_url, "OPENAI_API_KEY": "sk-0123456789"}
    done = clawgauge(
        place, "run", "-t", "openai_responses:m", "-s", "small.json", "--seed", "3", env=env
    )
    sampling = json.loads((done.folder / "config.json").read_bytes())["sampling"][
        "openai_responses:m"
    ]
    assert sampling == {"temperature": None, "max_tokens": 1024, "seed": None}
    assert "takes no seed" in done.stderr and "seed" not in server.calls[0].json


def test_unload_others_unloads_only_others(place: Path) -> None:
    """--unload-others asks Ollama to drop every loaded model but the one that is asked; without it none."""
    with ScriptedServer(
        dialect="ollama", models=["a:1b", "b:1b"], loaded=["a:1b", "b:1b"]
    ) as ollama:
        env = {"OLLAMA_HOST": ollama.base_url}
        clawgauge(place, "run", "-t", "ollama_openai:a:1b", "-s", "small.json", env=env)
        assert [r for r in ollama.requests if r.path == "/api/generate"] == []
        clawgauge(
            place, "run", "-t", "ollama_openai:a:1b", "-s", "small.json", "--unload-others", env=env
        )
        assert [r.json for r in ollama.requests if r.path == "/api/generate"] == [
            {"model": "b:1b", "keep_alive": 0}
        ]


def test_fail_under_is_a_gate(place: Path, server: ScriptedServer) -> None:
    """--fail-under turns a pass rate over what was asked into exit 1; at the rate itself it is 0."""
    server.reply_with(Text("yes"))
    assert clawgauge(place, *SMALL, "--fail-under", "0.66").code == 0
    bounded = clawgauge(
        place, *SMALL, "--max-calls", "1", "--fail-under", "0.9", env={"COLUMNS": "60"}
    )
    assert bounded.code == 0 and "3 of 4 planned prompts were never asked" in " ".join(
        bounded.stderr.split()
    )
    passed = (
        "gate passed: fake:scripted-model passed 100.0% of the prompts it was asked, wanted 90.0%"
    )
    assert bounded.stderr.endswith(f"{passed} (3 of 4 planned prompts were never asked)\n")
    table = bounded.stderr.partition("\nmodel ")[2].partition("\n\n")[0]
    assert max(map(len, table.splitlines())) <= 60, (
        "what is piped keeps to COLUMNS, where that is set"
    )
    failed = clawgauge(place, *SMALL, "--fail-under", "0.67")
    assert failed.code == 1 and "gate failed: fake:scripted-model passed 66.7%" in failed.stderr
    unjudged = clawgauge(place, *SMALL, "--prompt-ids", "P3", "--fail-under", "0.9")
    assert unjudged.code == 0


def test_dry_run_asks_no_model(place: Path, server: ScriptedServer) -> None:
    """The plan is shown, with what is known of its time; only lists of models are asked for."""
    done = clawgauge(place, *SMALL, "--dry-run", "--repeats", "2")
    assert done.code == 0 and "8 calls" in done.stderr and "unknown" in done.stderr
    assert server.calls == [] and not (place / "runs").exists()
    clawgauge(place, *SMALL)
    assert "as measured here before" in clawgauge(place, *SMALL, "--dry-run").stderr


def test_the_old_suite_shape_loads(place: Path, server: ScriptedServer) -> None:
    """A bare list with expected_tool_calls runs unchanged; the expectation counts for tool use."""
    old = [
        {
            "id": "P0",
            "name": "mem",
            "prompt": "memory?",
            "validator": {"type": "noop"},
            "expected_tool_calls": ["free"],
        }
    ]
    (place / "prompts_old.json").write_text(json.dumps(old))
    server.reply_with(Text("`free -m`"))
    (record,) = clawgauge(
        place, "run", "-t", "fake:scripted-model", "-s", "prompts_old.json"
    ).records()
    assert (record["suite"], record["expected_tools"], record["tool_use_success"]) == (
        "prompts_old",
        ["free"],
        True,
    )


JOB = """
[jobs."say yes"]
column = "yes"
prompts = ["small"]
weighs = { passes = 1 }
at_least = 0.01
"""


def test_a_job_of_the_users_is_judged_once_its_file_is_trusted(
    place: Path, server: ScriptedServer
) -> None:
    """It stands in config.json, so that the folder alone can say why; of a stranger's file it is left out, and said."""
    server.reply_with(Text("yes"))
    with (place / "clawgauge.toml").open("a") as file:
        file.write(JOB)
    done = clawgauge(place, *SMALL)
    (mine,) = [job for job in done.summary()["jobs"] if job["job"] == "say yes"]
    assert mine["ranking"][0]["fit"] == "yes" and "say yes" in done.stderr
    assert (
        json.loads((done.folder / "config.json").read_bytes())["jobs"]["say yes"]["at_least"]
        == 0.01
    )
    (place / "clawgauge.toml").write_text(JOB)
    strange = clawgauge(
        place, "run", "-t", "ollama_openai:m", "-s", "small.json", "--dry-run", trusting=False
    )
    assert "left out, until `clawgauge trust`: [jobs.say yes]" in strange.stderr


def test_a_job_that_needs_what_there_is_not_is_refused(place: Path) -> None:
    (place / "clawgauge.toml").write_text(
        '[jobs.mine]\nneeds = ["luck"]\nweighs = { passes = 1 }\n'
    )
    done = clawgauge(place, *SMALL)
    assert done.code == 2 and "luck" in done.stderr and done.stderr.count("\n") == 1


def test_quiet_hides_progress_and_no_failure(place: Path, server: ScriptedServer) -> None:
    server.reply_with(
        lambda request: (
            Text("yes") if request.json["model"] == "scripted-model" else Status(401, {})
        )
    )
    done = clawgauge(
        place, "run", "-t", "fake:scripted-model", "-t", "fake:other", "-s", "small.json", "--quiet"
    )
    assert done.code == 0
    assert (
        "fake:other" in done.stderr
        and "http_401" in done.stderr
        and "scripted-model" not in done.stderr
    )
    assert clawgauge(place, *SMALL, "--quiet").stderr == ""
