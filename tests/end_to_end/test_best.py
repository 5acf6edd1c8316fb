"""`run --best`: once it is decided who is fit, these are asked on until the best of them is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.coin_model import CoinModel
from support.command import Outcome, chat_config, clawgauge
from support.scripted_server import ReceivedRequest, Reply, ScriptedServer

DATA = "structured data"
MODELS = ("-t", "fake:better", "-t", "fake:worse")
BEST = ("run", *MODELS, "--best", "--job", DATA)


@pytest.fixture
def box(place: Path, server: ScriptedServer) -> Path:
    chat_config(place, fake=server.v1_url)
    return place


def answer_by(server: ScriptedServer, **coins: CoinModel) -> None:
    def reply(request: ReceivedRequest) -> Reply:
        return coins[request.model].reply(request)

    server.reply_with(reply)


def texts_of(done: Outcome, model: str) -> list[tuple[Any, ...]]:
    keys = ("suite", "prompt_id", "draw", "repeat")
    return [tuple(row[key] for key in keys) for row in done.records() if row["model"] == model]


def ranking(done: Outcome, job: str = DATA) -> dict[str, dict[str, Any]]:
    (verdict,) = [verdict for verdict in done.summary()["jobs"] if verdict["job"] == job]
    return {fit["target"]: fit for fit in verdict["ranking"]}


def events_of(done: Outcome, name: str) -> list[dict[str, Any]]:
    lines = (done.folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == name]


def test_two_fit_models_are_asked_the_same_until_one_is_ahead(
    box: Path, server: ScriptedServer
) -> None:
    answer_by(server, better=CoinModel(1.0), worse=CoinModel(0.86, seed=2))
    plain = clawgauge(box, "run", *MODELS, "--job", DATA, "--run-id", "plain")
    done = clawgauge(box, *BEST, "--run-id", "best")
    assert done.code == 0, done.stderr
    fits = ranking(done)
    assert {fit["state"] for fit in fits.values()} == {"decided_fit"}
    assert fits["fake:better"]["behind_p"] is None and not fits["fake:better"]["tie"]
    assert fits["fake:worse"]["behind_p"] < 0.05
    # It begins as a plain run does, and goes on with the same prompts for both.
    for model in ("better", "worse"):
        assert texts_of(done, model)[: len(texts_of(plain, model))] == texts_of(plain, model)
    assert set(texts_of(done, "better")) == set(texts_of(done, "worse"))
    assert len(done.records()) > len(plain.records())
    (told,) = events_of(done, "told_apart")
    assert told["target"] == "fake:worse" and told["detail"]["ahead"] == "fake:better"
    assert f"{DATA}: the best is fake:better" in done.stderr
    assert "worse is behind by more than luck" in done.stderr
    (verdict,) = [job for job in done.summary()["jobs"] if job["job"] == DATA]
    (pair,) = verdict["head_to_head"]
    assert (pair["a"], pair["only_b"]) == ("fake:better", 0) and pair["only_a"] > 6
    recorded = json.loads((done.folder / "config.json").read_bytes())
    assert recorded["decision"]["best"] and recorded["options"]["best"]
    again = clawgauge(box, "run", "--resume", "best")
    assert again.code == 0 and texts_of(again, "better") == texts_of(done, "better")


def test_equal_models_are_no_more_than_not_told_apart(box: Path, server: ScriptedServer) -> None:
    """A limit ends the search; with a larger one it goes on with the prompts that come next."""
    answer_by(server, better=CoinModel(1.0), worse=CoinModel(1.0))
    done = clawgauge(box, *BEST, "--max-calls", "40", "--run-id", "r")
    assert done.code == 0, done.stderr
    fits = ranking(done)
    assert all(fit["tie"] and fit["behind_p"] is None for fit in fits.values())
    assert "fake:better and fake:worse were not told apart" in done.stderr
    assert "--max-calls 40 is spent" in done.stderr
    assert len(texts_of(done, "better")) == len(texts_of(done, "worse")) == 40
    first_texts = {model: texts_of(done, model) for model in ("better", "worse")}
    more = clawgauge(box, "run", "--resume", "r", "--max-calls", "60")
    assert more.code == 0, more.stderr
    whole = clawgauge(box, *BEST, "--max-calls", "60", "--run-id", "whole")
    for model in ("better", "worse"):
        assert texts_of(more, model)[:40] == first_texts[model]
        assert texts_of(more, model) == texts_of(whole, model)


def test_a_plain_run_can_be_gone_on_with_to_find_the_best(
    box: Path, server: ScriptedServer
) -> None:
    answer_by(server, better=CoinModel(1.0), worse=CoinModel(0.86, seed=2))
    clawgauge(box, "run", *MODELS, "--job", DATA, "--run-id", "r")
    done = clawgauge(box, "run", "--resume", "r", "--best")
    assert done.code == 0, done.stderr
    assert ranking(done)["fake:worse"]["behind_p"] < 0.05
    whole = clawgauge(box, *BEST, "--run-id", "whole")
    assert texts_of(done, "worse") == texts_of(whole, "worse")


def test_who_is_not_fit_is_asked_no_more(box: Path, server: ScriptedServer) -> None:
    answer_by(server, better=CoinModel(1.0), worse=CoinModel(0.0))
    plain = clawgauge(box, "run", *MODELS, "--job", DATA, "--run-id", "plain")
    done = clawgauge(box, *BEST, "--run-id", "best")
    assert [texts_of(done, model) for model in ("better", "worse")] == [
        texts_of(plain, model) for model in ("better", "worse")
    ]


def test_what_the_search_may_cost_is_said_and_asked_before(
    box: Path, server: ScriptedServer
) -> None:
    """A plain run of these would be begun unasked: to find the best may take all the calls there may be."""
    (box / "prices.toml").write_text(
        '[[price]]\nprovider = "fake"\nmodel = "better"\ninput = 20.0\noutput = 20.0\n'
    )
    words = ("run", *MODELS, "--prices", "prices.toml", "--job", DATA)
    answer_by(server, better=CoinModel(0.0), worse=CoinModel(0.0))
    plain = clawgauge(box, *words, "--dry-run")
    assert "expected to cost" not in plain.stderr and "best" not in plain.stderr
    shown = clawgauge(box, *words, "--best", "--dry-run")
    assert "then on until the best is known, with" in shown.stderr
    asked = clawgauge(box, *words, "--best")
    assert asked.code == 2 and "say --yes, or give a limit" in asked.stderr, asked.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-t", "fake:better", "--best"), "name at least two with -t"),
        ((*MODELS, "--best", "-s", "core"), "a list of prompts decides nothing"),
        ((*MODELS, "--best", "-s", "core", "--until-decided"), "for which job: add --job"),
        (
            (*MODELS, "--best", "--job", "heartbeat and triage"),
            "heartbeat and triage weighs time and cost alone",
        ),
    ],
)
def test_a_search_that_could_find_nobody_is_refused(
    box: Path, server: ScriptedServer, words: tuple[str, ...], sentence: str
) -> None:
    done = clawgauge(box, "run", *words)
    assert done.code == 2 and sentence in done.stderr, done.stderr
    assert server.calls == []


def test_a_file_that_wants_the_best_does_not_keep_one_model_from_being_asked(
    box: Path, server: ScriptedServer
) -> None:
    config = box / "clawgauge.toml"
    config.write_text(config.read_text() + "\n[run]\nbest = true\n")
    answer_by(server, better=CoinModel(0.0))
    done = clawgauge(box, "run", "-t", "fake:better", "--job", DATA)
    assert done.code == 0, done.stderr
    recorded = json.loads((done.folder / "config.json").read_bytes())
    assert recorded["options"]["best"] and not recorded["decision"]["best"]
