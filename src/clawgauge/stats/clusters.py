"""Repeats of one prompt are not independent evidence: errors and sizes that know it.

Owns: the clustered standard error, the design effect, the effective number of trials, and pass@k / pass^k of repeated
trials. Refuses: knowing what a cluster is; it is given passes and trials per prompt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Cluster(NamedTuple):
    """One prompt's repeats."""

    passes: int
    trials: int


class EffectiveCounts(NamedTuple):
    """Passes and trials, shrunk to what they are worth as independent evidence."""

    passes: float
    trials: float


def _totals(clusters: Sequence[Cluster]) -> tuple[int, int]:
    return sum(c.passes for c in clusters), sum(c.trials for c in clusters)


def naive_error(clusters: Sequence[Cluster]) -> float | None:
    """The standard error of the pass rate if all trials were independent; None under two trials."""
    passes, trials = _totals(clusters)
    if trials < 2:
        return None
    rate = passes / trials
    return math.sqrt(rate * (1 - rate) / (trials - 1))


def clustered_error(clusters: Sequence[Cluster]) -> float | None:
    """The standard error of the pass rate with trials clustered by prompt; None under two clusters."""
    if len(clusters) < 2:
        return None
    passes, trials = _totals(clusters)
    rate = passes / trials
    spread = math.fsum((c.passes - c.trials * rate) ** 2 for c in clusters)
    return math.sqrt(len(clusters) / (len(clusters) - 1) * spread) / trials


def design_effect(clusters: Sequence[Cluster]) -> float | None:
    """How many times the clustered variance exceeds the naive one, at least 1; None where either is not known."""
    clustered, naive = clustered_error(clusters), naive_error(clusters)
    if clustered is None or not naive:
        return None
    return max(1.0, (clustered / naive) ** 2)


def effective_size(clusters: Sequence[Cluster]) -> float | None:
    """How many independent trials these are worth.

    One trial a prompt: all of them. All passed or all failed under repeats: the number of prompts, because the
    variance then says nothing. One prompt repeated: None, because one prompt says nothing about others.
    """
    passes, trials = _totals(clusters)
    if not trials:
        return None
    if trials == len(clusters):
        return float(trials)
    if len(clusters) == 1:
        return None
    if passes in (0, trials):
        return float(len(clusters))
    effect = design_effect(clusters)
    return None if effect is None else trials / effect


def effective_counts(clusters: Sequence[Cluster]) -> EffectiveCounts | None:
    """Passes and trials scaled to the effective size, keeping the rate; None where the size is not known."""
    size = effective_size(clusters)
    if size is None:
        return None
    passes, trials = _totals(clusters)
    return EffectiveCounts(float(passes), size) if size == trials else EffectiveCounts(passes * size / trials, size)


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """The chance that at least one of k trials drawn from n with c passes is a pass; None if k > n."""
    if k > n:
        return None
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """The chance that all k trials drawn from n with c passes are passes; None if k > n."""
    if k > n:
        return None
    return math.comb(c, k) / math.comb(n, k)
