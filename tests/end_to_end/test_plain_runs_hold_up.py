"""Plain runs through the command, of models that are right in a given share of all prompts: how many jobs are
decided, how many wrongly, and after how many calls. The coin of a task is whether it is played right or not at all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import mean

import pytest

from support.coin_model import CoinModel
from support.command import chat_config, clawgauge
from support.scripted_server import ScriptedServer

N_RUNS = 12
ASKED = ("main agent", "subagent with full tools", "heartbeat and triage", "structured data")
WRONG_AT_MOST = 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "right", "decided_at_least", "calls_at_most"),
    [(0.65, "no", 0.90, 60), (0.90, "yes", 0.80, 240), (0.95, "yes", 0.95, 165)],
)
def test_a_plain_run_ends_with_an_answer(
    place: Path,
    server: ScriptedServer,
    rate: float,
    right: str,
    decided_at_least: float,
    calls_at_most: int,
) -> None:
    """Forty-eight decisions of twelve models each."""
    chat_config(place, fake=server.v1_url)
    fits: Counter[str] = Counter()
    n_calls = []
    for seed in range(N_RUNS):
        server.reply_with(CoinModel(rate, seed).reply)
        n_before = len(server.calls)
        done = clawgauge(place, "run", "-t", "fake:scripted-model", "--run-id", f"{rate}-{seed}")
        assert done.code == 0, done.stderr
        n_calls.append(len(server.calls) - n_before)
        for job in done.summary()["jobs"]:
            if job["job"] in ASKED:
                fits[job["ranking"][0]["fit"]] += 1
    n_decisions = len(ASKED) * N_RUNS
    n_open = fits["cannot_tell"]
    n_wrong = n_decisions - n_open - fits[right]
    print(
        f"{rate}: {n_decisions - n_open} of {n_decisions} decided, {n_wrong} wrong, "
        f"{mean(n_calls):.0f} calls a run on average, {min(n_calls)} to {max(n_calls)}"
    )
    assert sum(fits.values()) == n_decisions
    assert n_decisions - n_open >= decided_at_least * n_decisions
    assert n_wrong <= WRONG_AT_MOST * n_decisions
    assert mean(n_calls) <= calls_at_most
