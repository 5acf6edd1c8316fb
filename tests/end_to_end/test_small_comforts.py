"""What a person need not say twice, and what a hostile name cannot do."""

from __future__ import annotations

import json
from pathlib import Path

from support.command import clawgauge
from support.scripted_server import ScriptedServer

SMALL = ("run", "-t", "fake:scripted-model", "-s", "small.json")


def test_show_without_a_run_shows_the_newest(place: Path, server: ScriptedServer) -> None:
    """`show` alone is `show latest`."""
    clawgauge(place, *SMALL, "--run-id", "older")
    clawgauge(place, *SMALL, "--run-id", "newer")
    assert clawgauge(place, "show").stdout == clawgauge(place, "show", "newer").stdout
    assert json.loads(clawgauge(place, "show", "--json").stdout)["run_id"] == "newer"


def test_the_runs_folder_of_the_configuration_is_known_to_the_readers(place: Path, server: ScriptedServer) -> None:
    """A run kept where clawgauge.toml says is found by show, summarize and rescore without --runs-dir."""
    with (place / "clawgauge.toml").open("a") as file:
        file.write('[run]\nruns_dir = "kept/here"\n')
    done = clawgauge(place, *SMALL, "--run-id", "one")
    assert done.stdout == f"{Path('kept', 'here', 'one')}\n"
    for words in (("show",), ("summarize", "one"), ("rescore", "latest")):
        found = clawgauge(place, *words)
        assert found.code == 0, found.stderr
    assert clawgauge(place, "show", "one", "--runs-dir", "elsewhere").code == 2


def test_an_error_sentence_cannot_steer_the_terminal(place: Path) -> None:
    """A name with escape sequences in it is shown without them."""
    done = clawgauge(place, "show", "\x1b]0;owned\x07\x1b[31mrun")
    assert done.code == 2 and "There is no run" in done.stderr
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr


def test_a_level_that_does_nothing_is_said_to(place: Path) -> None:
    """`@high` on the embedded model is ignored in one line; the run goes on."""
    done = clawgauge(place, "run", "-t", "embedded:smollm2-135m@high", "-s", "small.json", "--prompt-ids", "P0",
                     "--max-tokens", "4")  # fmt: skip
    assert done.stderr.count("embedded takes no thinking level: @high is ignored\n") == 1
    assert [record["thinking_level"] for record in done.records()] == ["high"]
