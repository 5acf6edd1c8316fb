"""Plain runs of models that are right in a given share of the built-in prompts: how often they are decided, how often
rightly, and after how many requests. The agenda is the real one, and so are the prompts; the answers are thrown."""

from __future__ import annotations

from collections import Counter
from statistics import mean

import pytest

from support.coin_model import CoinModel
from support.simulated_decisions import ask, plain_agenda

N_RUNS = 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "right", "decided_at_least", "calls_at_most"),
    [(0.65, "no", 0.97, 60), (0.9, "yes", 0.9, 240), (0.95, "yes", 0.98, 165)],
)
@pytest.mark.parametrize("calls_ahead", [1, 8])
def test_nearly_all_runs_end_with_the_right_answer(
    rate: float, right: str, decided_at_least: float, calls_at_most: int, calls_ahead: int
) -> None:
    """Of all jobs nearly all are decided, at most one in twenty wrongly. Eight calls ahead cost a few more."""
    decisions: Counter[str] = Counter()
    requests = []
    for seed in range(N_RUNS):
        coin = CoinModel(rate, seed)
        agenda = plain_agenda(calls_ahead=calls_ahead, max_calls=400)
        results = ask(agenda, coin.is_right, makes_call=coin.makes_call)
        (outcome,) = [o for o in agenda.outcomes() if o.event in ("jobs_decided", "jobs_undecided")]
        decisions.update(outcome.detail["jobs"].values())
        requests.append(sum(result.turns or 1 for result in results.values()))
    n_decisions = sum(decisions.values())
    n_right = decisions[right]
    n_wrong = n_decisions - n_right - decisions["open"]
    print(f"{rate}, {calls_ahead} ahead: {dict(decisions)}, {mean(requests):.0f} requests a run")
    assert n_right >= decided_at_least * n_decisions
    assert n_wrong <= 0.05 * n_decisions
    # In flight when a model is decided are seven calls at most, each perhaps a task of seven turns.
    assert mean(requests) <= calls_at_most + (calls_ahead - 1) * 7
