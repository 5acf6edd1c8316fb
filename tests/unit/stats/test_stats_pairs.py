"""Two models on the same prompts."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.stats import holm, mcnemar_exact, paired_difference, sign_flip_p

from .stats_vectors import VECTORS, close


@pytest.mark.parametrize("vector", VECTORS["mcnemar"], ids=lambda v: f"{v['b']}-{v['c']}")
def test_mcnemar_meets_the_reference(vector):
    """The exact p-value of b and c discordant prompts, the same whichever model is named first."""
    assert mcnemar_exact(vector["b"], vector["c"]) == close(vector["exact"])
    assert mcnemar_exact(vector["c"], vector["b"]) == close(vector["exact"])


def test_models_that_never_disagree_do_not_differ():
    """No discordant prompt gives p = 1."""
    assert mcnemar_exact(0, 0) == 1.0
    assert sign_flip_p([0.0, 0.0]) == 1.0
    assert sign_flip_p([]) == 1.0


@pytest.mark.parametrize("name", ["paired_example", "paired_example_repeats"])
def test_paired_difference_meets_the_reference(name):
    """Mean difference, its paired error, its t interval and the sign-flip p-value are the reference's."""
    vector = VECTORS[name]
    found = paired_difference(vector["A"], vector["B"])
    assert found.n == vector["n"]
    assert found.mean == close(vector["mean_diff"])
    assert found.error == close(vector["se_paired"])
    assert found.ci95 == close(tuple(vector["ci95_t"]))
    differences = [a - b for a, b in zip(vector["A"], vector["B"], strict=True)]
    assert sign_flip_p(differences) == close(vector["p_signflip_exact"])


def test_too_few_pairs_have_no_interval():
    """One pair has a difference and no error; none has neither."""
    assert paired_difference([1.0], [0.0]) == (1, 1.0, None, None)
    assert paired_difference([], []) == (0, None, None, None)


@given(st.lists(st.sampled_from([-1.0, -2 / 3, -1 / 3, 0.0, 1 / 3, 2 / 3, 1.0]), min_size=1, max_size=9))
def test_sign_flips_are_all_counted(differences):
    """Up to sixteen differences the p-value is the plain count over every sign pattern, ties included."""
    observed = abs(sum(differences)) - 1e-9
    patterns = list(itertools.product((1, -1), repeat=len(differences)))
    hits = sum(abs(sum(s * d for s, d in zip(p, differences, strict=True))) >= observed for p in patterns)
    assert sign_flip_p(differences) == close(hits / len(patterns))


def test_many_differences_are_sampled_and_repeat_themselves():
    """Above sixteen the sampled p-value is near the exact binomial one, and the same each time."""
    differences = [1.0] * 15 + [-1.0] * 5
    assert sign_flip_p(differences) == pytest.approx(mcnemar_exact(15, 5), abs=0.006)
    assert sign_flip_p(differences) == sign_flip_p(differences)
    assert sign_flip_p([1.0] * 40) > 0.0


def test_holm_meets_the_reference_in_any_order():
    """Adjusted p-values follow the p-values they belong to, wherever they stand."""
    vector = VECTORS["multi"]
    assert holm(vector["p"]) == close(vector["holm"])
    assert holm(vector["p"][::-1]) == close(vector["holm"][::-1])
    assert holm([0.4, 0.9]) == close([0.8, 0.9])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
