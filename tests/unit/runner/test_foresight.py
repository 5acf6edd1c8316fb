"""What a plan is likely to tell, before it is run."""

from __future__ import annotations

import random

import pytest

from clawgauge.cli.estimate import PROMPTS_FOR_DROP, foresee, power_of_drop
from clawgauge.stats.paired import mcnemar_exact
from clawgauge.stats.tiers import judge_tier_1


def test_a_plan_asked_in_full_is_judged_once() -> None:
    """Of a list of prompts there is one look, at the end."""
    dice = random.Random(20260213)
    (forecast,) = foresee(30, [0.95])
    told = [judge_tier_1(sum(dice.random() < 0.95 for _ in range(30)), 30) for _ in range(1_500)]
    assert forecast.p_decided == pytest.approx(
        sum(one is not None for one in told) / len(told), abs=0.05
    )


def test_no_plan_promises_what_nobody_can_tell() -> None:
    """On the border of Tier 1 nothing is decided by many prompts either."""
    assert foresee(200, [0.8])[0].p_decided < 0.1


def test_the_power_of_a_plan_is_what_a_comparison_sees() -> None:
    """Thirty-six prompts see a ten-point drop about one time in seven; the number named for 80% is right."""
    dice, seen = random.Random(7), 0
    for _ in range(4_000):
        moved = [dice.random() for _ in range(36)]
        seen += mcnemar_exact(sum(x < 0.15 for x in moved), sum(x > 0.95 for x in moved)) <= 0.05
    assert power_of_drop(36) == pytest.approx(seen / 4_000, abs=0.02)
    assert power_of_drop(PROMPTS_FOR_DROP - 3) < 0.8 < power_of_drop(PROMPTS_FOR_DROP)
