"""Ties, held against simulated models. `pytest -m slow -rP` prints what was measured."""

from __future__ import annotations

import itertools
import math
import random
from statistics import NormalDist

import pytest

from clawgauge.stats.ties import FigureDifferences, compare_pair, find_tied_for_best

pytestmark = pytest.mark.slow

SEED = 20261119


def simulate_shares(
    dice: random.Random,
    rates: list[float],
    n_prompts: int,
    n_repeats: int,
    icc: float,
    shared: float,
) -> list[list[float]]:
    """The share of passes of each prompt, by model: `icc` of a prompt's difficulty is common to
    its repeats, and `shared` of it to the models."""
    difficulty = [dice.gauss(0, 1) for _ in range(n_prompts)]
    models = []
    for rate in rates:
        limit = NormalDist().inv_cdf(rate)
        passes = []
        for prompt in range(n_prompts):
            of_model = math.sqrt(icc - shared) * dice.gauss(0, 1)
            common = math.sqrt(shared) * difficulty[prompt] + of_model
            k = 0
            for _ in range(n_repeats):
                k += common + math.sqrt(1 - icc) * dice.gauss(0, 1) < limit
            passes.append(k / n_repeats)
        models.append(passes)
    return models


def find_tied(models: list[list[float]]) -> list[bool]:
    pairs = {}
    for a, b in itertools.combinations(range(len(models)), 2):
        differences = [x - y for x, y in zip(models[a], models[b], strict=True)]
        pairs[a, b] = compare_pair([FigureDifferences(differences)])
    return find_tied_for_best(len(models), pairs)


@pytest.mark.parametrize("n_models", [2, 3, 6])
@pytest.mark.parametrize(
    ("n_prompts", "n_repeats", "icc", "shared"),
    [
        (43, 1, 0.0, 0.0),
        (43, 3, 0.8, 0.0),
        (43, 5, 0.8, 0.4),
        (43, 5, 0.95, 0.0),
        (100, 1, 0.5, 0.5),
    ],
)
def test_of_equal_models_hardly_ever_one_is_left_out(
    n_models: int, n_prompts: int, n_repeats: int, icc: float, shared: float
) -> None:
    """All 85%: any is left out in 5.5% of runs at most, however alike repeats are."""
    dice = random.Random(SEED)
    n_runs = 1_500 if n_models == 2 else 600
    n_left_out = 0
    for _ in range(n_runs):
        models = simulate_shares(dice, [0.85] * n_models, n_prompts, n_repeats, icc, shared)
        n_left_out += not all(find_tied(models))
    share = n_left_out / n_runs
    print(f"{n_models} models, {n_prompts} x {n_repeats}, ICC {icc}, shared {shared}: {share:.4f}")
    assert share <= 0.055


@pytest.mark.parametrize(
    ("n_prompts", "shared", "least_alone"), [(43, 0.8, 0.15), (100, 0.5, 0.55), (150, 0.8, 0.93)]
)
def test_the_best_is_kept_and_with_many_prompts_stands_alone(
    n_prompts: int, shared: float, least_alone: float
) -> None:
    """95% beside 85% and 80%."""
    dice = random.Random(SEED)
    n_alone = 0
    n_runs = 400
    for _ in range(n_runs):
        models = simulate_shares(dice, [0.95, 0.85, 0.80], n_prompts, 1, shared, shared)
        tied = find_tied(models)
        assert tied[0]
        n_alone += tied == [True, False, False]
    print(f"{n_prompts} prompts, shared {shared}: alone {n_alone / n_runs:.3f}")
    assert n_alone / n_runs >= least_alone
