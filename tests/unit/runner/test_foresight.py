"""How many tool prompts a tier is likely to take."""

from __future__ import annotations

import random

import pytest

from clawgauge.cli.estimate import foresee
from clawgauge.stats import is_decided, tier_posterior


def prompts_needed(rate: float, dice: random.Random, at_most: int) -> int | None:
    """One model asked one prompt after another, by the rule that a run uses."""
    k = 0
    for n in range(1, at_most + 1):
        k += dice.random() < rate
        if is_decided(tier_posterior(k, n)):
            return n
    return None


@pytest.mark.parametrize("rate", [0.97, 0.65, 0.3])
def test_the_forecast_is_what_happens(rate: float) -> None:
    """The share decided within the plan and the median are those of models that are really asked."""
    dice = random.Random(20260213)
    (forecast,) = foresee(30, [rate])
    needed = [prompts_needed(rate, dice, 60) for _ in range(1_500)]
    share = sum(n is not None and n <= 30 for n in needed) / len(needed)
    assert forecast.p_decided == pytest.approx(share, abs=0.05)
    median = sorted(n or 61 for n in needed)[len(needed) // 2]
    assert forecast.median == pytest.approx(median, abs=2)


def test_a_perfect_model_takes_thirteen() -> None:
    """Thirteen straight passes from nothing, as the statistics page says; twelve prompts never suffice."""
    assert foresee(13, [1.0])[0] == (1.0, 13, pytest.approx(1.0))
    assert foresee(12, [1.0])[0].p_decided == 0.0


def test_on_the_border_no_number_is_enough() -> None:
    """A model right in exactly four of five calls is half the time not decided within 200 prompts."""
    assert foresee(10, [0.8])[0].median is None
