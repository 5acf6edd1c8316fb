"""What a plan is likely to tell, before it is run."""

from __future__ import annotations

import random

import pytest

from clawgauge.cli.estimate import PROMPTS_FOR_DROP, foresee, power_of_drop
from clawgauge.stats.paired import mcnemar_exact
from clawgauge.stats.tiers import judge_tier_1, tell_tier_1


def prompts_needed(rate: float, dice: random.Random, at_most: int) -> int | None:
    """One model asked one prompt after another, by the rule that a run uses."""
    k = 0
    for n in range(1, at_most + 1):
        k += dice.random() < rate
        if tell_tier_1(k, n) is not None:
            return n
    return None


@pytest.mark.parametrize("rate", [0.97, 0.65, 0.3])
def test_the_forecast_is_what_happens(rate: float) -> None:
    """The share decided within the plan and the median are those of models that are really asked."""
    dice = random.Random(20260213)
    (forecast,) = foresee(30, [rate], until_decided=True)
    needed = [prompts_needed(rate, dice, 30) for _ in range(1_500)]
    share = sum(n is not None for n in needed) / len(needed)
    assert forecast.p_decided == pytest.approx(share, abs=0.05)
    if forecast.median is not None:
        assert forecast.median == pytest.approx(
            sorted(n or 31 for n in needed)[len(needed) // 2], abs=2
        )


def test_a_plan_asked_in_full_is_judged_once() -> None:
    """Without --until-decided there is one look, at the end, and no number after which half are decided."""
    dice = random.Random(20260213)
    (forecast,) = foresee(30, [0.95])
    told = [judge_tier_1(sum(dice.random() < 0.95 for _ in range(30)), 30) for _ in range(1_500)]
    assert forecast.p_decided == pytest.approx(
        sum(one is not None for one in told) / len(told), abs=0.05
    )
    assert forecast.median is None


def test_a_perfect_model_takes_twenty() -> None:
    """Twenty straight passes from nothing, looked at after each; nineteen prompts never suffice."""
    assert foresee(20, [1.0], until_decided=True)[0] == (1.0, 20, pytest.approx(1.0))
    assert foresee(19, [1.0], until_decided=True)[0].p_decided == 0.0


def test_no_plan_promises_more_than_it_has() -> None:
    """A median beyond the prompts at hand is not said; on the border of Tier 1 nothing is decided by many either."""
    assert foresee(20, [0.65], until_decided=True)[0].median is None
    assert foresee(200, [0.8], until_decided=True)[0].p_decided < 0.1


def test_the_power_of_a_plan_is_what_a_comparison_sees() -> None:
    """Thirty-six prompts see a ten-point drop about one time in seven; the number named for 80% is right."""
    dice, seen = random.Random(7), 0
    for _ in range(4_000):
        moved = [dice.random() for _ in range(36)]
        seen += mcnemar_exact(sum(x < 0.15 for x in moved), sum(x > 0.95 for x in moved)) <= 0.05
    assert power_of_drop(36) == pytest.approx(seen / 4_000, abs=0.02)
    assert power_of_drop(PROMPTS_FOR_DROP - 3) < 0.8 < power_of_drop(PROMPTS_FOR_DROP)
