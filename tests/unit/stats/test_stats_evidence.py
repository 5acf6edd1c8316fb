"""What repeats are worth: never more because something failed."""

from __future__ import annotations

import itertools
import random

import pytest

from clawgauge.stats.proportions import Cluster, wilson_interval
from clawgauge.stats.tiers import DECIDED_LEVEL, effective_counts, tier_posterior

from .stats_vectors import VECTORS, close


def evidence(passes, trials):
    """(P of Tier 1, P of Tier 3, lower end, upper end) of prompts with these passes in these trials."""
    counts = effective_counts([Cluster(*pair) for pair in zip(passes, trials, strict=True)])
    posterior = tier_posterior(*counts)
    return posterior[0], posterior[2], *wilson_interval(*counts)


def assert_no_surer(better, worse, told):
    """`worse` has one failure more than `better`: Tier 1 must not be surer, nor Tier 3 less sure where it is likely."""
    assert worse[0] <= max(0.5, better[0] + 1e-9), told
    assert better[1] <= max(0.5, worse[1] + 1e-9), told
    assert worse[2] <= better[2] + 0.005, told
    assert worse[3] <= better[3] + 0.005, told


def test_one_failure_in_a_hundred_does_not_decide_a_tier():
    """Ten prompts passed ten times each leave Tier 1 open, and so they do with one failure among the hundred."""
    clean = [Cluster(10, 10)] * 10
    spoilt = [*clean[:9], Cluster(9, 10)]
    assert effective_counts(clean).trials == 10.0
    p_clean, p_spoilt = (
        tier_posterior(*effective_counts(clusters))[0] for clusters in (clean, spoilt)
    )
    assert p_spoilt < p_clean < 0.95
    assert 10.0 < effective_counts(spoilt).trials < 11.0


def test_many_failures_leave_the_design_effect_alone():
    """Where failures show how they cluster, the size is trials divided by the reference's design effect."""
    clusters = [Cluster(sum(c), len(c)) for c in VECTORS["clustered"]["clusters"]]
    assert effective_counts(clusters).trials == close(18 / VECTORS["clustered"]["deff"])


@pytest.mark.parametrize(
    "trials",
    [(3, 3, 3, 3), (5, 5, 5), (2, 2, 2, 2, 2), (10, 10), (1, 3, 5), (2, 1, 4, 3), (1, 1, 1, 4)],
    ids=str,
)
def test_more_failures_never_look_like_more_certainty(trials):
    """Over every outcome of a small design: one failure more never makes Tier 1 surer, wherever it falls."""
    known = {p: evidence(p, trials) for p in itertools.product(*(range(n + 1) for n in trials))}
    compared = 0
    for passes, better in known.items():
        for i, count in enumerate(passes):
            if count:
                worse = (*passes[:i], count - 1, *passes[i + 1 :])
                assert_no_surer(better, known[worse], (passes, worse))
                compared += 1
    assert compared > 90


@pytest.mark.parametrize("seed", range(25))
def test_long_designs_lose_certainty_step_by_step(seed):
    """Along chains of failures in designs up to 40 prompts by 10 repeats, spread out or heaped on a few prompts."""
    rng = random.Random(seed)
    repeats = rng.choice([2, 3, 5, 10])
    trials = [
        max(1, repeats - rng.choice([0, 0, 0, 1])) for _ in range(rng.choice([5, 10, 13, 20, 40]))
    ]
    weights = [rng.random() ** rng.choice([0, 1, 4, 10]) for _ in trials]
    passes = list(trials)
    better = evidence(passes, trials)
    for _ in range(sum(trials) // 4):
        open_to_fail = [w * (p > 0) for w, p in zip(weights, passes, strict=True)]
        passes[rng.choices(range(len(trials)), open_to_fail)[0]] -= 1
        worse = evidence(passes, trials)
        assert_no_surer(better, worse, (passes, trials))
        better = worse


def test_a_failure_never_turns_provisional_into_decided():
    """From a clean sweep of c prompts, c from 2 to 30, no single failure decides a tier the sweep left open."""
    for prompts, repeats in itertools.product(range(2, 31), (2, 5, 20)):
        clean = effective_counts([Cluster(repeats, repeats)] * prompts)
        spoilt = effective_counts(
            [Cluster(repeats - 1, repeats), *[Cluster(repeats, repeats)] * (prompts - 1)]
        )
        spoilt_is, clean_is = (
            max(tier_posterior(*one)) >= DECIDED_LEVEL for one in (spoilt, clean)
        )
        assert clean_is or not spoilt_is
