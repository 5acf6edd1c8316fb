"""Two models on the same prompts: is the difference more than luck, also where many are compared at once?"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from clawgauge.stats.proportions import Interval, binomial_cdf, student_t_cdf, student_t_quantile

EXACT_FLIPS_MAX = 16
SAMPLED_FLIPS = 20_000
# Sums of the same differences in another order differ by rounding; they are ties all the same.
_TIE_TOLERANCE = 1e-9


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given."""
    adjusted = [1.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


class PairedDifference(NamedTuple):
    """The mean of A − B over paired prompts; error and interval need two pairs."""

    n: int
    mean: float | None
    error: float | None
    ci95: Interval | None


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """The two-sided p-value from the prompts one model passed and the other did not; 1 when they never disagree."""
    discordant = only_a + only_b
    if discordant == 0:
        return 1.0
    return min(1.0, 2.0 * binomial_cdf(min(only_a, only_b), discordant, 0.5))


def sign_flip_p(differences: Sequence[float]) -> float:
    """The two-sided permutation p-value of per-prompt differences: how often random signs reach as large a sum.

    Exact up to 16 differences that are not zero; sampled from a seeded generator above, so a report repeats itself.
    """
    moving = [abs(d) for d in differences if d != 0]
    if not moving:
        return 1.0
    threshold = abs(math.fsum(differences)) - _TIE_TOLERANCE
    if len(moving) <= EXACT_FLIPS_MAX:
        # Half the sign patterns suffice: the other half are their mirror images.
        first, *rest = moving
        hits = sum(
            abs(first + sum(map(_times, signs, rest))) >= threshold for signs in product((1, -1), repeat=len(rest))
        )
        return float(hits / 2 ** len(rest))
    generator = random.Random(0)
    hits = 0
    for _ in range(SAMPLED_FLIPS):
        bits = generator.getrandbits(len(moving))
        flipped = sum(d if bits >> i & 1 else -d for i, d in enumerate(moving))
        hits += abs(flipped) >= threshold
    return (hits + 1) / (SAMPLED_FLIPS + 1)


def above_zero_p(differences: Sequence[float]) -> float:
    """The one-sided p-value of a mean above zero, each difference an independent one; 1 where none of them moved.

    The sum over its own root sum of squares (Efron 1969), which for prompts won and lost is McNemar's score, beside
    Student's t: the spread about zero, not about the mean, keeps it honest where few prompts moved.
    """
    norm = math.sqrt(math.fsum(d * d for d in differences))
    if not norm or len(differences) < 2:
        return 1.0
    return 1.0 - student_t_cdf(math.fsum(differences) / norm, len(differences) - 1)


def _times(sign: int, value: float) -> float:
    return sign * value


def paired_difference(a: Sequence[float], b: Sequence[float]) -> PairedDifference:
    """Mean difference of paired values with a Student-t 95% interval."""
    differences = [x - y for x, y in zip(a, b, strict=True)]
    n = len(differences)
    if n == 0:
        return PairedDifference(0, None, None, None)
    mean = math.fsum(differences) / n
    if n == 1:
        return PairedDifference(1, mean, None, None)
    error = math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (n - 1) / n)
    half = student_t_quantile(0.975, n - 1) * error
    return PairedDifference(n, mean, error, (mean - half, mean + half))
