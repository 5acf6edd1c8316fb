"""Two models on the same prompts, and stopping early."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.stats import (
    Sprt,
    benjamini_hochberg,
    bonferroni,
    correlation,
    holm,
    mcnemar_chi_square,
    mcnemar_exact,
    mcnemar_mid_p,
    paired_difference,
    sign_flip_p,
    unpaired_error,
)

from .stats_vectors import VECTORS, close


@pytest.mark.parametrize("vector", VECTORS["mcnemar"], ids=lambda v: f"{v['b']}-{v['c']}")
def test_mcnemar_meets_the_reference(vector):
    """The exact p-value of b and c discordant prompts, the same whichever model is named first."""
    assert mcnemar_exact(vector["b"], vector["c"]) == close(vector["exact"])
    assert mcnemar_exact(vector["c"], vector["b"]) == close(vector["exact"])


@pytest.mark.parametrize("vector", VECTORS["mcnemar"], ids=lambda v: f"{v['b']}-{v['c']}")
def test_mcnemar_as_others_report_it(vector):
    """The mid-p value and both chi-square forms, for comparison with reports that use them."""
    for b, c in ((vector["b"], vector["c"]), (vector["c"], vector["b"])):
        assert mcnemar_mid_p(b, c) == close(vector["midp"])
        assert mcnemar_chi_square(b, c) == close(tuple(vector["chi2"]))
        assert mcnemar_chi_square(b, c, corrected=True) == close(tuple(vector["chi2_cc"]))


def test_models_that_never_disagree_do_not_differ():
    """No discordant prompt gives p = 1."""
    assert mcnemar_exact(0, 0) == mcnemar_mid_p(0, 0) == 1.0
    assert mcnemar_chi_square(0, 0) == mcnemar_chi_square(0, 0, corrected=True) == (0.0, 1.0)
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
    assert unpaired_error(vector["A"], vector["B"]) == close(vector["se_unpaired"])
    assert correlation(vector["A"], vector["B"]) == close(vector["corr"])
    differences = [a - b for a, b in zip(vector["A"], vector["B"], strict=True)]
    assert sign_flip_p(differences) == close(vector["p_signflip_exact"])


def test_too_few_pairs_have_no_interval():
    """One pair has a difference and no error; none has neither."""
    assert paired_difference([1.0], [0.0]) == (1, 1.0, None, None)
    assert paired_difference([], []) == (0, None, None, None)
    assert unpaired_error([1.0], [0.0]) is correlation([1.0], [0.0]) is correlation([1.0, 1.0], [0.0, 1.0]) is None
    assert unpaired_error([1.0, 0.0], [1.0]) is unpaired_error([1.0], [1.0, 0.0]) is None
    assert unpaired_error([1.0, 0.0], [0.0, 1.0]) == close(0.5**0.5)
    assert correlation([1.0, 0.0], [0.0, 1.0]) == close(-1.0)


@given(st.lists(st.sampled_from([-1.0, -2 / 3, -1 / 3, 0.0, 1 / 3, 2 / 3, 1.0]), min_size=1, max_size=9))
def test_sign_flips_are_all_counted(differences):
    """Up to sixteen differences the p-value is the plain count over every sign pattern, ties included."""
    observed = abs(sum(differences)) - 1e-9
    patterns = list(itertools.product((1, -1), repeat=len(differences)))
    hits = sum(abs(sum(s * d for s, d in zip(p, differences, strict=True))) >= observed for p in patterns)
    assert sign_flip_p(differences) == close(hits / len(patterns))


def test_many_differences_are_sampled_and_repeat_themselves():
    """Above sixteen the sampled p-value is near the exact binomial one, and the same seed gives the same number."""
    differences = [1.0] * 15 + [-1.0] * 5
    assert sign_flip_p(differences) == pytest.approx(mcnemar_exact(15, 5), abs=0.006)
    assert sign_flip_p(differences, seed=7) == sign_flip_p(differences, seed=7)
    assert sign_flip_p([1.0] * 40) > 0.0


def test_holm_meets_the_reference_in_any_order():
    """Adjusted p-values follow the p-values they belong to, wherever they stand."""
    vector = VECTORS["multi"]
    assert holm(vector["p"]) == close(vector["holm"])
    assert holm(vector["p"][::-1]) == close(vector["holm"][::-1])
    assert holm([0.4, 0.9]) == close([0.8, 0.9])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == bonferroni([]) == benjamini_hochberg([]) == []


def test_other_corrections_meet_the_reference():
    """Bonferroni's and the false discovery rate's adjusted p-values, in any order."""
    vector = VECTORS["multi"]
    for adjust, expected in ((bonferroni, vector["bonferroni"]), (benjamini_hochberg, vector["fdr_bh"])):
        assert adjust(vector["p"]) == close(expected)
        assert adjust(vector["p"][::-1]) == close(expected[::-1])


@pytest.mark.parametrize("vector", VECTORS["sprt"].values(), ids=VECTORS["sprt"])
def test_sprt_meets_the_reference(vector):
    """The steps, the bounds, and how many straight passes or failures end the test."""
    test = Sprt(vector["p0"], vector["p1"])
    assert (test.pass_step, test.fail_step) == close((vector["up"], vector["down"]))
    assert (test.upper, test.lower) == close((vector["A"], vector["B"]))
    assert next(n for n in range(100) if test.decide(n, 0) == "p1") == vector["n_all_pass"]
    assert next(n for n in range(100) if test.decide(0, n) == "p0") == vector["n_all_fail"]
    assert test.decide(0, 0) == "continue"


@pytest.mark.parametrize(
    ("bounds", "rate", "expected"),
    [
        (name, float(key.removeprefix("ASN_p")), value)
        for name, vector in VECTORS["sprt"].items()
        for key, value in vector.items()
        if key.startswith("ASN_p")
    ],
)
def test_how_long_a_sequential_test_takes(bounds, rate, expected):
    """The exact mean length and choice agree with the reference's, which are simulated and rounded."""
    p0, p1 = map(float, bounds.split("-"))
    forecast = Sprt(p0, p1).forecast(rate)
    assert forecast.mean_trials == pytest.approx(expected[0], rel=0.03)
    assert forecast.chance_p1 == pytest.approx(expected[1], abs=0.01)


def test_a_symmetric_sequential_test_is_a_coin_at_the_middle():
    """Between 0.4 and 0.6 a true rate of one half is called either way half the time, after 8² steps on average."""
    assert Sprt(0.4, 0.6).forecast(0.5) == close((64.0, 0.5))
