"""Evidence that may be looked at after every answer, and intervals that hold however often one has looked.

An e-process is wealth from fair bets against a hypothesis: were that true, the wealth would ever grow to 1/α with a
chance of at most α (Ville 1939). So whoever stops there is wrong in at most α of all cases, wherever else they might
have stopped. The bets are likelihood ratios averaged over a flat prior on the rates that the hypothesis excludes
(Robbins 1970; Howard, Ramdas, McAuliffe & Sekhon 2021). A rate may be the mean of a family's verdicts: the ratio is
convex in it, so the bet stays fair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from clawgauge.stats.proportions import Interval, regularized_beta
from clawgauge.stats.tiers import TIER_1_RATE

ALPHA = 0.05
_ENOUGH = math.log(1 / ALPHA)
# Each end of an interval may be wrong in half of α.
_ENOUGH_AT_AN_END = math.log(2 / ALPHA)
_HALVINGS = 40


def log_evidence(k: float, n: float, edge: float) -> float:
    """The logarithm of the wealth from k passes in n trials against a true rate of `edge` or less.

    Of failures, n − k of n and 1 − `edge`, it is that against a true rate of `edge` or more.
    """
    # The share above the edge, as the mirrored lower tail: that keeps its digits where it is tiny.
    share = regularized_beta(n - k + 1, k + 1, 1.0 - edge)
    if share == 0.0:
        return -math.inf
    mean = math.lgamma(k + 1) + math.lgamma(n - k + 1) - math.lgamma(n + 2) + math.log(share) - math.log(1.0 - edge)
    return mean - k * math.log(edge) - (n - k) * math.log1p(-edge)


def tell_above(k: float, n: float, edge: float) -> bool | None:
    """Whether the true rate is above `edge`, after however many looks; None while that cannot be told."""
    if log_evidence(k, n, edge) >= _ENOUGH:
        return True
    return False if log_evidence(n - k, n, 1.0 - edge) >= _ENOUGH else None


def tell_tier_1(k: float, n: float) -> bool | None:
    """Whether it is Tier 1, likewise."""
    return tell_above(k, n, TIER_1_RATE)


def can_tell_tier_1(k: float, n: float, n_left: int) -> bool:
    """Whether `n_left` more answers could tell, if all of them passed or all failed."""
    return tell_tier_1(k + n_left, n + n_left) is not None or tell_tier_1(k, n + n_left) is not None


def tier_1_bounds(n_most: int) -> Iterator[tuple[int, int]]:
    """After 1, 2, … `n_most` answers: the most passes that tell it is not Tier 1, and the fewest that tell it is."""
    no_at, yes_at = -1, 1
    # One more answer moves either bound by one at most.
    for n in range(1, n_most + 1):
        while yes_at <= n and log_evidence(yes_at, n, TIER_1_RATE) < _ENOUGH:
            yes_at += 1
        while no_at < n and log_evidence(n - no_at - 1, n, 1.0 - TIER_1_RATE) >= _ENOUGH:
            no_at += 1
        yield no_at, yes_at


def confidence_sequence(k: float, n: float) -> Interval | None:
    """The 95% interval of k passes in n trials that holds at every n at once; None without trials."""
    if n <= 0:
        return None
    return _lower_end(k, n), 1.0 - _lower_end(n - k, n)


def _lower_end(k: float, n: float) -> float:
    """The largest rate such that the wealth refutes it and all below, by bisection."""
    low, high = 0.0, k / n
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        refuted = middle > 0.0 and log_evidence(k, n, middle) >= _ENOUGH_AT_AN_END
        low, high = (middle, high) if refuted else (low, middle)
    return low
