"""A new model on the prompts of an earlier run, and both in one table; the earlier run may be anyone's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.coin_model import CoinModel
from support.command import Outcome, clawgauge
from support.scripted_server import ScriptedServer, Text

OLD = ("run", "-t", "fake:scripted-model", "--run-id", "old")
NEW = ("run", "-t", "fake:other-model", "--run-id", "new", "--beside", "old")


def config_of(done: Outcome) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((done.folder / "config.json").read_bytes())
    return loaded


def texts(done: Outcome) -> list[tuple[str, str, int]]:
    return [(record["suite"], record["prompt_id"], record["draw"]) for record in done.records()]


def test_a_new_model_is_decided_on_the_prompts_of_the_old_one(
    place: Path, server: ScriptedServer
) -> None:
    """The same jobs, in the same order: what both were asked is compared, and a table has both."""
    right = CoinModel(1.0).reply
    weaker = CoinModel(0.9, seed=4).reply
    server.reply_with(lambda r: (right if r.model == "scripted-model" else weaker)(r))
    old = clawgauge(place, *OLD, "--order", "3", "--job", "structured data")
    new = clawgauge(place, *NEW)
    assert new.code == 0, new.stderr
    assert config_of(new)["decision"]["jobs"] == ["structured data"]
    assert config_of(new)["decision"]["order"] == 3
    n_common = min(len(texts(old)), len(texts(new)))
    assert n_common >= 10
    assert sorted(texts(old)[:4]) == sorted(texts(new)[:4])
    table = new.stderr[new.stderr.index("beside old") :]
    lines = [line for line in table.splitlines() if line.startswith(("scripted-mo", "other-mo"))]
    assert len(lines) == 2 and all("✓" in line or "?" in line or "✗" in line for line in lines)
    shared = len(set(texts(old)) & set(texts(new)))
    assert f"(n={shared})" in table and "not asked" not in table.partition("→")[2]


def test_a_list_is_asked_as_it_was(place: Path, server: ScriptedServer) -> None:
    """The same prompts, as often, with the same options; even where the suite's file is gone."""
    server.reply_with(Text("yes"))
    words = ("-s", "small.json", "--repeats", "2", "--max-tokens", "77", "--temperature", "0.5")
    old = clawgauge(place, *OLD, *words)
    (place / "small.json").unlink()
    new = clawgauge(place, *NEW)
    assert new.code == 0, new.stderr
    assert sorted(texts(new)) == sorted(texts(old)) and len(new.records()) == 8
    options = config_of(new)["options"]
    assert (options["repeats"], options["max_tokens"], options["temperature"]) == (2, 77, 0.5)
    assert "fake:scripted-model → fake:other-model" in new.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-s", "core"), "leave --suite out"),
        (("--job", "main agent"), "leave --job out"),
        (("--full",), "leave --full out"),
        (("--resume", "old"), "goes without --resume"),
    ],
)
def test_what_names_other_prompts_is_refused(
    place: Path, server: ScriptedServer, words: tuple[str, ...], sentence: str
) -> None:
    clawgauge(place, *OLD, "-s", "small.json")
    n_calls = len(server.calls)
    done = clawgauge(place, *[word for word in NEW if word not in ("--run-id", "new")], *words)
    assert done.code == 2 and sentence in done.stderr, done.stderr
    assert len(server.calls) == n_calls


def test_who_has_been_asked_there_is_no_new_model(place: Path, server: ScriptedServer) -> None:
    clawgauge(place, *OLD, "-s", "small.json")
    done = clawgauge(place, "run", "-t", "fake:scripted-model", "--beside", "old")
    assert done.code == 2 and "old has asked fake:scripted-model itself" in done.stderr
    unnamed = clawgauge(place, "run", "--beside", "old")
    assert unnamed.code == 2 and "name it with -t" in unnamed.stderr


def hostile(place: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = place / "runs" / "old" / "config.json"
    config = json.loads(path.read_bytes())
    change(config)
    path.write_text(json.dumps(config))


def test_a_strangers_run_chooses_prompts_and_nothing_else(
    place: Path, server: ScriptedServer
) -> None:
    """No option that acts on a server, no limit, no job of its own making, no file of ours."""
    server.reply_with(CoinModel(0.0).reply)
    clawgauge(place, *OLD, "--job", "structured data")
    secret = place / "secret.toml"
    secret.write_text("name = 'mine'\n")

    def change(config: dict[str, Any]) -> None:
        config["options"] |= {"unload_others": True, "max_calls": 9_999, "max_cost_usd": 1e5}
        easy = {
            "needs": ["local"],
            "prompts": ["core/json"],
            "called": "nothing",
            "column": "",
            "weighs": {"cost": 1.0},
            "at_least": 0.1,
            "good": None,
            "rates": {},
        }
        config["jobs"] = {"structured data": easy, "main agent": easy}
        for suite in config["suites"]:
            suite["source"] = str(secret)
        config["decision"]["rules_sha256"] = {"core": "0", "mine": "1"}

    hostile(place, change)
    new = clawgauge(place, *NEW)
    assert new.code == 0, new.stderr
    options = config_of(new)["options"]
    assert options["unload_others"] is False
    assert options["max_calls"] == 400 and options["max_cost_usd"] is None
    assert config_of(new)["jobs"] == {}
    (fit,) = next(j for j in new.summary()["jobs"] if j["job"] == "structured data")["ranking"]
    assert fit["state"] == "decided_not_fit"
    table = new.stderr[new.stderr.index("beside old") :]
    # What the stranger took for the job is not shown as if it were ours.
    assert "structured data" not in table.splitlines()[1]


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config["prompts"][0].update(validator={"type": "exec", "command": "id"}),
        lambda config: config.update(prompts=[]),
        lambda config: config["decision"].update(jobs=["poet"]),
        lambda config: config["options"].update(max_tokens=-3),
    ],
    ids=["a validator", "no prompts", "unknown jobs", "an option"],
)
def test_a_run_that_cannot_be_asked_beside_is_refused(
    place: Path, server: ScriptedServer, change: Callable[[dict[str, Any]], None]
) -> None:
    server.reply_with(CoinModel(0.0).reply)
    clawgauge(place, *OLD, "--job", "structured data")
    n_calls = len(server.calls)
    hostile(place, change)
    done = clawgauge(place, *NEW)
    assert done.code == 2 and "Traceback" not in done.stderr, done.stderr
    assert len(server.calls) == n_calls


def test_a_key_among_a_strangers_prompts_goes_nowhere(place: Path, server: ScriptedServer) -> None:
    key = "sk-test-4f9c2b7d8e1a6350"
    server.reply_with(Text("yes"))
    clawgauge(place, *OLD, "-s", "small.json")
    hostile(place, lambda config: config["prompts"][0].update(prompt=f"my key is {key}"))
    done = clawgauge(place, *NEW, env={"OPENAI_API_KEY": key})
    assert done.code == 2 and key not in done.stderr
    missing = clawgauge(place, *NEW[:-1], "nowhere")
    assert missing.code == 2 and "nowhere" in missing.stderr
