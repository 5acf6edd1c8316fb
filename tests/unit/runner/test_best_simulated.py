"""`--best` on models that are right in a given share of the built-in prompts: how often the best of them is found, how
often equal models are told apart, and after how much. The rounds are the real ones; the answers are thrown."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import NamedTuple

import pytest

from clawgauge.records import Target
from clawgauge.runner.best import BestSearch
from clawgauge.verdict import BUILT_IN
from support.coin_model import CoinModel
from support.simulated_decisions import ask, plain_agenda

DATA = "structured data"


class Search(NamedTuple):
    """The numbers of the models that are fit, and of those of them that may be the best; how many prompts were asked
    of one model at most."""

    fit: list[int]
    best: list[int]
    n_asked: int


def seek_best(rates: Sequence[float], seed: int, *, max_calls: int = 400) -> Search:
    """Decide a job of several models, and go on as a run does."""
    targets = [Target("fake", str(number)) for number in range(len(rates))]
    coins = {}
    agendas = {}
    for number, (target, rate) in enumerate(zip(targets, rates, strict=True)):
        coins[target] = CoinModel(rate, 1_000 * number + seed)
        agendas[target] = plain_agenda(jobs=(DATA,), max_calls=max_calls)
    search = BestSearch(agendas, {DATA: BUILT_IN[DATA]})
    n_asked = dict.fromkeys(targets, 0)
    open_targets = targets
    while open_targets:
        for target in open_targets:
            coin = coins[target]
            n_asked[target] += len(ask(agendas[target], coin.is_right, makes_call=coin.makes_call))
        search.look()
        further = search.choose_round()
        for target, texts in further.items():
            agendas[target].ask_on(texts)
        open_targets = list(further)
    fit = [target for target in targets if agendas[target].is_fit_for(DATA)]
    best = search.find_best({}).get(DATA, fit)
    return Search(
        fit=[int(target.model) for target in fit],
        best=[int(target.model) for target in best],
        n_asked=max(n_asked.values()),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("n_models", "n_runs"), [(2, 200), (3, 120), (6, 50)])
def test_equal_models_are_seldom_told_apart(n_models: int, n_runs: int) -> None:
    """Of those that are fit nobody is left out, however often one looks: in 19 of 20 runs at least."""
    n_wrong = 0
    for seed in range(n_runs):
        found = seek_best([0.93] * n_models, seed)
        n_wrong += found.best != found.fit
    print(f"{n_models} equal models: told apart in {n_wrong} of {n_runs}")
    assert n_wrong <= 0.05 * n_runs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rates", "found_at_least"), [((0.97, 0.85), 0.7), ((0.95, 0.85), 0.45), ((0.95, 0.90), 0.1)]
)
def test_the_best_of_two_fit_models_is_found(
    rates: tuple[float, float], found_at_least: float
) -> None:
    n_sought = 0
    n_found = 0
    n_wrong = 0
    n_asked = []
    for seed in range(150):
        found = seek_best(rates, seed)
        if len(found.fit) < 2:
            continue
        n_sought += 1
        n_wrong += found.best == [1]
        if found.best == [0]:
            n_found += 1
            n_asked.append(found.n_asked)
    print(
        f"{rates}: found in {n_found} of {n_sought}, after {mean(n_asked):.0f} prompts; "
        f"the other in {n_wrong}"
    )
    assert n_found >= found_at_least * n_sought
    assert n_wrong <= 0.05 * n_sought
