"""A run with --best, killed with kill -9 at random calls and resumed: the same prompts, and the same answer."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from faults.processes import started
from support.coin_model import CoinModel
from support.command import Outcome, chat_config, clawgauge, read_records
from support.scripted_server import ReceivedRequest, Reply, ScriptedServer
from support.waiting import wait_until

MODELS = {"better": CoinModel(0.97, seed=1), "worse": CoinModel(0.88, seed=2)}
PLAIN = ("run", "-t", "fake:better", "-t", "fake:worse")
WORDS = (*PLAIN, "--best")
SHORT = (*WORDS, "--job", "structured data", "--max-calls", "50")
BEST_OF_ONE_JOB = (*WORDS, "--job", "structured data")
LONG = (*WORDS, "--max-calls", "180")
KEY = ("suite", "prompt_id", "draw", "repeat")
MOST_CALLS_UNTIL_KILLED = 50


def reply(request: ReceivedRequest) -> Reply:
    return MODELS[request.model].reply(request)


def place_server(place: Path, server: ScriptedServer, *, is_elsewhere: bool) -> None:
    chat_config(place, fake=server.v1_url)
    if is_elsewhere:
        config = place / "clawgauge.toml"
        config.write_text(config.read_text().replace("local = true", "local = false"))
    server.reply_with(reply)


def texts(folder: Path, model: str) -> list[tuple[Any, ...]]:
    """What a model was asked, in the order in which it was recorded."""
    records = read_records(folder)
    return [tuple(row[key] for key in KEY) for row in records if row["model"] == model]


def answers(done: Outcome) -> list[tuple[Any, ...]]:
    """What the run says of every model and job."""
    found = []
    for job in done.summary()["jobs"]:
        for fit in job["ranking"]:
            if fit["by_interval"] or job["job"] == "heartbeat and triage":
                # Whom a job of times prefers, the clock says.
                continue
            behind = fit["behind_p"] if job["head_to_head"] else None
            found.append((job["job"], fit["target"], fit["state"], fit["chance"], behind))
    return sorted(found, key=repr)


def kill_at(place: Path, server: ScriptedServer, words: tuple[str, ...], n_calls: int) -> bool:
    """Start the command and kill it once so many calls have reached the server. Returns whether it
    was still running."""
    n_before = len(server.calls)
    # What came of the call may be on its way to the disk, or not.
    with (
        (place / "killed.log").open("wb") as log,
        started(place, *words, stdout=log, stderr=log) as process,
    ):
        wait_until(
            lambda: len(server.calls) >= n_before + n_calls or process.poll() is not None,
            every_s=0.001,
        )
        was_running = process.poll() is None
        process.kill()
        process.wait()
    return was_running


def kill_and_compare(
    place: Path, server: ScriptedServer, begin: tuple[str, ...], n_kills: int, *, in_order: bool
) -> None:
    seed = int(os.environ.get("CLAWGAUGE_KILL_SEED", random.SystemRandom().randrange(1 << 32)))
    odds = random.Random(seed)
    untouched = clawgauge(place, *begin, "--run-id", "untouched")
    assert untouched.code == 0, untouched.stderr
    n_killed = 0
    n_runs = 0
    while n_killed < n_kills:
        run_id = f"killed_{n_runs}"
        n_runs += 1
        is_running = True
        while is_running and n_killed < n_kills:
            words: tuple[str, ...] = (*begin, "--run-id", run_id)
            if (place / "runs" / run_id / "config.json").exists():
                words = ("run", "--resume", run_id)
            is_running = kill_at(place, server, words, odds.randint(1, MOST_CALLS_UNTIL_KILLED))
            n_killed += is_running
        done = clawgauge(place, "run", "--resume", run_id)
        assert done.code == 0, done.stderr
        for model in MODELS:
            asked = texts(done.folder, model)
            wanted = texts(untouched.folder, model)
            if not in_order:
                asked = sorted(asked)
                wanted = sorted(wanted)
            assert asked == wanted, f"CLAWGAUGE_KILL_SEED={seed}"
        assert answers(done) == answers(untouched), f"CLAWGAUGE_KILL_SEED={seed}"


def test_a_decision_that_is_killed_and_resumed_is_the_same(
    place: Path, server: ScriptedServer
) -> None:
    place_server(place, server, is_elsewhere=False)
    kill_and_compare(place, server, SHORT, 2, in_order=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("begin", "is_elsewhere"), [(LONG, False), (PLAIN, True), (BEST_OF_ONE_JOB, True)]
)
def test_fifty_kills_change_nothing(
    place: Path, server: ScriptedServer, begin: tuple[str, ...], is_elsewhere: bool
) -> None:
    """On a server of one's own, one call at a time, with a limit that ends the search; and elsewhere, with up to eight
    at once, where what is in flight at a limit hangs on the clock, so that there is none that counts."""
    place_server(place, server, is_elsewhere=is_elsewhere)
    kill_and_compare(place, server, begin, 50, in_order=not is_elsewhere)
