"""How much to ask before asking: sample sizes for a wanted certainty.

Owns: the exact one-sample test of a rate against another, and the number of prompts a paired difference needs.
Refuses: looking at results; a design is chosen before them.
"""

from __future__ import annotations

from typing import NamedTuple

from clawgauge.stats.distributions import binomial_cdf
from clawgauge.stats.intervals import Z95

Z80 = 0.8416212335729143
"""The one-sided 80% point of the standard normal distribution: the power a design usually asks for."""

_MAX_TRIALS = 10_000


class BinomialDesign(NamedTuple):
    """Ask `trials` times; at `critical` passes or beyond, on the side of the alternative, the null rate is rejected."""

    trials: int
    critical: int


def binomial_design(null: float, other: float, *, alpha: float = 0.05, power: float = 0.8) -> BinomialDesign | None:
    """The fewest trials that tell a rate of `other` from `null`, exactly; None where ten thousand do not suffice."""
    if other < null:
        mirrored = binomial_design(1 - null, 1 - other, alpha=alpha, power=power)
        return None if mirrored is None else BinomialDesign(mirrored.trials, mirrored.trials - mirrored.critical)
    critical = 0
    for trials in range(1, _MAX_TRIALS + 1):
        # One trial more moves the critical count by one at most, so the search goes on where it stood.
        while 1 - binomial_cdf(critical - 1, trials, null) > alpha:
            critical += 1
        if critical <= trials and 1 - binomial_cdf(critical - 1, trials, other) >= power:
            return BinomialDesign(trials, critical)
    return None


def prompts_needed(difference: float, variance: float, *, z_confidence: float = Z95, z_power: float = Z80) -> float:
    """How many prompts both models must be asked to see a mean paired difference (Miller 2024).

    `variance` is that of one prompt's difference: between prompts, plus each model's within-prompt variance divided by
    its repeats. For one trial each it is the share of prompts the models disagree on, less the difference squared.
    """
    return (z_confidence + z_power) ** 2 * variance / difference**2
