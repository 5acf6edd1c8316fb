"""The chance of a fit, held against models drawn from the prior and from others.

`pytest -m slow -rP` prints what was measured.
"""

from __future__ import annotations

import math
import random

import pytest

from clawgauge.stats.chance import chance_of_fit

from .simulated_models import NEEDS_BY_JOB, ZONE_BY_NEED, SimulatedRun

pytestmark = pytest.mark.slow

SEED = 20261119
EDGES = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.01)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def draw_model(dice: random.Random, kind: str) -> dict[str, float]:
    """The true rate of each source of prompts."""
    mean = 0.3 if kind == "worse models" else 1.5
    in_all = dice.gauss(mean, 1.2)
    rates = {}
    for source in ("native", "restraint", "format", "tasks"):
        if kind == "needs unrelated":
            rates[source] = sigmoid(dice.gauss(1.5, 1.4))
        else:
            rates[source] = sigmoid(in_all + dice.gauss(0, 0.7))
    rates["json"] = rates["format"]
    rates["schema"] = rates["format"]
    return rates


def find_fit_jobs(rates: dict[str, float]) -> dict[str, bool]:
    rate_by_need = {
        "calls": 1 - (1 - rates["native"]) / 2,
        "arguments": rates["native"],
        "restraint": rates["restraint"],
        "format": rates["format"],
        "data": rates["format"],
        "tasks": rates["tasks"],
        "subagent tasks": rates["tasks"],
    }
    return {
        job: all(rate_by_need[need] >= ZONE_BY_NEED[need].line for need in needs)
        for job, needs in NEEDS_BY_JOB.items()
    }


def share_fit_by_bin(kind: str, max_calls: int, n_models: int) -> dict[float, tuple[int, float]]:
    """Of the jobs whose needs were all asked three times or that are decided: by the lower edge of
    what was said, how many there are and which share is fit."""
    outcomes: dict[float, list[bool]] = {}
    for index in range(n_models):
        dice = random.Random(f"{SEED} {index}")
        rates = draw_model(dice, kind)
        run = SimulatedRun(dice, rates, max_calls=max_calls).play()
        chances = chance_of_fit(run.evidence())
        is_fit = find_fit_jobs(rates)
        for job, needs in NEEDS_BY_JOB.items():
            is_asked = all(run.needs[need].n_answers >= 3 for need in needs)
            if job in run.decisions or is_asked:
                edge = max(edge for edge in EDGES if edge <= chances[job])
                outcomes.setdefault(edge, []).append(is_fit[job])
    shares = {}
    for edge in sorted(outcomes):
        n = len(outcomes[edge])
        shares[edge] = (n, sum(outcomes[edge]) / n)
        print(f"{kind}, {max_calls} calls: said from {edge}: {shares[edge][1]:.2f} of {n} so")
    return shares


@pytest.mark.parametrize("max_calls", [20, 96, 200, 400])
def test_of_those_said_80_to_95_percent_so_many_are_fit(max_calls: int) -> None:
    """Models as the prior takes them: 80% to 97% are; below 20% at most one in four is."""
    shares = share_fit_by_bin("as assumed", max_calls, 400)
    n, share = shares[0.8]
    assert n >= 50
    assert 0.80 <= share <= 0.97
    assert shares[0.95][1] >= 0.95
    assert shares[0.05][1] <= 0.25
    assert shares[0.0][1] <= 0.05


@pytest.mark.parametrize("kind", ["needs unrelated", "worse models"])
@pytest.mark.parametrize("max_calls", [20, 96, 400])
def test_other_models_than_assumed_are_not_flattered_by_much(kind: str, max_calls: int) -> None:
    """Needs that have nothing to do with each other, or worse models: of those said 80% to 95%
    still 70% or more are fit; of those said more, where there are more than a few, 90%.
    """
    shares = share_fit_by_bin(kind, max_calls, 250)
    assert shares[0.8][1] >= 0.70
    n, share = shares[0.95]
    assert n < 30 or share >= 0.90
