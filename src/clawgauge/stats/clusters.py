"""Repeats of one prompt are not independent: errors that know it, and what k tries at a prompt would give.

Owns: the clustered standard error, the design effect, and pass@k / pass^k of repeated trials. Refuses: knowing what a
cluster is; it is given passes and trials per prompt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Cluster(NamedTuple):
    """One prompt's repeats."""

    passes: int
    trials: int


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


def prompt_means_error(clusters: Sequence[Cluster]) -> float | None:
    """The standard error of the mean of per-prompt rates, each prompt counting once; None under two prompts."""
    if len(clusters) < 2:
        return None
    rates = [c.passes / c.trials for c in clusters]
    mean = math.fsum(rates) / len(rates)
    return math.sqrt(math.fsum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1) / len(rates))


def design_effect(clusters: Sequence[Cluster]) -> float | None:
    """How many times the clustered variance exceeds the naive one, at least 1; None where either is not known."""
    clustered, naive = clustered_error(clusters), naive_error(clusters)
    if clustered is None or not naive:
        return None
    return max(1.0, (clustered / naive) ** 2)


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
