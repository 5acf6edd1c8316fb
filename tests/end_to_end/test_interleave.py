"""`run --interleave`: who is asked what, when; what is refused; and what `compare` can then tell of the times."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from clawgauge.providers.base import ProviderSettings, create_provider
from support.command import Outcome, clawgauge, write_suite
from support.scripted_server import ScriptedServer, Status, Text

MODELS = ("scripted-model", "other-model")
BOTH = (
    "run",
    "-t",
    "fake:scripted-model",
    "-t",
    "fake:other-model",
    "-s",
    "many.json",
    "--interleave",
)
PASS, FAIL = Text("I will run `free -h`."), Text("I cannot do that.")


@pytest.fixture
def many(place: Path) -> Path:
    """A suite of twenty tool prompts, each with words of its own."""
    tool = {"validator": {"type": "tool_invocation", "expected_tools": ["free"]}}
    write_suite(
        place / "many.json", *[{"prompt": f"free memory of host {n}?", **tool} for n in range(20)]
    )
    return place


def asked(server: ScriptedServer) -> list[tuple[str, str]]:
    """(prompt, model) of every call, in the order they came in."""
    return [(str(call.json["messages"][-1]["content"]), call.model) for call in server.calls]


def drawn(run_id: str, prompt_id: str, repeat: int = 0) -> list[str]:
    """The turn order that the documentation promises for a cell."""
    models = list(MODELS)
    random.Random(f"{run_id} many/{prompt_id} {repeat}").shuffle(models)
    return models


def options_of(done: Outcome) -> dict[str, Any]:
    options: dict[str, Any] = json.loads((done.folder / "config.json").read_bytes())["options"]
    return options


def test_every_target_is_asked_a_prompt_before_the_next(many: Path, server: ScriptedServer) -> None:
    """Both models of a prompt, in the drawn order, then the next prompt; the records are in the same order."""
    done = clawgauge(many, *BOTH, "--run-id", "turns", "--repeats", "2")
    assert done.code == 0, done.stderr
    expected = [
        (f"free memory of host {n}?", model)
        for repeat in range(2)
        for n in range(20)
        for model in drawn("turns", f"P{n}", repeat)
    ]
    assert asked(server) == expected
    assert [record["model"] for record in done.records()] == [model for _, model in expected]
    first = Counter(model for _, model in expected[::2])
    assert min(first.values()) >= 8, "one of them nearly always goes first"
    assert options_of(done)["interleave"] is True
    assert "[20/40] fake:other-model many/P" in done.stderr


def test_a_resumed_run_takes_the_same_turns(many: Path, server: ScriptedServer) -> None:
    """After a budget ended it, a run goes on in turns, each cell's in the order it would have had."""
    clawgauge(many, *BOTH, "--run-id", "turns", "--max-calls", "3")
    assert len(server.calls) == 6
    more = clawgauge(many, "run", "--resume", "turns", "--max-calls", "20")
    assert more.code == 0, more.stderr
    assert [model for _, model in asked(server)] == [
        m for n in range(20) for m in drawn("turns", f"P{n}")
    ]
    changed = clawgauge(many, "run", "--resume", "turns", "--no-interleave")
    assert changed.code == 2 and "--interleave was True and is now False" in changed.stderr


def test_a_decided_target_drops_out(many: Path, server: ScriptedServer) -> None:
    """One model is done after a few failures; the other, which only many answers can tell of, is asked on alone."""
    server.reply_with(lambda request: FAIL if request.model == "scripted-model" else PASS)
    done = clawgauge(many, *BOTH, "--until-decided")
    assert done.code == 0, done.stderr
    models = [model for _, model in asked(server)]
    n_failed = models.count("scripted-model")
    assert n_failed == 5 and models.count("other-model") == 20
    assert set(models[2 * n_failed :]) == {"other-model"}


def test_several_prompts_at_once_are_still_asked_of_all(many: Path, server: ScriptedServer) -> None:
    """With --concurrency 3 three prompts are under way; every cell is recorded once."""
    done = clawgauge(many, *BOTH, "--concurrency", "3")
    cells = Counter((record["model"], record["prompt_id"]) for record in done.records())
    assert done.code == 0 and len(cells) == 40 and set(cells.values()) == {1}
    half_asked: set[str] = set()
    for prompt, _ in asked(server):
        # In or out: the second call of a prompt comes after the first was answered.
        half_asked ^= {prompt}
        assert len(half_asked) <= 3, "more prompts are under way than were to be"
    assert not half_asked


def test_a_budget_is_shared_by_targets_in_turns(many: Path, server: ScriptedServer) -> None:
    """Whoever waits for money hears of any target's call that came back; when it is spent, both stop."""
    row = '[[price]]\nprovider = "fake"\nmodel = "{}"\ninput = 1000.0\noutput = 1000.0\n'
    (many / "prices.toml").write_text("".join(row.format(model) for model in MODELS))
    priced = (*BOTH, "--prices", "prices.toml", "--concurrency", "3")
    rich = clawgauge(many, *priced, "--max-cost", "100")
    assert rich.code == 0 and len(rich.records()) == 40, rich.stderr
    poor = clawgauge(many, *priced, "--max-cost", "0.05")
    assert (
        poor.code == 0
        and poor.stderr.count("--max-cost 0.05 is spent") == 2
        and len(poor.records()) < 20
    )


def test_a_target_that_cannot_answer_does_not_stop_the_other(
    many: Path, server: ScriptedServer
) -> None:
    """The model that is not there is asked once; the other answers everything."""
    missing = Status(404, {"error": {"message": "model not found", "code": "model_not_found"}})
    server.reply_with(lambda request: missing if request.model == "other-model" else PASS)
    done = clawgauge(many, *BOTH)
    by_model = Counter(
        (record["model"], record["availability_status"]) for record in done.records()
    )
    assert by_model["scripted-model", "ok"] == 20 and sum(by_model.values()) == 40
    assert Counter(model for _, model in asked(server)) == {"scripted-model": 20, "other-model": 1}


def test_memory_and_energy_of_targets_side_by_side_are_nobodys(
    many: Path, server: ScriptedServer
) -> None:
    """Each target has its snapshots around the whole run; peaks and energy are null, and the clock is watched."""
    done = clawgauge(many, *BOTH)
    events = [json.loads(line) for line in (done.folder / "events.jsonl").read_text().splitlines()]
    finished = [event["detail"] for event in events if event["event"] == "target_finished"]
    assert len(finished) == 2 and all(detail["clock"]["loop_lag_ms"]["n"] for detail in finished)
    assert {detail[name] for detail in finished for name in ("peak_memory_bytes", "energy_j")} == {
        None
    }
    assert len(list(done.folder.glob("resources_*_after.txt"))) == 2


@pytest.mark.parametrize(
    ("loaded", "words"),
    [
        (["a:1b"], "may drop one for another"),
        (["a:1b", "b:1b"], None),
        (["c:1b", "b:1b", "a:1b"], None),
    ],
)
def test_models_that_push_each_other_out_are_refused(
    many: Path, loaded: list[str], words: str | None
) -> None:
    """Ollama with only one of two in its GPU: exit 2 in one sentence, nothing asked; with both, they take turns."""
    targets = ("-t", "ollama_openai:a:1b", "-t", "ollama_openai:b:1b")
    with ScriptedServer(dialect="ollama", models=["a:1b", "b:1b", "c:1b"], loaded=loaded) as ollama:
        env = {"OLLAMA_HOST": ollama.base_url}
        done = clawgauge(many, "run", *targets, "-s", "many.json", "--interleave", env=env)
        if words is None:
            assert done.code == 0 and len(ollama.calls) == 40, done.stderr
            return
        assert done.code == 2 and words in done.stderr and "a:1b and b:1b" in done.stderr
        assert (
            done.stderr.count("clawgauge: ") == 1
            and ollama.calls == []
            and not (many / "runs").exists()
        )


@pytest.mark.parametrize(("free_bytes", "fits"), [(5_000_000_000, True), (4_000_000_000, False)])
def test_an_empty_ollama_on_this_machine_has_the_room_that_its_files_need(
    free_bytes: int, fits: bool
) -> None:
    """Two models of 2 GB, none loaded: what is free decides; a model that it does not list is not known to fit."""

    async def why_not(*models: str) -> str | None:
        async with create_provider(
            ProviderSettings("ollama_openai", "ollama_openai", ollama.v1_url)
        ) as provider:
            return await provider.why_not_together(list(models), free_bytes)

    with ScriptedServer(dialect="ollama", models=["a:1b", "b:1b"], loaded=[]) as ollama:
        assert (asyncio.run(why_not("a:1b", "b:1b")) is None) is fits
        assert "may drop one for another" in (asyncio.run(why_not("a:1b", "unknown:1b")) or "")


@pytest.mark.parametrize(
    ("more", "words"),
    [((), "name at least two"), (("-t", "fake:other-model", "--unload-others"), "leave one out")],
)
def test_what_cannot_take_turns_is_refused(
    many: Path, server: ScriptedServer, more: tuple[str, ...], words: str
) -> None:
    """One target has nobody to take turns with, and models that are unloaded cannot: exit 2, nothing asked."""
    done = clawgauge(
        many, "run", "-t", "fake:scripted-model", *more, "-s", "many.json", "--interleave"
    )
    assert (
        done.code == 2
        and words in done.stderr.splitlines()[-1]
        and done.stderr.count("clawgauge: ") == 1
    )
    assert server.calls == [] and not (many / "runs").exists()


def test_two_embedded_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Side by side they need the memory of both; the same file under two names is one."""
    for name in ("a.gguf", "b.gguf"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 42)
    (tmp_path / "again.gguf").symlink_to(tmp_path / "a.gguf")
    words = (
        "run",
        "-s",
        "core",
        "--prompt-ids",
        "P0",
        "--interleave",
        "--dry-run",
        "-t",
        "embedded:a.gguf",
        "-t",
    )
    refused = clawgauge(tmp_path, *words, "embedded:b.gguf")
    assert refused.code == 2 and "do not fit this machine side by side" in refused.stderr
    assert clawgauge(tmp_path, *words, "embedded:again.gguf").code == 0


def test_compare_tells_the_times_of_an_interleaved_run(many: Path, server: ScriptedServer) -> None:
    """Calls made side by side are paired in time; the same targets one after the other cannot be told apart."""
    for run_id, how in (("turns", ("--interleave",)), ("queue", ())):
        clawgauge(many, *BOTH[:-1], *how, "--run-id", run_id)
    compared = [
        clawgauge(many, "compare", run_id, "--models", *MODELS, "--json")
        for run_id in ("turns", "queue")
    ]
    told, untold = (json.loads(done.stdout)["pairs"][0]["latency_ms"] for done in compared)
    # How much could be seen hangs on how busy this machine is; that it was tested does not.
    assert told["test"] == "side_by_side" and "--interleave" not in (told["reason"] or "")
    assert (
        told["n_prompts"] >= 19 and told["ci95"] is not None and told["smallest_change"] is not None
    )
    assert (untold["verdict"], untold["test"], untold["ci95"], untold["p"]) == (
        "cannot_tell",
        None,
        None,
        1.0,
    )
    assert "--interleave" in untold["reason"] and untold["difference"] is not None
