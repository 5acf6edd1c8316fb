"""Repeats of a prompt: effective sizes, pass@k."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.stats.proportions import (
    Cluster,
    clustered_interval,
    pass_at_k,
    pass_hat_k,
    wilson_interval,
)
from clawgauge.stats.tiers import effective_counts

from .stats_vectors import VECTORS, close

REFERENCE = [Cluster(sum(c), len(c)) for c in VECTORS["clustered"]["clusters"]]


def test_repeats_shrink_the_evidence():
    """Eighteen trials on six prompts are worth about ten, and the rate is kept."""
    passes, trials = effective_counts(REFERENCE)
    assert trials == close(18 / VECTORS["clustered"]["deff"])
    assert passes / trials == close(11 / 18)


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_one_trial_a_prompt_counts_in_full(outcomes):
    """Without repeats the effective size is n itself, so the exact formulas hold."""
    clusters = [Cluster(int(x), 1) for x in outcomes]
    assert effective_counts(clusters).trials == len(outcomes)
    assert effective_counts(clusters) == (sum(outcomes), len(outcomes))


@pytest.mark.parametrize("passes", [0, 5])
def test_unanimous_repeats_count_prompts(passes):
    """Ten repeats of four prompts that all passed, or all failed, are evidence from four prompts."""
    assert effective_counts([Cluster(passes, 5)] * 4).trials == 4.0


def test_one_prompt_repeated_is_no_evidence_about_others():
    """A single prompt asked ten times has no effective size; asked once it counts as one trial."""
    assert effective_counts([Cluster(7, 10)]) is None
    assert effective_counts([Cluster(10, 10)]) is None
    assert effective_counts([Cluster(1, 1)]).trials == 1.0


def test_nothing_tried():
    """No trials give no size, not zero."""
    assert effective_counts([]) is None


@given(
    st.lists(
        st.integers(1, 6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
        min_size=2,
        max_size=30,
    )
)
def test_effective_size_never_exceeds_the_trials(pairs):
    """Clustering can only take evidence away."""
    counts = effective_counts([Cluster(*p) for p in pairs])
    assert 0 < counts.trials <= sum(n for _, n in pairs)


@pytest.mark.parametrize("vector", VECTORS["passk"], ids=lambda v: f"{v['c']}of{v['n']}k{v['k']}")
def test_pass_at_and_pass_hat_meet_the_reference(vector):
    """pass@k and pass^k are the unbiased estimates of drawing k of n trials."""
    n, c, k = vector["n"], vector["c"], vector["k"]
    assert pass_at_k(n, c, k) == close(vector["pass_at_k"])
    assert pass_hat_k(n, c, k) == close(vector["pass_hat_k"])


def test_a_mean_of_shares_is_as_sure_as_its_clusters_are_many():
    """Alone each share counts; alike in twos, they are worth half; all equal, as many as there are clusters."""
    alone = clustered_interval([(n, float(n % 4 > 0)) for n in range(40)])
    assert alone == pytest.approx(wilson_interval(30 * 39 / 40, 39), abs=2e-3)
    in_twos = clustered_interval([(n // 2, float(n // 2 % 4 > 0)) for n in range(40)])
    assert in_twos == pytest.approx(wilson_interval(15 * 19 / 20, 19), abs=2e-3)
    assert clustered_interval([(n % 10, 1.0) for n in range(40)]) == wilson_interval(10, 10)
    assert clustered_interval([("P0", 1.0), ("P0", 0.0)]) is None
