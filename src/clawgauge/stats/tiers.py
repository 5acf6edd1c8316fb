"""The tool-use tier of a success rate, and how sure one may be of it.

Owns: the thresholds (0.8 and 0.5), the point tier by integers, the posterior probability of each tier under a uniform
prior, and how many clean passes would settle Tier 1. Refuses: deciding which prompts count, and the words of a label.
"""

from __future__ import annotations

from typing import TypeAlias

from clawgauge.stats.distributions import binomial_cdf, regularized_beta

TierPosterior: TypeAlias = tuple[float, float, float]

TIER_1_RATE = 0.8
TIER_2_RATE = 0.5
DECIDED_LEVEL = 0.95


def point_tier(k: int, n: int) -> int | None:
    """1, 2 or 3 by the observed rate; None without trials. In integers, so 4 of 5 is exactly 80%."""
    if n == 0:
        return None
    if 5 * k >= 4 * n:
        return 1
    return 2 if 2 * k >= n else 3


def tier_posterior(k: float, n: float, *, prior: float = 1.0) -> TierPosterior:
    """P(true rate is in Tier 1, 2, 3) after k passes in n trials, from a uniform prior (`prior=0.5` for Jeffreys').

    Whole counts use the binomial sum; effective counts, which are seldom whole, the incomplete beta it is equal to.
    """
    if prior == 1.0 and float(k).is_integer() and float(n).is_integer():
        p1 = binomial_cdf(int(k), int(n) + 1, TIER_1_RATE)
        p3 = 1.0 - binomial_cdf(int(k), int(n) + 1, TIER_2_RATE)
    else:
        p1 = 1.0 - regularized_beta(k + prior, n - k + prior, TIER_1_RATE)
        p3 = regularized_beta(k + prior, n - k + prior, TIER_2_RATE)
    return p1, max(0.0, 1.0 - p1 - p3), p3


def is_decided(posterior: TierPosterior) -> bool:
    """Whether one tier holds at least 95% of the probability."""
    return max(posterior) >= DECIDED_LEVEL


def clean_passes_needed(k: float, n: float) -> int:
    """The fewest further passes, with no failure among them, after which Tier 1 is decided; 0 if it is already."""

    def decides(more: int) -> bool:
        return tier_posterior(k + more, n + more)[0] >= DECIDED_LEVEL

    if decides(0):
        return 0
    high = 1
    while not decides(high):
        high *= 2
    low = high // 2  # the number grows with every pass, so bisection between the last two powers finds the first
    while high - low > 1:
        middle = (low + high) // 2
        if decides(middle):
            high = middle
        else:
            low = middle
    return high
