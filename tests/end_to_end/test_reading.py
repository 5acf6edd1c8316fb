"""Verbs that work from a run folder alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import Outcome, clawgauge, clean_environment, trust_configuration
from support.scripted_server import Held, ScriptedServer, Text
from support.waiting import wait_until


@pytest.fixture
def finished(place: Path, server: ScriptedServer) -> Outcome:
    server.script(
        Text("yes"), Text("a b c d"), Text("`free`"), Text("\x1b]52;c;evil\x07 fine <script>")
    )
    return clawgauge(place, "run", "-t", "fake:scripted-model", "-s", "small.json")


def test_summarize_rebuilds_what_was_lost(finished: Outcome) -> None:
    """summary.json and summary.md come back as they were from results and config alone."""
    before = finished.summary()
    (finished.folder / "summary.json").unlink()
    (finished.folder / "summary.md").unlink()
    done = clawgauge(finished.cwd, "summarize", "latest")
    assert done.code == 0
    after = finished.summary()
    assert after["models"] == before["models"]
    assert (finished.folder / "summary.md").is_file()


def test_show_a_run_from_anywhere(finished: Outcome, tmp_path: Path) -> None:
    """A path works from any folder, on a moved copy, and needs nothing but the folder."""
    moved = tmp_path / "elsewhere" / "copy"
    shutil.copytree(finished.folder, moved)
    done = clawgauge(tmp_path / "elsewhere", "show", str(moved))
    assert (
        done.code == 0
        and "scripted-model" in done.stdout
        and "which model for which job" in done.stdout
    )


def test_show_keeps_within_the_terminal(finished: Outcome) -> None:
    """80 columns are 80 columns; a pipe gets every figure."""
    narrow = clawgauge(finished.cwd, "show", env={"COLUMNS": "80"}).stdout
    assert max(map(len, narrow.splitlines())) <= 80
    narrower = clawgauge(finished.cwd, "show", env={"COLUMNS": "50"}).stdout
    assert max(map(len, narrower.splitlines())) <= 50
    assert "first token" not in narrower.partition("no room for")[0]
    assert "first token" in clawgauge(finished.cwd, "show").stdout
    assert "p99 ms" in clawgauge(finished.cwd, "show", "-v").stdout


@pytest.mark.parametrize("cell", ["P1", "small/P1", "fake:scripted-model/small/P1#0", "prompt_1"])
def test_show_one_call(finished: Outcome, cell: str) -> None:
    """One call in full: the prompt, the answer, the verdict and why."""
    done = clawgauge(finished.cwd, "show", "latest", cell)
    assert done.code == 0
    for part in ("at most three words", "a b c d", "too_many_words: got 4, limit 3"):
        assert part in done.stdout


def test_a_cell_that_is_not_there(finished: Outcome) -> None:
    """Exit 2 and a sentence with the forms that work."""
    done = clawgauge(finished.cwd, "show", "latest", "P77")
    assert done.code == 2 and "P77" in done.stderr and "…" not in done.stderr
    assert done.stderr.endswith("PROMPT_ID, SUITE/PROMPT_ID or TARGET/SUITE/PROMPT_ID#REPEAT\n")


def test_rescore_judges_again_without_calls(finished: Outcome, server: ScriptedServer) -> None:
    """Verdicts follow a changed validator; answers, times and other fields stay; nothing is asked."""
    calls, before = len(server.calls), finished.records()
    suite = json.loads((finished.cwd / "small.json").read_text())
    suite["prompts"][1]["validator"]["value"] = 4
    (finished.cwd / "new.json").write_text(json.dumps(suite))
    preview = clawgauge(finished.cwd, "rescore", "latest", "--suite", "new.json", "--dry-run")
    assert preview.code == 0 and "1 verdict" in preview.stderr and finished.records() == before
    done = clawgauge(finished.cwd, "rescore", "latest", "--suite", "new.json")
    assert done.code == 0 and len(server.calls) == calls
    after = finished.records()
    assert (before[1]["objective_pass"], after[1]["objective_pass"]) == (False, True)
    judged = {"objective_pass", "violation", "parsed_output"}
    for old, new in zip(before, after, strict=True):
        assert {k for k in old if old[k] != new[k]} <= judged
    assert finished.summary()["models"][0]["n_passed"] == 3


def test_rescore_leaves_a_folder_that_explains_itself(finished: Outcome) -> None:
    """The validators that made the new verdicts are in config.json; a later bare rescore changes nothing."""
    suite = json.loads((finished.cwd / "small.json").read_text())
    suite["prompts"][1]["validator"]["value"] = 4
    (finished.cwd / "small.json").write_text(json.dumps(suite))
    clawgauge(finished.cwd, "rescore", "latest", "--suite", "small.json")
    config = json.loads((finished.folder / "config.json").read_bytes())
    assert config["prompts"][1]["validator"]["value"] == 4
    events = [
        json.loads(line) for line in (finished.folder / "events.jsonl").read_text().splitlines()
    ]
    assert [len(e["detail"]["changes"]) for e in events if e["event"] == "rescored"] == [1]
    assert "0 verdicts changed" in clawgauge(finished.cwd, "rescore", "latest").stderr


def test_rescore_refuses_what_it_cannot_mean(finished: Outcome) -> None:
    """A suite that asks something else, or has nothing to do with the run, is refused; the records stay."""
    before = finished.records()
    suite = json.loads((finished.cwd / "small.json").read_text())
    suite["prompts"][1]["prompt"] = "quite another question"
    (finished.cwd / "small.json").write_text(json.dumps(suite))
    other = clawgauge(finished.cwd, "rescore", "latest", "--suite", "small.json")
    assert other.code == 2 and "P1" in other.stderr
    far_suite = [{"id": "Q", "name": "q", "prompt": "q", "validator": {"type": "noop"}}]
    (finished.cwd / "far.json").write_text(json.dumps(far_suite))
    far = clawgauge(finished.cwd, "rescore", "latest", "--suite", "far.json")
    assert far.code == 2 and finished.records() == before


def test_a_folder_of_the_first_harness(tmp_path: Path) -> None:
    """Old folders (events among results, no suite, no prompts in config) are summarised and shown."""
    old = tmp_path / "runs" / "20260101_000000"
    old.mkdir(parents=True)
    (old / "config.json").write_text(
        json.dumps({"models": ["llama3"], "providers": ["ollama_openai"]})
    )
    base = {
        "record_type": "result", "run_id": "20260101_000000", "provider": "ollama_openai", "model": "llama3",
        "thinking_level": None, "prompt_id": "P0", "prompt_name": "hi", "availability_status": "ok",
        "started_at_ms": 1000, "ended_at_ms": 1500, "e2e_ms": 500, "ttft_ms": None, "success": True,
        "failure_type": None, "objective_pass": True, "violation": None, "input_tokens": 1, "output_tokens": 1,
        "raw_output": "hi", "parsed_output": None, "tool_calls": [], "tool_call_count": 0, "tool_use_success": False,
    }  # fmt: skip
    lines = [
        base,
        {"record_type": "event", "event": "warmup"},
        {**base, "prompt_id": "P1", "objective_pass": False},
    ]
    (old / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = clawgauge(tmp_path, "summarize", "20260101_000000")
    assert done.code == 0, done.stderr
    group = json.loads((old / "summary.json").read_bytes())["models"][0]
    assert (group["n_total"], group["objective_pass_rate"], group["latency_ms"]["p50"]) == (
        2,
        0.5,
        500,
    )
    assert clawgauge(tmp_path, "show", "latest", "P1").code == 0


def test_suites_can_be_listed_copied_and_checked(tmp_path: Path) -> None:
    """list shows the built-ins, show --source gives a copy that check accepts, and an edited copy runs by path."""
    listed = clawgauge(tmp_path, "suites", "list").stdout
    assert "core" in listed and "tool_use" in listed
    for name in ("core", "tool_use"):
        copy = tmp_path / f"my_{name}.toml"
        copy.write_text(clawgauge(tmp_path, "suites", "show", name, "--source").stdout)
        checked = clawgauge(tmp_path, "suites", "check", copy.name)
        assert checked.code == 0 and "prompts are fine" in checked.stdout
        assert (
            clawgauge(tmp_path, "suites", "show", copy.name, "--source").stdout == copy.read_text()
        )


def test_doctor_tells_what_is_there(tmp_path: Path) -> None:
    """Every provider has a line and, where something is missing, the way out; a key's value is never shown."""
    with ScriptedServer(dialect="ollama", models=["llama3.2:3b"], loaded=["llama3.2:3b"]) as ollama:
        env = {
            "OLLAMA_HOST": ollama.base_url,
            "OPENAI_API_KEY": "sk-canary-doctor",
            "OPENAI_BASE_URL": ollama.v1_url,
        }
        done = clawgauge(tmp_path, "doctor", env=env)
        as_json = json.loads(clawgauge(tmp_path, "doctor", "--json", env=env).stdout)
        assert not ollama.calls
    assert done.code == 0 and "llama3.2:3b (loaded)" in done.stdout
    assert "sk-canary-doctor" not in done.stdout + done.stderr
    assert {probe["provider"]: probe["reachable"] for probe in as_json}["ollama_openai"] is True
    down = clawgauge(tmp_path, "doctor")
    assert "ollama serve" in down.stdout and "OPENAI_API_KEY" in down.stdout


def test_show_says_whether_a_run_is_going_on_or_was_killed(
    place: Path, server: ScriptedServer
) -> None:
    """And nothing of the kind of one that has ended."""
    go_on = place / "go_on"
    server.reply_with(Held(Text("yes"), go_on.exists))
    words = ("run", "-t", "fake:scripted-model", "-s", "small.json", "--run-id", "held")
    trust_configuration(place)
    run = subprocess.Popen(
        [sys.executable, "-m", "clawgauge", *words, "--quiet"],
        cwd=place,
        env=clean_environment(),
    )
    try:
        wait_until(lambda: bool(server.calls))
        assert "in progress: this is what is recorded so far" in clawgauge(place, "show").stdout
    finally:
        run.kill()
        run.wait()
        go_on.touch()
    killed = clawgauge(place, "show").stdout
    assert "interrupted; go on with:\n  clawgauge run --resume held\n" in killed, killed
    assert clawgauge(place, "run", "--resume", "held").code == 0
    ended = clawgauge(place, "show").stdout
    assert "in progress" not in ended and "interrupted" not in ended
