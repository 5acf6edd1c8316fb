"""`clawgauge history` on runs that were really made, and the commands it prints."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from support.command import Outcome, clawgauge, write_suite
from support.scripted_server import ScriptedServer, Status, Text

SMALL = ("run", "-s", "small.json", "-t")


def history(place: Path, *words: str) -> Outcome:
    return clawgauge(place, "history", *words, env={"COLUMNS": "80"})


def test_the_printed_commands_fill_what_is_missing(place: Path, server: ScriptedServer) -> None:
    """Run as printed, they leave nothing missing: one resumes a run, one asks what nobody scheduled."""
    server.script(Text("yes"), Status(400), Text("`free`"), Text("fine"))
    clawgauge(place, *SMALL, "fake:scripted-model", "--run-id", "whole")
    clawgauge(
        place,
        *SMALL,
        "fake:other-model",
        "--run-id",
        "part",
        "--prompt-ids",
        "P0",
        "--max-tokens",
        "77",
    )
    plan = json.loads(history(place, "--fill", "--json").stdout)["fill"]
    assert {tuple(cell) for step in plan for cell in step["cells"]} == {
        ("fake:scripted-model", "small", "P1"),
        *(("fake:other-model", "small", f"P{n}") for n in (1, 2, 3)),
    }
    commands = [step["command"] for step in plan]
    assert commands[0] == "clawgauge run --resume whole --retry-errors"
    assert commands[1].startswith(
        "clawgauge run -t fake:other-model -s small.json --prompt-ids small/P1,"
    )
    shown = history(place, "--fill")
    assert (
        all(command in shown.stdout for command in commands)
        and "3/4 answered; missing P1" in shown.stdout
    )
    for command in commands:
        assert clawgauge(place, *shlex.split(command)[1:]).code == 0
    assert json.loads(history(place, "--fill", "--json").stdout)["fill"] == []
    assert "nothing is missing" in history(place, "--fill").stdout


def test_nothing_is_proposed_for_a_provider_without_its_key(place: Path) -> None:
    """Who cannot be asked is left out of the commands, and it is said which key is not set."""
    table = '[providers.paid]\ntype = "openai_chat"\nbase_url = "http://127.0.0.1:9/v1"\napi_key_env = "PAID_KEY"\n'
    with (place / "clawgauge.toml").open("a") as file:
        file.write(table)
    clawgauge(place, *SMALL, "fake:scripted-model", "--run-id", "whole")
    few = ("-t", "fake:other-model", "--run-id", "part", "--prompt-ids", "P0")
    key = {"PAID_KEY": "k"}
    clawgauge(
        place, *SMALL, "paid:m", *few, "--max-retries", "0", "--config", "clawgauge.toml", env=key
    )
    shown, keyed = (
        history(place, "--fill"),
        clawgauge(place, "history", "--fill", env={"COLUMNS": "80", **key}),
    )
    assert "-t paid:m" not in shown.stdout and "-t fake:other-model" in shown.stdout
    assert "left out: 4 prompts of paid:m, PAID_KEY is not set" in shown.stdout
    assert (
        "paid:m" in keyed.stdout.partition("to fill what is missing")[2]
        and "is not set" not in keyed.stdout
    )


def test_drawn_prompts_are_filled_with_the_values_they_were_asked_with(place: Path) -> None:
    """A command that asked the prompts as they are written would leave the drawn ones missing for ever."""
    drawn = [{"prompt": f"say ash, {n}", "draw": {"ash": ["elm"]}} for n in range(2)]
    write_suite(place / "drawn.json", *drawn)
    whole = ("run", "-s", "drawn.json", "--draw", "3", "-t")
    clawgauge(place, *whole, "fake:scripted-model", "--run-id", "whole")
    clawgauge(place, *whole, "fake:other-model", "--run-id", "part", "--prompt-ids", "P0")
    (step,) = json.loads(history(place, "--fill", "--json").stdout)["fill"]
    assert clawgauge(place, *shlex.split(step["command"])[1:]).code == 0
    assert json.loads(history(place, "--fill", "--json").stdout)["fill"] == []


def test_one_table_of_all_runs(place: Path, server: ScriptedServer) -> None:
    """Every run with its date, targets and counts, then each model's latest and best; it fits the terminal."""
    for run_id, word in (("one", "no"), ("two", "yes")):
        server.script(Text(word), Text("a"), Text("`free`"), Text("fine"))
        clawgauge(place, *SMALL, "fake:scripted-model", "--run-id", run_id)
    done = history(place)
    assert done.code == 0 and done.stdout.index("two") < done.stdout.index("one")
    assert "100% · 3/3" in done.stdout and "67% · 2/3" in done.stdout and "4/4" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "| two" in history(place, "--format", "markdown").stdout
    assert json.loads(history(place, "--json", "--models", "nothing*").stdout)["runs"] == []


def test_no_runs_at_all(tmp_path: Path) -> None:
    """An empty folder is not an error, a missing one is a wrong request; both say what to do."""
    (tmp_path / "runs").mkdir()
    empty = history(tmp_path)
    assert empty.code == 0 and "clawgauge run" in empty.stdout
    missing = history(tmp_path, "--runs-dir", "elsewhere")
    assert missing.code == 2 and "--runs-dir" in missing.stderr
