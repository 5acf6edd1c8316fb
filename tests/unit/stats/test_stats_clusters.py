"""Repeats of a prompt: clustered errors, effective sizes, pass@k."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.stats import (
    Cluster,
    clustered_error,
    design_effect,
    effective_counts,
    effective_size,
    naive_error,
    pass_at_k,
    pass_hat_k,
    prompt_means_error,
)
from clawgauge.stats.proportions import student_t_quantile

from .stats_vectors import VECTORS, close

REFERENCE = [Cluster(sum(c), len(c)) for c in VECTORS["clustered"]["clusters"]]


def test_clustered_error_meets_the_reference():
    """Six prompts of three repeats: the clustered error, the naive one, the design effect and the t interval."""
    vector = VECTORS["clustered"]
    assert clustered_error(REFERENCE) == close(vector["clustered_se_finite"])
    assert clustered_error(REFERENCE) * (5 / 6) ** 0.5 == close(vector["clustered_se_miller"])
    assert naive_error(REFERENCE) == close(vector["naive_se"])
    assert design_effect(REFERENCE) == close(vector["deff"])
    assert prompt_means_error(REFERENCE) == close(vector["se_of_prompt_means"])
    half = student_t_quantile(0.975, 5) * clustered_error(REFERENCE)
    assert (vector["mean"] - half, vector["mean"] + half) == close(tuple(vector["ci95_t"]))


def test_repeats_shrink_the_evidence():
    """Eighteen trials on six prompts are worth about ten, and the rate is kept."""
    passes, trials = effective_counts(REFERENCE)
    assert trials == close(18 / VECTORS["clustered"]["deff"])
    assert passes / trials == close(11 / 18)


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_one_trial_a_prompt_counts_in_full(outcomes):
    """Without repeats the effective size is n itself, so the exact formulas hold."""
    clusters = [Cluster(int(x), 1) for x in outcomes]
    assert effective_size(clusters) == len(outcomes)
    assert effective_counts(clusters) == (sum(outcomes), len(outcomes))
    if 0 < sum(outcomes) < len(outcomes):
        assert design_effect(clusters) == close(1.0)


@pytest.mark.parametrize("passes", [0, 5])
def test_unanimous_repeats_count_prompts(passes):
    """Ten repeats of four prompts that all passed, or all failed, are evidence from four prompts."""
    assert effective_size([Cluster(passes, 5)] * 4) == 4.0
    assert design_effect([Cluster(passes, 5)] * 4) is None


def test_one_prompt_repeated_is_no_evidence_about_others():
    """A single prompt asked ten times has no effective size; asked once it counts as one trial."""
    assert effective_size([Cluster(7, 10)]) is None
    assert effective_counts([Cluster(10, 10)]) is None
    assert effective_size([Cluster(1, 1)]) == 1.0


def test_nothing_tried():
    """No trials give no size and no error, not zero."""
    assert effective_size([]) is None
    assert clustered_error([]) is prompt_means_error([]) is None
    assert naive_error([Cluster(1, 1)]) is None


@given(st.lists(st.integers(1, 6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=2, max_size=30))
def test_effective_size_never_exceeds_the_trials(pairs):
    """Clustering can only take evidence away."""
    size = effective_size([Cluster(*p) for p in pairs])
    assert 0 < size <= sum(n for _, n in pairs)


@pytest.mark.parametrize("vector", VECTORS["passk"], ids=lambda v: f"{v['c']}of{v['n']}k{v['k']}")
def test_pass_at_and_pass_hat_meet_the_reference(vector):
    """pass@k and pass^k are the unbiased estimates of drawing k of n trials."""
    n, c, k = vector["n"], vector["c"], vector["k"]
    assert pass_at_k(n, c, k) == close(vector["pass_at_k"])
    assert pass_hat_k(n, c, k) == close(vector["pass_hat_k"])


def test_more_draws_than_trials_do_not_exist():
    """pass@5 of three trials is null."""
    assert pass_at_k(3, 2, 5) is None
    assert pass_hat_k(3, 2, 5) is None
